"""One line for each ``track`` loop, updated in place while the cell runs."""

from __future__ import annotations

import html
import sys
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from resumable_nb.events import Event
from resumable_nb.output import Recorder
from resumable_nb.wording import duration, plain

KERNEL_S = 0.25
TERMINAL_S = 0.1
LOG_S = 30.0
LABEL_CHARS = 60
BAR = 24


@dataclass(slots=True)
class _Loop:
    """One that runs."""

    facts: dict[str, Any]
    at_s: float
    """When it was last shown."""
    display_id: str = ""


class Progress:
    """Listens to loops and shows how far they are, and how they ended.

    In a kernel one display is updated, at most four times a second; on a terminal one line is written over, at most ten
    times; a file gets a line each half minute.
    """

    def __init__(self, shell: Any, clock: Callable[[], float] = time.monotonic) -> None:
        self._shell = shell
        self._clock = clock
        self._shown: dict[tuple[str, str], _Loop] = {}
        self._drawn = False

    def __call__(self, event: Event) -> None:
        if threading.current_thread() is not threading.main_thread():
            return
        if event.kind == "control.paused":  # no turn will come that shows how far they are
            for each in self._shown.values():
                self._show(each)
        if event.kind != "track.turn":
            return
        facts = event.facts
        key = event.step, facts["loop"]
        loop = self._shown.setdefault(key, _Loop(facts, self._clock()))
        loop.facts = facts
        interval_s = KERNEL_S if self._is_live() else TERMINAL_S if self._is_terminal() else LOG_S
        if facts["ended"] or self._clock() - loop.at_s >= interval_s:
            self._show(loop)
        if facts["ended"]:
            del self._shown[key]

    def since(self) -> Callable[[], None]:
        """Returns what shows loops that have begun since as they are, if they were left before their end."""
        known = [*self._shown]

        def settle() -> None:
            if threading.current_thread() is threading.main_thread():
                for key in [each for each in self._shown if each not in known]:
                    loop = self._shown.pop(key)
                    loop.facts = {**loop.facts, "ended": True}
                    if loop.display_id or self._drawn:
                        self._show(loop)

        return settle

    def _is_live(self) -> bool:
        return getattr(self._shell, "kernel", None) is not None

    def _is_terminal(self) -> bool:
        return not self._is_live() and sys.stdout.isatty()

    def _show(self, loop: _Loop) -> None:
        facts, live = loop.facts, self._is_live()
        if self._is_terminal():
            self._draw("" if facts["ended"] else text(facts))
        if facts["ended"] or not self._is_terminal():
            update = live and bool(loop.display_id)
            loop.display_id = loop.display_id or uuid.uuid4().hex
            self._shell.display_pub.publish(
                {"text/plain": text(facts), "text/html": rich(facts)},
                transient={"display_id": loop.display_id},
                update=update,
            )
        loop.at_s = self._clock()

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
    if total and here and done < total and not facts["ended"]:
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
