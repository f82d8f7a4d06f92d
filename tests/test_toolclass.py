"""Classes as tools: making an object is the call, and a class stays a class."""

from __future__ import annotations

import asyncio
import copy
import inspect
import pickle
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import cloudpickle
import pytest

from resumable_nb import scope, tool, tools
from resumable_nb.errors import InDoubt, UsageError, ValueUnavailable
from resumable_nb.fanout import FanOut, fan_out
from resumable_nb.tools import Happened
from tests.bench import Bench
from tests.kernels import Kernels

done: list[Any] = []


@pytest.fixture
def bench() -> Iterator[Bench]:
    made = Bench()
    tools.use(made.desk)
    done.clear()
    yield made
    scope.reset()


def do(*what: Any) -> int:
    done.append(what)
    return len(done)


@tool
class Server:
    """Rents a machine."""

    kinds = 2

    def __init__(self, name: str, size: int = 1) -> None:
        self.name, self.size, self.id = name, size, do("rent", name, size)

    @tool
    def start(self, at: int) -> tuple[str, int, int]:
        return self.name, at, do("start", self.name, at)

    @tool
    async def stop(self, at: int) -> tuple[str, int, int]:
        return self.name, at, do("stop", self.name, at)

    @classmethod
    def small(cls, name: str) -> Server:
        return cls(name, size=0)

    @classmethod
    @tool
    def rent_all(cls, n: int) -> tuple[str, int]:
        return cls.__name__, do("all", n)

    @staticmethod
    @tool
    def price(size: int) -> int:
        return do("price", size)

    @property
    @tool
    def load(self) -> int:
        return do("load", self.name)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Server) and vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment]  # as of all that can change


@tool(ignore="note")
class Noted(Server):
    def __init__(self, name: str, note: str) -> None:
        super().__init__(name, 9)
        self.note = note


class Named(Server):
    """Not marked itself."""

    def __init__(self, first: str, last: str) -> None:
        super().__init__(f"{first} {last}")


class Same(Server):
    pass


@tool(name="record")
@dataclass(frozen=True)
class Record:
    n: int
    at: tuple[int, ...] = ()


class Shape(ABC):
    @abstractmethod
    def area(self) -> int: ...


@tool
class Square(Shape):
    def __init__(self, side: int) -> None:
        self.side = do("square", side) * side

    def area(self) -> int:
        return self.side**2


class Handle:
    """Cannot be saved."""

    def __init__(self, name: str) -> None:
        self.rows = (do("open", each) for each in name)


def test_an_object_is_made_once_and_comes_back_in_the_next_kernel(bench: Bench) -> None:
    for _ in range(2):
        found = Server("a")
        assert (type(found), vars(found)) == (Server, {"name": "a", "size": 1, "id": 1})
        bench.restart()
        assert Server(size=1, name="a") is not found
        bench.restart()
    assert Server.small("a").id == 2
    assert [(call.tool, call.arguments) for call in bench.journal.calls()] == [
        ("Server", {"name": "'a'", "size": "1"}),
        ("Server", {"name": "'a'", "size": "0"}),
    ]
    assert done == [("rent", "a", 1), ("rent", "a", 0)]


def test_methods_are_tools_where_they_are_marked(bench: Bench) -> None:
    for _ in range(2):
        one, two = Server("a"), Server("b")
        assert (one.start(5), two.start(5)) == (("a", 5, 3), ("b", 5, 4))
        assert asyncio.run(one.stop(6)) == ("a", 6, 5)
        assert (Server.rent_all(2), Server.price(3), one.load) == (("Server", 6), 7, 8)
        bench.restart()
    assert len(done) == 8


def test_a_subclass_is_a_tool_by_its_own_name(bench: Bench) -> None:
    for note in ("n", "another"):
        assert (Noted("a", note).id, Named("a", "b").id, Same("a").id) == (1, 2, 3)
        bench.restart()
        named = Named("a", "b")
        assert (type(named), named.name, Same("a").start(1)) == (Named, "a b", ("a", 1, 4))
        bench.restart()
    assert [call.tool for call in bench.journal.calls()] == ["Noted", "Named", "Same", "Server.start"]
    assert len(done) == 4


