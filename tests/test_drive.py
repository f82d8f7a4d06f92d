"""Calls in threads and tasks: who makes an identical call, who waits, and what cuts a call off."""

from __future__ import annotations

import asyncio
import itertools
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from resumable_nb import scope
from resumable_nb.calls import _flights
from resumable_nb.errors import InDoubt, UsageError
from resumable_nb.scope import StepScope
from resumable_nb.tools import Happened, NotHappened, resolve_call, tool
from tests.bench import Bench, Effect

pytestmark = pytest.mark.filterwarnings("ignore::resumable_nb.tools.CollapseWarning")


class Gate:
    """Holds the calls inside a tool until as many have come as are expected to wait outside."""

    def __init__(self) -> None:
        self.inside = threading.Event()
        self.open = threading.Event()

    def __call__(self) -> None:
        self.inside.set()
        assert self.open.wait(10)


def waiters() -> int:
    """How many threads wait for the call of another."""
    return sum(len(flight.landed._condition._waiters) for flight in list(_flights.values()))  # type: ignore[attr-defined]  # who waits cannot be asked otherwise


def until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + 10
    while not true():
        assert time.monotonic() < end
        time.sleep(0.001)


def test_threads_with_distinct_calls(bench: Bench, effect: Effect) -> None:
    @tool
    def send(n: int) -> int:
        effect(n)
        return n

    with scope.entered(StepScope("s")), ThreadPoolExecutor(50) as pool:
        assert list(pool.map(send, range(50))) == list(range(50))
    assert [call.n for call in bench.journal.calls("s")] == list(range(50))
    bench.restart()
    with ThreadPoolExecutor(50) as pool:
        assert list(pool.map(send, range(50))) == list(range(50))
    assert sorted(effect.calls) == list(range(50))


def test_identical_calls_in_threads_are_made_once(bench: Bench, effect: Effect) -> None:
    gate = Gate()

    @tool
    def send(to: str) -> list[int]:
        gate()
        return [effect(to)]

    with ThreadPoolExecutor(50) as pool:
        results = [pool.submit(send, "a") for _ in range(50)]
        until(lambda: waiters() == 49)
        gate.open.set()
        values = [each.result(10) for each in results]
    assert values == [[1]] * 50
    assert len({id(value) for value in values}) == 50
    assert len(effect) == 1


def test_when_the_first_fails_the_next_one_calls(bench: Bench, effect: Effect) -> None:
    gate = Gate()

    @tool
    def send(to: str) -> int:
        gate()
        if effect(to) <= 3:
            raise ValueError(to)
        return len(effect)

    with ThreadPoolExecutor(8) as pool:
        results = [pool.submit(send, "a") for _ in range(8)]
        until(lambda: waiters() == 7)
        gate.open.set()
        ends = [each.exception(10) for each in results]
    assert [type(end) for end in ends].count(ValueError) == 3
    assert len(effect) == 4


def test_when_the_first_is_cut_off_the_others_are_in_doubt(bench: Bench, effect: Effect) -> None:
    gate = Gate()

    @tool
    def send(to: str) -> int:
        effect(to)
        gate()
        raise ConnectionError

    with ThreadPoolExecutor(8) as pool:
        results = [pool.submit(send, "a") for _ in range(8)]
        until(lambda: waiters() == 7)
        gate.open.set()
        ends = [type(each.exception(10)) for each in results]
    assert sorted(end.__name__ for end in ends) == ["ConnectionError"] + ["InDoubt"] * 7
    assert len(effect) == 1


async def test_gather_of_distinct_calls_replays_in_any_order(bench: Bench, effect: Effect) -> None:
    @tool
    async def send(n: int) -> int:
        await asyncio.sleep(0)
        effect(n)
        return n

    with scope.entered(StepScope("s")):
        assert await asyncio.gather(*map(send, range(50))) == list(range(50))
    assert [call.n for call in bench.journal.calls("s")] == list(range(50))
    bench.restart()
    backwards = await asyncio.gather(*map(send, reversed(range(50))))
    assert backwards == list(reversed(range(50)))
    assert len(effect) == 50


