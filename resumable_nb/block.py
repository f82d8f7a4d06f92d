"""``with step(…)``: a named block that is skipped whole when it is done, in a cell, a function, a loop or a file."""

from __future__ import annotations

import ast
import contextvars
import sys
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, Literal, Protocol, Self, get_args

from resumable_nb import frame as frames
from resumable_nb import scope
from resumable_nb.errors import UsageError
from resumable_nb.execution import Execution, StepSpec
from resumable_nb.model import MISSING, Missing, OnError, StepOptions, step_path
from resumable_nb.runner import Runner
from resumable_nb.snapshot import Namespace
from resumable_nb.source import Body, analyse

BlockKind = Literal["cell", "class", "function", "generator"]


class Recording(Protocol):
    def stop(self) -> list[dict[str, Any]]: ...


class Host(Protocol):
    """What a block needs of the session."""

    runner: Runner
    base: Path
    specs: dict[str, StepSpec]

    def space_of(self, frame: FrameType, needed: Body | Collection[str] = ()) -> Namespace: ...
    def record(self) -> Recording | None: ...
    def replay(self, outputs: list[dict[str, Any]]) -> None: ...
    def announce(self, execution: Execution) -> None: ...


@dataclass(frozen=True, slots=True)
class Source:
    """The body of a block, as the user wrote it."""

    body: Body
    text: str
    names: frozenset[str] = frozenset()
    """The function's own variables, which generated code brings back."""
    kind: BlockKind = "cell"


@dataclass(slots=True)
class Restored:
    """What a skipped block hands to the code that was generated for it."""

    values: dict[str, Any] = field(default_factory=dict)
    deleted: Collection[str] = ()
    left: str = ""
    result: Any = None


_provider: list[Callable[[], Host]] = []
_sources: dict[str, Source] = {}
_inside: contextvars.ContextVar[tuple[StepContext, ...]] = contextvars.ContextVar("resumable_nb_blocks", default=())


def use(provider: Callable[[], Host]) -> None:
    """Say where blocks find the session (which does so when it is imported)."""
    _provider[:] = [provider]


def register(block_id: str, body: list[ast.stmt], names: frozenset[str], kind: BlockKind, text: str) -> None:
    """Keep the source of a block of a cell, before the cell runs."""
    _sources[block_id] = Source(analyse(body), text, names, kind)


def step(
    name: str,
    *,
    files: str | Collection[str] = (),
    makes: str | Collection[str] = (),
    keep: Collection[str] | None = None,
    drop: Collection[str] = (),
    always: bool = False,
    rerun: bool = False,
    output: bool = True,
    quiet: bool = False,
    on_error: OnError = "keep",
) -> StepContext:
    """A step as a ``with`` (or ``async with``) block: its body is skipped, and its state restored, when it is done.

    The name may be computed; where it comes again in one run of the enclosing step, the k-th time is a step of its own.
    ``files``: inputs that are watched. ``makes``: artefacts that must still exist. ``keep``, ``drop``: names to save,
    or not. ``always``: never skip. ``rerun``: run again this time. ``output=False``: do not record what it shows.
    ``quiet``: no message. ``on_error="compensate"``: when the body raises, its done tool calls are undone, newest
    first, by their ``compensate=``; an interrupt or an ``InDoubt`` undoes nothing. Raises ``TaskBusy``, ``Corrupt`` or
    ``StoreUnavailable`` on entry.

    In a notebook's cell the block may stand anywhere. In a ``.py`` file its body must begin on a line of its own, or be
    guarded: ``with step("x") as s:`` and ``if s.pending:``.
    """
    if not isinstance(name, str) or not name.strip():
        raise UsageError(f"step(…) needs a name, a text that is not blank: got {name!r}")
    if on_error not in get_args(OnError):
        raise UsageError(f"step({name!r}, on_error={on_error!r}): it is one of {', '.join(get_args(OnError))}")
    return StepContext(
        name,
        StepOptions(
            files=(files,) if isinstance(files, str) else tuple(files),
            makes=(makes,) if isinstance(makes, str) else tuple(makes),
            keep=None if keep is None else tuple(keep),
            drop=tuple(drop),
            always=always,
            rerun=rerun,
            output=output,
            quiet=quiet,
            on_error=on_error,
        ),
    )


