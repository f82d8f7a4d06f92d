"""``Trail``: when the calls of a step began, as fine as a picture needs, however many there were."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from resumable_nb.model import CallRecord

MOST: Final = 2000
"""Moments that are kept; a picture is not so wide."""
FINEST_S: Final = 0.001


@dataclass(slots=True)
class Trail:
    """The calls that one step made in one run."""

    first_s: float
    last_s: float
    odd: dict[str, tuple[float, str]] = field(default_factory=dict)
    """Call id to when it began, and the marks of what became of it."""
    _grain_s: float = FINEST_S
    _ticks: set[int] = field(default_factory=set)

    @property
    def moments(self) -> Iterable[float]:
        return [tick * self._grain_s for tick in self._ticks]

    def put(self, call: CallRecord) -> None:
        began_s, ended_s = call.started_at, call.ended_at or call.started_at
        if began_s < self.first_s:
            self.first_s = began_s
        if ended_s > self.last_s:
            self.last_s = ended_s
        self._ticks.add(int(began_s / self._grain_s))
        if len(self._ticks) > MOST:
            self._grain_s *= 2
            self._ticks = {tick // 2 for tick in self._ticks}
        failed = "×" if call.status == "failed" else "?" if call.doubt else ""
        marks = failed + "△" * (len(call.attempts) > 1)
        if marks:
            self.odd[call.id] = began_s, marks
        elif self.odd:
            self.odd.pop(call.id, None)


Trails = dict[tuple[str, str], Trail]
"""By step and run."""


def follow(trails: Trails, call: CallRecord, before: CallRecord | None = None) -> None:
    """Take in a call. ``before``: what was known of it, maybe of another run."""
    key = call.step, call.run
    if before is not None and before.run != call.run and (left := trails.get((before.step, before.run))):
        left.odd.pop(call.id, None)
    trail = trails.get(key)
    if trail is None:
        trail = trails[key] = Trail(call.started_at, call.started_at)
    trail.put(call)
