"""Which tasks are open in this process, and which of them code belongs to.

Generated code in cells finds what it calls here: ``raise_problem``, ``cell_pending``, ``enter_block``, ``pending``,
``restored`` and ``leave``.
"""

from __future__ import annotations

import contextlib
import contextvars
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any, Final
from weakref import WeakValueDictionary

from resumable_nb import block, memory, scope, tools, track
from resumable_nb.block import enter_block, leave, pending, restored
from resumable_nb.cell import cell_pending, has_problem, raise_problem, set_cell, set_problem
from resumable_nb.composition import Session, is_special
from resumable_nb.events import Bus, Listener
from resumable_nb.place import STORE_FOLDER, here, root, slug
from resumable_nb.shell import Shell
from resumable_nb.source import Body
from resumable_nb.store.disk import DiskStore
from resumable_nb.task import Task

__all__ = [
    "STORE_FOLDER", "Session", "Task", "cell_pending", "close", "current", "enter_block", "has_problem", "is_open",
    "leave", "open_session", "opened", "pending", "raise_problem", "restored", "set_cell", "set_due", "set_problem",
    "set_shell", "settle_due", "slug", "task",
]  # fmt: skip

_open: list[Session] = []
_made_beside: Final[WeakValueDictionary[str, Session]] = WeakValueDictionary()
"""Those of this process that may not be open, by their store."""
_shell: list[Shell] = []
_due: list[Body] = []
_listeners: list[Listener] = []


def set_shell(shell: Shell | None, *listeners: Listener) -> None:
    """Say which shell shows and records output (None: there is none), and who listens to each session's events."""
    _shell[:] = [] if shell is None else [shell]
    for session in (*_open, *_made_beside.values()):
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
        hidden=is_special if hidden is None else hidden,
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
        current().unnamed = current().unnamed and name is None
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
    session.use_shell(_shell[-1] if _shell else None)
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
