"""Pages that load in the middle of a run: they ask for what is shown, and miss what changes before they listen."""

from __future__ import annotations

from typing import Final

AFTER_S: Final = (0.5, 2.0, 5.0, 15.0, 45.0)
"""So long after a page has asked, everything is sent once more. Nothing says when its models listen: that takes from
tenths of a second to many seconds, and whatever is sent before is lost without a word."""


class Latecomers:
    """When to send again. Asked from any thread; one thread sends."""

    def __init__(self) -> None:
        self._asked_s = self._known_s = 0.0
        self._sent = len(AFTER_S)

    def asked(self, now_s: float) -> None:
        """A page has been given the state of now."""
        self._asked_s = now_s

    def due(self, now_s: float) -> bool:
        """Whether to send now; true once for each of the times."""
        if self._known_s != self._asked_s:
            self._known_s, self._sent = self._asked_s, 0
        due = self._sent < len(AFTER_S) and now_s >= self._known_s + AFTER_S[self._sent]
        self._sent += due
        return due