async def test_identical_calls_in_tasks_are_made_once(bench: Bench, effect: Effect) -> None:
    @tool
    async def send(to: str) -> list[int]:
        await asyncio.sleep(0)
        return [effect(to)]

    assert await asyncio.gather(*(send("a") for _ in range(50))) == [[1]] * 50
    assert len(effect) == 1


async def test_each_call_in_tasks_claims_before_it_waits(bench: Bench, effect: Effect) -> None:
    """The k-th call of the step has the k-th record, whichever ends first."""

    @tool(each_call=True)
    async def draw() -> int:
        n = effect("draw")
        for _ in range(10 - n):
            await asyncio.sleep(0)
        return n

    with scope.entered(StepScope("s")):
        first = await asyncio.gather(*(draw() for _ in range(5)))
    assert sorted(first) == [1, 2, 3, 4, 5]  # which function begins first is the commits' affair
    bench.restart()
    with scope.entered(StepScope("s")):
        assert await asyncio.gather(*(draw() for _ in range(5))) == first


async def test_cancelled_call_is_in_doubt(bench: Bench, effect: Effect) -> None:
    inside = asyncio.Event()

    @tool
    async def pay(order: str) -> None:
        effect(order)
        inside.set()
        await asyncio.Event().wait()

    task = asyncio.create_task(pay("o1"))
    await inside.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert bench.only().doubt == "CancelledError"
    with pytest.raises(InDoubt):
        await pay("o1")
    assert len(effect) == 1


async def test_cancelling_a_waiter_leaves_the_call_alone(bench: Bench, effect: Effect) -> None:
    gate = asyncio.Event()

    @tool
    async def pay(order: str) -> int:
        await gate.wait()
        return effect(order)

    first = asyncio.create_task(pay("o1"))
    second = asyncio.create_task(pay("o1"))
    third = asyncio.create_task(pay("o1"))
    await asyncio.sleep(0)
    second.cancel()
    gate.set()
    await asyncio.wait([first, second, third])
    assert second.cancelled()
    assert (first.result(), third.result()) == (1, 1)
    assert len(effect) == 1


def test_a_loop_that_is_shut_down_leaves_its_calls_in_doubt(bench: Bench, effect: Effect) -> None:
    @tool
    async def pay(order: str) -> None:
        effect(order)
        await asyncio.Event().wait()

    async def main() -> None:
        task = asyncio.create_task(pay("o1"))
        await asyncio.sleep(0)
        assert not task.done()

    asyncio.run(main())
    with pytest.raises(InDoubt):
        asyncio.run(pay("o1"))
    assert len(effect) == 1


def test_a_coroutine_that_is_dropped_leaves_its_call_in_doubt(bench: Bench, effect: Effect) -> None:
    @tool
    async def pay(order: str) -> None:
        effect(order)
        await asyncio.sleep(0)

    running = pay("o1")
    running.send(None)  # type: ignore[attr-defined]  # tasks made with it may begin too
    running.send(None)  # type: ignore[attr-defined]  # who waits cannot be asked otherwise
    running.close()  # type: ignore[attr-defined]  # who waits cannot be asked otherwise
    assert bench.only().doubt == "the call was abandoned"
    with pytest.raises(InDoubt):
        asyncio.run(pay("o1"))


async def test_a_reconcile_may_be_async(bench: Bench, effect: Effect) -> None:
    async def look(order: str) -> Happened:
        await asyncio.sleep(0)
        return Happened("found")

    @tool(reconcile=look)
    async def pay(order: str) -> None:
        effect(order)
        raise ConnectionError

    with pytest.raises(ConnectionError):
        await pay("o1")
    assert await pay("o1") == "found"
    with pytest.raises(UsageError, match="not async"):
        tool(lambda order: None, name="x", reconcile=look)


