"""``task().once``: decided once, the same for ever after."""

from __future__ import annotations

import itertools
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from resumable_nb import scope
from resumable_nb.errors import UsageError
from resumable_nb.once import once
from tests.bench import Bench
from tests.kernels import Died, Kernels


def test_a_value_is_decided_once(bench: Bench) -> None:
    count = itertools.count()
    assert [once("n", lambda: next(count), bench.desk()) for _ in range(3)] == [0, 0, 0]
    assert bench.commits() == {False: 1, True: 1}
    bench.restart()
    assert once("n", lambda: next(count), bench.desk()) == 0
    assert once("other", lambda: next(count), bench.desk()) == 1


def test_the_same_in_every_step(bench: Bench) -> None:
    count = itertools.count()
    for name in ("a", "b"):
        with scope.entered(scope.StepScope(id=name)):
            assert once("n", lambda: next(count), bench.desk()) == 0


def test_a_value_will_do(bench: Bench) -> None:
    assert once("n", 5, bench.desk()) == 5
    assert once("n", 6, bench.desk()) == 5
    assert once("none", None, bench.desk()) is None


def test_asking_again_warns_nobody_and_gives_a_fresh_copy(bench: Bench) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        once("n", lambda: [1], bench.desk()).append(2)
        assert once("n", lambda: [3], bench.desk()) == [1]


def test_an_error_decides_nothing(bench: Bench) -> None:
    with pytest.raises(ZeroDivisionError):
        once("n", lambda: 1 // 0, bench.desk())
    assert once("n", lambda: 7, bench.desk()) == 7


def test_a_crash_before_the_commit_decides_nothing(bench: Bench) -> None:
    """Nobody has seen the value, so another one may be decided."""
    with pytest.raises(KeyboardInterrupt):
        once("n", _interrupt, bench.desk())
    bench.restart()
    assert once("n", lambda: 7, bench.desk()) == 7


def _interrupt() -> None:
    raise KeyboardInterrupt


def test_threads_agree(bench: Bench) -> None:
    count = itertools.count()
    with ThreadPoolExecutor(8) as pool:
        seen = set(pool.map(lambda _: once("n", lambda: next(count), bench.desk()), range(40)))
    assert seen == {0}
    assert next(count) == 1


async def test_an_async_decision_is_awaited(bench: Bench) -> None:
    count = itertools.count()

    async def decide() -> int:
        return next(count)

    assert [await once("n", decide, bench.desk()) for _ in range(2)] == [0, 0]


def test_a_decision_has_a_name(bench: Bench) -> None:
    with pytest.raises(UsageError, match="name"):
        once("", 1, bench.desk())


DIE = """
import os
from resumable_nb import session, task

def die(event):
    if event.kind == {point!r}:
        os.kill(os.getpid(), 9)

stop = session.current().bus.listen(die)
"""
DECIDE = """
with open("seen", "a") as file:
    print(task().once("n", os.getpid), file=file)
"""


@pytest.mark.kernel
@pytest.mark.parametrize("point", ["call.intent", "store.transaction", "call.returned", "call.result_committed"])
def test_whoever_sees_a_value_sees_the_same(kernels: Kernels, tmp_path: Path, point: str) -> None:
    """A kernel that is killed while it decides has shown nobody its value, or the one that is on disk."""
    first = kernels(DIE.format(point=point))
    with pytest.raises(Died):
        first.attempt(DECIDE)
    second = kernels.again(DIE.format(point=""), DECIDE)
    kernels.again(DIE.format(point=""), DECIDE)
    seen = (tmp_path / "seen").read_text().split()
    assert seen == [str(first.pid if point == "call.result_committed" else second.pid)] * 2


@pytest.mark.kernel
def test_a_killed_kernel_keeps_its_decision(kernels: Kernels, tmp_path: Path) -> None:
    first = kernels(DIE.format(point=""), DECIDE)
    first.kill()
    kernels.again(DIE.format(point=""), DECIDE)
    assert (tmp_path / "seen").read_text().split() == [str(first.pid)] * 2
