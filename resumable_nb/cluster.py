"""The door to Dask, which runs a task again when its worker is lost: a call may begin once only."""

from __future__ import annotations

import contextlib
import functools
import time
import uuid
from typing import Any, Final

from distributed import Client, Queue, get_client

from resumable_nb import codec
from resumable_nb.drive import Invoke, Outcome, Raised, run_here
from resumable_nb.errors import UsageError, WorkerLost
from resumable_nb.model import digest
from resumable_nb.pool import lost, packed, reply_of
from resumable_nb.tooldef import Tool

POLL_S: Final = 0.1


class Cluster:
    """Runs one tool's functions on a Dask cluster.

    Each attempt puts one permit, its own name, into a queue of the call's in the scheduler; whoever begins the call
    takes it. A task that Dask starts again finds none, and does not call. A permit that is still there shows that
    nobody has begun; when we have taken it back, nobody will. A queue that is lost, with its scheduler, permits
    nothing. A call that may be repeated needs none: what Dask does is right.
    """

    workers: int | None = None

    def __init__(self, client: Client, tool: Tool) -> None:
        if client.asynchronous:
            raise UsageError("map needs a Dask client that is not asynchronous: Client(address)")
        self._client, self._tool = client, tool

    def invoke(self, action: Invoke) -> Outcome:
        name = f"resumable-{digest('@'.join(map(str, action.key)).encode())}"
        if action.function is not self._tool.function:
            return self._ask(action, name)
        data = packed(action)
        if isinstance(data, Raised):
            return data
        attempt = f"{name}-{uuid.uuid4().hex}"
        try:
            permits = None if self._tool.repeatable else self._permits(name)
            if permits is not None:
                permits.put(attempt)
        except Exception as fault:
            return Raised(WorkerLost(f"{action.text} could not be sent to the cluster: {_line(fault)}"))
        try:
            return self._send(action, data, attempt, permits)
        finally:
            with contextlib.suppress(Exception):  # the scheduler is gone, and its queues with it
                if permits is not None:
                    permits.close()

    def _permits(self, name: str) -> Queue:
        """The queue, without what an earlier attempt or kernel has left: of those that have not begun, none will."""
        permits = Queue(name, client=self._client)
        permits.get(batch=True)
        return permits

    def _send(self, action: Invoke, data: bytes, attempt: str, permits: Queue | None) -> Outcome:
        reply: codec.Reply | None = None
        error: BaseException = RuntimeError("it had been begun on a worker that was lost")
        try:
            name = None if permits is None else permits.name
            future = self._client.submit(_begin, data, attempt, name, key=attempt, pure=False)
            try:
                reply = future.result(action.timeout_s)
            finally:
                future.release()
        except BaseException as failed:
            error = failed
        if reply is not None:
            return reply_of(action, reply)
        try:
            unbegun = permits is not None and attempt in permits.get(batch=True)
        except BaseException as failed:
            return lost(action, failed)
        if not unbegun:
            return lost(action, error)
        return Raised(WorkerLost(f"{action.text} was not begun by any worker, and will not be: {_line(error)}"))

    def _ask(self, action: Invoke, name: str) -> Outcome:
        """The receiver is asked from here, when the call of a kernel that died can change nothing any more."""
        permits = self._permits(name)
        try:
            while any(str(key).startswith(name) for keys in self._active().values() for key in keys):
                time.sleep(POLL_S)
        finally:
            permits.close()
        return run_here(action)

    def _active(self) -> dict[str, list[Any]]:
        """What the workers that can be reached execute now."""
        active: dict[str, list[Any]] = self._client.run(_active_keys, on_error="ignore")
        return active


def _line(error: BaseException) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())


def _begin(data: bytes, attempt: str, name: str | None) -> codec.Reply | None:
    """Runs in the worker. ``None``: somebody has begun the call before, or nobody is to."""
    return codec.run(data) if name is None else codec.run_permitted(data, functools.partial(_permitted, attempt, name))


def _permitted(attempt: str, name: str) -> bool:
    permits = Queue(name, client=get_client())
    try:
        return attempt in permits.get(batch=True)
    finally:
        permits.close()


def _active_keys(dask_worker: Any) -> list[Any]:
    return list(dask_worker.active_keys)
