"""Namespace to blobs and back: what a step changed is saved, with all that it shares, and comes back exactly."""

from resumable_nb.snapshot.owing import Owed, Past
from resumable_nb.snapshot.presence import canonical
from resumable_nb.snapshot.snapshots import Snapshots
from resumable_nb.snapshot.space import Before, Capture, Namespace, Restored

__all__ = ["Before", "Capture", "Namespace", "Owed", "Past", "Restored", "Snapshots", "canonical"]