class StepContext:
    """One entry into a block. ``pending``: its body has to run."""

    def __init__(self, name: str, options: StepOptions) -> None:
        self.name = name
        self.options = options
        self.block_id = ""
        self.restored = Restored()
        self._execution: Execution | None = None
        self._recording: Recording | None = None
        self._skipping: frames.Skipping | None = None
        self._left = ""
        self._result: Any | Missing = MISSING

    def __reduce__(self) -> tuple[Any, ...]:
        return StepContext, (self.name, self.options)

    def __repr__(self) -> str:
        state = "not entered" if self._execution is None else "pending" if self.pending else "restored"
        return f"<step {self.name} {state}>"

    @property
    def pending(self) -> bool:
        """True when the body has to run; only meaningful inside the block."""
        return self._execution is None or self._execution.pending

    def __enter__(self) -> Self:
        self._enter(sys._getframe(1))
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> bool:
        return self._exit(sys._getframe(1), error)

    async def __aenter__(self) -> Self:
        self._enter(sys._getframe(1))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> bool:
        return self._exit(sys._getframe(1), error)

    def leave(self, how: str, value: Any | Missing) -> None:
        """The body is about to be left by ``return``, ``break`` or ``continue``, or at its end (``""``)."""
        self._left, self._result = how, value

    def _enter(self, frame: FrameType) -> None:
        if self._execution is not None:
            raise UsageError(f"step({self.name!r}) was entered before: write step(…) in the with statement itself")
        host = _provider[0]()
        source = _sources.get(self.block_id) or self._in_file(frame)
        parent = scope.current()
        step_id = step_path(parent.id, self.name, parent.next_ordinal(f"{scope.STEP}{self.name}"))
        spec = StepSpec(step_id, self.name, "block", source.body, source.text, self.options, host.base)
        space = host.space_of(frame, source.body)
        always = "it yields values, so its body always runs" if source.kind == "generator" else ""
        execution = host.runner.enter(spec, space, replay=always)
        self._execution = execution
        host.specs[step_id] = spec
        host.announce(execution)
        if execution.pending:
            self._recording = host.record()
        else:
            self._skip(host, frame, space, execution, source)
        _inside.set((*_inside.get(), self))

    def _in_file(self, frame: FrameType) -> Source:
        """The body in plain Python. Raises ``UsageError``, also when it is to run, where it could not be skipped."""
        body = frames.with_statement(frame, self.name).body
        kind: BlockKind = "function" if frames.is_function(frame) else "cell"
        return Source(analyse(body), "\n".join(map(ast.unparse, body)), kind=kind)

    def _skip(self, host: Host, frame: FrameType, space: Namespace, execution: Execution, source: Source) -> None:
        assert execution.restored is not None
        names, deleted = execution.restored.names, execution.restored.deleted
        in_function = frames.is_function(frame)
        own = source.names if self.block_id and in_function else frames.own_names(frame)
        values = {name: space.variables[name] for name in names if name in space.variables}
        self.restored = Restored(
            {name: value for name, value in values.items() if name in own},
            [name for name in deleted if name in own],
            execution.record.left,
            execution.result,
        )
        if in_function or frame.f_locals is not frame.f_globals:
            frame.f_globals.update({name: value for name, value in values.items() if name not in own})
            for name in deleted:
                if name not in own:
                    frame.f_globals.pop(name, None)
        if not (self.block_id and in_function):  # generated code does it there
            frames.assign(frame, self.restored.values, self.restored.deleted)
        if not self.block_id and not frames.is_guarded(frames.with_statement(frame, self.name)):
            self._skipping = frames.skip_body(frame, self.name)
        host.replay(execution.outputs)

    def _exit(self, frame: FrameType, error: BaseException | None) -> bool:
        _inside.set(tuple(each for each in _inside.get() if each is not self))
        execution, self._execution = self._execution, None
        outputs = self._recording.stop() if self._recording is not None else []
        self._recording = None
        skipped = False
        if self._skipping is not None:
            skipped = self._skipping.restore(error)
            self._skipping = None
        if execution is None or not execution.pending:
            return skipped
        host = _provider[0]()
        failure = None if isinstance(error, GeneratorExit) and self._left else error
        host.runner.leave(
            execution,
            host.space_of(frame),
            error=failure,
            result=self._result,
            outputs=outputs,
            left=self._left,
            given=frames.given_names(frame),
        )
        return False


def enter_block(manager: Any, block_id: str) -> Any:
    """Generated code calls this with the context expression of a ``with``; what is not a step passes through."""
    if isinstance(manager, StepContext):
        manager.block_id = block_id
    return manager


def _innermost(block_id: str) -> StepContext | None:
    return next((each for each in reversed(_inside.get()) if each.block_id == block_id), None)


def pending(block_id: str) -> bool:
    """Whether the body of the innermost open block with this id has to run; True for what is not a step."""
    context = _innermost(block_id)
    return context is None or context.pending


def restored(block_id: str) -> Restored:
    """What the skipped block brings back to the function around it."""
    context = _innermost(block_id)
    return Restored() if context is None else context.restored


def leave(block_id: str, how: str, value: Any = MISSING) -> Any:
    """The body is about to be left; gives back the value that it returns."""
    context = _innermost(block_id)
    if context is not None:
        context.leave(how, value)
    return None if value is MISSING else value
