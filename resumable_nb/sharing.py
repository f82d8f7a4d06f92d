"""Which variables are one object, or share one, as part of a step's key.

It counts for variables that the step changed in place, or saved because they share with what it made: put back as they
were then, those would be joined, or apart, as they were then.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import msgspec

from resumable_nb.change import SHARING
from resumable_nb.groups import Joints
from resumable_nb.model import MISSING, Missing, StepKey, StepRecord, digest
from resumable_nb.snapshot import Namespace, Snapshots

_ALONE = "alone"


def left_out(key: StepKey) -> StepKey:
    """``key`` without how its variables share."""
    inputs = {name: mark for name, mark in key.inputs.items() if not name.startswith(SHARING)}
    return msgspec.structs.replace(key, inputs=inputs)


def found(key: StepKey, joints: Mapping[str, Joints]) -> StepKey:
    """``key`` with how these variables shared, and no others."""
    parts = {SHARING + name: _told(each) for name, each in sorted(joints.items())}
    return msgspec.structs.replace(key, inputs=left_out(key).inputs | parts)


def begun(joints: Mapping[str, Joints], made: Collection[str]) -> str:
    """Digest of how variables shared when a body began; without those that are ``made`` by an earlier run of it."""
    there = {
        name: _told({other: mark for other, mark in each.items() if other not in made})
        for name, each in joints.items()
        if name not in made
    }
    told = {name: each for name, each in there.items() if each != _ALONE}
    return digest(msgspec.json.encode(told, order="sorted")) if told else ""


def names(key: StepKey) -> frozenset[str]:
    """The variables that the key says it of: what the step left in them was what had been there."""
    return frozenset(name.removeprefix(SHARING) for name in key.inputs if name.startswith(SHARING))


def now(
    key: StepKey,
    recorded: StepRecord | Missing,
    space: Namespace,
    snapshots: Snapshots,
    above: Collection[str] | None = None,
) -> StepKey:
    """``key`` with how the recorded step's variables share now.

    Where a skip would leave a variable alone, no matter who shares with it: later cells may. ``above``: the steps
    above it in this pass over the notebook, if this is not the first one.
    """
    if recorded is MISSING:
        return key
    earlier = {
        name.removeprefix(SHARING): told for name, told in recorded.key.inputs.items() if name.startswith(SHARING)
    }
    if not earlier:
        return key
    owed = snapshots.owing.names() - space.variables.keys() if space.lazy else frozenset()
    there = space.variables.keys() | (snapshots.pending() if space.lazy else frozenset())
    current = snapshots.binding.joints(space, earlier.keys())
    parts = {}
    for name, told in earlier.items():
        then = _read(told)
        seen = {
            other: mark
            for other, mark in current[name].items()
            if other in then or not (_is_made(other, recorded) or _is_below(other, space, snapshots, above))
        }
        same = seen == {other: mark for other, mark in then.items() if not other or other in there or other in seen}
        if not same and name in there and recorded.manifest:
            same = snapshots.binding.is_there(space, recorded.manifest, name, recorded.id)
        # What is owed shares what its step lets it share, when that runs again.
        parts[SHARING + name] = told if same or name not in there or name in owed else _told(seen)
    return msgspec.structs.replace(key, inputs=key.inputs | parts)


def _is_made(name: str, recorded: StepRecord) -> bool:
    """Whether the step makes it: then it is what the step left the last time, and is about to be replaced."""
    return (name in recorded.saved_names or name in recorded.unsaved) and name not in recorded.key.inputs


def _is_below(name: str, space: Namespace, snapshots: Snapshots, above: Collection[str] | None) -> bool:
    """Whether a cell below has left it in an earlier pass: that may hold a class which goes on."""
    return above is not None and (step := snapshots.left.by(space, name)) != "" and step not in above


def _told(joints: Joints) -> str:
    return " ".join(f"{other}={mark}" for other, mark in sorted(joints.items())) or _ALONE


def _read(told: str) -> Joints:
    return {each.partition("=")[0]: each.partition("=")[2] for each in told.split() if told != _ALONE}
