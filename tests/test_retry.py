"""What an error says about the effect."""

from __future__ import annotations

import concurrent.futures
import http.client
import random
import subprocess
import sys
import types

import pytest

from resumable_nb.retry import Retry, judge, may_have_happened


class Boom(Exception):
    """An error of the user's."""


def chained(cause: BaseException, *, explicit: bool) -> BaseException:
    try:
        try:
            raise cause
        except BaseException as error:
            if explicit:
                raise Boom from error
            raise Boom  # noqa: B904  # without a cause is the case
    except Boom as error:
        return error


@pytest.mark.parametrize(
    "error",
    [
        OSError(), TimeoutError(), ConnectionResetError(), FileNotFoundError(), http.client.IncompleteRead(b""),
        subprocess.TimeoutExpired("x", 1), concurrent.futures.CancelledError(),
        chained(ConnectionError(), explicit=True), chained(TimeoutError(), explicit=False),
        ExceptionGroup("g", [ValueError(), ExceptionGroup("h", [ConnectionError()])]),
    ],
    ids=lambda e: type(e).__name__,
)  # fmt: skip
def test_after_these_it_may_have_happened(error: BaseException) -> None:
    assert may_have_happened(error)


@pytest.mark.parametrize(
    "error",
    [ValueError(), Boom(), chained(FileNotFoundError(), explicit=True), ExceptionGroup("g", [ValueError()])],
    ids=lambda e: type(e).__name__,
)
def test_after_these_it_has_not(error: BaseException) -> None:
    assert not may_have_happened(error)


def test_errors_of_libraries_count_where_they_are_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    class TransportError(Exception):
        pass

    library = types.ModuleType("httpx")
    library.TransportError = TransportError  # type: ignore[attr-defined]  # a module of the test's own
    monkeypatch.setitem(sys.modules, "httpx", None)  # type: ignore[arg-type]  # None: it cannot be imported
    assert not may_have_happened(TransportError())
    monkeypatch.setitem(sys.modules, "httpx", library)
    assert may_have_happened(TransportError())


@pytest.mark.parametrize(
    ("error", "timed_out", "repeatable", "verdict"),
    [
        (KeyboardInterrupt(), False, True, "doubt"),
        (KeyboardInterrupt(), False, False, "doubt"),
        (TimeoutError(), True, False, "doubt"),
        (TimeoutError(), True, True, "failed"),
        (Boom(), False, False, "retry"),
        (Boom(), True, False, "doubt"),
        (Boom(), False, True, "retry"),
        (OSError(), False, False, "doubt"),
        (OSError(), False, True, "failed"),
        (LookupError(), False, False, "doubt"),
        (KeyError(), False, True, "failed"),
        (ValueError(), False, False, "failed"),
    ],
)
def test_verdicts(error: BaseException, timed_out: bool, repeatable: bool, verdict: str) -> None:
    assert verdict == judge(
        error, timed_out=timed_out, repeatable=repeatable, retry_on=(Boom,), unsure=(LookupError,), terminal=()
    )


def test_a_terminal_error_is_not_tried_again() -> None:
    terms = {"timed_out": False, "repeatable": True, "unsure": ()}
    assert judge(Boom(), retry_on=(Exception,), terminal=(Boom,), **terms) == "failed"  # type: ignore[arg-type]  # terms are of several types


def test_pauses_grow_up_to_the_longest() -> None:
    retry = Retry(retries=20, first_s=1, longest_s=8)
    pauses = [retry.pause_s(tries, Boom()) for tries in range(1, 21)]
    for pause, least in zip(pauses, [1, 2, 4, *[8] * 17], strict=True):
        assert pause is not None
        assert least <= pause <= least + 1
    assert retry.pause_s(21, Boom()) is None


def test_what_the_notebook_draws_does_not_depend_on_tries() -> None:
    before = random.getstate()
    assert Retry(retries=3, retry_on=(Boom,)).pause_s(1, Boom()) is not None
    assert random.getstate() == before
