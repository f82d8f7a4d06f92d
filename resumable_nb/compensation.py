"""``Compensation``: what a step's calls have done is undone, newest first, each once, over any number of crashes."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextvars
import dataclasses
import inspect
import threading
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from resumable_nb import codec, doubt, result, scope, undo
from resumable_nb.calls import course, in_flight
from resumable_nb.desk import Desk
from resumable_nb.doubt import Happened, NotHappened, spelled
from resumable_nb.drive import Course, Invoke, Outcome, Raised, Returned, at_work, drive, drive_async
from resumable_nb.errors import UsageError
from resumable_nb.events import Bus
from resumable_nb.journal import Journal
from resumable_nb.model import CallRecord, Missing, StepRecord, TaskRecord
from resumable_nb.scope import StepScope
from resumable_nb.tooldef import IDEMPOTENCY_KEY, Tool, asked_later


class Compensation:
    """Rolls back the calls of one task.

    That a rollback has begun is durable, and so is each undo: intent, effect, result, as of any call. The record of
    the undone call changes in the same transaction as that of the undo. ``load`` brings the notebook's pending
    variables back: there may be tools among them.
    """

    def __init__(self, journal: Journal, bus: Bus, *, desk: Callable[[], Desk], load: Callable[[], None]) -> None:
        self._journal = journal
        self._bus = bus
        self._desk = desk
        self._load = load
        self._lock = threading.RLock()
        self._open: str | None = None

    def noted(self, record: TaskRecord | Missing) -> None:
        """What the task's record says, when it was taken over or begun anew."""
        self._open = record.rollback if isinstance(record, TaskRecord) else None

    def refuse_calls(self) -> None:
        """Raises ``UsageError`` while a rollback is unfinished, in code that is no part of it."""
        if self._open is not None and not scope.current().undoing:
            what = f"step {self._open!r}" if self._open else "the whole task"
            raise UsageError(
                f"the rollback of {what} is not finished, so that no tool may be called: `%resumable compensate` goes "
                "on with it"
            )

    def run(self, step: str) -> tuple[str, ...]:
        """Undo what the step (``""``: the whole task) has done, the steps inside it included, newest end first.

        Returns the ids of the undone calls, in that order. Calls that the step was only answered, and that another one
        made, are not its own. Raises ``InDoubt`` for a call of which nobody knows whether there is anything to undo,
        and what an undo raises; then the rollback goes on with the next ``run``, ``go_on``, or entry of the step.
        """
        with self._lock:
            self._journal.own()
            undone = self.go_on()
            here = scope.current().id
            if here and within(here, step):
                raise UsageError(
                    f"step {here!r} is executing, and cannot be undone from inside: let it raise, with "
                    "on_error='compensate'"
                )
            calls = self._todo(step)
            if not calls:
                return undone
            self._journal.begin_rollback(step, self._affected(step, calls, here))
            self._open = step
            self._bus.emit("rollback.begun", step, calls=len(calls))
            return (*undone, *self._undo_all(step))

    def go_on(self) -> tuple[str, ...]:
        """Finish the rollback that is open, if there is one."""
        with self._lock:
            return () if self._open is None else self._undo_all(self._open)

    def ask(self, call: CallRecord) -> CallRecord:
        """Have the ``reconcile=`` of a call in doubt say what became of it. Raises ``InDoubt`` where it cannot."""
        with self._lock:
            self._journal.own()
            if in_flight(call):
                raise UsageError(f"{spelled(call)} is executing now: it is not in doubt")
            if call.status != "intent":
                raise UsageError(f"call {call.id} of {call.tool} is {call.status}, not in doubt: nothing was changed")
            if not call.undo:
                raise UsageError(
                    f"the arguments of {spelled(call)} were not kept (a secret never is, nor what cannot be saved or "
                    "is large): its reconcile=, if it has one, is asked when its cell runs again"
                )
            return self._settled(self._tool_to_ask(call), call, codec.loads_value(self._journal.blob(call.undo)))

    def _undo_all(self, step: str) -> tuple[str, ...]:
        undone = tuple(call.id for call in self._todo(step) if self._undo(call))
        self._journal.end_rollback()
        self._open = None
        self._bus.emit("rollback.ended", step, undone=undone)
        return undone

    def _todo(self, step: str) -> list[CallRecord]:
        """The calls that are to be undone, the one that ended last first."""
        found = [
            call
            for call in self._journal.calls()
            if call.compensate and not call.compensated and call.status != "failed" and within(call.step, step)
        ]
        return sorted(found, key=_ended, reverse=True)

    def _affected(self, step: str, calls: list[CallRecord], here: str) -> list[StepRecord]:
        """The steps that are not done any more, with those around them; not what is executing just now."""
        touched = {call.step for call in calls} | ({step} if step else set())
        return [
            record
            for record in self._journal.steps()
            if any(within(each, record.id) for each in touched) and not (here and within(here, record.id))
        ]

    def _undo(self, call: CallRecord) -> bool:
        """Whether there was something to undo."""
        if in_flight(call):
            raise UsageError(f"{spelled(call)} is executing now: wait for its end, then `%resumable compensate`")
        tool = self._tool_to_undo(call)
        arguments: dict[str, Any] = codec.loads_value(self._journal.blob(call.undo))
        if call.status == "intent":
            call = self._settled(tool, call, arguments)
            if call.status == "failed":
                return False
        assert tool.compensate is not None
        value = result.value_of(self._journal, call) if undo.takes(tool.compensate, undo.RESULT) else None
        given = undo.given(tool.compensate, call.compensate, tool.signature.parameters, arguments, value)
        with scope.entered(StepScope(call.step, undoing=call.id)):
            desk = self._desk()
            outcome = _driven(course(undoing(tool), desk, given.args, given.kwargs, undoes=call), desk, tool.compensate)
        if isinstance(outcome, Raised):
            outcome.error.add_note(
                f"{call.compensate} was to undo {spelled(call)}, call {call.id}: the rollback stopped there; "
                "`%resumable compensate` goes on with it"
            )
            raise outcome.error
        return True

    def _tool_to_ask(self, call: CallRecord) -> Tool:
        tool = self._tool(call, lambda tool: tool.reconcile is not None)
        if tool is None:
            raise UsageError(
                f"no tool {call.tool!r} with reconcile= is defined in this kernel: run the code that defines it, and "
                "ask again"
            )
        return tool

    def _tool(self, call: CallRecord, fits: Callable[[Tool], bool]) -> Tool | None:
        tool = asked_later(call.tool)
        if tool is None or not fits(tool):
            self._load()
            tool = asked_later(call.tool)
        return tool if tool is not None and fits(tool) else None

    def _tool_to_undo(self, call: CallRecord) -> Tool:
        tool = self._tool(call, lambda tool: tool.compensate is not None)
        if tool is not None:
            return tool
        raise UsageError(
            f"{spelled(call)} is to be undone by {call.compensate}, and no tool {call.tool!r} with compensate= is "
            "defined in this kernel: run the code that defines it, in a cell that is no step, then `%resumable "
            "compensate`"
        )

    def _settled(self, tool: Tool, call: CallRecord, arguments: Mapping[str, Any]) -> CallRecord:
        """A call in doubt, as its receiver says that it is. Raises ``InDoubt`` where nobody can say."""
        ask = tool.reconcile
        if at_work((call.identity, call.k)):  # what it is going to do cannot be known, nor undone yet
            raise doubt.in_doubt(self._journal, call, f"{call.doubt or 'it was given up'}, and it is still at work")
        if ask is None:
            raise doubt.in_doubt(self._journal, call)
        wanted = {name: each for name, each in tool.signature.parameters.items() if name != IDEMPOTENCY_KEY}
        lost = sorted((wanted.keys() - arguments.keys()) | set(filter(tool.is_secret, call.arguments)))
        if lost:
            raise doubt.in_doubt(self._journal, call, f"reconcile= needs {', '.join(lost)}, which was not kept")
        bound = inspect.BoundArguments(tool.signature, {name: arguments[name] for name in wanted})
        kwargs = dict(bound.kwargs)
        if tool.keyed and undo.takes(ask, IDEMPOTENCY_KEY):
            kwargs[IDEMPOTENCY_KEY] = call.idempotency_key
        asking = _asking(Invoke(ask, bound.args, kwargs, (call.identity, call.k), spelled(call)))
        match _driven(asking, self._desk_inside(call), ask):
            case Returned(Happened(value)):
                done, rows = result.with_value(self._journal, call, value, ())
            case Returned(NotHappened()):
                done, rows = (
                    msgspec.structs.replace(call, status="failed", error="reconciled: it did not happen", doubt=""),
                    {},
                )
            case Returned(_):
                raise doubt.in_doubt(self._journal, call)
            case Raised(error):
                if not isinstance(error, Exception):
                    raise error
                raise doubt.in_doubt(self._journal, call, f"reconcile= raised {result.one_line(error)}") from error
        settled = msgspec.structs.replace(done, resolved="reconcile", ended_at=self._journal.now())
        self._journal.finish(settled, rows)
        return settled

    def _desk_inside(self, call: CallRecord) -> Desk:
        with scope.entered(StepScope(call.step, undoing=call.id)):
            return self._desk()


