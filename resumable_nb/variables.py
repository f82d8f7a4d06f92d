"""``Variables``: what code in one namespace sees, for fingerprints."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from resumable_nb.fingerprint import by_provenance, carries_code
from resumable_nb.model import MISSING, Missing
from resumable_nb.snapshot import Namespace, Snapshots


class Variables:
    """The ``Lookup`` of one namespace: loads what is pending, knows what is clean."""

    def __init__(
        self,
        space: Namespace,
        snapshots: Snapshots,
        provenance: Mapping[str, str],
        replay: Callable[[Namespace, str], object],
    ) -> None:
        self._space, self._snapshots, self._provenance, self._replay = space, snapshots, provenance, replay

    def value(self, name: str) -> object | Missing:
        if name in self._snapshots.pending() and self._space.lazy:
            self._snapshots.materialise(self._space, [name])
            self._replay(self._space, name)
        found: object | Missing = self._space.variables.get(name, MISSING)
        return self._space.live.get(name, MISSING) if found is MISSING else found

    def known(self, name: str) -> str | Missing:
        outline = self._snapshots.outline(name, self._space)
        if outline and not carries_code(outline):
            return by_provenance(self.provenance(name))
        return self._snapshots.known(name, self._space)

    def as_saved(self, name: str) -> str | Missing:
        return self._snapshots.binding.as_saved(self._space, name)

    def provenance(self, name: str) -> str:
        return self._provenance.get(name, "")
