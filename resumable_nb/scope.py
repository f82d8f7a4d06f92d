"""Which step is executing, for the calls and loops inside it: in this thread or task, else in the process."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import threading
import weakref
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from resumable_nb.errors import RAISED_BY, chain
from resumable_nb.model import CallRecord, StepKey

NO_KEY: Final = StepKey(source="")

STEP: Final = "step "
"""What the ordinals of nested steps are counted under, before the step's name."""


@dataclass(frozen=True, slots=True)
class Strand:
    """The thread and, in async code, the task that runs a step's body: what it asks for has an order."""

    thread: int = field(default_factory=threading.get_ident)
    task: weakref.ref[asyncio.Task[Any]] | None = field(default_factory=lambda: _task_ref())

    def is_here(self) -> bool:
        """Whether the running code is this strand, or the only task of a loop that this strand waits for."""
        if self.thread != threading.get_ident():
            return False
        here = _task()
        own = None if self.task is None else self.task()
        if here is None or here is own:
            return True
        loop = here.get_loop()
        return (own is None or own.get_loop() is not loop) and len(asyncio.all_tasks(loop)) == 1


def _task() -> asyncio.Task[Any] | None:
    try:
        return asyncio.current_task()
    except RuntimeError:  # no loop is running in this thread
        return None


def _task_ref() -> weakref.ref[asyncio.Task[Any]] | None:
    task = _task()
    return None if task is None else weakref.ref(task)


class Failures:
    """The failed calls of one execution, and which of their errors its code did not handle."""

    def __init__(self, own: Strand) -> None:
        self._own = own
        self._lock = threading.Lock()
        self._failed: set[str] = set()
        self._over = False
        self._strands: weakref.WeakKeyDictionary[object, set[str]] = weakref.WeakKeyDictionary()
        self._last: set[str] = set()
        """Calls that failed beside the body, and after which neither their thread or task nor the body went on."""

    def asked(self) -> None:
        """The running thread or task asks for a call."""
        beside = self._beside()
        with self._lock:
            self._last -= self._last if beside is None else self._strands.get(beside, set())

    def add(self, error: BaseException, call: str) -> bool:
        """The call of that id raises ``error``, in the running thread or task.

        Returns whether the body has ended by an error already: nothing can have handled this one.
        """
        # Not by its id(): an error that was handled is gone, and the next one may lie at its address.
        error.__dict__[RAISED_BY] = call
        beside = self._beside()
        with self._lock:
            self._failed.add(call)
            if beside is not None:
                self._last.add(call)
                self._strands.setdefault(beside, set()).add(call)
            return self._over

    def unhandled(self, error: BaseException) -> set[str]:
        """The calls whose errors have ended the body, which raised ``error``.

        Those that it comes from; and, since ``gather`` and ``map`` raise one of many errors, those of other threads and
        tasks after which neither these nor the body itself asked for anything.
        """
        with self._lock:
            self._over = True
            raised = {each.__dict__.get(RAISED_BY) for each in chain(error)}
            return {call for call in self._failed if call in raised or call in self._last}

    def _beside(self) -> object | None:
        """What is running, unless it is what runs the body."""
        return None if self._own.is_here() else _task() or threading.current_thread()


@dataclass(slots=True, eq=False)
class StepScope:
    """One execution of a step's body (``id == ""``: code outside any step, from one cell)."""

    id: str = ""
    version: int = 1
    key: StepKey = NO_KEY
    """What the step depends on, as it was when the body first began; a loop that goes on from a kept turn says so."""
    continuing: bool = False
    """The body runs again after a crash, a stop or an error: recorded failures that it handled replay."""
    replayed_for: str = ""
    """The names for which a finished body runs once more: no call that is not recorded may be made."""
    refused: list[str] = field(default_factory=list)
    """Why such calls were not made then, whatever the body has made of it."""
    unchanged: bool = False
    """It is the code that ran before, from the same state: it asks for the same calls, in the same order."""
    reseeded: bool = False
    """A random generator stands elsewhere than when the body first began."""
    first_call: int = 0
    """Calls with a lower number were made by other code."""
    excused: int = 0
    """Calls with a lower number belong to kept turns of a loop, which do not run again."""
    claims: Counter[str] = field(default_factory=Counter)
    """How many calls of each ``each_call`` identity this execution has asked for."""
    returned: set[tuple[str, int]] = field(default_factory=set)
    """Claims that were given back while later ones stood."""
    made: set[str] = field(default_factory=set)
    """Ids of the calls that this execution itself has made: an identical one collapses into them."""
    claimed: set[str] = field(default_factory=set)
    """Places of the calls that this execution has asked for, made or answered."""
    unclaimed: list[CallRecord] | None = None
    """Recorded calls that it has not asked for yet, in order; ``None`` until somebody needs to know."""
    warned: set[str] = field(default_factory=set)
    """Tools of which this execution was told that they have diverged."""
    strand: Strand = field(default_factory=Strand)
    ordinals: Counter[str] = field(default_factory=Counter)
    """How often each nested step or loop name has been entered in this execution."""
    undoing: str = ""
    """Id of the call that is being undone here."""
    failures: Failures = field(init=False)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.failures = Failures(self.strand)

    def next_ordinal(self, name: str) -> int:
        """0 for the first entry of ``name``, 1 for the second, and so on."""
        with self.lock:
            k = self.ordinals[name]
            self.ordinals[name] += 1
            return k

    def claim(self, identity: str) -> int:
        """Which of the calls of an ``each_call`` identity the next one is."""
        with self.lock:
            k = self.claims[identity]
            self.claims[identity] += 1
            return k

    def give_back(self, identity: str, k: int) -> None:
        """That call was not begun. Its number is used again when all after it are given back too, so none is twice."""
        with self.lock:
            self.returned.add((identity, k))
            while (last := (identity, self.claims[identity] - 1)) in self.returned:
                self.returned.remove(last)
                self.claims[identity] -= 1


_here: contextvars.ContextVar[StepScope | None] = contextvars.ContextVar("resumable_nb_step", default=None)
_outer: list[StepScope] = [StepScope()]
"""Those of the main thread. Worker threads start with an empty context, and belong to the last one here; tasks have a
context that knows their step, so that two which overlap are not taken to be nested."""


def current() -> StepScope:
    """The executing step's scope."""
    return _here.get() or _outer[0 if _in_main_thread() else -1]


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


def reset() -> None:
    """Begin a new execution outside any step (a cell starts).

    Claims go on counting: there is no skip outside a step, so the k-th call of a kernel's life is the k-th record.
    """
    _outer[:] = [StepScope(claims=_outer[0].claims, returned=_outer[0].returned)]


class Entry:
    """A scope that is entered now and left later, possibly from another callback (a cell's start and end)."""

    def __init__(self, scope: StepScope) -> None:
        self._scope, self._around = scope, current()
        self._token = _here.set(scope)
        if _in_main_thread():
            _outer.append(scope)

    def leave(self) -> None:
        self._around.claimed |= self._scope.claimed
        if self._scope in _outer:
            _outer.remove(self._scope)
        try:
            _here.reset(self._token)
        except ValueError:  # left in another context than it was entered in: an async cell
            if _here.get() is self._scope:
                _here.set(None)


@contextlib.contextmanager
def entered(scope: StepScope) -> Iterator[StepScope]:
    """Make ``scope`` the current one for the block."""
    entry = Entry(scope)
    try:
        yield scope
    finally:
        entry.leave()
