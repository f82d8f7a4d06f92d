"""The two ways to carry out what a call's course asks for: in this thread, or in this task.

A *course* is a generator that decides and journals; it yields each action that takes time, and is sent its outcome.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import contextvars
import functools
import inspect
import os
import threading
import time
from collections.abc import Awaitable, Callable, Generator, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar, assert_never

from resumable_nb.errors import UsageError

T = TypeVar("T")
Key = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Returned:
    """A function, or a whole call, has this value. ``recorded``: from the record, nothing was called."""

    value: Any
    recorded: bool = False


@dataclass(frozen=True, slots=True)
class Raised:
    """It raised. ``timed_out``: it was given up after ``timeout_s``."""

    error: BaseException
    timed_out: bool = False


Outcome = Returned | Raised


def value_of(outcome: Outcome) -> Any:
    """The value; raises what was raised."""
    __tracebackhide__ = True  # IPython leaves the frame out: the traceback is the user's
    if isinstance(outcome, Raised):
        error = outcome.error
        del outcome
        try:
            raise error
        finally:
            del error  # else the traceback holds this frame, and this frame the error
    return outcome.value


@dataclass(slots=True, eq=False)
class Flight:
    """A call that is being made now, in some thread or task of this process."""

    thread: int = field(default_factory=threading.get_ident)
    landed: concurrent.futures.Future[None] = field(default_factory=concurrent.futures.Future)


@dataclass(frozen=True, slots=True)
class Invoke:
    """Run a user's function; the answer is its outcome."""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    key: Key
    text: str
    timeout_s: float | None = None
    late: Callable[[Outcome], None] = lambda _: None
    """Told the outcome of a function that nobody waited for any more; in any thread."""


@dataclass(frozen=True, slots=True)
class Wait:
    """Wait until an identical call that is under way has ended."""

    flight: Flight
    key: Key
    text: str


@dataclass(frozen=True, slots=True)
class Write:
    """Commit something to the journal; the answer is what that returned or raised, and comes when it is over."""

    commit: Callable[[], Any]


@dataclass(frozen=True, slots=True)
class Pause:
    """Wait before the next try."""

    seconds: float


Action = Invoke | Write | Wait | Pause
Course = Generator[Action, Outcome, Outcome]

DONE: Final = Returned(None)

COMMITTERS: Final = 32

_driven: Final[set[Course]] = set()
"""The courses that tasks of this process carry out now."""

_making: contextvars.ContextVar[tuple[Key, ...]] = contextvars.ContextVar("resumable_nb_making", default=())


def inside_a_tool() -> Key | None:
    """The call whose function is being executed here, the innermost one."""
    making = _making.get()
    return making[-1] if making else None


_at_work: Final[dict[Key, int]] = {}
"""Calls whose function a thread of its own or a worker is executing, and how many; perhaps nobody waits any more."""
_counting: Final = threading.Lock()


def at_work(key: Key) -> bool:
    """Whether a thread or worker is executing the call, though nobody may wait for it any more."""
    return key in _at_work


def drive(
    course: Course,
    sleep: Callable[[float], None] = time.sleep,
    invoke: Callable[[Invoke], Outcome] | None = None,
) -> Outcome:
    """Carry out a course in this thread; ``invoke`` runs the functions elsewhere."""
    # Closed here and now, because a traceback that the shell keeps would keep the course, and its flight, open.
    with contextlib.closing(course):
        try:
            action = next(course)
            while True:
                action = course.send(_perform(action, sleep, invoke or run_here))
        except StopIteration as stop:
            return _outcome(stop)


async def drive_async(course: Course, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep) -> Outcome:
    """Carry out a course in this task."""
    _driven.add(course)
    with contextlib.closing(course), _removed(course):
        try:
            await asyncio.sleep(0)  # tasks that were made with this one begin too, so that their commits share a sync
            action = next(course)
            while True:
                action = course.send(await _perform_async(action, sleep))
        except StopIteration as stop:
            return _outcome(stop)


@contextlib.contextmanager
def _removed(course: Course) -> Iterator[None]:
    try:
        yield
    finally:
        _driven.discard(course)


def _outcome(stop: StopIteration) -> Outcome:
    outcome: Outcome = stop.value
    return outcome


def run_here(action: Invoke) -> Outcome:
    """Call the function in this thread, or in one that can be given up."""
    return _run(action) if action.timeout_s is None else _run_in_thread(action)


def _perform(action: Action, sleep: Callable[[float], None], invoke: Callable[[Invoke], Outcome]) -> Outcome:
    match action:
        case Invoke():
            return invoke(action)
        case Write(commit):
            return _commit(commit)
        case Wait(flight=flight, key=key):
            # Whoever waits for a flight of its own thread waits for ever: a call inside itself, or an async twin.
            if key in _making.get() or (flight.thread == threading.get_ident() and not flight.landed.done()):
                raise _inside_itself(action)
            flight.landed.result()
            return DONE
        case Pause(seconds):
            sleep(seconds)
            return DONE
        case _:
            assert_never(action)


