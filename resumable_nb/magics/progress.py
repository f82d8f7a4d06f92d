"""One line for each ``track`` loop, updated in place while the cell runs."""

from __future__ import annotations

import html
import sys
import threading
import time
import uuid
from collections.abc import Callable
from typing import Any

from resumable_nb.events import Event
from resumable_nb.output import Recorder
from resumable_nb.wording import duration, plain

KERNEL_S = 0.25
TERMINAL_S = 0.1
LOG_S = 30.0
LABEL_CHARS = 60
BAR = 24


class Progress:
    """Listens to loops and shows how far they are, and how they ended.

    In a kernel one display is updated, at most four times a second; on a terminal one line is written over, at most ten
    times; a file gets a line each half minute.
    """

    def __init__(self, shell: Any, clock: Callable[[], float] = time.monotonic) -> None:
        self._shell = shell
        self._clock = clock
        self._shown: dict[tuple[str, str], tuple[str, float]] = {}
        self._drawn = False

    def __call__(self, event: Event) -> None:
        if event.kind != "track.turn" or threading.current_thread() is not threading.main_thread():
            return
        facts = event.facts
        loop, ended = (event.step, facts["loop"]), facts["ended"]
        live = getattr(self._shell, "kernel", None) is not None
        terminal = not live and sys.stdout.isatty()
        display_id, at_s = self._shown.get(loop, ("", self._clock()))
        interval_s = KERNEL_S if live else TERMINAL_S if terminal else LOG_S
        if not ended and self._clock() - at_s < interval_s:
            self._shown.setdefault(loop, (display_id, at_s))
            return
        if terminal:
            self._draw("" if ended else text(facts))
        if ended or not terminal:
            update = live and bool(display_id)
            display_id = display_id or uuid.uuid4().hex
            self._shell.display_pub.publish(
                {"text/plain": text(facts), "text/html": rich(facts)},
                transient={"display_id": display_id},
                update=update,
            )
        self._shown[loop] = (display_id, self._clock())
        if ended:
            del self._shown[loop]

    def _draw(self, line: str) -> None:
        """Write over the terminal's line; past any recorder, whose record would hold each of them."""
        if line or self._drawn:
            with Recorder.paused():
                sys.stdout.write(f"\r{line}\x1b[K")
                sys.stdout.flush()
        self._drawn = bool(line)


def counts(facts: dict[str, Any]) -> str:
    """``37/100 · 1 min 2 s, 1 min 45 s left``; turns that were kept by an earlier run say nothing about speed."""
    done, total, elapsed_s = facts["done"], facts["total"], facts["elapsed_s"]
    here = done - facts["resumed_at"]
    parts = [f"{done}/{total}" if total is not None else str(done), f" · {duration(elapsed_s)}"]
    if total and here and not facts["ended"]:
        parts.append(f", {duration(elapsed_s / here * (total - done))} left")
    if facts["resumed_at"]:
        parts.append(f" (went on from {facts['resumed_at']})")
    return "".join(parts)


def text(facts: dict[str, Any]) -> str:
    label, total = plain(facts["label"] or "loop", LABEL_CHARS), facts["total"]
    bar = ""
    if total:
        full = round(BAR * min(1.0, facts["done"] / total))
        bar = f"{'━' * full}{'╌' * (BAR - full)} "
    return f"{label} {bar}{counts(facts)}"


def rich(facts: dict[str, Any]) -> str:
    label = html.escape(plain(facts["label"] or "loop", LABEL_CHARS))
    limits = f' max="{facts["total"]}" value="{facts["done"]}"' if facts["total"] else ""
    if facts["ended"] and not limits:
        limits = ' value="1"'  # without one the bar moves for ever
    return f'<label>{label} <progress{limits} style="vertical-align:middle"></progress> {counts(facts)}</label>'
