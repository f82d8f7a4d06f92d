"""The course of one tool call: what the journal says, then the effect, then the journal again. Sync and async alike."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any, Final, assert_never

import msgspec

from resumable_nb import divergence, doubt, mutation, plan, result, scope
from resumable_nb.claim import Claim
from resumable_nb.desk import Desk
from resumable_nb.drive import Course, Flight, Key, Outcome, Raised, Returned, Wait, at_work, inside_a_tool
from resumable_nb.effect import Effect
from resumable_nb.errors import NotSaved, UsageError
from resumable_nb.frame import user_level
from resumable_nb.journal import Journal
from resumable_nb.model import MISSING, CallRecord, Missing, place
from resumable_nb.namesake import refuse_namesakes
from resumable_nb.tooldef import Tool


class CollapseWarning(UserWarning):
    """Two identical calls in one execution of a step became one."""


_flights: Final[dict[Key, Flight]] = {}
"""The calls that this process is making now. Identities hold the task's incarnation, so one table serves all tasks."""


_collapsed: Final[set[str]] = set()
"""Tools that were warned about."""


def course(
    tool: Tool, desk: Desk, args: tuple[Any, ...], kwargs: Mapping[str, Any], undoes: CallRecord | None = None
) -> Course:
    """Answer from the journal, or make the call. The identity is claimed now, before the first action.

    ``undoes``: the call is made to undo that one.
    """
    if undoes is None:
        refuse_namesakes(tool, desk.incarnation)
    return _course(_Call(tool, desk, args, kwargs, undoes))


async def course_when_due(tool: Tool, desk: Desk, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Course:
    """The same after the task's safe point: claimed before a pause, in the order in which tasks ask."""
    refuse_namesakes(tool, desk.incarnation)
    call = _Call(tool, desk, args, kwargs, None)
    try:
        await desk.checkpoint_async(tool.name)
    except BaseException:
        call.claim.give_back(call.scope)
        raise
    return _course(call)


def _course(call: _Call) -> Course:
    call.scope.failures.asked()
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


def resolve_call(journal: Journal, call: str, happened: bool, value: Any = None) -> CallRecord:
    """Settle a call that is in doubt: it happened, with this result, or it did not, and may be made.

    ``call`` is an id, or its first eight or more characters. A done call whose result could not be saved can be given
    one, and what a user has settled can be settled otherwise. Raises ``UsageError`` for any other call.
    """
    record = journal.find_call(call)
    if in_flight(record):
        raise UsageError(f"call {record.id} of {record.tool} is executing now: it is not in doubt")
    if not happened and at_work((record.identity, record.k)):
        raise UsageError(
            f"call {record.id} of {record.tool} was given up after its time-out, and is still at work in a thread "
            "or worker of this kernel: it may happen yet; wait for its end, which settles it, or restart the kernel"
        )
    open_to_users = record.status == "intent" or record.resolved == "user"
    # What a failed undo was to do can be done by hand.
    open_to_users |= happened and bool(record.unavailable or (record.undoes and record.status == "failed"))
    if record.compensated or not open_to_users:
        raise UsageError(f"call {record.id} of {record.tool} is {record.status}, not in doubt: nothing was changed")
    settled = msgspec.structs.replace(record, resolved="user")
    if happened:
        settled, rows = result.with_value(journal, settled, value, ())
        journal.finish(msgspec.structs.replace(settled, ended_at=settled.ended_at or journal.now()), rows)
        return settled
    settled = msgspec.structs.replace(settled, status="failed", error="resolved: it did not happen", doubt="")
    journal.finish(settled)
    return settled


def in_flight(record: CallRecord) -> bool:
    """Whether this process is making the call now."""
    return (record.identity, record.k) in _flights


class _Call:
    """One call on its way."""

    def __init__(
        self, tool: Tool, desk: Desk, args: tuple[Any, ...], kwargs: Mapping[str, Any], undoes: CallRecord | None
    ) -> None:
        self.tool, self.desk, self.journal = tool, desk, desk.journal
        self.scope = scope.current()
        known = {"incarnation": desk.incarnation, "branch": desk.branch}
        self.claim = Claim(tool, self.scope, args, kwargs, **known, key=desk.key, undoes=undoes)
        self.effect = Effect(tool, desk, self.scope, self.claim)
        self.key = self.effect.key
        self.scope.claimed.add(place(*self.key))

    def record(self) -> CallRecord | Missing:
        record = self.journal.call(*self.key)
        if record is not MISSING and record.compensated:
            self.claim.renew(record.generation + 1)
            self.scope.claimed.add(self.claim.id)
            return MISSING
        if record is not MISSING:
            self.scope.claimed.add(place(record.identity, record.k))
        return record

    def answer(self) -> Course:
        """Decide, in the only flight of this call."""
        # Owned before it is read: an open intent may be a live call of another kernel, which is busy, not in doubt.
        self.journal.own()
        record = self.record()
        if record is MISSING:
            record = divergence.judge(self.journal, self.scope, self.tool, self.claim)
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
                self.effect.emit("call.replayed")
                error = result.error_of(self.journal, record, self.tool.terminal + self.tool.retry.retry_on)
                if not self._handled(record):  # what has handled it may tell it on, as it did before
                    error.add_note(f"(recorded: {record.tool} was not called again; call {record.id})")
                return self.effect.failed(record, Raised(error))
            case plan.Call() | plan.Reconcile() | plan.Ask() if self.scope.replayed_for:
                self.scope.refused.append(f"{self.claim.text} is not recorded as done, so it cannot be answered")
                raise NotSaved(self.scope.refused[-1], path="")
            case plan.Call(record):
                return (yield from self.effect.make(record))
            case plan.Reconcile(record) | plan.Ask(record) if at_work(self.key):
                self.effect.emit("call.in_doubt")
                why = f"{record.doubt or 'it was given up'}, and it is still at work"
                raise doubt.in_doubt(self.journal, record, why)
            case plan.Reconcile(record):
                return (yield from self.effect.reconcile(record))
            case plan.Ask(record):
                self.effect.emit("call.in_doubt")
                raise doubt.in_doubt(self.journal, record)
            case _:
                assert_never(decision)

    def _terminal(self, record: CallRecord | Missing) -> bool:
        """Whether the recorded error is one that the tool memoises. One without an end was between two tries."""
        if record is MISSING or record.status != "failed" or record.ended_at is None or not self.tool.terminal:
            return False
        return result.is_one_of(self.journal, record, self.tool.terminal)

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
        # Who has settled a call asks for it again.
        once = not (self.tool.each_call or self.tool.shared or record.resolved)
        if once and record.id in self.scope.made:
            self._collapse()
        else:
            self.effect.emit("call.replayed")
        if record.changed:
            mutation.warn_of_answer(self.tool.name, self.claim.text, record.changed)
        return Returned(result.value_of(self.journal, record), recorded=True)

    def _collapse(self) -> None:
        self.effect.emit("call.collapsed")
        if self.tool.name not in _collapsed:
            _collapsed.add(self.tool.name)
            warnings.warn(
                f"{self.claim.text} was called before in this step with the same arguments, and answers with that "
                "call's result; where each call should count by itself, use @tool(each_call=True)",
                CollapseWarning,
                stacklevel=user_level(),
            )
