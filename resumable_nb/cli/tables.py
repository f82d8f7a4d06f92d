"""Records as tables for a terminal of 80 columns, and as plain data for ``--json``."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from resumable_nb import wording
from resumable_nb.model import CallRecord, StepRecord
from resumable_nb.session import Session
from resumable_nb.task import Task

if TYPE_CHECKING:  # nbformat takes its time to load, and only `run` and `demo` need it
    from resumable_nb.supervisor import Report

COLOURS = {
    "done": "green",
    "completed": "green",
    "failed": "red",
    "dead": "red",
    "in doubt": "yellow",
    "running": "cyan",
}


def plain(records: Iterable[Any]) -> list[Any]:
    """Records as they are stored."""
    return [msgspec.to_builtins(record) for record in records]


def show(table: Table) -> None:
    Console(highlight=False).print(table)


def table(title: str = "") -> Table:
    return Table(title=title or None, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False, expand=False)


def text(words: str, limit: int) -> Text:
    """What tools, names and errors say, as it is: no markup, no control characters, cut."""
    return Text(wording.plain(words, limit))


def coloured(status: str) -> Text:
    return Text(status, style=COLOURS.get(status, ""))


def status_row(path: Path, session: Session, task: Task) -> dict[str, Any]:
    """What ``status`` says about one task."""
    steps, calls = session.journal.steps(), session.journal.calls()
    times = [step.ended_at or step.started_at for step in steps] + [call.ended_at or call.started_at for call in calls]
    return {
        "task": task.name,
        "path": str(path),
        "status": task.status,
        "steps_done": sum(step.status == "done" for step in steps),
        "steps": len(steps),
        "calls": len(calls),
        "in_doubt": sum(map(task.in_doubt, calls)),
        "last_at": max(times, default=None),
    }


def status(rows: Sequence[dict[str, Any]]) -> Table:
    result = table()
    for name, justify in (("task", "left"), ("status", "left"), ("steps done", "right"), ("calls", "right"),
                          ("in doubt", "right"), ("last", "right")):  # fmt: skip
        result.add_column(name, justify="right" if justify == "right" else "left", overflow="fold")
    for row in rows:
        result.add_row(
            text(row["task"], 80),
            coloured(row["status"]),
            f"{row['steps_done']} of {row['steps']}",
            str(row["calls"]),
            Text(str(row["in_doubt"]), style="yellow" if row["in_doubt"] else ""),
            moment(row["last_at"]),
        )
    return result


def steps(records: Iterable[StepRecord], calls: Iterable[CallRecord], title: str = "") -> Table:
    counts = Counter(call.step for call in calls)
    result = table(title)
    result.add_column("step", overflow="fold", max_width=24)
    result.add_column("status")
    result.add_column("ran", justify="right", no_wrap=True)
    result.add_column("took", justify="right", no_wrap=True)
    result.add_column("calls", justify="right")
    result.add_column("saved", justify="right", no_wrap=True)
    result.add_column("why, or the error", overflow="fold")
    for record in records:
        result.add_row(
            text(record.id, 120),
            coloured(record.status),
            moment(record.started_at),
            seconds(record.duration_s),
            str(counts[record.id]),
            size(record.size_bytes),
            text(record.error or record.why, 48),
        )
    return result


def history(records: Iterable[CallRecord], in_doubt: Callable[[CallRecord], bool]) -> Table:
    result = table()
    result.add_column("call", no_wrap=True)
    result.add_column("step", overflow="fold", max_width=12)
    result.add_column("tool and arguments", overflow="fold", min_width=14)
    result.add_column("status", max_width=11)
    result.add_column("started", justify="right", no_wrap=True)
    result.add_column("took", justify="right", no_wrap=True)
    for record in records:
        status = record.status if record.status != "intent" else "in doubt" if in_doubt(record) else "running"
        arguments = ", ".join(f"{name}={text}" for name, text in record.arguments.items())
        called = f"{record.tool}({arguments})"
        shown = coloured(status)
        if record.resolved:
            shown.append(f" by {record.resolved}")
        result.add_row(
            Text(record.id),
            text(record.step, 80),
            Text("\n").join(text(each, 300) for each in (called, record.error or record.doubt) if each),
            shown,
            moment(record.started_at),
            seconds(record.duration_s),
        )
    return result


def run_report(report: Report) -> str:
    """How a headless run ended, in a line or two."""
    deaths = {0: ""}.get(report.restarts, f", {report.restarts} kernel{'s' * (report.restarts > 1)} died on the way")
    match report.status:
        case "completed":
            return f"completed in {seconds(report.duration_s)}{deaths}"
        case "dead":
            words = f": {report.last_words.splitlines()[-1]}" if report.last_words else ""
            return f"gave up after {seconds(report.duration_s)}: {len(report.pids)} kernels died{words}"
        case "failed":
            error = report.error
            assert error is not None
            said = f"{error.name}: {error.value}".splitlines()[0]
            return f"failed after {seconds(report.duration_s)}{deaths}, in cell {error.cell}: {said}"


def moment(at: float | None) -> str:
    """Local time; with the day unless it is today."""
    if at is None:
        return ""
    then = time.localtime(at)
    return time.strftime("%H:%M:%S" if then[:3] == time.localtime()[:3] else "%d %b %H:%M", then)


def seconds(duration_s: float | None) -> str:
    return "" if duration_s is None else wording.duration(duration_s)


def size(size_bytes: int) -> str:
    amount = float(size_bytes)
    for unit in ("B", "KB", "MB"):
        if amount < 1000:
            return f"{amount:.0f} {unit}"
        amount /= 1000
    return f"{amount:.1f} GB"
