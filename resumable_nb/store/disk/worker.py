"""A thread of our own for what must not be cut short."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Any, Final, Generic, TypeVar

Result = TypeVar("Result")
Part = TypeVar("Part")
Outcome = tuple[Result, None] | tuple[None, BaseException]


class Ticket(Generic[Result]):
    """What a caller waits with."""

    def __init__(self) -> None:
        self._outcome: Outcome[Result] | None = None
        self._done = threading.Lock()
        self._done.acquire()

    def settle(self, outcome: Outcome[Result]) -> None:
        self._outcome = outcome
        self._done.release()

    def wait(self) -> Result:
        """The outcome of the action; an interrupt meanwhile is raised when the action is over."""
        interrupt: BaseException | None = None
        while True:
            try:
                # Looked at, never taken: an interrupt may come when a lock or a queue has just given what it had.
                while self._outcome is None:
                    self._done.acquire()
                break
            except BaseException as signal:
                interrupt = signal
        result, error = self._outcome
        self._outcome = None
        try:
            if interrupt is not None:
                raise interrupt from error
            if error is not None:
                raise error
            return result  # type: ignore[return-value]  # no error, so there is a result
        finally:
            # An error knows this frame; the frame must not know the error.
            del error, interrupt


class _Job(Ticket[Result]):
    """An action that runs by itself."""

    def __init__(self, action: Callable[[], Result]) -> None:
        super().__init__()
        self._action = action

    def __call__(self) -> None:
        try:
            self.settle((self._action(), None))
        except BaseException as error:
            self.settle((None, error))


Together = Callable[[list[Part]], list[Outcome[Result]]]
"""Does the parts of several callers at once, and gives each its outcome, in order. Does not raise."""


class _Share(Ticket[Result], Generic[Part, Result]):
    """One caller's part of what is done at once for all that wait."""

    def __init__(self, together: Together[Part, Result], part: Part) -> None:
        super().__init__()
        self.together, self.part = together, part


class Worker:
    """Runs jobs one after another in a thread of its own.

    Python delivers signals to the main thread only, so a stop button can't break a transaction in the middle; and
    connections that belong to one thread are closed there, not by whichever thread happens to end last.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._queue: SimpleQueue[_Job[Any] | _Share[Any, Any] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._pid = 0

    def is_current(self) -> bool:
        """Whether the caller is one of this worker's jobs."""
        return threading.current_thread() is self._thread

    def run(self, action: Callable[[], Result]) -> Result:
        """The action's result or error."""
        return action() if self.is_current() else self.submit(action).wait()

    def submit(self, action: Callable[[], Result]) -> Ticket[Result]:
        """Have the action run after what was given before."""
        self._start()
        job = _Job(action)
        self._queue.put(job)
        return job

    def share(self, together: Together[Part, Result], part: Part) -> Ticket[Result]:
        """Have the part done together with those of other callers that wait by then."""
        self._start()
        share = _Share(together, part)
        self._queue.put(share)
        return share

    def drain(self) -> None:
        """Return when everything that was given before is done."""
        if self._thread is not None and self._pid == os.getpid():
            self.run(_nothing)

    def stop(self, last: Callable[[], None]) -> None:
        """End the thread when it has done what it was given, and ``last``; the next ``run`` starts another."""
        if self._thread is not None and self._pid == os.getpid():
            self._queue.put(_Job(last))
            self._queue.put(None)
        self._thread = None

    def _start(self) -> None:
        if self._thread is not None and self._pid == os.getpid():
            return
        # After a fork the thread is gone, and what was queued belongs to the parent.
        self._queue = SimpleQueue()
        self._pid = os.getpid()
        # A daemon, so that writes from atexit handlers still find it.
        self._thread = threading.Thread(target=_serve, args=(self._queue,), name=self._name, daemon=True)
        self._thread.start()


def _serve(queue: SimpleQueue[_Job[Any] | _Share[Any, Any] | None]) -> None:
    job = queue.get()
    while job is not None:
        following: Any = _NOTHING
        if isinstance(job, _Share):
            shares = [job]
            with contextlib.suppress(Empty):
                while isinstance(following := queue.get_nowait(), _Share):
                    shares.append(following)
                    following = _NOTHING
            _settle(shares, job.together)
            del shares  # what was done must not be kept alive by a thread that waits
        else:
            job()
        del job
        job = queue.get() if following is _NOTHING else following


def _settle(shares: list[_Share[Any, Any]], together: Together[Any, Any]) -> None:
    try:
        outcomes = together([each.part for each in shares])
    except BaseException as error:  # nobody may wait for ever
        outcomes = [(None, error)] * len(shares)
    for share, outcome in zip(shares, outcomes, strict=True):
        share.settle(outcome)


_NOTHING: Final = object()


def _nothing() -> None:
    pass
