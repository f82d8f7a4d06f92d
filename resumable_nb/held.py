"""``Held``: finished steps on their way to the store, one at a time or several in one transaction."""

from __future__ import annotations

from collections.abc import Mapping

from resumable_nb.events import Bus
from resumable_nb.journal import Journal
from resumable_nb.memory import Memory
from resumable_nb.model import StepRecord


class Held:
    """What finished steps have come to, taken down and not committed yet."""

    def __init__(self, journal: Journal, memory: Memory, bus: Bus) -> None:
        self._journal, self._memory, self._bus = journal, memory, bus
        self._records: list[StepRecord] = []
        self._rows: dict[str, bytes] = {}

    def add(self, record: StepRecord, rows: Mapping[str, bytes]) -> None:
        self._records.append(record)
        self._rows |= rows

    def save(self) -> None:
        """Commit all of them in one transaction. Durable."""
        records, rows = self._records, self._rows
        self.discard()
        if not records:
            return
        for record in records:
            self._bus.emit("step.commit", record.id)
        self._journal.commit_step(*records, rows=rows)
        self._memory.committed()
        for record in records:
            self._bus.emit("step.committed", record.id, duration_s=record.duration_s, size_bytes=record.size_bytes)

    def discard(self) -> None:
        """Give them up: the steps are unfinished, and run again."""
        self._records, self._rows = [], {}
