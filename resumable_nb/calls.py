"""The course of one tool call: what the journal says, then the effect, then the journal again. Sync and async alike."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import sys
import time
import warnings
import weakref
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, assert_never

import msgspec

from resumable_nb import doubt, plan, result, scope
from resumable_nb.claim import Claim
from resumable_nb.drive import Course, Flight, Invoke, Key, Outcome, Pause, Raised, Returned, Wait, inside_a_tool
from resumable_nb.errors import ResumableError, UsageError
from resumable_nb.events import Bus
from resumable_nb.journal import NEW, Journal
from resumable_nb.model import MISSING, Attempt, CallRecord, Missing
from resumable_nb.preview import preview
from resumable_nb.retry import judge
from resumable_nb.tooldef import IDEMPOTENCY_KEY, Tool


@dataclass(frozen=True, kw_only=True)
class Desk:
    """What a call needs. ``key``: this user's secret, under which secret arguments are digested."""

    journal: Journal
    incarnation: str
    run: str
    key: bytes
    bus: Bus
    clock: Callable[[], float] = time.time
    sleep: Callable[[float], None] = time.sleep
    sleep_async: Callable[[float], Awaitable[None]] = asyncio.sleep


@dataclass(frozen=True, slots=True)
class Happened:
    """``reconcile=`` says: the call did happen, with this result."""

    value: Any


@dataclass(frozen=True, slots=True)
class NotHappened:
    """``reconcile=`` says: the call did not happen, and may be made."""


class CollapseWarning(UserWarning):
    """Two identical calls in one execution of a step became one."""


_flights: Final[dict[Key, Flight]] = {}
"""The calls that this process is making now. Identities hold the task's incarnation, so one table serves all tasks."""


@dataclass(frozen=True, slots=True)
class _Home:
    module: str
    function: Callable[[], Any]
    """Gives the function, or None when it is gone."""

    def in_use(self) -> bool:
        """Whether it is a tool of the notebook, and its variable is still this one: not what it was moved to."""
        function = self.function()
        if function is None or self.module != "__main__":
            return False
        plain = inspect.unwrap(function)
        bound = getattr(plain, "__globals__", {}).get(getattr(plain, "__name__", ""))
        return getattr(getattr(bound, "tool", None), "function", None) is function


_homes: Final[dict[tuple[str, str], _Home]] = {}
"""Where the tools that were called come from, by incarnation and name."""

_collapsed: Final[set[str]] = set()
"""Tools that were warned about."""


