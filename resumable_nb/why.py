"""``Why``: why a step ran, and what would make it run again."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import Final

from resumable_nb import plan
from resumable_nb.change import Change
from resumable_nb.model import StepKey, StepRecord
from resumable_nb.wording import clock_time

DIFF_LINES: Final = 12


@dataclass(frozen=True, slots=True)
class Now:
    """What a step would depend on if it ran now."""

    key: StepKey
    previews: dict[str, str]
    text: str
    foreign: frozenset[str] = frozenset()
    """Parts of the key that somebody has set since the step did."""


class Why:
    """The answer to ``why``, as text."""

    def __init__(self, record: StepRecord, earlier: StepRecord | None, now: Now | None) -> None:
        self.record = record
        self.earlier = earlier
        self.now = now
        self.changes = record.changes
        """What had changed when it last ran."""
        self.pending = plan.stale(record, now.key, now.foreign) if now is not None else ()
        """What has changed since."""

    def lines(self) -> list[str]:
        record = self.record
        lines = [f"{record.id} v{record.version} {record.status}, ran {clock_time(record.started_at)}: {record.why}"]
        for change in self.changes:
            lines += _told(change, self.earlier, record)
        if self.pending:
            lines.append("it would run again now:")
            for change in self.pending:
                lines += _told(change, record, self.now)
        elif record.status == "done":
            lines.append("nothing that it depends on is known to have changed since")
        for name, why in sorted(record.unsaved.items()):
            told = why if why.startswith(name) else f"{name}: {why}"
            lines.append(f"{told}: not saved, a new kernel replays the step when it is used")
        return lines

    def __repr__(self) -> str:
        return "\n".join(self.lines())


def _told(change: Change, old: StepRecord | None, new: StepRecord | Now | None) -> list[str]:
    """A change, old against new; of source the lines that differ."""
    if change.part == "source" and old is not None and new is not None:
        compared = difflib.unified_diff(old.text.splitlines(), new.text.splitlines(), n=0, lineterm="")
        lines = [f"    {line}" for line in compared if not line.startswith(("---", "+++", "@@"))]
        more = [f"    … {len(lines) - DIFF_LINES} more lines"] if len(lines) > DIFF_LINES else []
        return ["  source:", *lines[:DIFF_LINES], *more]
    before = old.previews.get(change.name, "") if old is not None else ""
    after = new.previews.get(change.name, "") if new is not None else ""
    if before == after or not before or not after:  # what people can tell apart needs no digests
        before, after = (
            f"{text} ({mark[:8]})" if text and mark else mark[:8] or "nothing"
            for text, mark in ((before, change.old), (after, change.new))
        )
    return [f"  {change.part}{' ' + change.name if change.name else ''}: {before} → {after}"]
