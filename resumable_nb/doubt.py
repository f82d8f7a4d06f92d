"""A call that may have happened: what we can say about it, and how somebody settles it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from resumable_nb.errors import InDoubt, ValueUnavailable
from resumable_nb.journal import Journal
from resumable_nb.model import MISSING, CallRecord


@dataclass(frozen=True, slots=True)
class Happened:
    """``reconcile=`` says: the call did happen, with this result."""

    value: Any


@dataclass(frozen=True, slots=True)
class NotHappened:
    """``reconcile=`` says: the call did not happen, and may be made."""


def spelled(record: CallRecord) -> str:
    """The call as it was written, redacted: ``charge(order_id='A1', amount=3)``."""
    arguments = ", ".join(f"{name}={shown}" for name, shown in record.arguments.items())
    return f"{record.tool}({arguments})"


def in_doubt(journal: Journal, record: CallRecord, why: str = "") -> InDoubt:
    """The error for a call whose outcome nobody knows."""
    run = journal.run(record.run)
    who = f"run {record.run}" if run is MISSING else f"pid {run.pid} on {run.host} (run {record.run})"
    why = why or record.doubt or "it ended before the outcome was recorded"
    started = datetime.fromtimestamp(record.started_at, tz=UTC).astimezone().isoformat(" ", "seconds")
    return InDoubt(
        f"{spelled(record)} was begun at {started} by {who}, and may have happened: {why}. Find out whether it did, "
        f"then `%resumable resolve {record.id} happened [its result as JSON]` or "
        f"`%resumable resolve {record.id} not-happened`, and run the cell again",
        tool=record.tool,
        id=record.id,
        arguments=dict(record.arguments),
        step=record.step,
        started_at=record.started_at,
        run=record.run,
        pid=None if run is MISSING else run.pid,
        idempotency_key=record.idempotency_key,
        doubt=why,
    )


def unavailable(record: CallRecord, why: str) -> ValueUnavailable:
    """The error for a call that happened, and whose result is not there to return."""
    return ValueUnavailable(
        f"{spelled(record)} is done and will not be made again, but its result is not available: {why}. Give it one "
        f"with `%resumable resolve {record.id} happened RESULT-AS-JSON`, or let the tool return what can be saved and "
        "give it another version=, which makes the call anew",
        tool=record.tool,
        id=record.id,
        arguments=dict(record.arguments),
        step=record.step,
        reason=why,
    )
