"""``Numbering``: the places of a step's calls, given out in order to any number of threads."""

from __future__ import annotations

import threading
from collections.abc import Callable


class Numbering:
    """``recorded`` gives the first number after those on record, for a step that is asked about the first time.

    A number is taken before its row is committed, so that rows of several threads are committed together.
    """

    def __init__(self, recorded: Callable[[str], int]) -> None:
        self._recorded = recorded
        self._lock = threading.Lock()
        self._next: dict[str, int] = {}

    def next(self, step: str) -> int:
        """The number that would be taken now."""
        with self._lock:
            return self._look(step)

    def take(self, step: str) -> int:
        with self._lock:
            n = self._look(step)
            self._next[step] = n + 1
            return n

    def give_back(self, step: str, n: int) -> None:
        """It was not used. A gap is left where others have taken the next one meanwhile."""
        with self._lock:
            if self._next.get(step) == n + 1:
                self._next[step] = n

    def look_again(self, step: str) -> None:
        """Somebody else has recorded calls of this step."""
        with self._lock:
            self._next[step] = max(self._look(step), self._recorded(step))

    def clear(self) -> None:
        with self._lock:
            self._next.clear()

    def _look(self, step: str) -> int:
        if step not in self._next:
            self._next[step] = self._recorded(step)
        return self._next[step]
