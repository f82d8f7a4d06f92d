"""Variables that a step may have assigned to, or left alone: what it leaves in them depends on what it found there.

``if late: limit = 3`` is no matter where ``limit`` was 3 before: nobody can tell whether it was assigned. Where another
value is there later, the step has to run to tell.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Final

import msgspec

from resumable_nb.fingerprint import Lookup, step_key
from resumable_nb.model import MISSING, Missing, StepKey, StepOptions, StepRecord
from resumable_nb.source import Body

PART: Final = "assigned "
"""What the name of such a key part begins with."""


def left_out(key: StepKey) -> StepKey:
    """``key`` as it was when the step began for the first time."""
    return msgspec.structs.replace(key, inputs={n: mark for n, mark in key.inputs.items() if not n.startswith(PART)})


def found_in(key: StepKey, names: Collection[str], lookup: Lookup) -> StepKey:
    """``key`` with the values of these variables, and of no others, as what the step may have assigned."""
    inputs = left_out(key).inputs
    marks = _marks(frozenset(names) - inputs.keys(), lookup)
    return msgspec.structs.replace(key, inputs=inputs | {PART + name: mark for name, mark in marks.items()})


def now(key: StepKey, recorded: StepRecord | Missing, lookup: Lookup) -> StepKey:
    """``key`` with what is in the recorded step's variables now. One that is not there is no difference."""
    if recorded is MISSING:
        return key
    earlier = {name.removeprefix(PART): mark for name, mark in recorded.key.inputs.items() if name.startswith(PART)}
    if not earlier:
        return key
    marks = {PART + name: mark for name, mark in (earlier | _marks(frozenset(earlier), lookup)).items()}
    return msgspec.structs.replace(key, inputs=key.inputs | marks)


def _marks(names: frozenset[str], lookup: Lookup) -> dict[str, str]:
    if not names:
        return {}
    key = step_key(Body(normal="", reads=names), lookup, StepOptions(), Path())
    found = key.inputs | key.functions
    return {name: found[name] for name in names if name in found}
