"""What happens, told upwards by callback; and the named commit points, at which a crash test dies."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Final

import msgspec

COMMIT_POINTS: Final = (
    "lease.acquired",
    "step.begin",
    "step.begun",
    "step.body_done",
    "step.pack_begun",
    "step.pack_written",
    "step.pack_synced",
    "step.commit",
    "step.committed",
    "call.intent",
    "call.intent_committed",
    "call.returned",
    "call.result",
    "call.result_committed",
    "track.keep",
    "track.kept",
    "store.transaction",
)
"""Every named instant around a commit, in the order of a step's life. Promise 1 is tested at each of them."""


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """``kind`` is a commit point, or one of ``step.skipped``, ``step.replayed``, ``step.put_back``, ``step.failed``,
    ``track.turn``, ``call.replayed``, ``call.failed``, ``call.in_doubt``, ``call.late``, ``call.collapsed``,
    ``step.forgotten``, ``task.forgotten``, ``control.pause``, ``control.run``, ``control.stop`` (it is wanted),
    ``control.paused``, ``control.resumed`` (it took effect), ``rollback.begun``, ``rollback.ended``."""

    kind: str
    step: str = ""
    facts: dict[str, Any] = {}


Listener = Callable[[Event], None]


class Bus:
    """Calls every listener, in the thread where the event happens. A listener must be quick."""

    def __init__(self) -> None:
        self._listeners: tuple[Listener, ...] = ()
        self._lock = threading.Lock()

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Add a listener; the returned function removes it."""
        with self._lock:
            self._listeners = (*self._listeners, listener)

        def remove() -> None:
            with self._lock:
                self._listeners = tuple(each for each in self._listeners if each is not listener)

        return remove

    def emit(self, kind: str, step: str = "", /, **facts: Any) -> None:
        if self._listeners:
            event = Event(kind=kind, step=step, facts=facts)
            for listener in self._listeners:
                listener(event)
