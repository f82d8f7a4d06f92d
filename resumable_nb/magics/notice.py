"""Our own lines in a cell's output: what became of a step, and that the cell waits."""

from __future__ import annotations

import html
import time
import uuid
from typing import Any, Final

from resumable_nb import session
from resumable_nb.events import Event
from resumable_nb.output import Recorder
from resumable_nb.wording import clock_time, duration, plain

LINE_CHARS: Final = 600


def say(shell: Any, text: str, display_id: str = "", *, update: bool = False) -> None:
    """Show one line that is ours, and is not recorded as the cell's output. What it quotes can do nothing."""
    text = plain(text, LINE_CHARS)
    with Recorder.paused():
        shell.display_pub.publish(
            {"text/plain": text, "text/html": f'<small style="opacity:.75">{html.escape(text)}</small>'},
            metadata={"resumable_nb": "message"},
            **({"transient": {"display_id": display_id}, "update": update} if display_id else {}),
        )


class Waiting:
    """Listens to pauses: one line says that the cell waits, and then for how long it did."""

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self._display_id = ""
        self._since = 0.0

    def __call__(self, event: Event) -> None:
        where = f" before {event.facts['where']}" if event.facts.get("where") else ""
        if event.kind == "control.paused":
            self._display_id, self._since = uuid.uuid4().hex, time.time()
            name = session.current().name
            say(
                self._shell,
                f"‖ paused by {event.facts['by']} at {clock_time(self._since)}{where}; go on with Resume in the panel "
                f"or with `resumable resume {name}` in a terminal, or stop the cell",
                self._display_id,
            )
        elif event.kind == "control.resumed":
            waited = duration(time.time() - self._since)
            end = "stopped" if event.facts["want"] == "stop" else "went on"
            say(self._shell, f"▸ paused{where} for {waited}, then {end}", self._display_id, update=True)
