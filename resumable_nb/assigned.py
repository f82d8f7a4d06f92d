"""Variables that a step may have assigned to or left alone, or has changed through another one: what it leaves in them
depends on what it found there.

``if late: limit = 3`` is no matter where ``limit`` was 3 before: nobody can tell whether it was assigned. Where another
value is there later, the step has to run to tell. ``xs.append(1)`` changes ``box = [xs, 2]``, and saves all of it.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import msgspec

from resumable_nb.change import ASSIGNED
from resumable_nb.fingerprint import Lookup, step_key
from resumable_nb.model import MISSING, Missing, StepKey, StepOptions, StepRecord
from resumable_nb.source import Body


def left_out(key: StepKey) -> StepKey:
    """``key`` as it was when the step began for the first time."""
    return msgspec.structs.replace(
        key, inputs={n: mark for n, mark in key.inputs.items() if not n.startswith(ASSIGNED)}
    )


def names(key: StepKey) -> frozenset[str]:
    """The variables that were there before the step, and of which its code says nothing."""
    return frozenset(name.removeprefix(ASSIGNED) for name in key.inputs if name.startswith(ASSIGNED))


def found_in(key: StepKey, names: Collection[str], lookup: Lookup, earlier: Collection[str] = ()) -> StepKey:
    """``key`` with the values of these variables, and with those of ``earlier`` that it has already, and no others."""
    inputs = left_out(key).inputs
    had = {ASSIGNED + name: mark for name in earlier if (mark := key.inputs.get(ASSIGNED + name))}
    marks = _marks(frozenset(names) - inputs.keys(), lookup)
    return msgspec.structs.replace(key, inputs=inputs | {ASSIGNED + name: mark for name, mark in marks.items()} | had)


def now(key: StepKey, recorded: StepRecord | Missing, lookup: Lookup) -> StepKey:
    """``key`` with what is in the recorded step's variables now. One that is not there is no difference."""
    if recorded is MISSING:
        return key
    earlier = {
        name.removeprefix(ASSIGNED): mark for name, mark in recorded.key.inputs.items() if name.startswith(ASSIGNED)
    }
    if not earlier:
        return key
    marks = {ASSIGNED + name: mark for name, mark in (earlier | _marks(frozenset(earlier), lookup)).items()}
    return msgspec.structs.replace(key, inputs=key.inputs | marks)


def _marks(names: frozenset[str], lookup: Lookup) -> dict[str, str]:
    if not names:
        return {}
    key = step_key(Body(normal="", reads=names), lookup, StepOptions(), Path())
    found = key.inputs | key.functions
    return {name: found[name] for name in names if name in found}
