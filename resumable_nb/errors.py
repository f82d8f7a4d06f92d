"""The errors of resumable_nb.

::

    ResumableError
    ├── UsageError                a wrong option, name or argument; nothing was changed
    ├── StoreError
    │   ├── StoreUnavailable      cannot be read or written now (permissions, full disk, locked)
    │   ├── Corrupt               bytes are not what was written
    │   ├── StoreLost             the marker says there was a database, and there is none
    │   ├── Untrusted             written by somebody else: nothing in it is unpickled
    │   └── NewerSchema           written by a newer resumable_nb: left untouched
    ├── LeaseError
    │   ├── TaskBusy              another live kernel owns the task
    │   └── LeaseLost             this kernel owned it, and does not any more
    ├── CallError
    │   ├── InDoubt               a call may have happened; somebody has to say
    │   ├── Diverged              the step asks for other calls than the recorded ones
    │   ├── WorkerLost            another process went away with a call, begun or not
    │   ├── ValueUnavailable      the call happened, its result could not be saved
    │   └── BadArgument           an argument that has no lasting identity
    ├── NoContent                 a value has no canonical content, so no fingerprint
    └── NotSaved                  a value cannot be written down, or not be read back

    KeyboardInterrupt
    └── Stopped                   the user stopped the cell: no fault, and no ``except Exception`` catches it
    asyncio.CancelledError
    └── StoppedTask               the same, in an asyncio task of the cell

Every error is one line that says what, where and what to do next; the facts are attributes (``facts``).
"""

from __future__ import annotations

import asyncio
from typing import Any, Final


class ResumableError(Exception):
    """Root of all errors of this package.

    ``facts`` are the error's data; they survive pickling, and read as attributes too.
    """

    def __init__(self, message: str, **facts: Any) -> None:
        super().__init__(message)
        self.message = message
        self.facts = facts

    def __getattr__(self, name: str) -> Any:
        facts = self.__dict__.get("facts", {})
        if name in facts:
            return facts[name]
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.message, self.facts)

    def _render_traceback_(self) -> list[str]:
        """Show one line in Jupyter: a traceback through our own code helps nobody."""
        return [f"{type(self).__name__}: {self.message}"]


def _rebuild(kind: type[ResumableError], message: str, facts: dict[str, Any]) -> ResumableError:
    return kind(message, **facts)


class UsageError(ResumableError):
    """A wrong option, name or argument. Nothing was changed."""


class StoreError(ResumableError):
    """Something is wrong with a store."""


class StoreUnavailable(StoreError):
    """The store cannot be read or written now: permissions, full disk, locked."""


class Corrupt(StoreError):
    """Bytes in the store are not the bytes that were written."""


class StoreLost(StoreError):
    """The marker says that there was a database, and there is none."""


class Untrusted(StoreError):
    """The store was written under another key: nothing in it is unpickled."""


class NewerSchema(StoreError):
    """The store was written by a newer version: left untouched."""


class LeaseError(ResumableError):
    """Something is wrong with the ownership of a task."""


class TaskBusy(LeaseError):
    """Another live kernel owns the task."""


class LeaseLost(LeaseError):
    """This kernel owned the task and does not any more."""


class CallError(ResumableError):
    """A tool call cannot be answered."""


class InDoubt(CallError):
    """A recorded call may have happened, and nobody knows."""


class Diverged(CallError):
    """A resumed step asks for other calls than those that are recorded."""


class WorkerLost(CallError):
    """The process that a call was sent to went away, or never began it: the message says which."""


class ValueUnavailable(CallError):
    """The call is known to have happened, but its result could not be saved."""


class BadArgument(CallError):
    """An argument has no lasting identity (an iterator, an open handle)."""


class NotSaved(ResumableError):
    """A value cannot be written down, or could not be read back."""


class NoContent(ResumableError):
    """A value has no canonical content (a connection, a generator): it cannot be fingerprinted. ``path`` says where."""


class Stopped(KeyboardInterrupt):
    """The user stopped the cell. What it had finished is kept, and Run All goes on from there."""

    def _render_traceback_(self) -> list[str]:
        return [f"Stopped: {self}"]


class StoppedTask(asyncio.CancelledError):
    """The user stopped the cell, in an asyncio task that it had started."""

    def _render_traceback_(self) -> list[str]:
        return [f"Stopped: {self}"]


RAISED_BY: Final = "__resumable_call__"
"""Attribute of an exception that a tool raised: the id of the call."""


def chain(error: BaseException) -> list[BaseException]:
    """An exception and everything that it was raised from, also in groups."""
    seen: dict[int, BaseException] = {}
    todo = [error]
    while todo:
        each = todo.pop()
        if id(each) in seen:
            continue
        seen[id(each)] = each
        todo.extend(e for e in (each.__cause__, each.__context__) if e is not None)
        if isinstance(each, BaseExceptionGroup):
            todo.extend(each.exceptions)
    return [*seen.values()]
