"""A thread of our own for what must not be cut short."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, Generic, TypeVar

Result = TypeVar("Result")


class _Job(Generic[Result]):
    def __init__(self, action: Callable[[], Result]) -> None:
        self._action = action
        self._outcome: SimpleQueue[tuple[Result, None] | tuple[None, BaseException]] = SimpleQueue()

    def __call__(self) -> None:
        try:
            self._outcome.put((self._action(), None))
        except BaseException as error:
            self._outcome.put((None, error))

    def wait(self) -> Result:
        """The outcome of the action; an interrupt meanwhile is raised when the action is over."""
        interrupt: BaseException | None = None
        while True:
            try:
                result, error = self._outcome.get()
                break
            except BaseException as signal:
                interrupt = signal
        try:
            if interrupt is not None:
                raise interrupt from error
            if error is not None:
                raise error
            return result  # type: ignore[return-value]  # no error, so there is a result
        finally:
            # An error knows this frame; the frame must not know the error.
            del error, interrupt


class Worker:
    """Runs jobs one after another in a thread of its own.

    Python delivers signals to the main thread only, so a stop button can't break a transaction in the middle; and
    connections that belong to one thread are closed there, not by whichever thread happens to end last.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._queue: SimpleQueue[_Job[Any] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._pid = 0

    def is_current(self) -> bool:
        """Whether the caller is one of this worker's jobs."""
        return threading.current_thread() is self._thread

    def run(self, action: Callable[[], Result]) -> Result:
        """The action's result or error."""
        if self.is_current():
            return action()
        self._start()
        job = _Job(action)
        self._queue.put(job)
        return job.wait()

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


def _serve(queue: SimpleQueue[_Job[Any] | None]) -> None:
    while (job := queue.get()) is not None:
        job()
        del job
