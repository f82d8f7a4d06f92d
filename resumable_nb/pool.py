"""Calls in somebody's executor: the journal is written here, only the user's function runs there."""

from __future__ import annotations

import concurrent.futures
import contextvars
import functools

from resumable_nb import codec
from resumable_nb.drive import Invoke, Outcome, Raised, Returned, given_up, run_here
from resumable_nb.errors import UsageError, WorkerLost
from resumable_nb.tooldef import Tool


class Pool:
    """Runs one tool's functions in a ``concurrent.futures.Executor``: threads of ours wait for its answers."""

    def __init__(self, executor: concurrent.futures.Executor, tool: Tool) -> None:
        self._executor, self._tool = executor, tool
        self._threads = isinstance(executor, concurrent.futures.ThreadPoolExecutor)

    @property
    def workers(self) -> int | None:
        """What waits in a pool's queue is in doubt when the pool breaks, so we send no more than it can begin."""
        size: int | None = getattr(self._executor, "_max_workers", None)
        return size

    def invoke(self, action: Invoke) -> Outcome:
        if action.function is not self._tool.function:  # reconcile= asks from here
            return run_here(action)
        try:
            if self._threads:
                return self._in_a_thread(action)
            data = packed(action)
            if isinstance(data, Raised):
                return data
            future = self._executor.submit(codec.run_attached, data)
        except Exception as error:  # a pool that is shut down, or broken: it took nothing
            return Raised(error)
        try:
            return reply_of(action, future.result(action.timeout_s))
        except BaseException as error:
            if future.cancel():
                return _unbegun(action, error)
            given_up(action, future, functools.partial(reply_of, action))
            return lost(action, error)

    def _in_a_thread(self, action: Invoke) -> Outcome:
        future: concurrent.futures.Future[Outcome] = self._executor.submit(
            contextvars.copy_context().run, run_here, action
        )
        try:
            return future.result()
        except BaseException as error:
            return _unbegun(action, error) if future.cancel() else lost(action, error)


def _unbegun(action: Invoke, error: BaseException) -> Raised:
    """It was taken out of the executor's queue, by us or by whoever has shut it down."""
    text = " ".join(f"{type(error).__name__}: {error}".split())
    return Raised(WorkerLost(f"{action.text} was not begun by any worker, and will not be: {text}"))


def packed(action: Invoke) -> bytes | Raised:
    """The call as bytes, or why it cannot be sent: then nothing was done."""
    try:
        return codec.packed(action.function, action.args, action.kwargs)
    except Exception as error:
        why = f"{type(error).__name__}: {error}"
        return Raised(UsageError(f"{action.text} cannot be sent to another process ({why}); map it over threads"))


def reply_of(action: Invoke, reply: codec.Reply) -> Outcome:
    """The outcome that a worker sent."""
    value = codec.opened(reply)
    if reply[0] == "returned":
        return Returned(value)
    if isinstance(value, BaseException):
        value.add_note(f"(in a worker) {reply[2]}")
        return Raised(value)
    # What kind of error it was cannot be told, so neither whether the receiver may have acted.
    return Raised(WorkerLost(f"{action.text} raised an error that cannot be sent: {reply[2]}"), timed_out=True)


def lost(action: Invoke, error: BaseException) -> Raised:
    """Nobody will say what became of a call that was sent."""
    text = " ".join(f"{type(error).__name__}: {error}".split())
    return Raised(WorkerLost(f"{action.text} was sent to a worker, and no answer came: {text}"), timed_out=True)
