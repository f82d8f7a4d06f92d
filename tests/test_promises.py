"""Random programs of calls and deaths, in one process: what each kind of call promises, in memory and on disk."""

from __future__ import annotations

import asyncio
import itertools
import shutil
import tempfile
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from resumable_nb import Happened, NotHappened, scope, tool, tools
from resumable_nb.errors import InDoubt, LeaseLost
from resumable_nb.events import Event
from resumable_nb.fanout import FanOut, fan_out, fan_out_async
from resumable_nb.once import once
from resumable_nb.store.disk import DiskStore
from resumable_nb.tools import resolve_call
from tests.bench import Bench


class Busy(Exception):
    """Nothing has happened."""


class World:
    """The receivers: how often each effect happened, and what was answered first."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.numbers = itertools.count()
        self.effects: Counter[tuple[str, int]] = Counter()
        self.answers: dict[tuple[str, int], int] = {}
        self.refusals: Counter[int] = Counter()

    def do(self, name: str, n: int) -> int:
        with self.lock:
            self.effects[name, n] += 1
            return self.answers.setdefault((name, n), next(self.numbers))


worlds = [World()]


@tool
def pay(n: int) -> int:
    return worlds[-1].do("pay", n)


@tool
async def send(n: int) -> int:
    await asyncio.sleep(0)
    return worlds[-1].do("send", n)


def looked_up(n: int) -> Happened | NotHappened:
    found = worlds[-1].answers.get(("charge", n))
    return NotHappened() if found is None else Happened(found)


@tool(reconcile=looked_up)
def charge(n: int) -> int:
    return worlds[-1].do("charge", n)


@tool(retries=2, retry_on=Busy)
def book(n: int) -> int:
    """Refused ``n`` times, of which each call gets over two."""
    with worlds[-1].lock:
        worlds[-1].refusals[n] += 1
        if worlds[-1].refusals[n] <= n:
            raise Busy
    return worlds[-1].do("book", n)


@tool(repeatable=True)
def fetch(n: int) -> int:
    return worlds[-1].do("fetch", n)


CALLS: dict[str, Callable[[int], Any]] = {
    "pay": pay,
    "send": lambda n: asyncio.run(send(n)),  # type: ignore[arg-type]  # one program's calls, of several types
    "charge": charge,
    "book": book,
    "fetch": fetch,
}
ARGUMENTS = st.integers(0, 5)
MANY = st.lists(ARGUMENTS, max_size=6, unique=True)
DEATHS = st.none() | st.integers(0, 25)
"""At which event the process loses its right to write: nothing that it does from then on is on record."""


class Promises(RuleBasedStateMachine):
    """An effect that may not be repeated happens at most once, and whoever got an answer gets it for ever."""

    def bench_of(self) -> Bench:
        return Bench()

    def __init__(self) -> None:
        super().__init__()
        worlds.append(World())
        self.world = worlds[-1]
        self.bench = self.bench_of()
        tools.use(self.bench.desk)
        self.decided: dict[str, int] = {}

    def teardown(self) -> None:
        scope.reset()

    @rule(name=st.sampled_from(sorted(CALLS)), n=ARGUMENTS, death=DEATHS)
    def call(self, name: str, n: int, death: int | None) -> None:
        with_answer = self.until(death, lambda: CALLS[name](n))
        if with_answer is not None:
            assert with_answer[0] == self.world.answers[name, n]

    @rule(items=MANY, death=DEATHS, beside=st.sampled_from(["threads", "tasks"]))
    def map(self, items: list[int], death: int | None, beside: str) -> None:
        def work() -> list[int]:
            on_call = pay if beside == "threads" else send
            fan = FanOut(on_call, items, self.bench.desk(), concurrency=3, errors="raise", label=None, star=False)
            return fan_out(fan) if beside == "threads" else asyncio.run(fan_out_async(fan))

        with_answers = self.until(death, work)
        if with_answers is not None:
            name = "pay" if beside == "threads" else "send"
            assert with_answers[0] == [self.world.answers[name, n] for n in items]

    @rule(name=st.sampled_from("ab"), death=DEATHS)
    def decide(self, name: str, death: int | None) -> None:
        with_value = self.until(death, lambda: once(name, lambda: next(self.world.numbers), self.bench.desk()))
        if with_value is not None:
            assert with_value[0] == self.decided.setdefault(name, with_value[0])

    @precondition(lambda self: self.bench.runs < 20)
    @rule()
    def restart(self) -> None:
        self.bench.restart()

    @invariant()
    def no_effect_is_repeated(self) -> None:
        assert all(times == 1 for (name, _), times in self.world.effects.items() if name != "fetch")

    def until(self, death: int | None, work: Callable[[], Any]) -> tuple[Any] | None:
        """What the work returned before the process died, if it did; doubts are settled by what is true."""
        seen = itertools.count()

        def die(event: Event) -> None:
            if next(seen) == death:
                self.bench.fence.lost = True

        scope.reset()
        stop = self.bench.bus.listen(die)
        try:
            return (work(),)
        except (LeaseLost, Busy):
            return None
        except InDoubt:
            stop()
            if not self.bench.fence.lost:
                self.settle()
            return None
        finally:
            stop()
            if self.bench.fence.lost:
                self.bench.restart()

    def settle(self) -> None:
        for record in self.bench.journal.calls():
            if record.status == "intent" and not record.repeatable:
                found = self.world.answers.get((record.tool, int(record.arguments["n"])))
                resolve_call(self.bench.journal, record.id, found is not None, found)


class OnDisk(Bench):
    """The store is opened anew in each run."""

    def __init__(self) -> None:
        self.folder = tempfile.mkdtemp()
        super().__init__()

    def restart(self) -> None:
        self.store.close()
        self.store = DiskStore(self.folder, key=b"k" * 32, bus=self.bus)  # type: ignore[assignment]  # another kind of store
        super().restart()

    def remove(self) -> None:
        self.store.close()
        shutil.rmtree(self.folder)


class PromisesOnDisk(Promises):
    def bench_of(self) -> Bench:
        self.disk = OnDisk()
        return self.disk

    def teardown(self) -> None:
        super().teardown()
        self.disk.remove()


COMMON = {"deadline": None, "suppress_health_check": list(HealthCheck)}


def test_promises_hold() -> None:
    run_state_machine_as_test(Promises, settings=settings(max_examples=50, stateful_step_count=25, **COMMON))  # type: ignore[arg-type]  # options of several types


def test_promises_hold_on_disk() -> None:
    run_state_machine_as_test(PromisesOnDisk, settings=settings(max_examples=4, stateful_step_count=15, **COMMON))  # type: ignore[arg-type]  # options of several types
