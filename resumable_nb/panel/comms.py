"""Clicks while a cell runs. ipykernel hands them out in the thread that is busy with the cell, unless it is helped.

Two ways, each where the kernel has what it needs. From 7.4 on, a front end's own subshell is honoured again for our
widgets, so that their callbacks run beside the cell. Everywhere, ``poll`` handles in the main thread, at a safe point,
the widget messages that wait, and the questions by which a page that is loaded meanwhile finds its widgets again. It
leaves every other message in its place.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

_COMM: Final = frozenset({"comm_open", "comm_msg", "comm_close"})
_ASKED: Final = frozenset({"comm_info_request", "kernel_info_request"})
_OURS: Final = _COMM | _ASKED
_MOST: Final = 100
SETTLED_S: Final = 0.04
"""So long after a message was handled, the kernel has told everybody that it is idle."""


@dataclass(frozen=True, slots=True)
class Request:
    """What a front end has asked to be executed: its text, from which cell where it says so, in which message."""

    code: str = ""
    cell: str = ""
    message: str = ""

    def follows(self, other: Request) -> bool:
        """Whether it is another execution of the same cell: what the one before showed is gone."""
        return bool(self.cell) and self.cell == other.cell and self.message != other.message


def request() -> Request:
    """What the kernel executes now."""
    here = kernel()
    asked = here.get_parent("shell") if here is not None else {}
    return Request(
        str(asked.get("content", {}).get("code", "")),
        str(asked.get("metadata", {}).get("cellId", "")),
        str(asked.get("header", {}).get("msg_id", "")),
    )


def kernel() -> Any:
    """The kernel that this process is, or ``None``."""
    module = sys.modules.get("ipykernel.kernelbase")
    made = module is not None and module.Kernel.initialized()
    return module.Kernel.instance() if module is not None and made else None


def stay_awake() -> None:
    """Let replies go the way of requests. ipykernel 7.0 to 7.3 sends them past the stream that reads the same socket,
    which then may not be told of a request that comes meanwhile: Run All stood still, in a kernel that was idle.
    """
    here = kernel()
    manager = getattr(getattr(here, "shell_channel_thread", None), "manager", None)
    if manager is not None and hasattr(manager, "_shell_socket") and hasattr(here.shell_stream, "send_multipart"):
        manager._shell_socket = here.shell_stream


def unblock(widgets: Iterable[Any]) -> None:
    """Let callbacks of these widgets run beside a cell, and without the hooks that belong to cells.

    ``post_execute`` would show the figures that the running cell has not finished yet.
    """
    for widget in widgets:
        comm = getattr(widget, "comm", None)
        if comm is None:
            continue
        if hasattr(comm, "_reply_subshell_for"):
            comm._reply_subshell_for = lambda _data, default: default
        if hasattr(comm, "_msg_callback"):
            comm.handle_msg = functools.partial(_hand_over, comm)


def _hand_over(comm: Any, message: Any) -> None:
    if comm._msg_callback:
        comm._msg_callback(message)
    _handled.append(time.monotonic())


_handled: Final[deque[float]] = deque(maxlen=1)
"""When a message was last handled beside the cell: its end is going to say "idle"."""


def poll() -> None:
    """Handle what waits for widgets. In the main thread alone; anywhere else it does nothing."""
    here = kernel()
    if here is None or threading.current_thread() is not threading.main_thread():
        return
    channel = getattr(here, "shell_channel_thread", None)
    if channel is not None:
        handled = _poll_channel(here, channel)
    elif hasattr(here, "msg_queue") and hasattr(here, "shell_stream"):
        handled = _poll_queue(here)
    else:
        return
    late = bool(_handled) and time.monotonic() - _handled[0] > SETTLED_S
    if handled or late:
        _handled.clear()
        publish_busy()


def publish_busy() -> None:
    """Tell the server that the cell still runs: a message's end says "idle", and an idle kernel may be culled."""
    here = kernel()
    if here is not None and hasattr(here, "_publish_status"):
        here._publish_status("busy", "shell")


def later(action: Callable[[], None]) -> bool:
    """Run it in the main thread when no cell runs there; whether that can be done."""
    loop = getattr(kernel(), "io_loop", None)
    if loop is None:
        return False
    loop.add_callback(action)
    return True


def _poll_channel(here: Any, channel: Any) -> int:
    """ipykernel 7: messages come from the thread of the shell channel through a pair of sockets."""
    import zmq

    manager = channel.manager
    pair = getattr(manager, "get_shell_channel_to_subshell_pair", lambda _: None)(None)
    receive = getattr(getattr(pair, "to_stream", None), "_recv_callback", None)
    if pair is None or receive is None:
        return 0
    handled, others = 0, []
    while handled < _MOST:
        try:
            frames = pair.to_socket.recv_multipart(zmq.NOBLOCK, copy=False)
        except zmq.Again:
            break
        if (kind := _kind(here, frames)) in _OURS:
            _handle(here, frames, kind)
            handled += 1
        else:
            others.append(frames)
    for frames in others:
        # By the very way that the stream takes: a shorter one would let a cell overtake the one before it.
        task = asyncio.ensure_future(receive(frames))
        _waiting.add(task)
        task.add_done_callback(_waiting.discard)
    return handled


_waiting: set[asyncio.Future[Any]] = set()
"""A loop holds its tasks weakly."""


def _poll_queue(here: Any) -> int:
    """ipykernel 6: messages wait in a queue of the kernel."""
    import zmq

    here.shell_stream.flush(zmq.POLLIN)
    items: list[Any] = []
    while here.msg_queue.qsize():
        items.append(here.msg_queue.get_nowait())
    handled = 0
    for item in items:
        frames = item[2][0] if len(item) == 3 and len(item[2]) == 1 and isinstance(item[2][0], list) else None
        if frames is not None and handled < _MOST and (kind := _kind(here, frames)) in _OURS:
            _handle(here, frames, kind)
            handled += 1
        else:
            here.msg_queue.put_nowait(item)
    return handled


def _kind(here: Any, frames: Any) -> str:
    """The type of a message, without noting its signature as seen."""
    try:
        _, parts = here.session.feed_identities(frames, copy=False)
        return str(here.session.deserialize(parts, content=False, copy=False)["header"]["msg_type"])
    except Exception:  # not ours to judge: the kernel does so when its turn comes
        return ""


def _handle(here: Any, frames: Any, kind: str) -> None:
    idents, parts = here.session.feed_identities(frames, copy=False)
    message = here.session.deserialize(parts, content=True, copy=False)
    ident, parent = here._parent_ident["shell"], here.get_parent("shell")
    here.set_parent(idents, message, channel="shell")
    try:
        here._publish_status("busy", "shell")
        if kind in _COMM:
            getattr(here.comm_manager, kind)(None, idents, message)
        else:
            _answer(here, idents, message, kind)
        here._publish_status("idle", "shell")
    finally:
        here.set_parent(ident, parent, channel="shell")


def _answer(here: Any, idents: Any, message: Any, kind: str) -> None:
    channel = getattr(here, "shell_channel_thread", None)
    stream = channel.manager.get_subshell_to_shell_channel_socket(None) if channel is not None else here.shell_stream
    answered = here.shell_handlers[kind](stream, idents, message)
    if asyncio.iscoroutine(answered):
        # These wait for nothing, and here the loop is busy with the cell.
        with contextlib.suppress(StopIteration):
            answered.send(None)
        answered.close()
    if hasattr(stream, "flush"):
        stream.flush()
