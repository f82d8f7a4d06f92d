"""Which step is executing, seen from threads, tasks and other contexts."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from concurrent.futures import ThreadPoolExecutor

from resumable_nb import scope
from resumable_nb.scope import StepScope


def test_nested_scopes_come_back_in_order() -> None:
    outer, inner = StepScope("a"), StepScope("a/b")
    with scope.entered(outer):
        with scope.entered(inner):
            assert scope.current() is inner
        assert scope.current() is outer
    assert scope.current().id == ""


def test_worker_threads_belong_to_the_step_that_is_executing() -> None:
    with scope.entered(StepScope("a")) as active, ThreadPoolExecutor(1) as pool:
        assert pool.submit(scope.current).result() is active


def test_steps_that_overlap_in_threads_are_not_nested() -> None:
    """A thread's step belongs to the one of the main thread, not to that of its neighbour."""

    def inside(entered: threading.Barrier, name: str) -> str:
        outer = scope.current().id
        with scope.entered(StepScope(name)):
            entered.wait(timeout=20)
        return outer

    with scope.entered(StepScope("a")), ThreadPoolExecutor(2) as pool:
        barrier = threading.Barrier(2)
        first = pool.submit(inside, barrier, "x")
        while not barrier.n_waiting:
            pass
        second = pool.submit(inside, barrier, "y")
        assert [first.result(), second.result()] == ["a", "a"]


async def test_tasks_that_overlap_are_not_nested() -> None:
    async def inside(name: str) -> str:
        outer = scope.current().id
        with scope.entered(StepScope(name)):
            await asyncio.sleep(0)
            return outer

    assert await asyncio.gather(*map(inside, "abc")) == ["", "", ""]


async def test_tasks_see_the_step_that_started_them() -> None:
    async def inside(name: str) -> str:
        with scope.entered(StepScope(name)):
            await asyncio.sleep(0)
            return scope.current().id

    assert await asyncio.gather(*map(inside, "abc")) == ["a", "b", "c"]
    assert scope.current().id == ""


def test_entry_may_be_left_in_another_context() -> None:
    """An async cell starts in one context and is cleaned up in another."""
    entry = contextvars.copy_context().run(scope.Entry, StepScope("a"))
    entry.leave()
    assert scope.current().id == ""


def test_ordinals_count_from_zero_for_each_name() -> None:
    step = StepScope()
    assert [step.next_ordinal("x"), step.next_ordinal("x"), step.next_ordinal("y")] == [0, 1, 0]