async def test_an_async_timeout_cancels_and_leaves_doubt(bench: Bench, effect: Effect) -> None:
    cancelled = asyncio.Event()

    @tool(timeout_s=0.01, retries=3, retry_on=TimeoutError)
    async def pay(order: str) -> None:
        effect(order)
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    with pytest.raises(TimeoutError, match=r"0\.01 s"):
        await pay("o1")
    assert cancelled.is_set()
    with pytest.raises(InDoubt):
        await pay("o1")
    assert len(effect) == 1


def test_a_sync_timeout_leaves_doubt_while_the_thread_goes_on(bench: Bench, effect: Effect) -> None:
    """Also with ``retry_on=TimeoutError``: the function may still be at work."""
    gate = Gate()

    @tool(timeout_s=0.01, retries=3, retry_on=TimeoutError)
    def pay(order: str) -> None:
        effect(order)
        gate()

    with pytest.raises(TimeoutError):
        pay("o1")
    with pytest.raises(InDoubt, match="still at work"):
        pay("o1")
    gate.open.set()
    assert len(effect) == 1


_numbers = itertools.count()


class Late:
    """A call that was given up after its time-out, and whose function ends when it is told to."""

    def __init__(self, bench: Bench, effect: Effect, end: object, **options: Any) -> None:
        gate = Gate()

        def work(order: str) -> object:
            effect(order)
            gate()
            if isinstance(end, Exception):
                raise end
            return end

        # Each has a name of its own: the closures of several would answer for each other.
        self.bench, self.gate = bench, gate
        self.pay = tool(work, name=f"pay {next(_numbers)}", timeout_s=0.01, **options)
        with pytest.raises(TimeoutError):
            self.pay("o1")

    def end(self) -> None:
        """Let the function end, and wait for its thread."""
        self.gate.open.set()
        for thread in threading.enumerate():
            if thread.name == "resumable-tool":
                thread.join(10)


def test_a_late_result_settles_the_call(bench: Bench, effect: Effect) -> None:
    late = Late(bench, effect, [1])
    assert bench.only().status == "intent"
    late.end()
    assert (bench.only().status, bench.only().resolved, bench.only().doubt) == ("done", "late", "")
    assert bench.kinds()[-1] == "call.late"
    assert late.pay("o1") == [1]
    bench.restart()
    assert late.pay("o1") == [1]
    assert len(effect) == 1


@pytest.mark.parametrize(
    ("error", "status"), [(ValueError("no such order"), "failed"), (ConnectionError("cut off"), "intent")], ids=repr
)
def test_a_late_error_settles_the_call_where_it_says_what_happened(
    bench: Bench, effect: Effect, error: Exception, status: str
) -> None:
    Late(bench, effect, error).end()
    assert bench.only().status == status


def test_nobody_is_asked_about_a_call_that_is_still_at_work(bench: Bench, effect: Effect) -> None:
    """It may happen yet: an answer of now would be wrong later."""

    def look(order: str) -> NotHappened:
        raise AssertionError

    late = Late(bench, effect, "paid", reconcile=look)
    with pytest.raises(InDoubt, match="still at work"):
        late.pay("o1")
    with pytest.raises(UsageError, match="still at work"):
        resolve_call(bench.journal, bench.only().id, False)
    late.end()
    assert late.pay("o1") == "paid"


def test_what_the_user_has_settled_stays(bench: Bench, effect: Effect) -> None:
    late = Late(bench, effect, "late")
    resolve_call(bench.journal, bench.only().id, True, "looked up")
    late.end()
    assert late.pay("o1") == "looked up"


def test_a_late_result_is_lost_with_the_lease(bench: Bench, effect: Effect) -> None:
    late = Late(bench, effect, "late")
    bench.fence.lost = True
    late.end()
    assert bench.only().status == "intent"


