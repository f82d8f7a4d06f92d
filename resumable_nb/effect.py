"""``Effect``: one call is made, or its receiver asked, and what came of it is recorded. Sync and async alike."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
from collections.abc import Callable, Generator
from typing import Any, TypeVar

import msgspec

from resumable_nb import doubt, mutation, result
from resumable_nb.call_records import NEW, call_row
from resumable_nb.claim import Claim
from resumable_nb.desk import Desk
from resumable_nb.doubt import Happened, NotHappened
from resumable_nb.drive import (
    Action,
    Course,
    Invoke,
    Key,
    Outcome,
    Pause,
    Raised,
    Returned,
    Write,
    inside_a_tool,
    value_of,
)
from resumable_nb.errors import ResumableError
from resumable_nb.model import MISSING, Attempt, CallRecord, Missing, place
from resumable_nb.preview import preview
from resumable_nb.retry import Verdict, judge
from resumable_nb.scope import StepScope
from resumable_nb.tooldef import IDEMPOTENCY_KEY, Tool
from resumable_nb.undo import takes

T = TypeVar("T")


class Effect:
    """What one call does outside, in its only flight."""

    def __init__(self, tool: Tool, desk: Desk, scope: StepScope, claim: Claim) -> None:
        self.tool, self.desk, self.journal = tool, desk, desk.journal
        self.scope, self.claim = scope, claim
        self.key: Key = (claim.identity, claim.k)

    def make(self, earlier: CallRecord | Missing) -> Course:
        """Intent, effect, outcome; again where the effect is known not to have happened, or may be repeated.

        Durability. Not repeatable: the intent of *every* try is on disk before its effect. Between two tries the
        record says "failed, without an end", so that a crash in a long pause leaves no doubt; were the next intent not
        durable, a power cut could leave that record as the last one, and an effect that happened would happen again.
        Repeatable: nothing before the result is fsynced; what a power cut takes away is a call that may be repeated.
        """
        tool, record, tries = self.tool, self._intent(earlier), 0
        arguments = tool.with_key(self.claim.given, record.idempotency_key)
        while True:
            record = yield from self._begin(record)
            outcome = yield from self._try(record, arguments)
            tries += 1
            if isinstance(outcome, Returned):
                self.emit("call.returned")
                record = msgspec.structs.replace(self._attempted(record), changed=self._changed())
                ended = yield from self._finish(record, outcome.value)
                if record.changed:
                    mutation.warn_of_call(tool.name, self.claim.text, record.changed)
                return ended
            error = outcome.error
            record = self._attempted(record, result.one_line(error, self.claim.secrets))
            verdict = self._judge(error, timed_out=outcome.timed_out)
            pause_s = tool.retry.pause_s(tries, error) if verdict == "retry" else None
            if pause_s is not None:
                self.journal.note(msgspec.structs.replace(record, status="failed", ended_at=None))
                yield Pause(pause_s)
            elif verdict == "doubt" or outcome.timed_out or not isinstance(error, Exception):
                return self._leave_in_doubt(record, outcome)
            else:
                return (yield from self._fail(record, outcome, error))

    def _try(self, record: CallRecord, arguments: inspect.BoundArguments) -> Course:
        """The effect itself, once."""
        tool = self.tool
        late = functools.partial(self._late, record)
        try:
            return (
                yield Invoke(
                    tool.function, arguments.args, arguments.kwargs, self.key, self.claim.text, tool.timeout_s, late
                )
            )
        except GeneratorExit as gone:  # whoever drove us was interrupted or thrown away
            self._leave_in_doubt(self._attempted(record, "the call was abandoned"), Raised(gone))
            raise

    def _changed(self) -> tuple[str, ...]:
        try:
            return self.claim.changed()
        except Exception:  # it did happen: nothing that we look at now may lose that
            return ()

    def _judge(self, error: BaseException, *, timed_out: bool = False) -> Verdict:
        tool = self.tool
        return judge(
            error,
            timed_out=timed_out,
            repeatable=tool.repeatable,
            retry_on=tool.retry.retry_on,
            unsure=tool.unsure,
            terminal=tool.terminal,
        )

    def _late(self, record: CallRecord, outcome: Outcome) -> None:
        """The function has ended after all, in its thread: what is known now settles the call, if nobody else has."""
        ended = msgspec.structs.replace(record, ended_at=self.desk.clock())
        if isinstance(outcome, Returned):
            settled, rows = result.with_value(self.journal, self._attempted(ended), outcome.value, self.claim.secrets)
        else:
            error = outcome.error
            if not isinstance(error, Exception) or self._judge(error) == "doubt":
                return
            ended = self._attempted(ended, result.one_line(error, self.claim.secrets))
            settled, rows = result.with_error(self.journal, ended, error, self.claim.secrets)
        settled = msgspec.structs.replace(settled, resolved="late")
        with contextlib.suppress(ResumableError):  # then it stays in doubt
            if self.journal.note(settled, rows, durable=True):
                self.emit("call.late")

    def _intent(self, earlier: CallRecord | Missing) -> CallRecord:
        """The record to begin with; an earlier one keeps its place."""
        tool, claim = self.tool, self.claim
        key, branch = claim.idempotency_key, claim.branch
        if earlier is not MISSING and earlier.status == "intent":
            branch = earlier.branch
            if tool.keyed:
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
            marks=claim.marks,
            rule=tool.rule,
            beside=not self.scope.strand.is_here(),
            inside="" if (outer := inside_a_tool()) is None else place(*outer),
            compensate="" if self.scope.undoing else tool.compensation,
            undo=self._undo[0],
            undoes="" if claim.undoes is None else call_row(claim.undoes),
            generation=claim.generation,
            branch=branch,
        )

    def _begin(self, record: CallRecord) -> Generator[Action, Outcome, CallRecord]:
        attempts = (*record.attempts, Attempt(started_at=self.desk.clock()))
        self.scope.made.add(record.id)
        begun = msgspec.structs.replace(record, status="intent", attempts=attempts, ended_at=None)
        intend = functools.partial(self.journal.intend, begun, self._undo[1], durable=not self.tool.repeatable)
        try:
            return (yield from _written(intend))
        except (KeyboardInterrupt, asyncio.CancelledError):
            self._take_back(begun)
            raise

    def _take_back(self, begun: CallRecord) -> None:
        """We were interrupted before the function was called: nobody need ask whether it happened. Best effort."""
        with contextlib.suppress(ResumableError):
            found = self.journal.call(*self.key)
            if found is not MISSING and found.run == begun.run and len(found.attempts) == len(begun.attempts):
                unmade = self._attempted(found, "interrupted before it was made")
                self.journal.note(msgspec.structs.replace(unmade, status="failed", ended_at=None))

    @functools.cached_property
    def _undo(self) -> tuple[str, dict[str, bytes]]:
        """The arguments as they are before the call, for whoever undoes it or asks: their blob, as digest and row."""
        kept = b"" if self.scope.undoing else self.claim.kept()  # an undo is not undone
        return self.journal.blob_row(kept) if kept else ("", {})

    def _attempted(self, record: CallRecord, error: str = "") -> CallRecord:
        """The record with the end of its last attempt."""
        now = self.desk.clock()
        last = msgspec.structs.replace(record.attempts[-1], ended_at=now, error=error)
        return msgspec.structs.replace(record, attempts=(*record.attempts[:-1], last), ended_at=now)

    def _finish(self, record: CallRecord, value: Any) -> Course:
        done, rows = result.with_value(self.journal, record, value, self.claim.secrets)
        try:
            yield from _written(functools.partial(self.journal.finish, done, rows))
        except ResumableError as fault:
            fault.add_note(f"{self.claim.text} did return, and this could not be recorded: {done.preview}")
            raise
        except (KeyboardInterrupt, asyncio.CancelledError):
            self._record_all_the_same(done, rows)
            raise
        return Returned(value)

    def _fail(self, record: CallRecord, outcome: Raised, error: Exception) -> Course:
        failed, rows = result.with_error(self.journal, record, error, self.claim.secrets)
        try:
            yield from _written(functools.partial(self.journal.finish, failed, rows))
        except ResumableError as fault:
            raise fault from error
        except (KeyboardInterrupt, asyncio.CancelledError) as interrupt:
            self._record_all_the_same(failed, rows)
            self._failed_with(interrupt, failed, seen=False)
            raise
        self.emit("call.failed")
        return self.failed(failed, outcome)

    def _record_all_the_same(self, record: CallRecord, rows: dict[str, bytes]) -> None:
        """We were interrupted while we recorded an outcome, which nobody need doubt. Best effort."""
        with contextlib.suppress(ResumableError):
            self.journal.note(record, rows, durable=True)

    def failed(self, record: CallRecord, outcome: Raised) -> Outcome:
        self._failed_with(outcome.error, record)
        return outcome

    def _failed_with(self, error: BaseException, record: CallRecord, *, seen: bool = True) -> None:
        """Tell the step. It did not handle an error whose place an interrupt took, nor one that comes after its end."""
        if self.scope.failures.add(error, record.id) or not seen:
            with contextlib.suppress(ResumableError):
                self.journal.finish(msgspec.structs.replace(record, escaped=True), durable=False)

    def _leave_in_doubt(self, record: CallRecord, outcome: Raised) -> Outcome:
        """Nobody knows: the intent stays open. Saying why is best effort."""
        error = outcome.error
        why = record.attempts[-1].error
        with contextlib.suppress(ResumableError):
            self.journal.note(msgspec.structs.replace(record, status="intent", ended_at=None, doubt=why))
        self.emit("call.in_doubt")
        if isinstance(error, Exception) and not self.tool.repeatable:
            error.add_note(f"{self.claim.text} may have happened: call {record.id} is in doubt")
        return outcome

    def reconcile(self, record: CallRecord) -> Course:
        """Ask the user's function what became of the call."""
        ask = self.tool.reconcile
        assert ask is not None
        kwargs = dict(self.claim.bound.kwargs)
        if self.tool.keyed and takes(ask, IDEMPOTENCY_KEY):
            kwargs[IDEMPOTENCY_KEY] = record.idempotency_key
        outcome = yield Invoke(ask, self.claim.bound.args, kwargs, self.key, self.claim.text)
        match outcome:
            case Returned(Happened(value)):
                now = self.desk.clock()
                settled = msgspec.structs.replace(record, resolved="reconcile", ended_at=now)
                return (yield from self._finish(settled, value))
            case Returned(NotHappened()):
                return (yield from self.make(record))
            case Returned(answer):
                why = "" if answer is None else f"reconcile= answered {preview(answer, self.claim.secrets)}"
            case Raised(error):
                if not isinstance(error, Exception):
                    return outcome
                why = f"reconcile= raised {result.one_line(error, self.claim.secrets)}"
        self.emit("call.in_doubt")
        fault = doubt.in_doubt(self.journal, record, why)
        raise fault from (outcome.error if isinstance(outcome, Raised) else None)

    def emit(self, kind: str) -> None:
        self.desk.bus.emit(kind, self.scope.id, tool=self.tool.name, id=self.claim.id)


def _written(commit: Callable[[], T]) -> Generator[Action, Outcome, T]:
    """What the commit returned; raises what it raised."""
    value: T = value_of((yield Write(commit)))
    return value
