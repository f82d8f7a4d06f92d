"""Callers that wait for the disk at the same time wait for one sync together, and fail each for itself."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from resumable_nb import scope, tools
from resumable_nb.desk import Desk
from resumable_nb.errors import LeaseLost, StoreUnavailable
from resumable_nb.events import Bus, Event
from resumable_nb.journal import Journal
from resumable_nb.lease import Lease
from resumable_nb.model import MISSING, Missing
from resumable_nb.store.base import Read
from resumable_nb.store.disk import DiskStore


class Bench:
    """A store on disk whose transactions can be held until others wait behind them."""

    def __init__(self, folder: Path) -> None:
        self.bus = Bus()
        self.store = DiskStore(folder / "task", bus=self.bus)
        self.store.commit({"first": b""})
        self.transactions: list[bool] = []
        self._waves: list[int] = []
        self._queued = 0
        self.bus.listen(self._on_event)

    def hold(self, *waves: int) -> None:
        """Commits come in waves of so many: hold the first of each until the rest of its wave is queued behind it."""
        self._waves[:] = waves
        self._queued = 0
        self.transactions.clear()

    def _on_event(self, event: Event) -> None:
        if event.kind != "store.transaction":
            return
        self.transactions.append(event.facts["durable"])
        if self._queued > 0:
            self._queued -= event.facts["commits"]
        elif self._waves:
            wave = self._waves.pop(0)
            while event.facts["commits"] + self.store._worker._queue.qsize() < wave:
                time.sleep(0.001)
            self._queued = wave - event.facts["commits"]

    def together(self, *actions: Callable[[], Any]) -> list[Future[Any]]:
        """Run the actions after the first so that all of them wait while the first commits."""
        self.hold(len(actions))
        with ThreadPoolExecutor(len(actions)) as pool:
            futures = [pool.submit(actions[0])]
            while not self.transactions:
                time.sleep(0.001)
            return futures + [pool.submit(action) for action in actions[1:]]

    def desk(self) -> Desk:
        lease = Lease(self.store, run="run", bus=self.bus, beat_s=3600)
        journal = Journal(self.store, lease, self.bus)
        journal.own()
        incarnation = journal.ensure_task("bench").incarnation
        self.lease = lease
        return Desk(journal=journal, incarnation=incarnation, run="run", key=b"k" * 32, bus=self.bus)


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(tmp_path)
    yield bench
    bench.store.close()
    scope.reset()


def test_commits_that_wait_share_a_transaction(bench: Bench) -> None:
    futures = bench.together(*[lambda n=n: bench.store.commit({f"row{n}": b"%d" % n}) for n in range(8)])
    assert [future.result() for future in futures] == [None] * 8
    assert bench.transactions == [True, True]
    assert [bench.store.get(f"row{n}") for n in range(8)] == [b"%d" % n for n in range(8)]


def test_a_durable_commit_makes_those_beside_it_durable(bench: Bench) -> None:
    commit = bench.store.commit
    bench.together(
        lambda: commit({"a": b""}, durable=False),
        lambda: commit({"b": b""}, durable=False),
        lambda: commit({"c": b""}),
    )
    assert bench.transactions == [False, True]


def test_a_refusal_is_the_callers_own(bench: Bench) -> None:
    def refuse(read: Read) -> None:
        raise LeaseLost("another kernel owns the task")

    commit = bench.store.commit
    _, good, lost, other = bench.together(
        lambda: commit({"a": b""}),
        lambda: commit({"b": b"1"}),
        lambda: commit({"c": b"1"}, guard=refuse),
        lambda: commit({"d": b"1"}),
    )
    assert (good.result(), other.result()) == (None, None)
    assert isinstance(lost.exception(), LeaseLost)
    assert (bench.store.get("b"), bench.store.get("c"), bench.store.get("d")) == (b"1", MISSING, b"1")
    assert len(bench.transactions) == 2


def test_where_all_refuse_nothing_is_committed(bench: Bench) -> None:
    def refuse(read: Read) -> None:
        raise LeaseLost("another kernel owns the task")

    commit = bench.store.commit
    futures = bench.together(
        lambda: commit({"a": b""}),
        lambda: commit({"b": b"1"}, guard=refuse),
        lambda: commit({"c": b"1"}, guard=refuse),
    )
    assert [type(future.exception()) for future in futures] == [type(None), LeaseLost, LeaseLost]
    assert len(bench.transactions) == 1


def test_a_value_that_cannot_be_written_fails_alone(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """The transaction is rolled back, value files and all, and the others are written without it."""
    put = DiskStore._put

    def full(store: DiskStore, database: Any, key: str, value: bytes) -> None:
        put(store, database, key, value)
        if key == "large":
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(DiskStore, "_put", full)
    commit = bench.store.commit
    _, good, bad, other = bench.together(
        lambda: commit({"a": b""}),
        lambda: commit({"b": b"1"}),
        lambda: commit({"large": bytes(3_000_000)}),
        lambda: commit({"d": b"1"}),
    )
    assert (good.result(), other.result()) == (None, None)
    assert isinstance(bad.exception(), StoreUnavailable)
    assert (bench.store.get("b"), bench.store.get("large"), bench.store.get("d")) == (b"1", MISSING, b"1")
    assert list((bench.store._path / "values").glob("*")) == []


def test_each_update_sees_those_before_it(bench: Bench) -> None:
    def count(old: bytes | Missing) -> bytes:
        return b"1" if old is MISSING else b"%d" % (int(old) + 1)

    futures = bench.together(*[lambda: bench.store.update("n", count) for _ in range(6)])
    assert sorted(future.result() for future in futures) == [b"1", b"2", b"3", b"4", b"5", b"6"]
    assert len(bench.transactions) == 2


def test_what_comes_between_commits_keeps_its_place(bench: Bench) -> None:
    """The store is closed, and its orphans swept, when what was asked for before is written."""
    futures = bench.together(
        lambda: bench.store.commit({"a": b""}),
        lambda: bench.store.commit({"b": bytes(3_000_000)}),
        lambda: bench.store.sweep(),
        lambda: bench.store.commit({"c": bytes(3_000_000)}),
    )
    assert [future.exception() for future in futures] == [None] * 4
    bench.store.close()
    assert (bench.store.get("b"), bench.store.get("c")) == (bytes(3_000_000), bytes(3_000_000))


def test_threads_commit_their_calls_together(bench: Bench) -> None:
    desk = bench.desk()
    tools.use(lambda: desk)
    met = threading.Barrier(8)

    @tools.tool
    def pay(n: int) -> int:
        met.wait()
        return n

    bench.hold(8, 8)
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(pay, range(8))) == list(range(8))
    assert 2 <= len(bench.transactions) <= 4
    assert sorted(call.n for call in desk.journal.calls()) == list(range(8))
    bench.lease.release()


async def test_tasks_commit_their_calls_together(bench: Bench) -> None:
    desk = bench.desk()
    tools.use(lambda: desk)
    arrived = 0
    all_there = asyncio.Event()

    @tools.tool
    async def ship(n: int) -> int:
        nonlocal arrived
        arrived += 1
        if arrived == 8:
            all_there.set()
        await all_there.wait()
        return n

    bench.hold(8, 8)
    assert await asyncio.gather(*[ship(n) for n in range(8)]) == list(range(8))
    assert 2 <= len(bench.transactions) <= 4
    bench.lease.release()


async def test_a_call_cancelled_while_its_intent_is_committed_was_not_made(bench: Bench) -> None:
    """So it is not in doubt; the next one makes it."""
    desk = bench.desk()
    tools.use(lambda: desk)
    made: list[int] = []
    begun = asyncio.Event()

    @tools.tool
    async def ship(n: int) -> int:
        begun.set()
        if n == 0:
            await asyncio.Event().wait()
        made.append(n)
        return n

    first = asyncio.create_task(ship(0))
    await begun.wait()
    loop = asyncio.get_running_loop()
    held, go = asyncio.Event(), threading.Event()

    def hold(event: Event) -> None:
        if event.kind == "store.transaction":
            loop.call_soon_threadsafe(held.set)
            go.wait()

    stop = bench.bus.listen(hold)
    second = asyncio.create_task(ship(1))
    await held.wait()
    second.cancel()
    await asyncio.sleep(0)
    assert not second.done()
    go.set()
    with pytest.raises(asyncio.CancelledError):
        await second
    stop()
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    assert {call.status for call in desk.journal.calls() if call.arguments == {"n": "1"}} == {"failed"}
    assert {call.status for call in desk.journal.calls() if call.arguments == {"n": "0"}} == {"intent"}
    assert await ship(1) == 1
    assert made == [1]
    bench.lease.release()
