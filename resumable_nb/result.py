"""What a call ended with, as rows of the journal and back again."""

from __future__ import annotations

import sys
from collections.abc import Collection
from typing import Any

import msgspec

from resumable_nb import codec
from resumable_nb.canonical import qualified
from resumable_nb.doubt import unavailable
from resumable_nb.errors import CallError, NotSaved, ResumableError
from resumable_nb.journal import Journal
from resumable_nb.model import CallRecord
from resumable_nb.preview import cut, preview, scrub
from resumable_nb.retry import Errors

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
    failed = msgspec.structs.replace(
        record,
        status="failed",
        result=name,
        error=one_line(error, secrets),
        raised=tuple(map(qualified, type(error).__mro__[:-1])),
        doubt="",
    )
    return failed, rows


def is_one_of(journal: Journal, record: CallRecord, kinds: Errors) -> bool:
    """Whether a failed call raised one of these: the class itself, or one made anew by the same code."""
    return any(qualified(kind) in record.raised for kind in kinds) or isinstance(error_of(journal, record), kinds)


def error_of(journal: Journal, record: CallRecord, kinds: Errors = ()) -> Exception:
    """The recorded exception of a failed call; as one of the classes ``kinds`` where it was one of that name."""
    try:
        kept = codec.loads_value(journal.blob(record.result)) if record.result else None
    except NotSaved:
        kept = None
    match kept:
        case Exception():
            return _as_living(kept, kinds)
        case (type() as kind, str() as message) if issubclass(kind, Exception):
            return _made(_living(kind, kinds), message)
    for living in kinds:
        if issubclass(living, Exception) and qualified(living) in record.raised:
            return _made(living, record.error.partition(": ")[2])
    return CallError(f"{record.tool} failed: {record.error}", tool=record.tool, id=record.id)


def _made(kind: type[Exception], message: str) -> Exception:
    error = kind.__new__(kind)
    error.args = (message,)
    return error


def _as_living(error: Exception, kinds: Errors) -> Exception:
    """An error whose class was recorded too, because no module has it, as the class that now goes by its name."""
    kind = _living(type(error), kinds)
    if kind is not type(error):
        try:
            error.__class__ = kind
        except TypeError:  # it is laid out differently now
            old, error = error, kind.__new__(kind)
            error.args = old.args
    return error


def _living(kind: type[Exception], kinds: Errors) -> type[Exception]:
    """The class that goes by the name of ``kind`` now, or by that of its nearest base among ``kinds``."""
    name = qualified(kind)
    local = [each for each in _below(kinds) if qualified(each) == name and each is not kind]
    found: Any = sys.modules.get(kind.__module__)
    for part in kind.__qualname__.split("."):
        found = getattr(found, part, None)
    for each in (*kinds, found, *local):
        if isinstance(each, type) and issubclass(each, Exception) and qualified(each) == name:
            return each
    if not issubclass(kind, tuple(kinds)):
        names = {qualified(each): each for each in kinds if issubclass(each, Exception)}
        return next((names[found] for found in map(qualified, kind.__mro__) if found in names), kind)
    return kind


def _below(kinds: Errors) -> list[type[BaseException]]:
    """The subclasses of a user's classes, the newest first."""
    found: list[type[BaseException]] = []
    for kind in kinds:
        if kind.__module__ != "builtins":
            below = kind.__subclasses__()[::-1]
            found += [*below, *_below(tuple(below))]
    return found


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:
        return ""


def one_line(error: BaseException, secrets: Collection[str] = ()) -> str:
    """Type and message, redacted."""
    text = " ".join(scrub(_text(error), secrets).split())
    return cut(f"{type(error).__name__}: {text}" if text else type(error).__name__, _ERROR_LIMIT)
