"""A task at a glance: its status, its steps and what is in doubt, as text and as HTML for any theme."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from resumable_nb.model import CallRecord, StepRecord
from resumable_nb.wording import clock_time, duration, plain, plural

ROWS = 200
"""Steps that are listed as HTML: a notebook keeps what it was shown."""


@dataclass(frozen=True, slots=True)
class Glance:
    """``steps`` in the order in which they last started."""

    name: str
    status: str
    steps: Sequence[StepRecord]
    done_calls: int
    doubtful: Sequence[CallRecord]

    def head(self) -> str:
        counts = f"{plural(len(self.steps), 'step')}, {plural(self.done_calls, 'tool call')} done"
        status = "in doubt" if self.doubtful and self.status == "failed" else self.status
        return f"task {plain(self.name)}: {status}, {counts}"

    def text(self) -> str:
        width = max((len(record.id) for record in self.steps), default=0)
        lines = [
            f"  {record.id:<{width}}  {record.status:<7}  {clock_time(record.started_at)}  "
            f"{_took(record):>9}  {plain(record.error or record.why, 80)}"
            for record in self.steps
        ]
        return "\n".join([self.head(), *lines, *(f"  {line}" for line in self._doubts())])

    def html(self) -> str:
        """A small table without colours of its own."""
        names = "".join(f"<th>{name}</th>" for name in ("step", "status", "ran", "took", "why, or the error"))
        rows = "".join(f"<tr>{''.join(map(_cell, _facts(record)))}</tr>" for record in self.steps[-ROWS:])
        left = len(self.steps) - ROWS
        more = f"<div>and {plural(left, 'earlier step')}</div>" if left > 0 else ""
        doubts = "".join(f"<div>{escape(line)}</div>" for line in self._doubts())
        table = f"<table><thead><tr>{names}</tr></thead><tbody>{rows}</tbody></table>" if rows else ""
        return f"<div><div>{escape(self.head())}</div>{table}{more}{doubts}</div>"

    def _doubts(self) -> list[str]:
        return [
            f"in doubt: {plain(call.tool, 80)} {call.id}: %resumable resolve {call.id} not-happened|happened [JSON]"
            for call in self.doubtful
        ]


def _facts(record: StepRecord) -> tuple[str, ...]:
    told = record.error or record.why
    return record.id, record.status, clock_time(record.started_at), _took(record), told


def _took(record: StepRecord) -> str:
    """Nobody knows it of a step that runs, or was cut off."""
    return "" if record.status == "running" else duration(record.duration_s)


def _cell(text: str) -> str:
    return f'<td style="text-align: left">{escape(plain(text, 120))}</td>'
