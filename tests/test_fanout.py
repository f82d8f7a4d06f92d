"""``task().map``: many calls at once, each durable by itself."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest

from resumable_nb import scope
from resumable_nb.errors import BadArgument, InDoubt, LeaseLost, Stopped, UsageError, ValueUnavailable, WorkerLost
from resumable_nb.fanout import FanOut, fan_out, fan_out_async
from resumable_nb.tools import NotHappened, tool
from tests.bench import Bench, Effect


def fan(bench: Bench, call: Any, items: Any, **options: Any) -> FanOut:
    defaults: dict[str, Any] = {"concurrency": 8, "errors": "raise", "label": None, "star": False}
    return FanOut(call, items, bench.desk(), **{**defaults, **options})


def over(bench: Bench, call: Any, items: Any, executor: Any = None, **options: Any) -> list[Any]:
    return fan_out(fan(bench, call, items, **options), executor)


def test_results_come_in_the_order_of_the_items(bench: Bench, effect: Effect) -> None:
    gate = threading.Event()

    @tool
    def send(n: int) -> int:
        if n == 0:
            gate.wait()
        if n == 3:
            gate.set()
        effect(n)
        return n * 10

    assert over(bench, send, range(20)) == [n * 10 for n in range(20)]
    bench.restart()
    assert over(bench, send, (n for n in range(20))) == [n * 10 for n in range(20)]
    assert sorted(effect.calls) == list(range(20))


def test_no_more_than_concurrency_at_a_time(bench: Bench) -> None:
    under_way: list[int] = []
    most: list[int] = []
    both = threading.Barrier(2)

    @tool
    def send(n: int) -> None:
        under_way.append(n)
        most.append(len(under_way))
        both.wait()
        under_way.remove(n)

    over(bench, send, range(6), concurrency=2)
    assert max(most) == 2


def test_an_item_is_one_argument_and_star_makes_it_several(bench: Bench) -> None:
    @tool
    def send(a: Any, b: int = 0) -> Any:
        return [a, b]

    assert over(bench, send, [(1, 2), {"a": 1}]) == [[(1, 2), 0], [{"a": 1}, 0]]
    assert over(bench, send, [(1, 2), {"a": 3, "b": 4}], star=True) == [[1, 2], [3, 4]]


def test_methods_map_too(bench: Bench) -> None:
    class Bank:
        @tool(ignore="self")
        def pay(self, n: int) -> int:
            return n + 1

    assert over(bench, Bank().pay, [1, 2]) == [2, 3]


def test_the_first_error_by_item_is_raised_when_all_have_ended(bench: Bench, effect: Effect) -> None:
    both = threading.Barrier(2)

    @tool
    def send(n: int) -> int:
        if n < 2:
            both.wait()
            raise ValueError(n)
        return effect(n)

    with pytest.raises(ValueError, match="0") as caught:
        over(bench, send, range(10), concurrency=2)
    assert "2 failed" in "".join(caught.value.__notes__)
    assert effect.calls == []
    assert {call.status for call in bench.journal.calls()} == {"failed"}
    assert len(bench.journal.calls()) == 2


def test_collected_errors_stand_in_the_place_of_their_items(bench: Bench) -> None:
    @tool
    def send(n: Any) -> int:
        if n == 1:
            raise ValueError(n)
        return 10

    first, second, third, fourth = over(bench, send, [0, 1, iter(()), 3], errors="collect")
    assert (first, fourth) == (10, 10)
    assert isinstance(second, ValueError)
    assert isinstance(third, BadArgument)


def test_a_lost_lease_is_nobodys_item(bench: Bench) -> None:
    @tool
    def send(n: int) -> int:
        bench.fence.lost = True
        return n

    with pytest.raises(LeaseLost):
        over(bench, send, range(10), errors="collect", concurrency=1)
    bench.fence.lost = False
    assert len(bench.journal.calls()) == 1


def test_identical_items_of_each_call_keep_their_order(bench: Bench, effect: Effect) -> None:
    @tool(each_call=True)
    def poll(what: str) -> int:
        return effect(what)

    with scope.entered(scope.StepScope(id="step")):
        first = over(bench, poll, ["a"] * 12)
    bench.restart()
    with scope.entered(scope.StepScope(id="step", continuing=True)):
        assert over(bench, poll, ["a"] * 12) == first
    assert len(effect) == 12


def test_progress_is_told_as_that_of_a_loop(bench: Bench) -> None:
    @tool
    def send(n: int) -> int:
        return n

    over(bench, send, [1, 2, 3], label="orders")
    turns = [event.facts for event in bench.events if event.kind == "track.turn"]
    assert [(turn["label"], turn["done"], turn["total"]) for turn in turns] == [
        ("orders", 0, 3), ("orders", 1, 3), ("orders", 2, 3), ("orders", 3, 3), ("orders", 3, 3),
    ]  # fmt: skip
    assert [turn["ended"] for turn in turns] == [False] * 4 + [True]


def test_items_answered_from_the_record_say_nothing_about_speed(bench: Bench, effect: Effect) -> None:
    @tool
    def send(n: int) -> int:
        return effect(n)

    over(bench, send, range(3))
    bench.restart()
    over(bench, send, range(5), concurrency=1)
    turns = [event.facts for event in bench.events if event.kind == "track.turn"]
    assert [(turn["done"], turn["resumed_at"]) for turn in turns] == [
        (0, 0), (1, 1), (2, 2), (3, 3), (4, 3), (5, 3), (5, 3),
    ]  # fmt: skip


def test_an_interrupt_leaves_calls_to_end_and_begins_no_more(bench: Bench, effect: Effect) -> None:
    """What is under way is recorded when it returns; the same map makes the rest."""
    go = threading.Event()

    @tool
    def send(n: int) -> int:
        if n == 1:
            os.kill(os.getpid(), signal.SIGINT)
        go.wait()
        return effect(n)

    with pytest.raises(KeyboardInterrupt) as caught:
        over(bench, send, range(10), concurrency=2)
    assert "still under way" in "".join(caught.value.__notes__)
    go.set()
    scope.reset()  # the next cell
    assert sorted(over(bench, send, [0, 1])) == [1, 2]
    assert sorted(effect.calls) == [0, 1]


def test_a_paused_map_begins_nothing(bench: Bench, effect: Effect) -> None:
    asked: list[str] = []

    class Stop(Exception):
        pass

    def checkpoint(where: str) -> None:
        asked.append(where)
        if len(asked) == 4:
            raise Stop

    object.__setattr__(bench.made, "checkpoint", checkpoint)

    @tool
    def send(n: int) -> int:
        return effect(n)

    with pytest.raises(Stop):
        over(bench, send, range(10))
    assert sorted(effect.calls) == [0, 1, 2]
    assert {call.status for call in bench.journal.calls()} == {"done"}


@pytest.mark.parametrize(
    ("options", "said"), [({"errors": "no"}, "collect"), ({"concurrency": 0}, "concurrency"), ({}, "@tool")]
)
def test_wrong_options_are_refused(bench: Bench, options: dict[str, Any], said: str) -> None:
    call = tool(lambda n: n, name="x") if options else len
    with pytest.raises(UsageError, match=said):
        fan(bench, call, [1], **options)


def test_an_unknown_executor_is_refused(bench: Bench) -> None:
    with pytest.raises(UsageError, match="Dask"):
        over(bench, tool(lambda n: n, name="x"), [1], executor=object())


# --- async


async def test_tasks_run_side_by_side_in_order(bench: Bench, effect: Effect) -> None:
    under_way = most = 0
    three = asyncio.Barrier(3)

    @tool
    async def ship(n: int) -> int:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await three.wait()
        under_way -= 1
        effect(n)
        return n * 10

    assert await fan_out_async(fan(bench, ship, range(21), concurrency=3)) == [n * 10 for n in range(21)]
    assert most == 3
    bench.restart()
    assert await fan_out_async(fan(bench, ship, range(21))) == [n * 10 for n in range(21)]
    assert sorted(effect.calls) == list(range(21))


async def test_a_cancelled_map_leaves_its_calls_in_doubt_or_unbegun(bench: Bench) -> None:
    begun: list[int] = []
    two = asyncio.Event()

    @tool
    async def ship(n: int) -> None:
        begun.append(n)
        if len(begun) == 2:
            two.set()
        await asyncio.Event().wait()

    task = asyncio.create_task(fan_out_async(fan(bench, ship, range(9), concurrency=2)))
    await two.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert sorted(begun) == [0, 1]
    assert [(call.status, bool(call.doubt)) for call in bench.journal.calls()] == [("intent", True)] * 2


async def test_each_kind_of_tool_names_the_other_way(bench: Bench) -> None:
    async def ship(n: int) -> None: ...

    with pytest.raises(UsageError, match="amap"):
        over(bench, tool(ship), [1])
    with pytest.raises(UsageError, match=r"task\(\).map"):
        await fan_out_async(fan(bench, tool(lambda n: n, name="x"), [1]))


# --- executors


def test_threads_of_an_executor_know_their_step(bench: Bench) -> None:
    @tool(repeatable=True)
    def inner(n: int) -> int:
        return n

    @tool(repeatable=True)
    def outer(n: int) -> int:
        return inner(n) + 1

    with ThreadPoolExecutor(2) as pool, scope.entered(scope.StepScope(id="step")):
        assert over(bench, outer, range(4), pool) == [1, 2, 3, 4]
    assert {call.step for call in bench.journal.calls()} == {"step"}


class Odd(Exception):
    """Cannot be read back: its parameters are not its arguments."""

    def __init__(self, a: int, b: int) -> None:
        super().__init__("odd")


def note(folder: str, n: Any) -> None:
    fd = os.open(f"{folder}/ledger", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(fd, f"{n}\n".encode())
    os.fsync(fd)
    os.close(fd)


@tool(name="remote")
def remote(folder: str, what: str) -> Any:
    note(folder, what)
    match what:
        case "die":
            os.kill(os.getpid(), signal.SIGKILL)
        case "lock":
            return threading.Lock()
        case "value":
            raise ValueError("bad")
        case "odd":
            raise Odd(1, 2)
    return what, os.getpid()


@pytest.fixture
def pool() -> Iterator[ProcessPoolExecutor]:
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        yield pool


def ledger(folder: Path) -> list[str]:
    return (folder / "ledger").read_text().split()


def test_only_the_function_runs_in_the_other_process(bench: Bench, tmp_path: Path, pool: ProcessPoolExecutor) -> None:
    """What it returns and raises is recorded here: also what cannot be sent, which then is not taken for a failure."""
    items = [(str(tmp_path), what) for what in ("a", "value", "lock", "odd", "b")]
    for _ in range(2):
        first, bad, lock, odd, last = over(bench, remote, items, pool, errors="collect", star=True)
        assert first[0] == "a"
        assert first[1] == last[1] != os.getpid()
        assert isinstance(bad, ValueError)
        assert isinstance(lock, ValueUnavailable)
        assert isinstance(odd, (WorkerLost, InDoubt))
        bench.restart()
    # A failure is made again, as ever; nothing else is.
    assert ledger(tmp_path) == ["a", "value", "lock", "odd", "b", "value"]


def test_a_dead_worker_leaves_its_call_in_doubt(bench: Bench, tmp_path: Path, pool: ProcessPoolExecutor) -> None:
    with pytest.raises(WorkerLost):
        over(bench, remote, [(str(tmp_path), "die")], pool, star=True)
    assert bench.only().status == "intent"
    with pytest.raises(InDoubt):
        over(bench, remote, [(str(tmp_path), "die")], None, star=True)
    assert ledger(tmp_path) == ["die"]


def test_what_a_broken_or_closed_pool_did_not_take_is_not_in_doubt(bench: Bench, tmp_path: Path) -> None:
    pool = ProcessPoolExecutor(1)
    pool.shutdown()
    with pytest.raises(RuntimeError):
        over(bench, remote, [(str(tmp_path), "a")], pool, star=True)
    assert bench.only().status == "failed"


def test_what_cannot_be_sent_was_not_done(bench: Bench, tmp_path: Path, pool: ProcessPoolExecutor) -> None:
    lock = threading.Lock()

    @tool
    def send(n: int) -> None:
        lock.acquire()

    with pytest.raises(UsageError, match="map it over threads"):
        over(bench, send, [1], pool)
    assert bench.only().status == "failed"


def begin_and_wait(folder: str) -> int:
    with (Path(folder) / "ledger").open("a") as file:
        file.write("begun\n")
    while not (Path(folder) / "go").exists():
        time.sleep(0.01)
    return 7


def test_a_call_that_is_still_at_work_in_a_worker_is_not_sent_again(
    bench: Bench, tmp_path: Path, pool: ProcessPoolExecutor
) -> None:
    """Its receiver may know nothing of it yet. What it returns in the end settles the call."""
    send = tool(begin_and_wait, name="send", timeout_s=0.01, reconcile=lambda folder: NotHappened())
    while not any(call.status == "intent" for call in bench.journal.calls()):  # one that was not begun is sent again
        with pytest.raises(WorkerLost):
            over(bench, send, [str(tmp_path)], pool)
    settled = threading.Event()
    bench.bus.listen(lambda event: settled.set() if event.kind == "call.late" else None)
    with pytest.raises(InDoubt, match="still at work"):
        over(bench, send, [str(tmp_path)])
    (tmp_path / "go").touch()
    assert settled.wait(60)
    bench.restart()
    assert over(bench, send, [str(tmp_path)]) == [7]
    assert ledger(tmp_path) == ["begun"]


def test_what_an_executor_never_began_is_not_in_doubt(bench: Bench, effect: Effect) -> None:
    @tool
    def send(n: int) -> int:
        return effect(n)

    gate = threading.Event()
    pool = ThreadPoolExecutor(1)
    pool.submit(gate.wait)

    def shut(event: Any) -> None:
        if event.kind == "call.intent_committed":
            threading.Thread(target=close).start()

    def close() -> None:
        while not pool._work_queue.qsize():
            time.sleep(0.001)
        pool.shutdown(wait=False, cancel_futures=True)
        gate.set()

    bench.bus.listen(shut)
    with pytest.raises(WorkerLost, match="not begun"):
        over(bench, send, [1], pool)
    assert bench.only().status == "failed"
    assert over(bench, send, [1]) == [1]


def test_a_stop_lets_async_calls_end(bench: Bench, effect: Effect) -> None:
    """As threads do: a safe point leaves nothing in doubt."""
    go_on = asyncio.Event()
    stopping: list[bool] = []

    async def checkpoint(where: str) -> None:
        if len(effect) == 1:
            stopping.append(True)
            asyncio.get_running_loop().call_soon(go_on.set)
            raise Stopped("now")

    bench.made = dataclasses.replace(bench.made, checkpoint_async=checkpoint)

    @tool
    async def send(n: int) -> int:
        if n:
            await go_on.wait()
        return effect(n)

    async def main() -> None:
        with pytest.raises(Stopped):
            await fan_out_async(fan(bench, send, range(5), concurrency=2))

    asyncio.run(main())
    assert stopping == [True]
    assert effect.calls == [0, 1]
    assert [call.status for call in bench.journal.calls()] == ["done", "done"]
