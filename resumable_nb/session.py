"""The composition root: opens store, lease and task, and hands the parts to each other.

Generated code in cells finds what it calls here: ``raise_problem``, ``cell_pending``, ``enter_block``, ``pending``,
``restored`` and ``leave``.
"""

from __future__ import annotations

import contextlib
import contextvars
import os
import socket
import sys
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from types import FrameType
from typing import Any, Final
from weakref import WeakValueDictionary

import msgspec

from resumable_nb import assigned, block, memory, scope, tools, track
from resumable_nb import frame as frames
from resumable_nb.block import enter_block, leave, pending, restored
from resumable_nb.cell import cell_pending, has_problem, raise_problem, set_cell, set_problem
from resumable_nb.compensation import Compensation
from resumable_nb.control import Control
from resumable_nb.events import Bus, Event, Listener
from resumable_nb.execution import Execution, StepSpec
from resumable_nb.fingerprint import Lookup
from resumable_nb.journal import Journal
from resumable_nb.lease import Lease
from resumable_nb.memory import Memory
from resumable_nb.model import StepKey, digest
from resumable_nb.output import Recorder
from resumable_nb.place import STORE_FOLDER, here, root, slug
from resumable_nb.runner import Runner
from resumable_nb.shell import Shell
from resumable_nb.snapshot import Namespace, Snapshots
from resumable_nb.source import Body
from resumable_nb.store.base import Store
from resumable_nb.store.disk import DiskStore
from resumable_nb.store.seal import user_key
from resumable_nb.task import Task
from resumable_nb.variables import Variables

__all__ = [
    "STORE_FOLDER", "Session", "Task", "cell_pending", "close", "current", "enter_block", "has_problem", "is_open",
    "leave", "open_session", "opened", "pending", "raise_problem", "restored", "set_cell", "set_due", "set_problem",
    "set_shell", "settle_due", "slug", "task",
]  # fmt: skip


