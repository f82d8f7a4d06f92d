"""Where the panel stands in a notebook: a living widget, and behind it a static copy for when no kernel serves it.

The copy is an output of its own, which style rules hide while a connected widget stands before it. So the saved
notebook always has the last state, whatever becomes of the kernel, and the widget is never drawn anew.
"""

from __future__ import annotations

import sys
import uuid
from typing import Any

from resumable_nb.output import Recorder
from resumable_nb.panel.style import style

Bundle = dict[str, Any]
_NOTHING: Bundle = {"text/plain": "", "text/html": "<span></span>"}


class Places:
    """The outputs that show one panel."""

    def __init__(self, publisher: Any, variables: Any) -> None:
        self._publisher = publisher
        self._variables = variables
        self._shown: list[tuple[str, str]] = []
        """Display ids of each widget and its copy."""
        self._last = ""

    def show(self, view: Bundle, html: str, text: str) -> None:
        """Put the panel into the running cell's output."""
        live, copy = uuid.uuid4().hex, uuid.uuid4().hex
        if self._hides_copies():
            self._publish({**view, **_NOTHING}, live)  # or a log would have the text twice
            self._publish(_static(html, text), copy)
        else:  # there the copy would be seen beside the widget
            self._publish({**view, **_static(html, text)}, live)
            copy = ""
        self._shown.append((live, copy))

    def update(self, html: str, text: str) -> None:
        """Bring the copies up to date."""
        if html == self._last:
            return
        self._last = html
        for _, copy in self._shown:
            if copy:
                self._publish(_static(html, text), copy, update=True)

    def end(self, html: str, text: str) -> None:
        """The copy takes the widget's place for good."""
        for live, copy in self._shown:
            if copy:
                self._publish(_NOTHING, live, update=True)
                self._publish(_static(html, text), copy, update=True)
            else:
                self._publish(_static(html, text), live, update=True)
        self._shown.clear()

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