async def _perform_async(action: Action, sleep: Callable[[float], Awaitable[None]]) -> Outcome:
    match action:
        case Invoke():
            return await _run_async(action)
        case Write(commit) if len(_driven) == 1:
            return _commit(commit)
        case Write(commit):
            return await _commit_aside(commit)
        case Wait(flight=flight, key=key):
            if key in _making.get():
                raise _inside_itself(action)
            await _landing(flight)
            return DONE
        case Pause(seconds):
            await sleep(seconds)
            return DONE
        case _:
            assert_never(action)


def _commit(commit: Callable[[], Any]) -> Outcome:
    try:
        return Returned(commit())
    except BaseException as error:
        return Raised(error)


async def _commit_aside(commit: Callable[[], Any]) -> Outcome:
    """Off the loop, where other calls wait too: their commits then share a sync. A cancellation waits for its end."""
    run = functools.partial(contextvars.copy_context().run, _commit, commit)
    committed = asyncio.get_running_loop().run_in_executor(_committers(os.getpid()), run)
    cancelled: asyncio.CancelledError | None = None
    while not committed.done():
        try:
            await asyncio.wait([committed])
        except asyncio.CancelledError as error:
            cancelled = error
    return committed.result() if cancelled is None else Raised(cancelled)


@functools.cache
def _committers(pid: int) -> concurrent.futures.ThreadPoolExecutor:  # noqa: ARG001  # a fork has no threads
    """Not the loop's own threads: a user may have them all wait for a call that is to be committed."""
    return concurrent.futures.ThreadPoolExecutor(COMMITTERS, thread_name_prefix="resumable_nb commit")


async def _landing(flight: Flight) -> None:
    """Wait for a flight of any thread. Not ``wrap_future``: cancelling the waiter must not touch the flight."""
    loop = asyncio.get_running_loop()
    landed = loop.create_future()

    def wake() -> None:
        if not landed.done():
            landed.set_result(None)

    def tell(_: object) -> None:
        with contextlib.suppress(RuntimeError):  # the loop was closed meanwhile: nobody waits any more
            loop.call_soon_threadsafe(wake)

    flight.landed.add_done_callback(tell)
    await landed


def _inside_itself(action: Wait) -> UsageError:
    return UsageError(f"{action.text} is called while the same call waits for it to return: give it another argument")


def _run(action: Invoke) -> Outcome:
    token = _making.set((*_making.get(), action.key))
    try:
        value = action.function(*action.args, **action.kwargs)
    except BaseException as error:
        return Raised(_from_user(error))
    finally:
        _making.reset(token)
    if inspect.iscoroutine(value):
        value.close()
        return Raised(UsageError(f"{action.text} returned a coroutine, so nothing was done: @tool goes on `async def`"))
    return Returned(value)


def _run_in_thread(action: Invoke) -> Outcome:
    """With a time limit. Nothing can stop the thread: the caller goes on, and the outcome is unknown."""
    result: concurrent.futures.Future[Outcome] = concurrent.futures.Future()
    context = contextvars.copy_context()

    def work() -> None:
        try:
            result.set_result(context.run(_run, action))
        finally:
            _count(action.key, -1)

    _count(action.key, 1)
    thread = threading.Thread(target=work, name="resumable-tool", daemon=True)
    try:
        thread.start()
        done, _ = concurrent.futures.wait([result], action.timeout_s)
        if done:
            thread.join()
    except BaseException as error:
        if thread.ident is None:  # it never began
            _count(action.key, -1)
        result.add_done_callback(lambda ended: action.late(ended.result()))
        return Raised(error)
    if done:
        return result.result()
    result.add_done_callback(lambda ended: action.late(ended.result()))
    return _too_late(action)


def given_up(action: Invoke, future: concurrent.futures.Future[T], outcome_of: Callable[[T], Outcome]) -> None:
    """Nobody waits any more for a function that another process executes: it is at work until ``future`` is done."""

    def ended(done: concurrent.futures.Future[T]) -> None:
        try:
            if not done.cancelled() and done.exception() is None:
                outcome = outcome_of(done.result())
                if not (isinstance(outcome, Raised) and outcome.timed_out):
                    action.late(outcome)
        finally:
            _count(action.key, -1)

    _count(action.key, 1)
    future.add_done_callback(ended)


def _count(key: Key, change: int) -> None:
    with _counting:
        _at_work[key] = _at_work.get(key, 0) + change
        if not _at_work[key]:
            del _at_work[key]


async def _run_async(action: Invoke) -> Outcome:
    token = _making.set((*_making.get(), action.key))
    limit = None if action.timeout_s is None else asyncio.timeout(action.timeout_s)
    try:
        async with limit or contextlib.nullcontext():
            value = action.function(*action.args, **action.kwargs)
            return Returned(await value if inspect.isawaitable(value) else value)
    except BaseException as error:
        late = isinstance(error, TimeoutError) and limit is not None and limit.expired()
        return _too_late(action) if late else Raised(_from_user(error))
    finally:
        with contextlib.suppress(ValueError):  # closed in another context than it was started in
            _making.reset(token)


def _too_late(action: Invoke) -> Raised:
    return Raised(TimeoutError(f"no answer within {action.timeout_s:g} s"), timed_out=True)


def _from_user(error: BaseException) -> BaseException:
    """The error without our own frame on top of its traceback."""
    return error.with_traceback(error.__traceback__ and error.__traceback__.tb_next)
