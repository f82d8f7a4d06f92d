"""``GivenUp``: steps whose replay has failed. They run at their place the next time, unless an effect could repeat."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import msgspec

from resumable_nb.errors import NotSaved
from resumable_nb.journal import Journal
from resumable_nb.model import MISSING, StepKey, StepRecord
from resumable_nb.plan import differences
from resumable_nb.snapshot import Owed
from resumable_nb.wording import few


def impossible(owed: Owed, why: str | NotSaved, *, effect: bool = False) -> NotSaved:
    """The error where what is owed cannot be made again.

    ``effect``: running the step could repeat one, so that the user has to ask for it. ``why`` may be such an error of
    an earlier step, which has to run first.
    """
    facts = why.facts if isinstance(why, NotSaved) else {}
    steps = (*facts.get("steps", ()), owed.step)
    effect = effect or facts.get("effect", False)
    reason = facts.get("what") or (why.message if isinstance(why, NotSaved) else why)
    name, cause = next(iter(owed.names.items()))
    cause = cause if cause.startswith(name) else f"{name}: {cause}"
    what = (
        f"{', '.join(owed.names)} of step {owed.step} was not saved ({cause}), and the step cannot be replayed: "
        f"{reason}"
    )
    if effect:
        advice = f"`%resumable rerun {steps[0]}`, and run its cell"
    else:
        advice = f"Run All runs step{'s' * (len(steps) > 1)} {few(steps)} again"
    return NotSaved(
        f"{what}; {advice}",
        step=owed.step,
        names=tuple(owed.names),
        steps=steps,
        effect=effect,
        what=what,
        why=f"{few(sorted(owed.names))} could not be made again: {reason}",
    )


class GivenUp:
    """Of one session."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._began: dict[str, float] = {}
        """When the record began whose replay has failed here."""

    @contextlib.contextmanager
    def noted(self) -> Iterator[None]:
        """Mark the steps that could not be replayed within the block, where they may run by themselves."""
        try:
            yield
        except NotSaved as error:
            if not error.facts.get("effect", True):
                for step in error.facts["steps"]:
                    self._mark(step, error.facts["why"])
            raise

    def _mark(self, step: str, why: str) -> None:
        record = self._journal.step(step)
        if record is not MISSING and record.status == "done":
            self._journal.begin_step(msgspec.structs.replace(record, replay=why))
            self._began[step] = record.started_at

    def runs(self, record: StepRecord, key: StepKey) -> bool:
        """Whether the step is to run again in this kernel: at its place, where all is as its body had found it."""
        return self._began.get(record.id) == record.started_at and not differences(record.key, key)