def _is_special(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")


class Session:
    """One task, open in this process. Opening reads; the first step or tool call takes the lease."""

    def __init__(
        self,
        name: str,
        store: Store,
        *,
        live: dict[str, Any],
        base: Path,
        notebook: str = "",
        lazy: bool = False,
        hidden: Callable[[str], bool] = _is_special,
        bus: Bus | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.name = name
        self.store = store
        self.base = base
        self.notebook = notebook
        self.unnamed = False
        """Nobody named the task: it has its folder's name, and the user was not told so yet."""
        self.bus = bus or Bus()
        self.run = f"{time.time_ns() // 1_000_000:013d}-{uuid.uuid4().hex[:6]}"
        self.lease = Lease(store, run=self.run, bus=self.bus)
        self.control = Control(store, self.lease, self.bus, run=self.run, clock=clock)
        self.journal = Journal(store, self.lease, self.bus, clock=clock)
        self.space = Namespace(live, live, hidden, lazy)
        self.snapshots = Snapshots(store, self.bus, live, verify=True)
        self.provenance: dict[str, str] = {}
        self.specs: dict[str, StepSpec] = {}
        self.counts: Counter[str] = Counter()
        self.saved_s = 0.0
        self.replayed: set[str] = set()  # the calls that were answered from the record
        self.memory = Memory(self.journal, store, self.lease)
        self.compensation = Compensation(self.journal, self.bus, desk=self.desk, load=self.load_all)
        self.runner = Runner(
            self.journal,
            self.snapshots,
            self.bus,
            lease=self.lease,
            memory=self.memory,
            control=self.control,
            run=self.run,
            lookup=self.lookup,
            made=self._made,
            undo=self.compensation.run,
            go_on=self.compensation.go_on,
            clock=clock,
        )
        self._clock = clock
        self._lock = threading.RLock()
        self._desk: tools.Desk | None = None
        self.bus.listen(self._on_event)

    def lookup(self, space: Namespace) -> Lookup:
        return Variables(space, self.snapshots, self.provenance, self.runner.replays.load)

    def _made(self, space: Namespace, names: Collection[str], key: StepKey) -> None:
        """A value without content of its own counts by the step that changed it last, and by what went into that."""
        if space is self.space:
            self.provenance |= dict.fromkeys(names, digest(msgspec.json.encode(assigned.left_out(key))))

    def own(self) -> None:
        """Take the lease and open the task's record, unless that is done."""
        with self._lock:
            self.lease.ensure()

    def desk(self) -> tools.Desk:
        """What a tool call needs."""
        self.own()
        self.compensation.refuse_calls()
        if self._desk is None:
            task = self.journal.task_or_fail()
            self._desk = tools.Desk(
                journal=self.journal,
                incarnation=task.incarnation,
                branch=task.branch,
                run=self.run,
                key=user_key(),
                bus=self.bus,
                clock=self._clock,
                sleep=self.control.wait,
                sleep_async=self.control.wait_async,
                checkpoint=self.control.checkpoint,
                checkpoint_async=self.control.checkpoint_async,
            )
        return self._desk

    def keeper(self) -> track.Keeper:
        """What a loop needs."""
        return track.Keeper(self.journal, self.snapshots, self.bus, self.space_of, self.control, self._clock)

    def space_of(self, frame: FrameType, needed: Body | Collection[str] = ()) -> Namespace:
        """The variables that code in ``frame`` sees: the notebook's own, or a merged copy in a function or class.

        Of the pending variables the copy has those that are ``needed``: that a body can reach, or these names.
        """
        if frame.f_globals is self.space.live and frames.is_module(frame):
            return self.space
        if frame.f_globals is self.space.live:
            names = self.snapshots.reach(self.space, needed) if isinstance(needed, Body) else needed
            self.snapshots.materialise(self.space, names)
        variables = {**frame.f_globals, **frames.variables(frame)}
        return Namespace(variables, frame.f_globals, self.space.hidden, own=frames.own_names(frame))

    def load(self, body: Body) -> frozenset[str]:
        """Bring back the pending variables that this code can reach. Returns all names that it can reach."""
        names = self.snapshots.reach(self.space, body)
        self.snapshots.materialise(self.space, names)
        self.snapshots.presence.touch(names)
        return names

    def settle(self, body: Body) -> None:
        """Bring back also what only running a step's body can: as the first act of the cell that reaches it."""
        self.runner.replays.bring(self.space, body)

    def load_all(self) -> None:
        """Bring back every pending variable: afterwards nobody will know where they are."""
        self.snapshots.materialise(self.space, None)

    def use_shell(self, shell: Shell | None) -> None:
        if shell is not None:
            self.runner.replays.execute, self.runner.replays.can_execute = shell.execute, shell.can_execute

    def record(self) -> Recorder | None:
        return _shell[-1].record() if _shell else None

    def replay(self, outputs: list[dict[str, Any]]) -> None:
        if _shell:
            _shell[-1].replay(outputs)

    def announce(self, execution: Execution) -> None:
        if _shell:
            _shell[-1].announce(execution)

    def take_over(self, rows: dict[str, bytes]) -> None:
        """Put the rows of a task into a store that has none yet. Durable."""
        self.own()
        self.store.commit(rows, guard=self.lease.guard)
        self._desk = None
        self.memory.reload()

    def forget(self) -> None:
        """Delete all steps and calls of the task; the next use begins a new incarnation."""
        self.own()
        self.compensation.noted(self.journal.forget(self.name, self.notebook))
        self._desk = None
        self.memory.reload()
        self.snapshots.forget_pending(self.snapshots.pending())
        self.specs.clear()

    def close(self) -> None:
        """Give the lease back and close the store. The session opens again at the next use."""
        self.control.close()
        if self.lease.held:
            with contextlib.suppress(Exception):  # a store that is gone must not keep a kernel from ending
                self.journal.end_run(self.run)
            self.lease.release()
        self.store.close()

    def _on_event(self, event: Event) -> None:
        self.counts[event.kind] += 1
        match event.kind:
            case "lease.acquired":
                self.memory.reload()
                self.compensation.noted(self.journal.ensure_task(self.name, self.notebook))
                self.journal.begin_run(
                    self.run, pid=os.getpid(), host=socket.gethostname(), kernel=os.environ.get("JPY_SESSION_NAME", "")
                )
                self.control.owned()
            case "call.replayed":
                self.replayed.add(event.facts["id"])
            case "step.skipped":
                self.saved_s += float(event.facts.get("saved_s", 0.0))


_open: list[Session] = []
_made_beside: Final[WeakValueDictionary[str, Session]] = WeakValueDictionary()
"""Those of this process that may not be open, by their store."""
_shell: list[Shell] = []
_due: list[Body] = []
_listeners: list[Listener] = []


def set_shell(shell: Shell | None, *listeners: Listener) -> None:
    """Say which shell shows and records output (None: there is none), and who listens to each session's events."""
    _shell[:] = [] if shell is None else [shell]
    for session in _open:
        session.use_shell(shell)
    _listeners[:] = listeners
    for session in _open:
        for listener in listeners:
            session.bus.listen(listener)


def set_due(body: Body) -> None:
    """Say which code is about to run that reaches what only a replay brings back."""
    _due[:] = [body]


def settle_due() -> None:
    """Replay it now. Generated code calls this first."""
    while _due:
        current().settle(_due.pop())


_within: Final[contextvars.ContextVar[Session | None]] = contextvars.ContextVar("resumable_nb_session", default=None)


def current() -> Session:
    """The session that is worked on here, else the open one; a task without a name is opened under its folder's."""
    if (session := _within.get()) is not None:
        return session
    if not _open:
        open_session()
    return _open[-1]


def is_open() -> bool:
    return bool(_open)


def open_session(
    name: str | None = None,
    store: str | os.PathLike[str] | None = None,
    *,
    live: dict[str, Any] | None = None,
    lazy: bool | None = None,
    hidden: Callable[[str], bool] | None = None,
) -> Session:
    """Open a task in this process, in place of the one that was open.

    ``store`` is a folder (default: ``.resumable`` beside the notebook). Raises ``UsageError`` for anything else.
    """
    place = here(live)
    chosen = name or place.name
    folder = root(store, place.folder) / slug(chosen)
    earlier = _open[-1] if _open else None
    if earlier is not None:
        earlier.load_all()
        close()
        live = earlier.space.live if live is None else live
        lazy = earlier.space.lazy if lazy is None else lazy
        hidden = earlier.space.hidden if hidden is None else hidden
    bus = Bus()
    session = Session(
        chosen,
        DiskStore(folder, bus=bus),
        live=vars(sys.modules["__main__"]) if live is None else live,
        base=place.folder,
        notebook=place.notebook,
        lazy=bool(lazy),
        bus=bus,
        hidden=_is_special if hidden is None else hidden,
    )
    for listener in _listeners:
        session.bus.listen(listener)
    if earlier is not None:
        session.provenance |= earlier.provenance
        if earlier.store.uri == session.store.uri:
            session.snapshots.left.take_over(earlier.snapshots.left)
    session.unnamed = name is None and not place.notebook
    session.use_shell(_shell[-1] if _shell else None)
    _open.append(session)
    _serve()  # anew in a process that was forked after the import
    return session


def close() -> None:
    """Close the open session, if there is one."""
    while _open:
        _open.pop().close()


def task(name: str | None = None, *, store: str | os.PathLike[str] | None = None) -> Task:
    """The open task, or the one of this name, opened (in place of the one that was open)."""
    if _open and (name is None or name == current().name) and store is None:
        return Task(current())
    return Task(open_session(name, store))


@contextlib.contextmanager
def opened(name: str, store: str | os.PathLike[str] | None = None, **options: Any) -> Iterator[Session]:
    """A session for the block; closed at its end."""
    session = open_session(name, store, **options)
    try:
        yield session
    finally:
        session.close()
        _open.remove(session)


def beside(name: str, store: str | os.PathLike[str] | None = None) -> Session:
    """A session for this task that leaves the open one where it is; the one that this process has, if there is one."""
    place = here()
    folder = root(store, place.folder) / slug(name)
    fresh = DiskStore(folder, bus=(bus := Bus()))
    # A task that was left running something has the lease; so has one that was asked to settle a call.
    for session in (*_open, *(each for each in _made_beside.values() if each.lease.held)):
        if session.store.uri == fresh.uri:
            fresh.close()
            return session
    live = _open[-1].space.live if _open else vars(sys.modules["__main__"])
    session = Session(name, fresh, live=live, base=place.folder, notebook=place.notebook, bus=bus)
    for listener in _listeners:
        bus.listen(listener)
    _made_beside[fresh.uri] = session
    return session


@contextlib.contextmanager
def working_on(session: Session) -> Iterator[Session]:
    """Have the steps, tools and loops of the block belong to this session; closed afterwards, unless it was open.

    Code in the block's context knows that, whatever runs beside it; worker threads without a context belong to the
    session that was entered last.
    """
    token, opened_here = _within.set(session), session not in _open
    _open.append(session)
    try:
        with scope.entered(scope.StepScope()):
            yield session
    finally:
        del _open[len(_open) - 1 - _open[::-1].index(session)]
        _within.reset(token)
        if opened_here:
            session.close()


def _serve() -> None:
    """Say where blocks, tools and loops of this process find the session."""
    block.use(current)
    tools.use(lambda: current().desk())
    track.use(lambda: current().keeper())
    memory.use(lambda: current().memory)


_serve()
