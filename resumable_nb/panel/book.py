"""What is known of a task, folded in memory: read once, then kept up to date by events."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from resumable_nb.control import waited_s
from resumable_nb.events import Event
from resumable_nb.journal import Journal
from resumable_nb.model import MISSING, CallRecord, Missing, PauseRecord, RunRecord, StepRecord, TaskRecord
from resumable_nb.panel.trail import Trails, follow

RECORDED: Final = frozenset({"call.intent_committed", "call.result_committed"})
UNCLEAR: Final = frozenset({"call.in_doubt", "call.failed"})
STEPS: Final = frozenset({"step.begun", "step.committed", "step.failed", "step.forgotten"})
KINDS: Final = RECORDED | UNCLEAR | STEPS | {
    "call.replayed", "control.pause", "control.paused", "control.resumed", "control.run", "control.stop",
    "lease.acquired", "rollback.ended", "step.skipped", "task.forgotten", "track.turn",
}  # fmt: skip
"""The events that change what is shown."""


@dataclass(slots=True)
class Loop:
    """How far a ``track`` loop is."""

    label: str
    done: int
    total: int | None
    resumed_at: int
    elapsed_s: float

    @property
    def left_s(self) -> float | None:
        """Turns that were kept by an earlier run say nothing about speed."""
        here = self.done - self.resumed_at
        return self.elapsed_s / here * (self.total - self.done) if self.total and here > 0 else None


@dataclass(slots=True)
class Book:
    """The records of one task. Not thread-safe: one thread folds and reads."""

    journal: Journal
    run: str
    """The run of this process."""
    read_pauses: Callable[[], list[PauseRecord]] = list
    pauses: list[PauseRecord] = field(default_factory=list)
    revision: int = 0
    """Goes up with each change."""
    entered: int = 0
    """How many steps were begun or skipped since it was made."""
    task: TaskRecord | Missing = MISSING
    runs: list[RunRecord] = field(default_factory=list)
    steps: dict[str, StepRecord] = field(default_factory=dict)
    again: set[str] = field(default_factory=set)
    """Steps whose record was put aside; ``steps`` has it still. They run when their cell is executed."""
    versions: dict[tuple[str, int], StepRecord] = field(default_factory=dict)
    """Those that are finished, by step and version."""
    calls: list[CallRecord] = field(default_factory=list)
    """In the order in which they were first seen."""
    open: dict[str, CallRecord] = field(default_factory=dict)
    """Calls without an end, by id."""
    trails: Trails = field(default_factory=dict)
    counts: defaultdict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    """Step to how many calls have which status."""
    skipped: dict[str, float] = field(default_factory=dict)
    """Step to the seconds that its skip saved, in this process."""
    replayed: set[str] = field(default_factory=set)
    """Calls that were answered from the record in this process."""
    loops: dict[str, dict[str, Loop]] = field(default_factory=dict)
    """Step to its running loops, by loop id."""
    _answered: tuple[int, Counter[str]] = (0, Counter())
    _places: dict[str, int] = field(default_factory=dict)
    _last: dict[tuple[str, int], float | None] = field(default_factory=dict)

    def load(self) -> None:
        """Read everything."""
        self.revision += 1
        self.task = self.journal.task()
        self.runs = self.journal.runs()
        self.pauses = self.read_pauses()
        self.steps = {record.id: record for record in self.journal.steps()}
        self.versions = {(record.id, record.version): record for record in self.journal.versions()}
        latest = {record.id: record for record in sorted(self.versions.values(), key=lambda record: record.version)}
        self.again = latest.keys() - self.steps.keys()
        self.steps |= {step: latest[step] for step in self.again}
        self.calls, self._places, self.open = [], {}, {}
        self.counts.clear()
        self.trails.clear()
        self._last.clear()
        self._answered = 0, Counter()
        for record in sorted(self.journal.calls(), key=lambda record: record.started_at):
            self._put(record)

    def fold(self, events: deque[Event]) -> bool:
        """Take in the events that have come; whether the state of the task may be another one now."""
        self.revision += bool(events)
        stale: set[str] = set()
        unclear: dict[str, None] = {}
        # Most calls begin and end between two drawings, and loops make many turns: the last word counts.
        latest: dict[str, CallRecord] = {}
        turns: dict[tuple[str, str], dict[str, Any]] = {}
        found = paused = False
        while events:
            event = events.popleft()
            kind, facts = event.kind, event.facts
            self.entered += kind in ("step.begun", "step.skipped")
            if kind in RECORDED:
                latest[facts["record"].id] = facts["record"]
            elif kind in UNCLEAR:
                unclear[facts["id"]] = None
            elif kind == "call.replayed":
                self.replayed.add(facts["id"])
            elif kind == "track.turn":
                turns[event.step, facts["loop"]] = facts
            elif kind == "step.skipped":
                self.skipped[event.step] = facts["saved_s"]
            elif kind in STEPS:
                stale.add(event.step)
                found = True
            elif kind in ("task.forgotten", "rollback.ended"):
                self.load()
                latest.clear()
                found = True
            elif kind == "lease.acquired":
                self.task, self.runs = self.journal.task(), self.journal.runs()
                found = True
            elif kind.startswith("control."):
                found = paused = True
        if paused:
            self.pauses = self.read_pauses()
        for record in latest.values():
            self._put(record)
        for (step, _), turn in turns.items():
            self._turn(step, turn)
        self._reread(unclear, stale)
        return found

    def _reread(self, calls: Iterable[str], steps: Iterable[str]) -> None:
        for each in calls:
            if (place := self._places.get(each)) is not None:
                known = self.calls[place]
                if (now := self.journal.call(known.identity, known.k)) is not MISSING:
                    self._put(now)
        for each in steps:
            record = self.journal.step(each)
            self.skipped.pop(each, None)
            if record is MISSING:
                self.again |= {each} & self.steps.keys()
                continue
            self.again.discard(each)
            self.steps[each] = record
            if record.status == "done":
                self.versions[each, record.version] = record
            if record.status != "running":
                self.loops.pop(each, None)

    def _put(self, record: CallRecord) -> None:
        place = self._places.get(record.id)
        follow(self.trails, record, None if place is None else self.calls[place])
        if place is None:
            self._places[record.id] = len(self.calls)
            self.calls.append(record)
        else:
            self.counts[record.step][self.calls[place].status] -= 1
            self.calls[place] = record
        self.counts[record.step][record.status] += 1
        if record.status == "intent":
            self.open[record.id] = record
        else:
            self.open.pop(record.id, None)

    def _turn(self, step: str, facts: dict[str, Any]) -> None:
        loops = self.loops.setdefault(step, {})
        if facts["ended"]:
            loops.pop(facts["loop"], None)
            return
        loops[facts["loop"]] = Loop(
            str(facts["label"] or "loop"), facts["done"], facts["total"], facts["resumed_at"], facts["elapsed_s"]
        )

    def spans(self) -> list[StepRecord]:
        """Every time that a step was at work and of which a record is left: also versions that are not the newest."""
        known = {(record.id, record.version): record for record in self.steps.values()}
        return [*(record for key, record in self.versions.items() if key not in known), *known.values()]

    def call(self, call: str) -> CallRecord | Missing:
        place = self._places.get(call)
        return MISSING if place is None else self.calls[place]

    def calls_of(self, step: str) -> list[CallRecord]:
        return [record for record in self.calls if record.step == step]

    def total(self, status: str) -> int:
        """How many calls have that status."""
        return sum(count[status] for count in self.counts.values())

    def restored(self, step: str) -> str:
        """The skipped step by which this one came back: itself, or one around it; empty where it was not skipped."""
        while step and step not in self.skipped:
            step = step.rpartition("/")[0]
        return step

    def not_repeated(self) -> int:
        """Calls that have happened and were not made again, each once: their steps were skipped, or they answered."""
        found = sum(counts["done"] for step, counts in self.counts.items() if self.restored(step))
        if len(self.replayed) != self._answered[0]:
            known = (self.call(each) for each in self.replayed)
            self._answered = len(self.replayed), Counter(each.step for each in known if each is not MISSING)
        return found + sum(count for step, count in self._answered[1].items() if not self.restored(step))

    def saved_s(self) -> float:
        """What the skips of this process saved, each step once."""
        return sum(saved_s for step, saved_s in self.skipped.items() if not self.restored(step.rpartition("/")[0]))

    def gone_s(self, record: StepRecord, now: float) -> float:
        """How long a running step has worked: the time of pauses is left out."""
        waited = waited_s(self.pauses, record.run, record.started_at, now)
        return record.earlier_s + now - record.started_at - waited

    def last_s(self, record: StepRecord) -> float | None:
        """How long the finished version before this one took."""
        known = (record.id, record.version)
        if known not in self._last:
            earlier = [each for each in self.journal.versions(record.id) if each.version < record.version]
            self._last[known] = earlier[-1].duration_s if earlier else None
        return self._last[known]
