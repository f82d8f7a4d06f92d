"""``Task("name", steps=[…])``: plain functions as the steps of a task, in a script, a module or a notebook."""

from __future__ import annotations

import asyncio
import inspect
import os
import time
import uuid
from collections import Counter
from collections.abc import Awaitable, Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import msgspec

from resumable_nb import session as sessions
from resumable_nb import state
from resumable_nb.errors import UsageError
from resumable_nb.events import Event
from resumable_nb.execution import Execution, StepSpec
from resumable_nb.model import MISSING, StepOptions, digest, step_path
from resumable_nb.snapshot import Namespace
from resumable_nb.source import Body

OWN: Final = ("task", "memory")
"""Parameters that are given these, and not the result of the step before."""
GIVEN: Final = "value of run"
"""What the value that ``run`` is given is called among the inputs: no variable has that name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SavePolicy:
    """When finished steps are committed: after so many, or when so many seconds have gone since the last time.

    Without either only when the task pauses (``on_pause``), when a step raises (``on_error``), and always at the end.
    Whatever it says: tool calls are durable at once, and steps that are not committed run again, calls answered.
    """

    every: int | None = None
    every_s: float | None = None
    on_pause: bool = True
    on_error: bool = True

    def __post_init__(self) -> None:
        for name, value in (("every", self.every), ("every_s", self.every_s)):
            if value is not None and value <= 0:
                raise UsageError(f"SavePolicy({name}={value!r}): a number above 0")


Save = SavePolicy | Literal["step", "pause", "error"]
_NAMED: Final[dict[str, SavePolicy]] = {
    "step": SavePolicy(every=1),
    "pause": SavePolicy(on_error=False),
    "error": SavePolicy(on_pause=False),
}


@dataclass(frozen=True, slots=True)
class Function:
    """A step: a function, and which parameter is given the result of the step before (``""``: none)."""

    id: str
    function: Callable[..., Any]
    first: str
    needed: bool
    own: tuple[str, ...]

    @property
    def is_async(self) -> bool:
        return inspect.iscoroutinefunction(self.function)


@dataclass(slots=True)
class Turn:
    """One step on its way."""

    step: Function
    space: Namespace
    execution: Execution
    value: Any

    def call(self, task: Task) -> Any:
        own = {"task": task, "memory": task.memory}
        kwargs = {name: own[name] for name in self.step.own}
        args = (self.value,) if self.step.first and self.value is not MISSING else ()
        return self.step.function(*args, **kwargs)


Course = Generator[Turn, Any, Any]


class Task(sessions.Task):
    """A task whose steps are functions, sync or async, run one after another by ``run()`` or ``await arun()``.

    A function is given the result of the one before as its first parameter (the first one: the value that ``run`` is
    given), if it has a parameter; parameters called ``task`` and ``memory`` are given those. A step is known by its
    name, its code with all that it reaches, and the value that it is given. Done, it is skipped, and its result comes
    back; what a function changes elsewhere does not. A value of ``run`` that cannot be compared (a generator, an open
    connection) makes the first step run each time. ``save`` says when finished steps are committed.

    Where it is made nothing happens yet. The task lies in ``store``, by default in the folder ``.resumable`` beside
    the notebook, or in the working folder.
    """

    def __init__(
        self,
        name: str,
        steps: Sequence[Callable[..., Any]] = (),
        *,
        store: str | os.PathLike[str] | None = None,
        save: Save = "step",
    ) -> None:
        policy = _NAMED.get(save) if isinstance(save, str) else save
        if not isinstance(policy, SavePolicy):
            raise UsageError(f"Task(save={save!r}): there is {', '.join(map(repr, _NAMED))}, or SavePolicy(…)")
        names: Counter[str] = Counter()
        self._functions = tuple(_function(each, names) for each in steps)
        self._policy = policy
        self._session = sessions.beside(name, store)
        super().__init__(self._session)

    @property
    def step_names(self) -> tuple[str, ...]:
        """What the steps are called in ``steps()``, in order."""
        return tuple(each.id for each in self._functions)

    @classmethod
    def from_dict(
        cls,
        data: dict[str, Any],
        steps: Sequence[Callable[..., Any]] = (),
        *,
        store: str | os.PathLike[str] | None = None,
        save: Save = "step",
    ) -> Task:
        """The task of ``to_dict``'s data, in a store that has none of its name.

        Its messages and calls are there; calls are answered where their results are in the data, and are never made
        again where they are done. Its steps are unfinished, because their variables are not in the data: they run
        again, their calls answered. Calls cannot be undone there. Raises ``UsageError`` where it cannot be taken.
        """
        task = cls(data["task"]["name"] if data.get("task") else "none", steps, store=store, save=save)
        session = task._session
        rows = state.rows_of(data, session.journal)
        if session.journal.task() is not MISSING:
            raise UsageError(
                f"there is a task {task.name!r} in {session.store.uri} already: take it into another store"
            )
        with sessions.working_on(session):
            session.take_over(rows)
        return task

    def run(self, value: Any = MISSING) -> Any:
        """Run what is not done, and return the last step's result. ``value`` is given to the first step.

        Raises what a step raises; the next ``run`` goes on from there. Afterwards the task is completed.
        """
        if any(each.is_async for each in self._functions):
            try:
                asyncio.get_running_loop()
            except RuntimeError:
                return asyncio.run(self.arun(value))
            raise UsageError(f"task {self.name!r} has async steps, and an event loop is running: `await task.arun()`")
        with sessions.working_on(self._session):
            course, answer = self._course(value), _Answer()
            while (turn := answer.next(course)) is not None:
                try:
                    answer = _Answer(turn.call(self))
                except BaseException as error:
                    answer = _Answer(error=error)
            return answer.result

    async def arun(self, value: Any = MISSING) -> Any:
        """As ``run``, in a running event loop. Sync steps hold it up."""
        with sessions.working_on(self._session):
            course, answer = self._course(value), _Answer()
            while (turn := answer.next(course)) is not None:
                try:
                    result = turn.call(self)
                    answer = _Answer(await result if isinstance(result, Awaitable) else result)
                except BaseException as error:
                    answer = _Answer(error=error)
            return answer.result

    def _course(self, value: Any) -> Course:
        """Decides and records; yields each function that has to run, and is sent its result."""
        if not self._functions:
            raise UsageError(f"task {self.name!r} has no steps: Task({self.name!r}, steps=[…])")
        saver = _Saver(self._session, self._policy)
        with saver:
            label = GIVEN
            # Where it has no content, nobody can tell whether it is the same one: then the step runs.
            self._session.provenance[label] = uuid.uuid4().hex
            for step in self._functions:
                turn = self._enter(step, label, value)
                if turn.execution.pending:
                    recording = self._session.record()
                    error: BaseException | None = None
                    try:
                        value = yield turn
                    except BaseException as raised:
                        error = raised
                    outputs = recording.stop() if recording is not None else []
                    if error is not None:
                        self._session.runner.leave(turn.execution, turn.space, error=error)
                        raise error
                    self._session.runner.leave(
                        turn.execution, turn.space, result=value, outputs=outputs, left="return", hold=True
                    )
                    saver.finished()
                else:
                    self._session.replay(turn.execution.outputs)
                    value = turn.execution.result
                label = f"result of {step.id}"
                made_by = digest(msgspec.json.encode(turn.execution.key))
                self._session.provenance[label] = made_by
        self._completed()
        return value

    def _enter(self, step: Function, label: str, value: Any) -> Turn:
        if step.needed and value is MISSING:
            raise UsageError(f"step {step.id!r} needs a value for {step.first!r}: task.run(value)")
        session = self._session
        name = getattr(step.function, "__name__", step.id)
        variables = {name: step.function}
        if step.first and value is not MISSING:
            variables[label] = value
        space = Namespace(variables, session.space.live, lambda _: False)
        body = Body(normal="", reads=frozenset(variables))
        spec = StepSpec(step.id, step.id, "function", body, _text(step.function), StepOptions(keep=()), session.base)
        execution = session.runner.enter(spec, space)
        if not execution.pending and execution.result is MISSING:
            execution = session.runner.enter(spec, space, replay="its result could not be saved")
        session.specs[step.id] = spec
        session.announce(execution)
        return Turn(step, space, execution, value)

    def _completed(self) -> None:
        record = self._session.journal.task_or_fail()
        if record.completed_at is None:
            self._session.journal.complete_task()


class _Answer:
    """What a step's function came to, handed to the course; at its end, the result of all."""

    def __init__(self, value: Any = None, error: BaseException | None = None) -> None:
        self._value, self._error = value, error
        self.result: Any = None

    def next(self, course: Course) -> Turn | None:
        try:
            return course.send(self._value) if self._error is None else course.throw(self._error)
        except StopIteration as stop:
            self.result = stop.value
            return None