def test_a_repeatable_tool_is_tried_again_after_its_timeout(bench: Bench, effect: Effect) -> None:
    gate = Gate()

    @tool(timeout_s=0.05, retries=1, repeatable=True)
    def read() -> str:
        if effect("x") == 1:
            gate()
        return "read"

    assert read() == "read"
    gate.open.set()
    assert [bool(attempt.error) for attempt in bench.only().attempts] == [True, False]


def test_a_tool_with_a_time_limit_still_belongs_to_its_step(bench: Bench) -> None:
    @tool
    def inner() -> int:
        return 1

    @tool(timeout_s=10)
    def outer() -> int:
        return inner()

    with scope.entered(StepScope("s")):
        assert outer() == 1
    assert [(call.step, call.tool) for call in bench.journal.calls()] == [("s", "outer"), ("s", "inner")]


@pytest.mark.parametrize("timeout_s", [None, 10])
def test_a_call_inside_itself_is_refused(bench: Bench, timeout_s: float | None) -> None:
    @tool(timeout_s=timeout_s)
    def send(to: str) -> None:
        send(to)

    with pytest.raises(UsageError, match=r"send\(to='a'\)"):
        send("a")


async def test_an_async_call_inside_itself_is_refused(bench: Bench) -> None:
    @tool
    async def send(to: str) -> None:
        await asyncio.gather(send(to))

    with pytest.raises(UsageError, match=r"send\(to='a'\)"):
        await send("a")


def test_a_call_from_another_thread_belongs_to_the_step_that_executes(bench: Bench) -> None:
    @tool
    def send() -> int:
        return 1

    done: Future[int] = Future()
    with scope.entered(StepScope("s")):
        thread = threading.Thread(target=lambda: done.set_result(send()))
        thread.start()
        thread.join(10)
    assert done.result(0) == 1
    assert bench.only().step == "s"


def test_a_sync_tool_in_a_running_loop(bench: Bench, effect: Effect) -> None:
    @tool
    def send(n: int) -> int:
        return effect(n)

    async def main() -> list[int]:
        return [send(1), *await asyncio.gather(asyncio.to_thread(send, 2), asyncio.to_thread(send, 2))]

    assert asyncio.run(main()) == [1, 2, 2]


def interrupt_until(caught: threading.Event) -> None:
    """Press Ctrl-C as people do: again, where one came just before the wait began, and woke nobody."""
    while not caught.is_set():
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        caught.wait(1)


def test_ctrl_c_in_a_call_leaves_it_in_doubt(bench: Bench, effect: Effect) -> None:
    @tool
    def pay(order: str) -> None:
        effect(order)
        signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        pay("o1")
    with pytest.raises(InDoubt, match="KeyboardInterrupt"):
        pay("o1")
    assert len(effect) == 1


def test_ctrl_c_with_a_time_limit_leaves_it_in_doubt(bench: Bench, effect: Effect) -> None:
    """The main thread waits, and is interrupted; the thread that does the work is not."""
    caught = threading.Event()

    @tool(timeout_s=60)
    def pay(order: str) -> None:
        effect(order)
        interrupt_until(caught)

    try:
        with pytest.raises(KeyboardInterrupt):
            pay("o1")
    finally:
        caught.set()
    with pytest.raises(InDoubt, match="KeyboardInterrupt"):
        pay("o1")
    assert len(effect) == 1


def test_ctrl_c_while_waiting_for_anothers_call_leaves_that_alone(bench: Bench, effect: Effect) -> None:
    gate, caught = Gate(), threading.Event()

    @tool
    def send(to: str) -> int:
        gate()
        return effect(to)

    def interrupt_the_waiter() -> None:
        until(lambda: waiters() == 1)
        interrupt_until(caught)

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(send, "a")
        assert gate.inside.wait(10)
        pool.submit(interrupt_the_waiter)
        try:
            with pytest.raises(KeyboardInterrupt):
                send("a")
        finally:
            caught.set()
            gate.open.set()
        assert first.result(10) == 1
    assert send("a") == 1
