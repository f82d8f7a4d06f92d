"""A task in memory whose kernel can be started anew: what the tests of tools and journal work at."""

from __future__ import annotations

from collections import Counter
from typing import Any

from resumable_nb import scope
from resumable_nb.desk import Desk
from resumable_nb.errors import LeaseLost
from resumable_nb.events import Bus, Event
from resumable_nb.journal import Journal
from resumable_nb.model import CallRecord
from resumable_nb.store.base import Read
from resumable_nb.store.memory import MemoryStore


class Fence:
    """A lease that can be lost at a word."""

    def __init__(self) -> None:
        self.lost = False

    def ensure(self) -> None:
        if self.lost:
            raise LeaseLost("another kernel owns the task")

    def guard(self, read: Read) -> None:
        if self.lost:
            raise LeaseLost("another kernel owns the task")


class Clock:
    """Goes on by one second at each look."""

    def __init__(self) -> None:
        self.now = 1_700_000_000.0

    def __call__(self) -> float:
        self.now += 1
        return self.now


class Bench:
    """``desk`` is what tools use; ``restart`` begins a new run over the same store."""

    def __init__(self) -> None:
        self.bus = Bus()
        self.events: list[Event] = []
        self.bus.listen(self.events.append)
        self.store = MemoryStore(bus=self.bus)
        self.clock = Clock()
        self.slept: list[float] = []
        self.runs = 0
        self.restart()

    def restart(self) -> None:
        self.runs += 1
        self.fence = Fence()
        self.journal = Journal(self.store, self.fence, self.bus, clock=self.clock)
        self.incarnation = self.journal.ensure_task("bench").incarnation
        self.run = f"run-{self.runs}"
        self.journal.begin_run(self.run, pid=4000 + self.runs, host="here")
        self.made = Desk(
            journal=self.journal,
            incarnation=self.incarnation,
            run=self.run,
            key=b"k" * 32,
            bus=self.bus,
            clock=self.clock,
            sleep=self.slept.append,
            sleep_async=self._sleep_async,
        )
        scope.reset()
        self.events.clear()

    async def _sleep_async(self, seconds: float) -> None:
        self.slept.append(seconds)

    def desk(self) -> Desk:
        return self.made

    def only(self) -> CallRecord:
        """The one call there is."""
        (record,) = self.journal.calls()
        return record

    def kinds(self, prefix: str = "call.") -> list[str]:
        return [event.kind for event in self.events if event.kind.startswith(prefix)]

    def commits(self) -> Counter[bool]:
        """How many commits since the start of the run were durable (``True``), and how many not."""
        return Counter(event.facts["durable"] for event in self.events if event.kind == "store.transaction")

    def raw(self) -> bytes:
        """Every byte in the store, keys too."""
        return b"\n".join(key.encode() + b"=" + value for key, value in self.store.scan(""))


class Effect:
    """Counts what happened outside."""

    def __init__(self) -> None:
        self.calls: list[Any] = []

    def __call__(self, what: Any) -> int:
        self.calls.append(what)
        return len(self.calls)

    def __len__(self) -> int:
        return len(self.calls)
