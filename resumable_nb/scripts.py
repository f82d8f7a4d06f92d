"""``Scripts``: which files of code count for a step that names them (``%run a.py``, ``!python a.py``).

One that the step itself changes does not: what it leaves there is its effect, and no reason to run again. Neither does
what a step further down has left there in an earlier run: a skipped step writes no file anew.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import msgspec

from resumable_nb.change import SCRIPT
from resumable_nb.fingerprint import script_contents
from resumable_nb.journal import Journal
from resumable_nb.model import StepKey, StepRecord


class Scripts:
    """Of one session."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._entered: set[str] = set()

    def entered(self, step: str) -> None:
        """The step has run here or was skipped: what it leaves in files stands above whatever comes now."""
        self._entered.add(step)

    def now(self, key: StepKey, recorded: StepRecord) -> StepKey:
        """``key`` with those alone that the recorded step depends on, if its code is the same."""
        if (key.source, key.functions) == (recorded.key.source, recorded.key.functions):
            key = _only(key, recorded.key.files.keys())
        earlier = {
            label: recorded.key.files[label]
            for label, mark in key.files.items()
            if label.startswith(SCRIPT)
            and recorded.key.files.get(label, mark) != mark
            and self._comes_from_below(recorded.id, label, mark)
        }
        return msgspec.structs.replace(key, files=key.files | earlier) if earlier else key

    def _comes_from_below(self, step: str, label: str, mark: str) -> bool:
        return any(
            each.id not in self._entered and each.id != step and each.after.get(f"file {label}") == mark
            for each in self._journal.steps()
        )


def unchanged(key: StepKey, base: Path) -> StepKey:
    """``key``, as it was when a step began, without those that are others now."""
    named = [label.removeprefix(SCRIPT) for label in key.files if label.startswith(SCRIPT)]
    return _only(key, {label for label, mark in script_contents(named, base).items() if mark == key.files[label]})


def _only(key: StepKey, kept: Collection[str]) -> StepKey:
    files = {name: mark for name, mark in key.files.items() if name in kept or not name.startswith(SCRIPT)}
    return key if len(files) == len(key.files) else msgspec.structs.replace(key, files=files)