def course(tool: Tool, desk: Desk, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Course:
    """Answer from the journal, or make the call. The identity is claimed before the first action."""
    _known_home(tool, desk)
    _known_twin(tool)
    call = _Call(tool, desk, args, kwargs)
    while True:
        record = call.record()
        if record is not MISSING and record.status == "done":
            return call.replay(record)
        flight = Flight()
        # Made before the `try`: whatever interrupts us, and wherever, the flight does not stay in the table.
        try:
            other = _flights.setdefault(call.key, flight)
            if other is flight:
                return (yield from call.answer())
        finally:
            if _flights.get(call.key) is flight:
                del _flights[call.key]
            flight.landed.set_result(None)
        yield Wait(other, call.key, call.claim.text)


def _known_home(tool: Tool, desk: Desk) -> None:
    """Two modules' tools of one name would answer for each other. The notebook's may move to a module and back."""
    if not tool.module:
        return
    here = _Home(tool.module, _weak(tool.function))
    other = _homes.setdefault((desk.incarnation, tool.name), here)
    if tool.module != other.module and ("__main__" not in (tool.module, other.module) or other.in_use()):
        raise UsageError(
            f"two tools are called {tool.name!r}, in {other.module} and in {tool.module}: a call of one would answer "
            "for the other; give one of them another name, @tool(name=…)"
        )
    _homes[desk.incarnation, tool.name] = here


def _known_twin(tool: Tool) -> None:
    """Two tools from one factory, with other closures, are two tools: under one name they answer for each other."""
    for twin in tool.twins():
        raise UsageError(
            f"two tools made by the same code are called {tool.name!r} ({twin}): a call of one would answer for the "
            "other; give each its own name, @tool(name=…)"
        )


def _weak(function: Callable[..., Any]) -> Callable[[], Any]:
    try:
        return weakref.ref(function)
    except TypeError:
        return lambda: None


def resolve_call(journal: Journal, call: str, happened: bool, value: Any = None) -> CallRecord:
    """Settle a call that is in doubt: it happened, with this result, or it did not, and may be made.

    ``call`` is an id, or its first eight or more characters. A done call whose result could not be saved can be given
    one, and what a user has settled can be settled otherwise. Raises ``UsageError`` for any other call.
    """
    record = journal.find_call(call)
    if (record.identity, record.k) in _flights:
        raise UsageError(f"call {record.id} of {record.tool} is executing now: it is not in doubt")
    if record.status != "intent" and record.resolved != "user" and not (happened and record.unavailable):
        raise UsageError(f"call {record.id} of {record.tool} is {record.status}, not in doubt: nothing was changed")
    settled = msgspec.structs.replace(record, resolved="user")
    if happened:
        settled, rows = result.with_value(journal, settled, value, ())
        journal.finish(msgspec.structs.replace(settled, ended_at=settled.ended_at or journal.now()), rows)
        return settled
    settled = msgspec.structs.replace(settled, status="failed", error="resolved: it did not happen", doubt="")
    journal.finish(settled)
    return settled


class _Call:
    """One call on its way."""

    def __init__(self, tool: Tool, desk: Desk, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        self.tool, self.desk, self.journal = tool, desk, desk.journal
        self.scope = scope.current()
        self.claim = Claim(tool, self.scope, args, kwargs, incarnation=desk.incarnation, key=desk.key)
        self.key: Key = (self.claim.identity, self.claim.k)

    def record(self) -> CallRecord | Missing:
        return self.journal.call(*self.key)

    def answer(self) -> Course:
        """Decide, in the only flight of this call."""
        # Owned before it is read: an open intent may be a live call of another kernel, which is busy, not in doubt.
        self.journal.own()
        record = self.record()
        decision = plan.decide_call(
            record,
            repeatable=self.tool.repeatable,
            reconcile=self.tool.reconcile is not None,
            terminal=self._terminal(record),
            handled=self._handled(record),
        )
        match decision:
            case plan.Replay(record):
                return self.replay(record)
            case plan.ReplayError(record):
                self._emit("call.replayed")
                return self._failed(record, Raised(result.error_of(self.journal, record)))
            case plan.Call(record):
                return (yield from self._make(record))
            case plan.Reconcile(record):
                return (yield from self._reconcile(record))
            case plan.Ask(record):
                self._emit("call.in_doubt")
                raise doubt.in_doubt(self.journal, record)
            case _:
                assert_never(decision)

    def _terminal(self, record: CallRecord | Missing) -> bool:
        """Whether the recorded error is one that the tool memoises. One without an end was between two tries."""
        if record is MISSING or record.status != "failed" or record.ended_at is None or not self.tool.terminal:
            return False
        return isinstance(result.error_of(self.journal, record), self.tool.terminal)

    def _handled(self, record: CallRecord | Missing) -> bool:
        """Whether the step went on after the error in an earlier execution, and has to go the same way now.

        Inside another tool it is that tool which handled it, or not; when it is called again, it starts afresh.
        """
        return (
            record is not MISSING
            and self.scope.continuing
            and not inside_a_tool()
            and record.step == self.scope.id
            and record.ended_at is not None
            and not record.escaped
            and record.id not in self.scope.made
            and self.journal.count(record.step) > record.n + 1
        )

    def replay(self, record: CallRecord) -> Outcome:
        """The recorded result, decoded anew."""
        if not self.tool.each_call and record.id in self.scope.made:
            self._collapse()
        else:
            self._emit("call.replayed")
        return Returned(result.value_of(self.journal, record))

    def _collapse(self) -> None:
        self._emit("call.collapsed")
        if self.tool.name not in _collapsed:
            _collapsed.add(self.tool.name)
            warnings.warn(
                f"{self.claim.text} was called before in this step with the same arguments, and answers with that "
                "call's result; where each call should count by itself, use @tool(each_call=True)",
                CollapseWarning,
                stacklevel=_user_level(),
            )

    def _make(self, earlier: CallRecord | Missing) -> Course:
        """Intent, effect, outcome; again where the effect is known not to have happened, or may be repeated.

        Durability. Not repeatable: the intent of *every* try is on disk before its effect. Between two tries the
        record says "failed, without an end", so that a crash in a long pause leaves no doubt; were the next intent not
        durable, a power cut could leave that record as the last one, and an effect that happened would happen again.
        Repeatable: nothing before the result is fsynced; what a power cut takes away is a call that may be repeated.
        """
        tool, record, tries = self.tool, self._intent(earlier), 0
        arguments = tool.with_key(self.claim.bound, record.idempotency_key)
        while True:
            record = self._begin(record)
            try:
                outcome = yield Invoke(
                    tool.function, arguments.args, arguments.kwargs, self.key, self.claim.text, tool.timeout_s
                )
            except GeneratorExit as gone:  # whoever drove us was interrupted or thrown away
                self._leave_in_doubt(self._attempted(record, "the call was abandoned"), Raised(gone))
                raise
            tries += 1
            if isinstance(outcome, Returned):
                self._emit("call.returned")
                return self._finish(self._attempted(record), outcome.value)
            error = outcome.error
            record = self._attempted(record, result.one_line(error, self.claim.secrets))
            verdict = judge(
                error,
                timed_out=outcome.timed_out,
                repeatable=tool.repeatable,
                retry_on=tool.retry.retry_on,
                unsure=tool.unsure,
                terminal=tool.terminal,
            )
            pause_s = tool.retry.pause_s(tries, error) if verdict == "retry" else None
            if pause_s is not None:
                self.journal.note(msgspec.structs.replace(record, status="failed", ended_at=None))
                yield Pause(pause_s)
            elif verdict == "doubt" or outcome.timed_out or not isinstance(error, Exception):
                return self._leave_in_doubt(record, outcome)
            else:
                return self._fail(record, outcome, error)

    def _intent(self, earlier: CallRecord | Missing) -> CallRecord:
        """The record to begin with; an earlier one keeps its place."""
        tool, claim = self.tool, self.claim
        key = claim.idempotency_key
        if earlier is not MISSING and earlier.status == "intent" and tool.keyed:
            key = earlier.idempotency_key or key  # the receiver may know the first one
        return CallRecord(
            id=claim.id,
            step=self.scope.id if earlier is MISSING else earlier.step,
            n=NEW if earlier is MISSING else earlier.n,
            tool=tool.name,
            version=tool.version,
            identity=claim.identity,
            k=claim.k,
            arguments=self.claim.previews,
            status="intent",
            repeatable=tool.repeatable,
            run=self.desk.run,
            started_at=self.desk.clock(),
            attempts=() if earlier is MISSING else earlier.attempts,
            idempotency_key=key,
            source=tool.source,
            compensate=tool.compensation,
        )

    def _begin(self, record: CallRecord) -> CallRecord:
        attempts = (*record.attempts, Attempt(started_at=self.desk.clock()))
        self.scope.made.add(record.id)
        begun = msgspec.structs.replace(record, status="intent", attempts=attempts, ended_at=None)
        return self.journal.intend(begun, durable=not self.tool.repeatable)

    def _attempted(self, record: CallRecord, error: str = "") -> CallRecord:
        """The record with the end of its last attempt."""
        now = self.desk.clock()
        last = msgspec.structs.replace(record.attempts[-1], ended_at=now, error=error)
        return msgspec.structs.replace(record, attempts=(*record.attempts[:-1], last), ended_at=now)

    def _finish(self, record: CallRecord, value: Any) -> Outcome:
        done, rows = result.with_value(self.journal, record, value, self.claim.secrets)
        try:
            self.journal.finish(done, rows)
        except ResumableError as fault:
            fault.add_note(f"{self.claim.text} did return, and this could not be recorded: {done.preview}")
            raise
        return Returned(value)

    def _fail(self, record: CallRecord, outcome: Raised, error: Exception) -> Outcome:
        failed, rows = result.with_error(self.journal, record, error, self.claim.secrets)
        try:
            self.journal.finish(failed, rows)
        except ResumableError as fault:
            raise fault from error
        self._emit("call.failed")
        return self._failed(failed, outcome)

    def _failed(self, record: CallRecord, outcome: Raised) -> Outcome:
        with self.scope.lock:
            self.scope.failures[id(outcome.error)] = record.id
        return outcome

    def _leave_in_doubt(self, record: CallRecord, outcome: Raised) -> Outcome:
        """Nobody knows: the intent stays open. Saying why is best effort."""
        error = outcome.error
        why = record.attempts[-1].error
        with contextlib.suppress(ResumableError):
            self.journal.note(msgspec.structs.replace(record, status="intent", ended_at=None, doubt=why))
        self._emit("call.in_doubt")
        if isinstance(error, Exception) and not self.tool.repeatable:
            error.add_note(f"{self.claim.text} may have happened: call {record.id} is in doubt")
        return outcome

    def _reconcile(self, record: CallRecord) -> Course:
        """Ask the user's function what became of the call."""
        ask = self.tool.reconcile
        assert ask is not None
        kwargs = dict(self.claim.bound.kwargs)
        if self.tool.keyed and _takes(ask, IDEMPOTENCY_KEY):
            kwargs[IDEMPOTENCY_KEY] = record.idempotency_key
        outcome = yield Invoke(ask, self.claim.bound.args, kwargs, self.key, self.claim.text)
        match outcome:
            case Returned(Happened(value)):
                now = self.desk.clock()
                return self._finish(msgspec.structs.replace(record, resolved="reconcile", ended_at=now), value)
            case Returned(NotHappened()):
                return (yield from self._make(record))
            case Returned(answer):
                why = "" if answer is None else f"reconcile= answered {preview(answer, self.claim.secrets)}"
            case Raised(error):
                if not isinstance(error, Exception):
                    return outcome
                why = f"reconcile= raised {result.one_line(error, self.claim.secrets)}"
        self._emit("call.in_doubt")
        fault = doubt.in_doubt(self.journal, record, why)
        raise fault from (outcome.error if isinstance(outcome, Raised) else None)

    def _emit(self, kind: str) -> None:
        self.desk.bus.emit(kind, self.scope.id, tool=self.tool.name, id=self.claim.id)


def _takes(function: Callable[..., Any], parameter: str) -> bool:
    parameters = inspect.signature(function).parameters
    return parameter in parameters or any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values())


def _user_level() -> int:
    """How far up the nearest frame outside this package is, as ``stacklevel`` of our caller."""
    package = __name__.partition(".")[0]
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == package:
        level, frame = level + 1, frame.f_back
    return level
