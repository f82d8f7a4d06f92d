"""Records as DataFrames."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Final

import pandas as pd

from resumable_nb.model import CallRecord, RunRecord, StepRecord

DataFrame = pd.DataFrame
"""For those who type with it: only this module imports pandas."""

_UTC: Final = "datetime64[ns, UTC]"


def _frame(rows: list[dict[str, Any]], columns: Mapping[str, Any]) -> pd.DataFrame:
    """A frame with exactly these columns and types, also when there are no rows; indexed by the first one."""
    # As objects first: left to guess, pandas makes floats of integers that stand beside None.
    frame = pd.DataFrame(rows, columns=list(columns), dtype=object)
    series: dict[str, pd.Series[Any]] = {}
    for name, dtype in columns.items():
        if dtype == _UTC:
            series[name] = pd.to_datetime(frame[name].astype("float64"), unit="s", utc=True).astype(_UTC)
        else:
            series[name] = frame[name].astype(dtype)
    return pd.DataFrame(series, columns=list(columns)).set_index(next(iter(columns)))


def history(
    calls: Iterable[CallRecord],
    value: Callable[[CallRecord], Any],
    in_doubt: Callable[[CallRecord], bool],
    drifted: Collection[str] = frozenset(),
) -> pd.DataFrame:
    """Tool calls in the order in which they started, one a row, indexed by call id.

    ``status`` is done, failed, running, in doubt, or compensated (``undoes`` of another call names it);
    ``started`` and ``ended`` are UTC; ``duration_s`` is in seconds;
    ``value`` is the recorded result (``None`` where there is none);
    ``drift`` says where the tool's code is not that of the call any more (the ids in ``drifted``): it still answers.
    """
    columns = {
        "call": "str", "tool": "str", "step": "str", "status": "str", "arguments": "object", "value": "object",
        "error": "str", "attempts": "int64", "started": _UTC, "ended": _UTC, "duration_s": "float64",
        "idempotency_key": "str", "resolved": "str", "undoes": "str", "drift": "str", "run": "str",
    }  # fmt: skip
    calls = list(calls)
    undone = {call.compensated: call.id for call in calls if call.compensated}
    rows = [
        _row(call)
        | {
            "status": _status(call, in_doubt),
            "value": value(call),
            "undoes": undone.get(call.id, ""),
            "drift": "code changed since" if call.id in drifted else "",
        }
        for call in sorted(calls, key=lambda call: call.started_at)
    ]
    return _frame(rows, columns)


def _status(call: CallRecord, in_doubt: Callable[[CallRecord], bool]) -> str:
    if call.compensated:
        return "compensated"
    if call.status != "intent":
        return call.status
    return "in doubt" if in_doubt(call) else "running"


def _row(call: CallRecord) -> dict[str, Any]:
    """What the record itself says."""
    return {
        "call": call.id,
        "tool": call.tool,
        "step": call.step,
        "arguments": dict(call.arguments),
        "error": call.error or call.doubt,
        "attempts": max(1, len(call.attempts)),
        "started": call.started_at,
        "ended": call.ended_at,
        "duration_s": call.duration_s,
        "idempotency_key": call.idempotency_key,
        "resolved": call.resolved,
        "run": call.run,
    }


def steps(records: Iterable[StepRecord], calls: Mapping[str, int]) -> pd.DataFrame:
    """Steps in the order in which they last started, one a row, indexed by step id. ``size_bytes``: what this
    version wrote."""
    columns = {
        "step": "str", "status": "str", "version": "int64", "why": "str", "started": _UTC, "duration_s": "float64",
        "calls": "int64", "variables": "int64", "unsaved": "object", "size_bytes": "int64", "error": "str",
        "run": "str",
    }  # fmt: skip
    rows = [
        {
            "step": record.id,
            "status": record.status,
            "version": record.version,
            "why": record.why,
            "started": record.started_at,
            "duration_s": record.duration_s,
            "calls": calls.get(record.id, 0),
            "variables": len(record.saved_names),
            "unsaved": dict(record.unsaved),
            "size_bytes": record.size_bytes,
            "error": record.error,
            "run": record.run,
        }
        for record in sorted(records, key=lambda r: r.started_at)
    ]
    return _frame(rows, columns)


def runs(records: Iterable[RunRecord], alive: Callable[[RunRecord], bool]) -> pd.DataFrame:
    """Processes that worked on the task, oldest first, indexed by run id. ``ended`` is how: open, closed, died."""
    columns = {"run": "str", "ended": "str", "pid": "int64", "host": "str", "started": _UTC, "stopped": _UTC}
    rows = [
        {
            "run": record.id,
            "ended": "closed" if record.ended_at is not None else "open" if alive(record) else "died",
            "pid": record.pid,
            "host": record.host,
            "started": record.started_at,
            "stopped": record.ended_at,
        }
        for record in sorted(records, key=lambda r: r.id)
    ]
    return _frame(rows, columns)