class _Saver:
    """Commits finished steps when the policy says so."""

    def __init__(self, session: sessions.Session, policy: SavePolicy) -> None:
        self._session, self._policy = session, policy
        self._count = 0
        self._saved_s = time.monotonic()
        self._forget: Callable[[], None] = lambda: None

    def __enter__(self) -> _Saver:
        if self._policy.on_pause:
            self._forget = self._session.bus.listen(self._paused)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._forget()
        if kind is None or self._policy.on_error:
            self._save()
        else:
            self._session.runner.held.discard()
            self._session.memory.reload()

    def finished(self) -> None:
        policy = self._policy
        self._count += 1
        gone_s = time.monotonic() - self._saved_s
        if (policy.every and self._count >= policy.every) or (policy.every_s and gone_s >= policy.every_s):
            self._save()

    def _paused(self, event: Event) -> None:
        if event.kind == "control.paused":
            self._save()

    def _save(self) -> None:
        self._session.runner.held.save()
        self._count, self._saved_s = 0, time.monotonic()


def _function(function: Callable[..., Any], names: Counter[str]) -> Function:
    """Raises ``UsageError`` for what cannot be a step."""
    name = getattr(function, "__name__", "") or getattr(getattr(function, "func", None), "__name__", "")
    if not callable(function) or not name or name == "<lambda>":
        raise UsageError(f"Task(steps=…): a step is a function with a name, and this is {function!r}")
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except ValueError:
        parameters = [inspect.Parameter("value", inspect.Parameter.POSITIONAL_ONLY)]
    own = tuple(each.name for each in parameters if each.name in OWN)
    rest = [each for each in parameters if each.name not in OWN]
    takes = [each for each in rest if each.kind not in (each.KEYWORD_ONLY, each.VAR_KEYWORD)]
    first = takes[0].name if takes else ""
    variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    for each in rest:
        if each.name != first and each.default is each.empty and each.kind not in variadic:
            raise UsageError(
                f"step {name!r} needs {each.name!r}: a step is given one value, the result of the step before, and "
                "what is called task or memory; give it a default"
            )
    needed = bool(takes) and takes[0].default is takes[0].empty and takes[0].kind not in variadic
    names[name] += 1
    return Function(step_path("", name, names[name] - 1), function, first, needed, own)


def _text(function: Callable[..., Any]) -> str:
    try:
        return inspect.getsource(function)
    except (OSError, TypeError):
        return ""


__all__ = ["SavePolicy", "Task"]
