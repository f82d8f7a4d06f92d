"""``Passes``: in which order cells are run or skipped, one pass over the notebook after another."""

from __future__ import annotations


class Passes:
    """Of one process. A step that is not handled again knows those above it from its first time."""

    def __init__(self) -> None:
        self._steps: list[str] = []

    def took(self, step: str) -> None:
        """A cell was skipped, or begins."""
        self._steps.append(step)

    def took_plain(self, text: str) -> None:
        """A cell that is no step is about to run."""
        self._steps.append(f"\n{text}")

    def above(self, step: str) -> frozenset[str] | None:
        """Of the steps handled since the step was, those of this pass over the notebook; None: all that there was."""
        if step not in self._steps:
            return None
        first, last = self._steps.index(step), len(self._steps) - self._steps[::-1].index(step)
        since, known = self._steps[last:], {*self._steps[:first]}
        start = next((k for k, each in enumerate(since) if each in known), len(since))
        return frozenset(since[start:])
