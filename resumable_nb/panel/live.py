"""When it is drawn: in one thread of its own, at most ten times a second, and within a small share of the time."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Final

from resumable_nb.events import Bus, Event
from resumable_nb.panel.book import KINDS

LEAST_S: Final = 0.1
IDLE_S: Final = 1.0
"""Clocks and heartbeats go on where nothing else happens."""
SHARE: Final = 0.005
"""The part of the processor's time that drawing may take."""
QUIET_S: Final = 0.3
QUIET_SHARE: Final = 0.05
"""When nothing has come for so long, the run has ended or waits: what came last is drawn soon, as nobody is slowed."""


class Live:
    """Collects events and calls ``draw``. A drawing that takes long is drawn less often: a run never waits for it.

    The listener takes no lock: an interrupt in the middle of one could leave it taken for ever.
    """

    def __init__(self, bus: Bus, draw: Callable[[], None]) -> None:
        self.events: deque[Event] = deque()
        self._draw = draw
        self._wanted = True
        self._ending = threading.Event()
        self._remove = bus.listen(self._listen)
        self._thread = threading.Thread(target=self._run, name="subshell-resumable_nb panel", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def wake(self) -> None:
        """Draw at once, whatever it costs: somebody clicked, and waits for it."""
        self._wanted = True

    def close(self) -> None:
        """Draw no more. Returns when the last drawing has ended."""
        self._remove()
        self._ending.set()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join()

    def _listen(self, event: Event) -> None:
        if event.kind in KINDS:
            self.events.append(event)

    def _run(self) -> None:
        drawn_s = cost_s = heard_s = 0.0
        seen = 0
        while not self._ending.wait(LEAST_S):
            now_s, count = time.monotonic(), len(self.events)
            if count != seen:
                seen, heard_s = count, now_s
            share = QUIET_SHARE if count and now_s - heard_s >= QUIET_S else SHARE
            if self._wanted or (now_s >= drawn_s + cost_s / share and (count or now_s - drawn_s >= IDLE_S)):
                self._wanted = False
                begun_s = time.thread_time()
                self._draw()
                drawn_s, seen = time.monotonic(), 0
                cost_s = time.thread_time() - begun_s