def test_a_class_stays_a_class(bench: Bench) -> None:
    made = Server("a")
    assert isinstance(made, Server)
    assert isinstance(Same("b"), Server)
    assert not isinstance(made, Same)
    assert not isinstance(5, Server)
    assert issubclass(Same, Server)
    assert not issubclass(Server, Same)
    assert inspect.isclass(Server)
    assert (Server.__name__, Server.__qualname__, Server.__doc__) == ("Server", "Server", "Rents a machine.")
    assert (str(inspect.signature(Record)), list(inspect.signature(Named).parameters)) == (
        "(n: 'int', at: 'tuple[int, ...]' = ()) -> None",
        ["first", "last"],
    )
    match made:
        case Server(name=name):
            assert name == "a"
        case _:
            raise AssertionError
    Server.kinds += 1
    assert Server.kinds == made.kinds == 3
    square = Square(3)
    assert isinstance(square, Shape)
    assert (square.side, square.area()) == (9, 81)
    with pytest.raises(TypeError, match="abstract"):
        tool(Shape)()  # type: ignore[abstract]  # what is refused


@pytest.mark.parametrize("way", [pickle, cloudpickle])
def test_classes_and_objects_are_pickled_by_their_names(bench: Bench, way: Any) -> None:
    made = Server("a")
    assert way.loads(way.dumps(Server)) is Server
    assert way.loads(way.dumps(made)) == made
    assert copy.deepcopy(made) == made
    assert len(done) == 1


def test_an_object_that_is_rebuilt_by_a_call_of_its_class_makes_no_call(bench: Bench) -> None:
    class Point:
        def __init__(self, x: int) -> None:
            self.x = x
            do("point", x)

        def __reduce__(self) -> Any:
            return Marked, (self.x,)

    Marked = tool(Point)
    for _ in range(2):
        assert Marked(5).x == 5
        bench.restart()
        assert copy.copy(Marked(5)).x == 5
        bench.restart()
    assert len(bench.journal.calls()) == 1


def test_a_class_of_a_library_is_left_as_it_is(bench: Bench) -> None:
    made = tool(Decimal, name="decimal")
    for _ in range(2):
        found = made("1.5")
        assert (type(found), found) == (Decimal, Decimal("1.5"))
        assert isinstance(found, made)
        assert isinstance(Decimal(1), made)
        assert issubclass(Decimal, made)
        bench.restart()
    assert type(Decimal) is type
    assert len(bench.journal.calls()) == 1


def test_options_hold_for_the_class(bench: Bench) -> None:
    class Unsure:
        def __init__(self, n: int) -> None:
            do("made", n)
            raise ConnectionError

    lost = tool(Unsure)
    with pytest.raises(ConnectionError):
        lost(1)
    bench.restart()
    with pytest.raises(InDoubt):
        lost(1)
    asked = tool(Unsure, reconcile=lambda n: Happened(n + 1))
    assert asked(1) == 2
    assert done == [("made", 1)]
    with pytest.raises(UsageError, match="no parameter 'm' for ignore=; there are: n"):
        tool(Unsure, ignore="m")
    with pytest.raises(UsageError, match="is a tool already"):
        tool(lost)
    with pytest.raises(UsageError, match=r"cannot go on the class bool .*: put it on a function"):
        tool(bool)


def test_an_object_that_cannot_be_saved_is_not_made_again(bench: Bench) -> None:
    opened = tool(Handle)
    do("opened", next(opened("a").rows))
    bench.restart()
    with pytest.raises(ValueUnavailable):
        opened("a")
    assert done == [("open", "a"), ("opened", 1)]


def test_objects_are_made_in_a_map(bench: Bench) -> None:
    def fan() -> list[Any]:
        names = ["a", "b", "c"]
        made = FanOut(Server, names, bench.desk(), concurrency=2, errors="raise", label=None, star=False)
        return fan_out(made)

    assert [each.name for each in fan()] == ["a", "b", "c"]
    bench.restart()
    assert [each.name for each in fan()] == ["a", "b", "c"]
    assert len(done) == 3


@pytest.mark.kernel
def test_a_class_of_the_notebook_comes_back_with_its_objects(kernels: Kernels) -> None:
    cells = [
        "from resumable_nb import tool\ndef log(text): open('ledger', 'a').write(text + '\\n')",
        "%%resumable define\n"
        "@tool\n"
        "class Server:\n"
        "    def __init__(self, name):\n"
        "        log('rent ' + name)\n"
        "        self.name = name\n"
        "    @tool\n"
        "    def start(self, at):\n"
        "        log(f'start {self.name} {at}')\n"
        "        return at",
        "%%resumable rent\nservers = [Server(name) for name in 'ab']",
        "%%resumable start\nstarted = [each.start(1) for each in servers]",
        "other = Server('c')",
    ]
    check = "isinstance(servers[0], Server), type(other) is type(servers[0]) is Server, started"
    for _ in range(2):
        kernel = kernels(*cells)
        assert kernel(check).value == "(True, True, [1, 1])"
        kernel.kill()
    assert (kernel.folder / "ledger").read_text().split("\n")[:-1] == [
        "rent a", "rent b", "start a 1", "start b 1", "rent c",
    ]  # fmt: skip
