"""A task's whole state as JSON data, and back: for other programs to read, and to move a task into another store."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

import msgspec

from resumable_nb import codec
from resumable_nb.call_records import call_row, ident_row
from resumable_nb.errors import ResumableError, UsageError
from resumable_nb.journal import Journal
from resumable_nb.memory import Memory
from resumable_nb.model import MISSING, SCHEMA, CallRecord, StepRecord, TaskRecord
from resumable_nb.preview import HIDDEN, preview, secrets_in
from resumable_nb.store.seal import key_id, user_key

FORMAT: Final = 1
"""Version of the data; the records in it have their own."""


def to_dict(
    journal: Journal,
    memory: Memory,
    *,
    session: str,
    status: str,
    names: tuple[str, ...],
    result: Callable[[StepRecord], Any],
) -> dict[str, Any]:
    """``names``: the steps that the task is known to have, in order. ``result``: what a step returned, if it did."""
    record = journal.task()
    steps = sorted(journal.steps(), key=lambda each: each.started_at)
    names = names or tuple(each.id for each in steps)
    done = {each.id for each in steps if each.status == "done"}
    times = [at for each in steps for at in (each.started_at, each.ended_at) if at is not None]
    return {
        "format": FORMAT,
        "schema": SCHEMA,
        "key": key_id(user_key()),
        "task": None if record is MISSING else _plain(record),
        "session": session,
        "status": status,
        "current_step": next((name for name in names if name not in done), None),
        "total_steps": len(names),
        "steps": [{"record": _plain(each), **_shown(result(each))} for each in steps],
        "memory": memory.to_list(),
        "said": memory.said([each.memory for each in steps]),
        "calls": [
            {"record": _plain(each), **_shown(_value(journal, each))}
            for each in sorted(journal.calls(), key=lambda each: each.started_at)
        ],
        "started_at": min(times, default=None),
        "last_at": max(times, default=None),
    }


def rows_of(data: dict[str, Any], journal: Journal) -> dict[str, bytes]:
    """The rows of a store that has the state: the task, its messages, its calls, and its steps, as unfinished ones.

    A call whose result is in the data is answered; one that is done, and whose result is not, is done with no value to
    give. Steps run again, because their variables are not in the data, and their calls are answered. Raises
    ``UsageError`` for other data, for a task that is being rolled back, and for calls with secret arguments that
    another user's key has digested.
    """
    if data.get("format") != FORMAT or data.get("schema") != SCHEMA or not data.get("task"):
        raise UsageError(f"this is no state of a task, as to_dict() gives it (format {FORMAT}, schema {SCHEMA})")
    if data["task"].get("rollback") is not None:  # what the rest of the undos need is not in the data
        raise UsageError(
            "the task is being rolled back: finish that where it is (`%resumable compensate`), then move it"
        )
    records = [msgspec.convert(each["record"], type=CallRecord) for each in data["calls"]]
    secret = next((each for each in records if HIDDEN in each.arguments.values()), None)
    if secret is not None and data["key"] != key_id(user_key()):
        raise UsageError(
            f"call {secret.id} of {secret.tool} has secret arguments, which only the user who made it can recognise: "
            "take the state back under that user's key"
        )
    rows = {"meta": msgspec.json.encode(msgspec.convert(data["task"], type=TaskRecord)), **Memory.rows(data)}
    newest: dict[str, int] = {}
    for entry, record in zip(data["calls"], records, strict=True):
        record, more = _call(entry, record, journal)
        ident = ident_row(record.identity, record.k)
        rows |= more
        rows[call_row(record)] = msgspec.json.encode(record)
        if newest.setdefault(ident, record.generation) <= record.generation:
            newest[ident] = record.generation
            rows[ident] = call_row(record).encode()
    for each in data["steps"]:
        record_of = msgspec.convert(each["record"], type=StepRecord)
        rows[f"step/{record_of.id}"] = msgspec.json.encode(
            msgspec.structs.replace(
                record_of,
                status="failed",
                error="it was taken over from another store, without its variables",
                manifest="",
                output="",
                random="",
            )
        )
    return rows


def _call(entry: dict[str, Any], record: CallRecord, journal: Journal) -> tuple[CallRecord, dict[str, bytes]]:
    # What the undo would be given is not in the data, so that the call cannot be undone from there.
    bare = msgspec.structs.replace(record, result="", undo="", compensate="")
    if record.status != "done":
        return bare, {}
    if "value" not in entry:  # it happened: to make it again would be worse than to have no value
        why = record.unavailable or "it was taken over from another store, and is not JSON data"
        return msgspec.structs.replace(bare, unavailable=why), {}
    name, rows = journal.blob_row(codec.dumps_value(entry["value"]))
    return msgspec.structs.replace(bare, result=name), rows


def _value(journal: Journal, call: CallRecord) -> Any:
    if call.status != "done" or not call.result:
        return MISSING
    try:
        return codec.loads_value(journal.blob(call.result))
    except ResumableError:
        return MISSING


def _shown(value: Any) -> dict[str, Any]:
    """The value itself where it is JSON data, comes back as it is, and holds no secret; else what it looks like."""
    if value is MISSING:
        return {}
    try:
        same = json.loads(json.dumps(value, allow_nan=False))
    except (TypeError, ValueError, RecursionError):
        return {"preview": preview(value)}
    return {"value": value} if _alike(same, value) and not secrets_in(value) else {"preview": preview(value)}


def _alike(one: Any, two: Any) -> bool:
    """Equal, and of the same types throughout: ``(1,)`` is no list, ``True`` no 1."""
    if type(one) is not type(two):
        return False
    if isinstance(one, dict):
        return one.keys() == two.keys() and all(_alike(one[key], two[key]) for key in one)
    if isinstance(one, list):
        return len(one) == len(two) and all(map(_alike, one, two))
    return bool(one == two)


def _plain(record: msgspec.Struct) -> dict[str, Any]:
    plain: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(record))
    return plain
