"""What can be a tool, and what its calls are told apart by."""

from __future__ import annotations

import asyncio
import functools
import inspect
import operator
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from resumable_nb.errors import BadArgument
from resumable_nb.tools import tool
from tests.bench import Bench


class Client:
    def __init__(self, host: str) -> None:
        self.host = host

    def send(self, to: str) -> str:
        return f"{self.host} {to}"

    def __call__(self, to: str) -> str:
        return f"{self.host} {to}"

    @classmethod
    def new(cls, to: str) -> str:
        return f"{cls.__name__} {to}"


class Asynchronous(Client):
    async def __call__(self, to: str) -> str:  # type: ignore[override]  # async is the point
        return f"{self.host} {to}"


class Other(Client):
    pass


def post(host: str, to: str) -> str:
    return f"{host} {to}"


async def post_async(host: str, to: str) -> str:
    return f"{host} {to}"


# Each pair is two callables under one name, and the results that their calls must have, in this kernel and the next.
FOREIGN: dict[str, tuple[Callable[[], Any], Callable[[], Any], tuple[Any, ...], Any, Any]] = {
    "bound method": (lambda: Client("a").send, lambda: Client("b").send, ("x",), "a x", "b x"),
    "bound class method": (lambda: Client.new, lambda: Other.new, ("x",), "Client x", "Other x"),
    "callable object": (lambda: Client("a"), lambda: Client("b"), ("x",), "a x", "b x"),
    "async callable object": (lambda: Asynchronous("a"), lambda: Asynchronous("b"), ("x",), "a x", "b x"),
    "partial": (lambda: functools.partial(post, "a"), lambda: functools.partial(post, "b"), ("x",), "a x", "b x"),
    "partial by keyword": (
        lambda: functools.partial(post, to="x"), lambda: functools.partial(post, to="y"), ("a",), "a x", "a y",
    ),
    "partial of a partial": (
        lambda: functools.partial(functools.partial(post, "a"), "x"),
        lambda: functools.partial(functools.partial(post, "a"), "y"),
        (), "a x", "a y",
    ),
    "partial of a bound method": (
        lambda: functools.partial(Client("a").send, "x"), lambda: functools.partial(Client("b").send, "x"), (), "a x",
        "b x",
    ),
    "async partial": (
        lambda: functools.partial(post_async, "a"), lambda: functools.partial(post_async, "b"), ("x",), "a x", "b x",
    ),
    "method of a built-in object": (lambda: {"k": 1}.get, lambda: {"k": 2}.get, ("k",), 1, 2),
    "C object without a signature": (
        lambda: operator.itemgetter(0), lambda: operator.itemgetter(1), ([5, 6],), 5, 6,
    ),
}  # fmt: skip


def call(function: Any, *args: Any) -> Any:
    """Its result, awaited where that has to be."""
    made = tool(function, name="foreign")
    return asyncio.run(made(*args)) if inspect.iscoroutinefunction(made) else made(*args)


@pytest.mark.parametrize(("one", "two", "args", "first", "second"), FOREIGN.values(), ids=FOREIGN)
def test_what_a_callable_brings_along_counts(
    bench: Bench, one: Callable[[], Any], two: Callable[[], Any], args: tuple[Any, ...], first: Any, second: Any
) -> None:
    for _ in range(2):
        assert (call(one(), *args), call(two(), *args)) == (first, second)
        bench.restart()
    assert len(bench.journal.calls()) == 2


BUILTIN: dict[str, tuple[Callable[..., Any], tuple[Any, ...], Any]] = {
    "built-in": (len, ([1, 2],), 2),
    "without a signature": (max, (1, 2), 2),
    "method of a type": (str.upper, ("a",), "A"),
    "function in C": (operator.add, (1, 2), 3),
    "lambda": (lambda a: a + 1, (1,), 2),
}


@pytest.mark.parametrize(("function", "args", "result"), BUILTIN.values(), ids=BUILTIN)
def test_functions_that_cannot_be_decorated(
    bench: Bench, function: Callable[..., Any], args: tuple[Any, ...], result: Any
) -> None:
    for _ in range(2):
        assert tool(function, name="foreign")(*args) == result
        bench.restart()
    assert len(bench.journal.calls()) == 1


def test_defaults_are_not_spelled_out_to_the_function(bench: Bench) -> None:
    """Functions in C may not take what their own signature says: two of these exclude each other."""
    assert tool(np.add, name="add")(1, 2) == 3


def test_an_object_that_lives_in_this_process_is_refused_or_left_out(bench: Bench) -> None:
    class Connected(Client):
        def __init__(self) -> None:
            super().__init__("a")
            self.rows = iter([1])

    with pytest.raises(BadArgument, match="'self'"):
        tool(Connected().send, name="send")("x")
    assert tool(Connected().send, name="send", ignore="self")("x") == "a x"


def test_the_code_of_a_class_counts_as_little_as_that_of_its_tools(bench: Bench) -> None:
    """Mending a class after a crash must not make its calls anew."""
    text = "class Shop:\n    @classmethod\n    @tool\n    def buy(cls, item): return (cls.__name__, item)\n"
    for more in ("", "    def mended(self): pass\n"):
        module = types.ModuleType("__main__")
        module.tool = tool  # type: ignore[attr-defined]  # modules take attributes
        exec(text + more, vars(module))
        assert module.Shop.buy("x") == ("Shop", "x")
        bench.restart()
    assert len(bench.journal.calls()) == 1


@pytest.mark.parametrize("bad", ["generator", "file", "nested", "in *args", "in **kwargs"])
def test_what_cannot_be_told_apart_is_refused_with_its_name(bench: Bench, bad: str) -> None:
    @tool
    def send(rows: object, *more: object, **named: object) -> None: ...

    with open(__file__) as file:  # noqa: PTH123  # an open file is what is passed
        given: dict[str, Callable[[], object]] = {
            "generator": lambda: send(n for n in range(3)),
            "file": lambda: send(file),
            "nested": lambda: send({"k": [iter([1])]}),
            "in *args": lambda: send(1, iter([1])),
            "in **kwargs": lambda: send(1, later=iter([1])),
        }
        named = {"in *args": r"more\[0\]", "in **kwargs": "'later'", "nested": r"rows\['k'\]\[0\]"}.get(bad, "'rows'")
        with pytest.raises(BadArgument, match=named):
            given[bad]()
    assert bench.journal.calls() == []


def test_what_a_tool_closes_over_is_not_read_at_its_calls(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be a table of gigabytes."""
    seen: list[object] = []
    monkeypatch.setattr("resumable_nb.tooldef.fingerprint", seen.append)
    table = [1, 2, 3]
    assert tool(lambda row: table[row], name="look")(1) == 2
    assert seen == []
