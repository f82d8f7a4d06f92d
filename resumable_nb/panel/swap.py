"""Where the panel stands in a notebook: a living widget, and behind it a static copy for when no kernel serves it.

The copy is an output of its own, which style rules hide while a connected widget stands before it. So the saved
notebook always has the last state, whatever becomes of the kernel, and the widget is never drawn anew.
"""

from __future__ import annotations

import sys
import uuid
from dataclasses import dataclass
from typing import Any

from resumable_nb.output import Recorder
from resumable_nb.panel.comms import Request
from resumable_nb.panel.reshow import shows_only
from resumable_nb.panel.style import style

Bundle = dict[str, Any]
_NOTHING: Bundle = {"text/plain": "", "text/html": "<span></span>"}


@dataclass(frozen=True, slots=True)
class Place:
    """One display of the panel: the ids of the widget's output and of its copy's, and the cell's request."""

    live: str
    copy: str
    of: Request


class Places:
    """The outputs that show one panel."""

    def __init__(self, publisher: Any, variables: Any) -> None:
        self._publisher = publisher
        self._variables = variables
        self._shown: list[Place] = []

    @property
    def alone(self) -> bool:
        """Whether the cells that show the panel do nothing else, and can be run again by a button in it."""
        return self._hides_copies() and all(shows_only(each.of.code) for each in self._shown)

    def show(self, view: Bundle, html: str, text: str, of: Request) -> None:
        """Put the panel into the running cell's output, in the place of what that cell showed when it ran before."""
        live, copy = uuid.uuid4().hex, uuid.uuid4().hex
        if self._hides_copies():
            self._publish({**view, **_NOTHING}, live)  # or a log would have the text twice
            self._publish(_static(html, text), copy)
        else:  # there the copy would be seen beside the widget
            self._publish({**view, **_static(html, text)}, live)
            copy = ""
        self._shown = [each for each in self._shown if not of.follows(each.of)]
        self._shown.append(Place(live, copy, of))

    def update(self, html: str, text: str) -> None:
        """Bring the copies up to date."""
        for each in self._shown:
            if each.copy:
                self._publish(_static(html, text), each.copy, update=True)

    def end(self, html: str, text: str) -> None:
        """The copy takes the widget's place for good."""
        for each in self._shown:
            if each.copy:
                self._publish(_NOTHING, each.live, update=True)
            self._publish(_static(html, text), each.copy or each.live, update=True)
        self._shown.clear()

    def leave(self, html: str, text: str) -> None:
        """Show a copy alone: of a panel that has ended."""
        self._publish(_static(html, text), uuid.uuid4().hex)

    def _hides_copies(self) -> bool:
        """JupyterLab, Notebook and nbconvert know the rules; VS Code and Colab put each output into a frame."""
        return "__vsc_ipynb_file__" not in self._variables and "google.colab" not in sys.modules

    def _publish(self, data: Bundle, display_id: str, *, update: bool = False) -> None:
        # A step that is recorded now is not concerned when a panel elsewhere changes.
        with Recorder.paused():
            self._publisher.publish(
                data, metadata={"resumable_nb": "panel"}, transient={"display_id": display_id}, update=update
            )


def _static(html: str, text: str) -> Bundle:
    return {"text/plain": text, "text/html": style(swap=True) + html}
