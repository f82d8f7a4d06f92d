"""Work that threads share."""

import threading

import pytest

from resumable_nb import threads


@pytest.fixture(autouse=True)
def helpers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "_HELPERS", 2)


def test_everything_is_done_once_and_comes_in_order() -> None:
    done: list[int] = []

    def work(k: int) -> int:
        done.append(k)
        return k * k

    assert threads.shared(work, 1000, 1 << 30) == [k * k for k in range(1000)]
    assert sorted(done) == list(range(1000))


def test_threads_work_side_by_side() -> None:
    together = threading.Barrier(3, timeout=60)
    assert threads.shared(lambda _: together.wait() >= 0, 3, 1 << 30) == [True] * 3


def test_little_data_is_done_by_the_thread_that_asks() -> None:
    here = threading.get_ident()
    assert threads.shared(lambda _: threading.get_ident(), 3, 1) == [here] * 3


def test_an_error_ends_all_of_it_and_is_told() -> None:
    begun: list[int] = []

    def work(k: int) -> int:
        begun.append(k)
        raise KeyError(k)

    with pytest.raises(KeyError):
        threads.shared(work, 1000, 1 << 30)
    assert len(begun) <= 3
