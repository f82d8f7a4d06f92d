"""A tool that changes its arguments says so, once when it is called and once when it is answered."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd
import pytest

from resumable_nb import mutation, scope, tools
from resumable_nb.mutation import MutationWarning
from resumable_nb.tools import tool
from tests.bench import Bench


@pytest.fixture
def bench() -> Iterator[Bench]:
    bench = Bench()
    tools.use(bench.desk)
    mutation._warned.clear()
    yield bench
    scope.reset()


class Account:
    def __init__(self) -> None:
        self.balance = 0

    @tool
    def pay(self, amount: int) -> int:
        self.balance += amount
        return amount


def widen(frame: pd.DataFrame) -> None:
    frame.insert(0, "z", 1)


CHANGING: dict[str, tuple[Callable[[Any], object], Callable[[], Any], str]] = {
    "a list": (lambda rows: rows.append(1), list, "'rows'"),
    "inside a dict": (lambda box: box["in"].append(1), lambda: {"in": []}, "'box'"),
    "an array": (lambda array: array.fill(3), lambda: np.zeros(3), "'array'"),
    "a frame": (widen, lambda: pd.DataFrame({"a": [1], "b": [2]}), "'frame'"),
    "its object": (lambda self: Account.pay.tool.function(self, 3), Account, "'self'"),  # type: ignore[attr-defined]  # functions take attributes
}


@pytest.mark.parametrize(("change", "make", "named"), CHANGING.values(), ids=CHANGING)
def test_a_changed_argument_is_named_when_called_and_when_answered(
    bench: Bench, change: Callable[[Any], object], make: Callable[[], Any], named: str
) -> None:
    send = tool(change, name="send")
    with pytest.warns(MutationWarning, match=f"argument {named} while it was called") as caught:
        send(make())
    assert caught[0].filename == __file__
    assert bench.only().changed == (named.strip("'"),)
    bench.restart()
    with pytest.warns(MutationWarning, match=f"argument {named} was not made again") as caught:
        send(make())
    assert caught[0].filename == __file__
    send(make())


def test_it_is_said_once_a_tool(bench: Bench) -> None:
    send = tool(lambda rows: rows.append(1), name="send")
    with pytest.warns(MutationWarning):
        send([])
    send([2])


def test_what_is_left_alone_or_left_out_is_no_matter(bench: Bench) -> None:
    tool(lambda rows: [*rows, 1], name="a")([])
    tool(lambda rows: rows.append(1), name="b", ignore="rows")([])
    tool(lambda rows: rows.append(1), name="c", key=len)([])
    assert [call.changed for call in bench.journal.calls()] == [()] * 3


def test_a_warning_that_is_an_error_loses_no_result(bench: Bench) -> None:
    def send(rows: list[int]) -> int:
        rows.append(1)
        return 7

    send_ = tool(send, name="send")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(MutationWarning):
            send_([])
    assert send_.tool.name == "send"  # type: ignore[attr-defined]  # functions take attributes
    assert bench.only().status == "done"


def test_an_argument_that_cannot_be_looked_at_afterwards_loses_no_result(bench: Bench) -> None:
    class Odd:
        def __init__(self) -> None:
            self.broken = False

        def __getstate__(self) -> dict[str, bool]:
            if self.broken:
                raise RuntimeError
            return dict(vars(self))

    def send(odd: Odd) -> int:
        odd.broken = True
        return 7

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MutationWarning)
        assert tool(send)(Odd()) == 7
    assert bench.only().status == "done"