def undoing(tool: Tool) -> Tool:
    """``compensate=`` as a tool: with the options that it has as one, but for what makes calls identical."""
    function = tool.compensate
    assert function is not None
    own = getattr(function, "tool", None)
    if not isinstance(own, Tool):
        own = Tool(name=tool.compensation, function=function)
    return dataclasses.replace(own, compensate=None, each_call=False, terminal=(), key=None, counted=None)


def within(step: str, outer: str) -> bool:
    """Whether a step is ``outer`` or inside it; everything is inside the task, ``""``."""
    return not outer or step == outer or step.startswith(f"{outer}/")


def _ended(call: CallRecord) -> tuple[float, int]:
    """Nobody knows when a call ended that somebody settled later: it counts with its last beginning."""
    known = call.ended_at is not None and not call.resolved
    return (call.ended_at or 0.0) if known else call.attempts[-1].started_at, call.n


def _asking(action: Invoke) -> Course:
    return (yield action)


def _driven(course: Course, desk: Desk, function: Callable[..., Any]) -> Outcome:
    """Carry out a course. Async functions get an event loop of their own: the caller may stand in one, and waits."""
    if not inspect.iscoroutinefunction(function):
        return drive(course, desk.sleep)
    outcome: concurrent.futures.Future[Outcome] = concurrent.futures.Future()
    context = contextvars.copy_context()

    def work() -> None:
        try:
            outcome.set_result(context.run(asyncio.run, drive_async(course, desk.sleep_async)))
        except BaseException as error:
            outcome.set_exception(error)

    threading.Thread(target=work, name="resumable-undo", daemon=True).start()
    return outcome.result()
