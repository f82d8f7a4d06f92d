"""What a call ended with, as rows of the journal and back again."""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from resumable_nb import codec
from resumable_nb.doubt import unavailable
from resumable_nb.errors import CallError, NotSaved, ResumableError
from resumable_nb.journal import Journal
from resumable_nb.model import CallRecord
from resumable_nb.preview import cut, preview, scrub

Rows = dict[str, bytes]

_ERROR_LIMIT = 500


def with_value(
    journal: Journal, record: CallRecord, value: object, secrets: Collection[str]
) -> tuple[CallRecord, Rows]:
    """The record of a done call. A value that cannot be saved is no failure: the call did happen."""
    name, why = "", ""
    rows: Rows = {}
    try:
        name, rows = journal.blob_row(codec.dumps_value(value))
    except Exception as error:
        why = one_line(error, secrets)
    done = msgspec.structs.replace(
        record,
        status="done",
        result=name,
        unavailable=why,
        preview=preview(value, secrets),
        error="",
        doubt="",
        undo=record.undo if record.compensate else "",  # there is nothing to ask any more
    )
    return done, rows


def value_of(journal: Journal, record: CallRecord) -> object:
    """A fresh copy of a done call's result. Raises ``ValueUnavailable``, or ``Corrupt`` for damage."""
    if record.unavailable:
        raise unavailable(record, record.unavailable)
    data = journal.blob(record.result)
    try:
        return codec.loads_value(data)
    except NotSaved as error:
        raise unavailable(record, error.message) from error
    except ResumableError:
        raise
    except Exception as error:
        raise unavailable(record, f"it cannot be read back ({one_line(error)})") from error


def with_error(
    journal: Journal, record: CallRecord, error: Exception, secrets: Collection[str]
) -> tuple[CallRecord, Rows]:
    """The record of a failed call: the exception itself, or its type and message where it cannot be saved."""
    name = ""
    rows: Rows = {}
    message = scrub(_text(error), secrets)
    # The message of an exception that spells out a secret is kept without it.
    whole = (error,) if message == _text(error) else ()
    for kept in (*whole, (type(error), message)):
        try:
            data = codec.dumps_value(kept)
        except Exception:  # noqa: S112  # the next, plainer form is tried
            continue
        if not any(secret.encode() in data for secret in secrets):
            name, rows = journal.blob_row(data)
            break
    failed = msgspec.structs.replace(record, status="failed", result=name, error=one_line(error, secrets), doubt="")
    return failed, rows


def error_of(journal: Journal, record: CallRecord) -> Exception:
    """The recorded exception of a failed call."""
    try:
        kept = codec.loads_value(journal.blob(record.result)) if record.result else None
    except NotSaved:
        kept = None
    match kept:
        case Exception():
            error = kept
        case (type() as kind, str() as message) if issubclass(kind, Exception):
            error = kind.__new__(kind)
            error.args = (message,)
        case _:
            error = CallError(f"{record.tool} failed: {record.error}", tool=record.tool, id=record.id)
    return error


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:
        return ""


def one_line(error: BaseException, secrets: Collection[str] = ()) -> str:
    """Type and message, redacted."""
    text = " ".join(scrub(_text(error), secrets).split())
    return cut(f"{type(error).__name__}: {text}" if text else type(error).__name__, _ERROR_LIMIT)
