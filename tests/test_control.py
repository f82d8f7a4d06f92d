"""Pause and stop: what they do to code at its safe points, and to whoever catches them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator

import pytest

from resumable_nb import drive
from resumable_nb.control import Control
from resumable_nb.errors import Stopped, StoppedTask
from resumable_nb.events import Bus, Event
from resumable_nb.lease import Lease
from resumable_nb.store.memory import MemoryStore


class Process:
    """One process with the task open; several share a store."""

    def __init__(self, store: MemoryStore, run: str) -> None:
        self.bus = Bus()
        self.events: list[str] = []
        self.bus.listen(lambda event: self.events.append(event.kind))
        self.lease = Lease(store, run=run, bus=self.bus)
        self.now_s = 0.0
        self.control = Control(store, self.lease, self.bus, run=run, monotonic=lambda: self.now_s, watch_s=0.001)
        self.bus.listen(self._own)

    def _own(self, event: Event) -> None:
        if event.kind == "lease.acquired":
            self.control.owned()

    def close(self) -> None:
        self.control.close()
        self.lease.release()


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def owner(store: MemoryStore) -> Iterator[Process]:
    """A process that has the task."""
    made = Process(store, "run-1")
    made.lease.ensure()
    yield made
    made.close()


def test_the_time_of_pauses_is_known_while_they_last_and_after(owner: Process) -> None:
    seen: list[float] = []

    def hear(event: Event) -> None:
        if event.kind == "control.paused":
            owner.now_s += 30.0
            seen.append(owner.control.waited_s)
            owner.control.resume()

    owner.bus.listen(hear)
    for _ in range(2):
        owner.control.pause()
        owner.control.checkpoint("charge")
        owner.now_s += 5.0
        seen.append(owner.control.waited_s)
    assert seen == [30.0, 30.0, 60.0, 60.0]


def when(process: Process, kind: str, act: Callable[[], None]) -> None:
    """Act in another thread as soon as the event happens."""

    def hear(event: Event) -> None:
        if event.kind == kind:
            thread = threading.Thread(target=act)
            thread.start()

    process.bus.listen(hear)


def heard(process: Process, kind: str) -> threading.Event:
    """An event that is set when something of that kind happens."""
    seen = threading.Event()
    process.bus.listen(lambda event: seen.set() if event.kind == kind else None)
    return seen


def test_nothing_wanted_lets_everything_pass(owner: Process) -> None:
    owner.control.checkpoint("charge")
    assert owner.control.pauses() == []


def test_a_pause_waits_until_somebody_resumes(owner: Process) -> None:
    when(owner, "control.paused", lambda: owner.control.resume("panel"))
    owner.control.pause("panel")
    owner.control.checkpoint("charge")
    (pause,) = owner.control.pauses()
    assert (pause.want, pause.by, pause.where, pause.end, pause.ended_by) == (
        "pause",
        "panel",
        "charge",
        "resumed",
        "panel",
    )
    assert pause.began_at is not None
    assert owner.control.wanted == "run"


async def test_an_async_pause_lets_the_loop_go_on(owner: Process) -> None:
    async def other() -> None:
        while "control.paused" not in owner.events:
            await asyncio.sleep(0)
        owner.control.resume()

    owner.control.pause()
    await asyncio.gather(owner.control.checkpoint_async("charge"), other())
    assert owner.control.pauses()[0].end == "resumed"


def test_a_stop_ends_a_pause(owner: Process) -> None:
    when(owner, "control.paused", lambda: owner.control.stop("panel"))
    owner.control.pause("panel")
    with pytest.raises(Stopped, match=r"stopped by panel before charge; what is finished is kept"):
        owner.control.checkpoint("charge")
    assert [(each.want, each.end) for each in owner.control.pauses()] == [("pause", "stopped"), ("stop", "")]


def test_no_code_can_catch_a_stop_and_go_on(owner: Process) -> None:
    owner.control.stop()
    for _ in range(2):
        with pytest.raises(Stopped):
            owner.control.checkpoint()
    assert owner.control.stops == 2
    assert owner.control.end() is not None
    owner.control.checkpoint()


def test_a_stop_while_nothing_runs_does_not_hit_the_next_cell(owner: Process) -> None:
    owner.control.stop("panel")
    owner.control.begin()
    owner.control.checkpoint()
    assert owner.control.end() is None
    assert [each.end for each in owner.control.pauses()] == ["nothing was running"]


def test_a_stop_after_the_last_safe_point_ends_the_cell_that_ran(owner: Process) -> None:
    owner.control.begin()
    owner.control.stop("panel")
    assert str(owner.control.end()) == (
        "stopped by panel at the end of the cell; what is finished is kept, and Run All goes on from here"
    )
    owner.control.begin()
    owner.control.checkpoint()


def test_a_pause_outlasts_cells(owner: Process) -> None:
    owner.control.begin()
    owner.control.pause()
    assert owner.control.end() is None
    owner.control.begin()
    assert owner.control.wanted == "pause"


def test_nothing_stops_between_a_calls_intent_and_its_result(owner: Process) -> None:
    owner.control.stop()
    inside = drive.Invoke(lambda: owner.control.checkpoint("inner"), (), {}, ("id", 0), "outer()")
    assert drive._run(inside) == drive.Returned(None)


async def test_a_task_of_a_cell_is_cancelled_as_an_interrupt_would_end_the_event_loop(owner: Process) -> None:
    owner.control.begin()
    owner.control.stop()
    with pytest.raises(StoppedTask):
        await asyncio.gather(owner.control.checkpoint_async())
    with pytest.raises(Stopped):
        await owner.control.checkpoint_async()


def test_another_process_pauses_resumes_and_stops_the_owner(store: MemoryStore, owner: Process) -> None:
    other = Process(store, "run-2")
    for ask, kind, wanted in (
        (other.control.pause, "control.pause", "pause"),
        (other.control.resume, "control.run", "run"),
        (other.control.stop, "control.stop", "stop"),
    ):
        noticed = heard(owner, kind)
        ask("resumable 4711")
        assert noticed.wait(30)
        assert (owner.control.wanted, owner.control.by) == (wanted, "resumable 4711")
    assert not other.lease.held
    assert other.control.wanted == "run"


def test_a_request_to_an_earlier_kernel_does_not_reach_the_next_one(store: MemoryStore, owner: Process) -> None:
    other = Process(store, "run-2")
    noticed = heard(owner, "control.stop")
    other.control.stop()
    assert noticed.wait(30)
    owner.close()
    later = Process(store, "run-3")
    later.lease.ensure()
    later.control.checkpoint()
    assert later.control.wanted == "run"
    later.close()


def test_the_next_run_resumes_what_was_paused(store: MemoryStore, owner: Process) -> None:
    owner.control.pause("panel")
    owner.close()
    assert owner.control.pauses()[0].ended_at is None
    later = Process(store, "run-2")
    later.lease.ensure()
    assert later.control.pauses()[0].ended_at is None  # whoever only resolves a call does not resume the task
    later.control.working()
    (pause,) = later.control.pauses()
    assert (pause.end, pause.ended_by) == ("resumed", "run")
    later.control.checkpoint()
    later.close()


def test_a_pause_before_the_first_step_is_recorded_when_the_lease_is_taken(store: MemoryStore) -> None:
    process = Process(store, "run-1")
    process.control.pause("panel")
    assert process.control.pauses() == []
    process.lease.ensure()
    assert [each.by for each in process.control.pauses()] == ["panel"]
    process.close()


def test_polls_come_twenty_times_a_second_and_while_paused(owner: Process) -> None:
    polled: list[float] = []
    remove = owner.control.on_poll(lambda: polled.append(owner.now_s))
    for turn in range(1, 321):
        owner.now_s = turn / 320
        owner.control.checkpoint()
    assert len(polled) in (19, 20)
    polled.clear()

    def resume_at_the_third() -> None:
        owner.now_s += 1
        polled.append(owner.now_s)
        if len(polled) == 3:
            owner.control.resume()

    remove()
    remove = owner.control.on_poll(resume_at_the_third)
    owner.now_s += 1
    owner.control.pause()
    owner.control.checkpoint()
    assert len(polled) == 3
    remove()
    owner.now_s += 1
    owner.control.checkpoint()
    assert len(polled) == 3


def test_a_poll_that_fails_is_left_out_and_fails_nothing(owner: Process) -> None:
    owner.now_s = 1
    owner.control.on_poll(lambda: {}["gone"])
    with pytest.warns(UserWarning, match="a poll failed and is left out: KeyError"):
        owner.control.checkpoint()
    owner.now_s = 2
    owner.control.checkpoint()
