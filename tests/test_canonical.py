"""Values as canonical digests."""

from __future__ import annotations

import array
import collections
import copy
import dataclasses
import datetime
import decimal
import enum
import fractions
import functools
import io
import math
import os
import pathlib
import pickle
import random
import re
import socket
import sqlite3
import struct
import subprocess
import sys
import threading
import types
import uuid
import weakref
import zoneinfo
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from blake3 import blake3
from hypothesis import given, settings
from matplotlib.figure import Figure

from resumable_nb import threads
from resumable_nb.canonical import arrays, carries_code, content, fingerprint, frames, turning, user_module
from resumable_nb.canonical import columns as turned
from resumable_nb.errors import NoContent


@dataclasses.dataclass
class Point:
    x: Any
    y: Any = 0

    def norm(self) -> float:
        return math.hypot(self.x, self.y)


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


class Word(enum.StrEnum):
    A = "a"


class Slotted:
    __slots__ = ("a", "b")

    def __init__(self, a: Any, b: Any) -> None:
        self.a, self.b = a, b


class Cached:
    def __init__(self, n: int) -> None:
        self.n = n

    @functools.cached_property
    def double(self) -> int:
        return self.n * 2


class Tags(set[Any]):
    pass


class Linked:
    def __init__(self, n: int) -> None:
        self.n, self.next, self.prev = n, self, self


Pair = collections.namedtuple("Pair", "a b")


def ring(size: int) -> list[Linked]:
    nodes = [Linked(i) for i in range(size)]
    for i, node in enumerate(nodes):
        node.next, node.prev = nodes[(i + 1) % size], nodes[i - 1]
    return nodes


def times(k: Any) -> Any:
    return lambda x: x * k


NAIVE = datetime.datetime.fromisoformat("2024-01-02")
ZONE = zoneinfo.ZoneInfo("Europe/Vienna")
VALUES: list[Any] = [
    None, 0, 1, True, False, -1, 2**31, 2**80, -(2**80), 0.0, -0.0, 1.0, 1.5, math.inf, math.nan, "", "a", "\ud800",
    "1", b"", b"a", bytearray(b"a"), memoryview(b"a"), 1j, complex(0.0, -0.0), ..., NotImplemented, [], [[]], [1],
    [1, 2], [2, 1], ["1"], [True], [1.0], [math.nan], [None], [1, [2, "x"]], (), (1,), ((1,),), (1, [2]), {},
    {"a": 1}, {"a": 1.0}, {"a": [1]}, {"a": {"b": 1}}, {1: "a"}, {1.0: "a"}, {True: "a"}, {"1": "a"}, {(1, 2): "a"},
    {(1, (2,)): [3]}, {1: 2, "a": 3}, {None: 1}, {b"a": 1}, {"a": math.nan}, {math.nan: 1}, {Word.A: 1},
    {Colour.RED: [1]}, {frozenset({1}): 2}, set(), frozenset(), {1}, frozenset({1}), {1, 2}, {1.0, 2},
    {"a", 1, (1, 2)}, {(1, (2, 3))}, {Colour.RED}, Tags({1, 2}), range(5), range(0, 6, 2), slice(1, None),
    slice(1, 2, 3), re.compile("a"), re.compile("a", re.IGNORECASE), datetime.date(2024, 1, 2),
    NAIVE, NAIVE.replace(tzinfo=datetime.UTC), NAIVE.replace(fold=1),
    NAIVE.replace(tzinfo=ZONE), NAIVE.replace(microsecond=1), datetime.timedelta(1),
    datetime.timedelta(0, 0, 1), datetime.time(1, tzinfo=datetime.UTC), decimal.Decimal('1.50'), decimal.Decimal('NaN'),
    datetime.time(1), decimal.Decimal("1"), decimal.Decimal("1.5"), fractions.Fraction(1, 3), uuid.UUID(int=5),
    pathlib.PurePosixPath("a/b"), pathlib.PureWindowsPath("a/b"), Colour.RED, Colour.BLUE, Word.A, Point(1),
    Point(1.0), Point([1], {"a": 2}), Slotted(1, [2]), Slotted(1, 2), Pair(1, 2), Cached(3),
    types.SimpleNamespace(a=1), collections.OrderedDict(a=1, b=2), collections.OrderedDict(b=2, a=1),
    collections.defaultdict(list, a=[1]), collections.defaultdict(set, a=[1]), collections.Counter("aab"),
    collections.deque([1, 2]), collections.deque([1, 2], maxlen=3), array.array("d", [1, 2]),
    array.array("f", [1, 2]), ValueError("x"), KeyError("x"), random.Random(1), random.Random(2), ring(3), ring(4),
    functools.partial(max, 1), functools.partial(max, 2), len, max, math.sin, "".join, "a".join, [].append, str.join,
    int, list[int], dict[str, int], int | str, math, Point, Colour, Point.norm, Point(1).norm, Point(2).norm,
    times(1), times(2), lambda x: x, lambda x: x + 1, dict.fromkeys, np.arange(3), np.arange(3.0),
    np.arange(3, dtype="i4"), np.arange(4).reshape(2, 2), np.arange(4).reshape(4, 1),
    np.array(3), np.array([]), np.array([], "i4"), np.zeros((0, 2)), np.zeros((2, 0)), np.array(["a", "b"]),
    np.array([b"a"]), np.array(["a", None, [1]], object), np.array([1 + 2j]), np.float64(1), np.float32(1),
    np.int64(1), np.bool_(True), np.str_("a"), np.datetime64("2024-01-01"), np.timedelta64(1, "D"),
    np.array(["2024-01-01"], "M8[D]"), np.array(["2024-01-01"], "M8[ns]"), np.array([0.0, np.nan]),
    np.array([-0.0, np.nan]), np.array([(1, 2.0)], [("a", "i4"), ("b", "f8")]), np.dtype("f8"), np.sin, np.cos,
    np.float64, np.longdouble(1) / 3, np.ma.array([1, 2], mask=[0, 1]), np.ma.array([1, 2], mask=[1, 0]),
    np.random.default_rng(1), np.random.default_rng(2), np.random.RandomState(1), np.array([1.5], "f2"),
    pd.Series([1, 2]), pd.Series([1.0, 2]), pd.Series([1, 2], name="a"), pd.Series([1, 2], index=[1, 2]),
    pd.Series([1, None], dtype="Int64"), pd.Series([1, None], dtype="Float64"),
    pd.Series([True, None], dtype="boolean"), pd.Series(["a", None]), pd.Series(["a", None], dtype=object),
    pd.Series(["a", None], dtype="string[python]"), pd.Series(["a", None], dtype="string[pyarrow]"),
    pd.Series(["a", "b"], dtype="category"), pd.Series([1, 2], dtype="int64[pyarrow]"),
    pd.Series(pd.date_range("2024", periods=2)), pd.Series(pd.date_range("2024", periods=2, tz="UTC")),
    pd.Series(pd.interval_range(0, 2)), pd.Series([1, 0], dtype="Sparse[int]"),
    pd.Series(pd.period_range("2024", periods=2, freq="D")), pd.Series(pd.to_timedelta([1, 2])), pd.Index([1, 2]),
    pd.Index([1.0, 2]), pd.RangeIndex(3), pd.date_range("2024", periods=2), pd.CategoricalIndex(["a"]),
    pd.MultiIndex.from_tuples([(1, "a")]), pd.MultiIndex.from_tuples([(1, "a")], names=["x", "y"]),
    pd.DataFrame({"a": [1, 2]}), pd.DataFrame({"b": [1, 2]}), pd.DataFrame({"a": [1, 2], "b": [3, 4]}),
    pd.DataFrame({"b": [3, 4], "a": [1, 2]}), pd.DataFrame({"a": [1, 2]}, index=[1, 2]), pd.DataFrame(),
    pd.DataFrame(index=[1]), pd.DataFrame({"a": [[1], {"k": 2}]}), pd.NA, pd.NaT, pd.Timestamp("2024"),
    pd.Timestamp("2024", tz="UTC"), pd.Timedelta(1), pd.Interval(0, 1), pd.CategoricalDtype(["a"]),
    pa.table({"a": [1, None]}), pa.table({"a": ["x", None]}), pa.array([1, 2]), pa.array(["a"]),
    pa.array(["a"], pa.large_string()), pa.array([[1], None]), pa.chunked_array([[1], [2]]), pa.scalar(1),
    pa.array([1.5, None]), pa.array([True, None]), pa.array([datetime.date(2024, 1, 1)]),
    pa.array([decimal.Decimal("1.5")]), pa.schema([("a", pa.int64())]), pa.int64(),
]  # fmt: skip


def test_different_values_have_different_digests() -> None:
    """Every two of these differ in type or content."""
    found: dict[str, Any] = {}
    for value in VALUES:
        digest = fingerprint(value)
        assert digest not in found, (value, found[digest])
        found[digest] = value


@pytest.mark.parametrize("value", VALUES, ids=[f"{i}-{type(value).__name__}" for i, value in enumerate(VALUES)])
def test_copies_have_the_same_digest(value: Any) -> None:
    """Also nested, where other code writes them."""
    copies = [value]
    if not isinstance(value, memoryview | types.ModuleType):
        copies.append(copy.deepcopy(value))
    if not isinstance(value, memoryview | types.ModuleType | types.LambdaType):
        copies += [pickle.loads(pickle.dumps(value, protocol)) for protocol in (4, 5)]
    assert len({fingerprint(each) for each in copies}) == 1
    assert len({fingerprint([{"k": (each, 1)}]) for each in copies}) == 1


SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.binary()
    | st.sampled_from([*Colour, *Word])
)
HASHABLE = st.recursive(SCALARS, lambda inner: st.tuples(inner, inner) | st.frozensets(inner, max_size=3), max_leaves=4)
TREES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner)
        | st.tuples(inner, inner)
        | st.dictionaries(HASHABLE, inner, max_size=4)
        | st.sets(HASHABLE, max_size=4)
        | inner.map(Point)
        | st.lists(st.fixed_dictionaries({"a": inner, "b": inner}), min_size=16, max_size=18)
        | st.lists(st.dictionaries(st.sampled_from("ab"), inner, max_size=2), min_size=16, max_size=18)
        | st.lists(st.tuples(inner, inner), min_size=16, max_size=18)
    ),
    max_leaves=12,
)


def rebuilt(value: Any) -> Any:
    """An equal value, its dicts and sets in the opposite order, no object shared."""
    match value:
        case dict():
            return {rebuilt(k): rebuilt(v) for k, v in reversed(value.items())}
        case list():
            return [rebuilt(each) for each in value]
        case tuple():
            return tuple(rebuilt(each) for each in value)
        case set() | frozenset():
            return type(value)(rebuilt(each) for each in reversed(list(value)))
        case Point():
            return Point(y=rebuilt(value.y), x=rebuilt(value.x))
        case enum.Enum() | None | bool():
            return value
        case str():
            return "".join(list(value))
        case _:
            return copy.deepcopy(value)


@given(TREES)
@settings(max_examples=120, deadline=None)
def test_equal_values_have_equal_digests_however_built(value: Any) -> None:
    digest = fingerprint(value)
    assert fingerprint(copy.deepcopy(value)) == digest
    assert fingerprint(pickle.loads(pickle.dumps(value))) == digest
    assert fingerprint(rebuilt(value)) == digest


def spelled(value: Any) -> Any:
    """A value with its types, so that ``==`` tells 1 from 1.0, and -0.0 from 0.0; all NaNs alike."""
    kind = type(value).__name__
    match value:
        case dict():
            return kind, frozenset(collections.Counter((spelled(k), spelled(v)) for k, v in value.items()).items())
        case list() | tuple():
            return kind, tuple(spelled(each) for each in value)
        case set() | frozenset():
            return kind, frozenset(collections.Counter(map(spelled, value)).items())
        case Point():
            return kind, spelled(value.x), spelled(value.y)
        case float():
            return kind, "nan" if value != value else value.hex()
        case _:
            return kind, value


@given(TREES, TREES)
@settings(max_examples=120, deadline=None)
def test_digests_are_equal_only_for_equal_types_and_contents(one: Any, other: Any) -> None:
    assert (fingerprint(one) == fingerprint(other)) == (spelled(one) == spelled(other))


def test_all_nans_are_one() -> None:
    odd = struct.unpack("<d", b"\x01\x02\x03\x04\x05\x06\xf8\xff")[0]
    assert odd != odd
    for wrap in (lambda x: x, lambda x: [x, 1], lambda x: {"a": x}, lambda x: [{"a": x, "b": 1}] * 20, lambda x: {x},
                 lambda x: {x: 1}, lambda x: complex(1, x), np.float64, lambda x: np.array([1, x]),
                 lambda x: np.array([x, 1], "f4"), lambda x: np.array([complex(x, 1)]), lambda x: pd.Series([x, 1.0]),
                 lambda x: np.array([[x, 1], [2, 3]]).T):  # fmt: skip
        assert fingerprint(wrap(odd)) == fingerprint(wrap(math.nan))


def test_an_array_with_many_unusual_nans() -> None:
    bits = np.arange(300_000, dtype="u8")
    bits[::3] = 0xFFF8_0000_0000_0000 + bits[::3]
    odd = bits.view("f8")
    usual = np.where(np.isnan(odd), np.nan, odd)
    assert fingerprint(odd) == fingerprint(usual) != fingerprint(np.zeros(300_000))
    assert np.isnan(odd[0])


@pytest.mark.parametrize("sign", [0, 0x8000])
def test_nans_of_two_bytes_are_one_and_infinity_is_none(sign: int) -> None:
    def told(bits: int) -> str:
        return fingerprint(np.array([0x3C00, bits | sign, 0xBC00], "u2").view("f2"))

    assert {told(bits) for bits in (0x7C01, 0x7D55, 0x7FFF)} == {fingerprint(np.array([1, np.nan, -1], "f2"))}
    assert told(0x7C00) == fingerprint(np.array([1, -np.inf if sign else np.inf, -1], "f2"))


def test_sharing_does_not_count() -> None:
    inner = [1, [2]]
    assert fingerprint([inner, inner]) == fingerprint([[1, [2]], [1, [2]]])
    point = Point(inner)
    assert fingerprint({"a": point, "b": [point]}) == fingerprint({"a": Point([1, [2]]), "b": [Point([1, [2]])]})


def test_a_graph_with_exponentially_many_paths_is_walked_once() -> None:
    value: Any = [1, [2]]
    for _ in range(200):
        value = [value, value]
    assert fingerprint(value) == fingerprint(copy.deepcopy(value))


def test_cycles_end() -> None:
    loop: list[Any] = [1]
    loop.append(loop)
    other: list[Any] = [2]
    other.append(other)
    assert fingerprint(loop) == fingerprint(copy.deepcopy(loop)) != fingerprint(other)
    row: dict[str, Any] = {"a": 1}
    row["self"] = row
    assert fingerprint([row] * 20) == fingerprint([row] * 20)


def test_a_cycle_is_the_same_however_it_is_surrounded() -> None:
    a, b = ring(5), ring(5)
    assert fingerprint([a[0], [1, [a[0]]]]) == fingerprint([a[0], [1, [b[0]]]])


@pytest.mark.parametrize("make", [lambda: ring(3000), lambda: clique(120)], ids=["ring", "clique"])
def test_tangled_structures_take_no_time(make: Any) -> None:
    assert fingerprint(make()) == fingerprint(make())


def clique(size: int) -> list[Linked]:
    nodes = [Linked(i) for i in range(size)]
    for node in nodes:
        node.next = nodes  # type: ignore[assignment]  # an open object
    return nodes


def test_a_cycle_through_a_set_has_no_order_of_chance() -> None:
    def family() -> Linked:
        parent = Linked(0)
        children = [Linked(i) for i in (1, 2, 3)]
        for child in children:
            child.prev = parent
        parent.next = set(random.sample(children, 3))  # type: ignore[assignment]  # an open object
        return parent

    assert len({fingerprint(family()) for _ in range(10)}) == 1


def test_a_tangle_of_sets_is_refused_in_time() -> None:
    nodes = [Linked(i) for i in range(300)]
    for node in nodes:
        node.prev = set(nodes)  # type: ignore[assignment]  # an open object
    with pytest.raises(NoContent, match="tangled"):
        fingerprint(nodes)


def test_a_hundred_thousand_levels() -> None:
    deep: Any = []
    for i in range(100_000):
        deep = [deep] if i % 2 else {"a": deep}
    assert len(fingerprint(deep)) == 32
    while deep:  # the interpreter would free it recursively
        deep = deep.pop() if isinstance(deep, list) else deep.pop("a")


def test_dict_views_and_proxies() -> None:
    d, e = {"a": 1, "b": 2}, {"b": 2, "a": 1}
    assert fingerprint(d.keys()) == fingerprint(e.keys())
    assert fingerprint(d.items()) == fingerprint(e.items())
    assert fingerprint(d.values()) != fingerprint(e.values())
    assert fingerprint(types.MappingProxyType(d)) == fingerprint(types.MappingProxyType(e)) != fingerprint(d)


def test_equal_ranges() -> None:
    assert fingerprint(range(0, 3, 2)) == fingerprint(range(0, 4, 2)) != fingerprint(range(0, 5, 2))
    assert fingerprint(range(0)) == fingerprint(range(2, 2))


def test_what_is_cached_is_not_content() -> None:
    fresh, used = Cached(3), Cached(3)
    assert used.double == 6
    assert fingerprint(fresh) == fingerprint(used)


def test_a_file_in_memory_counts_by_its_content_and_place() -> None:
    one, other = io.BytesIO(b"ab"), io.BytesIO(b"ab")
    assert fingerprint(one) == fingerprint(other)
    other.read(1)
    assert fingerprint(one) != fingerprint(other)
    other.close()
    assert fingerprint(io.StringIO("ab")) != fingerprint(one) != fingerprint(other)


def test_a_weak_dictionary_counts_by_what_it_holds() -> None:
    """Not by its bookkeeping; so does ``singledispatch``, which keeps one."""
    one, other = weakref.WeakKeyDictionary({int: 1}), weakref.WeakKeyDictionary[Any, int]()
    other[int] = 1
    assert fingerprint(one) == fingerprint(other) != fingerprint(weakref.WeakKeyDictionary({str: 1}))


def test_a_released_view_has_no_content() -> None:
    view = memoryview(b"ab")
    view.release()
    with pytest.raises(NoContent):
        fingerprint([view])


def test_a_figure_has_no_content() -> None:
    """Drawing and saving one changes its attributes, so it counts by what drew it."""
    figure = Figure()
    for each in (figure, [figure.subplots()]):
        with pytest.raises(NoContent):
            fingerprint(each)


def test_big_strings_and_bytes() -> None:
    text = "ä" * 100_000
    assert fingerprint(text) == fingerprint("".join(list(text))) != fingerprint(text[:-1] + "a")
    assert fingerprint(text.encode()) != fingerprint(text)
    assert fingerprint([text, [1]]) != fingerprint([text + "ä", [1]])


def test_tables_do_not_collide_with_other_containers() -> None:
    rows = [{"a": i, "b": [i]} for i in range(20)]
    variants = [
        rows, tuple(rows), [tuple(row.items()) for row in rows], [list(row.values()) for row in rows],
        [tuple(row.values()) for row in rows], [{"a": [row["a"] for row in rows], "b": [row["b"] for row in rows]}],
        dict(enumerate(rows)), {str(i): row for i, row in enumerate(rows)}, [{"b": r["a"], "a": r["b"]} for r in rows],
        [*rows[:-1], {"a": 19, "c": [19]}], [{"a": 19, "c": [19]}, *rows[:-1]], [*rows[:-1], {"a": 19}],
        [[row] for row in rows],
    ]  # fmt: skip
    assert len({fingerprint(each) for each in variants}) == len(variants)


# --- arrays and frames


LAYOUTS = [
    ("F order", lambda a: np.asfortranarray(a)),
    ("view of a larger array", lambda a: np.pad(a, 1)[1:-1, 1:-1]),
    ("strided", lambda a: np.repeat(a, 2, axis=0)[::2]),
    ("reversed twice", lambda a: np.ascontiguousarray(a[::-1])[::-1]),
    ("read-only", lambda a: np.frombuffer(a.tobytes(), a.dtype).reshape(a.shape)),
]


@pytest.mark.parametrize("shape", [(3, 4), (1, 1), (0, 3), (700, 900), (3, 200_000), (200_000, 3)])
@pytest.mark.parametrize("dtype", ["f8", "f4", "i8", "?", "c16", "M8[s]", "U3", "V5", "f2", "g"])
def test_memory_layout_does_not_count(shape: tuple[int, int], dtype: str) -> None:
    size = math.prod(shape)
    if dtype in ("U3", "V5"):
        one = np.frombuffer((np.arange(size * 12) % 120).astype("u1").tobytes(), "u1")
        one = (
            np.arange(size).astype("U3").reshape(shape) if dtype == "U3" else one[: size * 5].view("V5").reshape(shape)
        )
    else:
        one = (np.arange(size) % 251).astype(dtype).reshape(shape)
    digests = {name: fingerprint(np.pad(one, 0) if name == "itself" else make(one)) for name, make in LAYOUTS
               if dtype != "V5" or name in ("F order", "reversed twice")}  # fmt: skip
    assert set(digests.values()) == {fingerprint(one)}, digests


SHAPES = [
    (300, 700),
    (512, 300),
    (2, 90_000),
    (90_000, 2),
    (9, 20_001),
    (3, 50, 1300),
    (1300, 50, 3),
    (40, 3, 50, 33),
    (200_001,),
]


@pytest.mark.parametrize("dtype", ["f8", "f4", "i8", "i2", "?", "M8[ns]", "c16", "S5"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_a_large_array_is_the_same_in_every_order(
    shape: tuple[int, ...], dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With boxes and threads for sizes that do not take long, so that no box is the whole of it."""
    monkeypatch.setattr(arrays, "_BOX_BYTES", 1 << 16)
    monkeypatch.setattr(arrays, "_RUN_BYTES", 1 << 12)
    monkeypatch.setattr(threads, "WORTHWHILE_BYTES", 0)
    count = math.prod(shape)
    one = (np.arange(count) % 251).astype("i8").astype(dtype).reshape(shape)
    axes = range(len(shape))
    orders = {tuple(np.roll(axes, k).tolist()) for k in axes} | {tuple(reversed(axes))}
    digests = {fingerprint(np.transpose(np.transpose(one, order).copy(), np.argsort(order))) for order in orders}
    spread = np.repeat(one, 2, axis=-1)[..., ::2]
    assert digests == {fingerprint(one)} == {fingerprint(spread), fingerprint(one[::-1].copy()[::-1])}
    other = one.copy()
    other.reshape(-1)[-1] = other.reshape(-1)[0]
    assert fingerprint(other) != fingerprint(one)


SIZES: dict[str, int] = {}
NUMBERS = ["u1", "?", "i2", "f2", "f4", "i4", "f8", "c8", "c16", "M8[ns]", "S5", ">i2", ">f8", "g"]


@pytest.mark.parametrize("dtype", NUMBERS)
def test_layouts_drawn_at_random_do_not_count(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Any order of axes, steps and directions, with boxes, strips and bands of many sizes."""
    drawn = random.Random(dtype)
    sizes = {arrays: ("_BOX_BYTES", "_RUN_BYTES", "_SIDE_BYTES"), threads: ("WORTHWHILE_BYTES",)}
    sizes[turning] = tuple(name for name in vars(turning) if name.endswith(("_BYTES", "_ROWS")) and "WORD" not in name)
    for _ in range(12):
        for module, names in sizes.items():
            for name in names:
                usual = max(64, SIZES.setdefault(name, getattr(module, name)))
                monkeypatch.setattr(module, name, usual >> drawn.randrange(usual.bit_length() - 5))
        monkeypatch.setattr(turning, "CACHE_LINE_BYTES", 64)
        shape = [drawn.choice([1, 2, 3, 17, 40, 130]) for _ in range(drawn.randrange(3))]
        shape.insert(drawn.randrange(len(shape) + 1), 1 + drawn.randrange(60_000) // math.prod(shape))
        one = (np.arange(math.prod(shape)) * 7919 % 251).astype("i8").astype(dtype).reshape(shape)
        if one.dtype.kind in "fc":
            one.reshape(-1)[::7] = np.nan
        order, axis, step = (
            drawn.sample(range(one.ndim), one.ndim),
            drawn.randrange(one.ndim),
            drawn.choice([-2, -1, 3]),
        )
        other = np.transpose(np.transpose(one, order).copy(), np.argsort(order))
        place = (*[slice(None)] * axis, slice(None, None, step))
        spread = np.repeat(one, abs(step), axis=axis)
        spread = (spread[(*place[:-1], slice(None, None, -1))].copy() if step < 0 else spread)[place]
        assert {fingerprint(other), fingerprint(spread)} == {fingerprint(one)}, (shape, order, axis, step)


def test_text_whose_rows_are_a_power_of_two_apart_can_be_turned() -> None:
    one = (np.arange(4096 * 300) % 9999).astype("S5").reshape(4096, 300)
    assert fingerprint(np.asfortranarray(one)) == fingerprint(one)


def test_a_memory_map_is_its_content(tmp_path: pathlib.Path) -> None:
    one = np.arange(10.0)
    np.save(tmp_path / "a.npy", one)
    assert fingerprint(np.load(tmp_path / "a.npy", mmap_mode="r")) == fingerprint(one)


def test_padding_and_what_is_masked_do_not_count() -> None:
    kind = np.dtype([("a", "i1"), ("b", "f8")], align=True)
    clean, dirty = np.zeros(3, kind), np.frombuffer(bytearray(b"\xff" * 48), kind)
    dirty["a"], dirty["b"] = 0, 0
    assert clean.tobytes() != dirty.tobytes()
    assert fingerprint(clean) == fingerprint(dirty)
    mask = [False, True]
    assert fingerprint(np.ma.array([1, 2], mask=mask)) == fingerprint(np.ma.array([1, 3], mask=mask))
    one, other = pd.array([1, None], dtype="Int64"), pd.array([1, 7], dtype="Int64")
    other[1] = pd.NA
    assert fingerprint(one) == fingerprint(other)
    fields = [np.ma.array(np.array([(1, 2.0), (3, each)], kind), mask=[(0, 0), (0, 1)]) for each in (4.0, 5.0)]
    assert fingerprint(fields[0]) == fingerprint(fields[1]) != fingerprint(np.ma.array(fields[0].data))
    assert fingerprint(np.ma.masked) == fingerprint(fields[0]["b"][1]) != fingerprint(np.ma.array([1], mask=[True])[:0])


@pytest.mark.parametrize("dtype", ["f8", "i2", "u1", ">f8", "M8[s]", "S4"])
def test_what_is_masked_in_a_large_array_does_not_count(dtype: str) -> None:
    """It is taken out box by box; so it is from pandas' arrays with missing values."""
    numbers = (np.arange(900_000) % 251).astype("i8").astype(dtype).reshape(3, -1)
    mask = np.arange(900_000).reshape(3, -1) % 7 == 0
    other = numbers.copy()
    other[mask] = numbers[0, 1]
    one = fingerprint(np.ma.array(numbers, mask=mask))
    assert one == fingerprint(np.ma.array(other, mask=mask)) == fingerprint(np.ma.array(other.T.copy(), mask=mask.T).T)
    other[0, 1] = numbers[0, 2]
    assert one != fingerprint(np.ma.array(other, mask=mask))


@pytest.mark.parametrize(("make", "dtype"), [(pd.arrays.FloatingArray, "f8"), (pd.arrays.IntegerArray, "i4")])
def test_what_lies_where_a_value_is_missing_does_not_count(make: Any, dtype: str) -> None:
    numbers, mask = np.arange(300_000).astype(dtype), np.arange(300_000) % 7 == 0
    one = fingerprint(make(numbers, mask))
    assert one == fingerprint(make(np.where(mask, 5, numbers).astype(dtype), mask))
    assert (
        one != fingerprint(make(np.where(~mask, 5, numbers).astype(dtype), mask)) != fingerprint(make(numbers, ~mask))
    )


def test_numeric_memory_is_read_where_it_lies(monkeypatch: pytest.MonkeyPatch) -> None:
    """A contiguous array is never copied."""
    one = np.arange(1_000_000)

    def refuse(*args: Any, **kwargs: Any) -> None:
        raise AssertionError("copied")

    for name in ("array", "empty", "ascontiguousarray", "copyto", "asarray"):
        monkeypatch.setattr(np, name, refuse)
    fingerprint(one)
    fingerprint(one.view("f8"))


def test_consolidation_does_not_count() -> None:
    whole = pd.DataFrame(np.arange(12.0).reshape(4, 3), columns=list("abc"))
    grown = pd.DataFrame({"a": whole["a"].to_numpy().copy()})
    grown["b"] = whole["b"].to_numpy().copy()
    grown["c"] = whole["c"].to_numpy().copy()
    assert fingerprint(whole) == fingerprint(grown) == fingerprint(whole[::1].copy())


@pytest.mark.parametrize("dtype", ["f8", "f4", "f2", "c16", "g", ">f8", "i8", "u1", "?", "M8[ns]"])
@pytest.mark.parametrize(("columns", "rows"), [(2, 4096), (10, 8191), (10, 8192), (10, 8193), (33, 9001), (64, 4500)])
def test_columns_that_lie_across_each_other_do_not_count(
    columns: int, rows: int, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A frame over one block in row order, whose columns are read together: in one box or many, with unusual NaNs."""
    numbers = (np.arange(rows * columns) % 251 - 120).reshape(rows, columns)
    block = (numbers.astype("i8") if dtype == "M8[ns]" else numbers).astype(dtype)
    if block.dtype.kind in "fc":
        block[::7, 1], block[3, 0], block[-1, -1] = np.nan, -np.nan, -0.0
    if dtype == "f8":
        block.view("u8")[7, 1] ^= 1
    plain = {i: block[:, i].copy() for i in range(columns)}
    monkeypatch.setattr(arrays, "_RUN_BYTES", 1 << 12)
    monkeypatch.setattr(frames, "_MANY", 0)
    monkeypatch.setattr(turned, "_ABREAST", 32)
    monkeypatch.setattr(turned, "_CUT_BYTES", 1 << 10)
    for box_bytes in (1 << 20, 1 << 13):
        monkeypatch.setattr(arrays, "_BOX_BYTES", box_bytes)
        monkeypatch.setattr(turned, "_ROOM_BYTES", 1 << 16 if box_bytes == 1 << 20 else 1 << 20)
        monkeypatch.setattr(turning, "_DESK_BYTES", box_bytes)
        monkeypatch.setattr(threads, "WORTHWHILE_BYTES", box_bytes)
        expected = fingerprint(pd.DataFrame(plain, columns=range(columns)))
        across = pd.DataFrame(block, copy=False)
        assert fingerprint(across) == expected
        assert fingerprint(across[::-1][::-1]) == expected
        changed = block.copy()
        changed[-1, 0] = next(each for each in block[:, 0] if each != block[-1, 0])
        assert fingerprint(pd.DataFrame(changed, copy=False)) != expected


def test_rows_that_lie_in_the_same_memory_do_not_count() -> None:
    """A row told many times, and windows over one array, each a value further."""
    row, flat = np.arange(16.0), np.arange(6015.0)
    for across in (np.broadcast_to(row, (6000, 16)), np.lib.stride_tricks.sliding_window_view(flat, 16)):
        assert across.strides[0] < 16 * 8
        one = fingerprint(pd.DataFrame(across, copy=False))
        assert one == fingerprint(pd.DataFrame({i: across[:, i].copy() for i in range(16)}, columns=range(16)))


def test_blocks_beside_other_columns_do_not_count() -> None:
    """Two blocks in row order, apart from each other and between other columns; some of their columns missing."""
    floats, numbers = np.arange(60_000.0).reshape(6000, 10), np.arange(30_000).reshape(6000, 5)
    across = pd.concat([pd.DataFrame(each, copy=False) for each in (floats, numbers)], axis=1, ignore_index=True)
    assert not across[0].to_numpy().flags.contiguous
    across.insert(3, "text", [str(k) for k in range(6000)])
    across.insert(9, "kind", pd.Categorical(["a", "b"] * 3000))
    for part in (across, across.iloc[:, ::-1], across.iloc[:, ::2], across.iloc[:, 1:7], across[[5, 4, 5]]):
        own = pd.DataFrame({i: part.iloc[:, i].copy() for i in range(part.shape[1])})
        own.columns = part.columns
        assert fingerprint(part) == fingerprint(own)


def test_unused_levels_do_not_count() -> None:
    whole = pd.DataFrame({"v": range(4)}, index=pd.MultiIndex.from_product([["a", "b"], [1, 2]]))
    part = whole.loc[["a"]]
    fresh = pd.DataFrame({"v": range(2)}, index=pd.MultiIndex.from_product([["a"], [1, 2]]))
    assert fingerprint(part) == fingerprint(fresh)


def test_attributes_of_frames_count() -> None:
    one, other = pd.DataFrame({"a": [1]}), pd.DataFrame({"a": [1]})
    other.attrs["unit"] = "m"
    assert fingerprint(one) != fingerprint(other)
    assert fingerprint(one) != fingerprint(one.set_flags(allows_duplicate_labels=False))


@pytest.mark.parametrize(
    "values",
    [["a", None, "bc", ""], [1, None, 3, 4], [1.5, None, math.nan, 2], [[1], None, [], [2, 3]],
     [True, None, False, True],
     [NAIVE, None, None, NAIVE.replace(year=2025)], [b"a", b"", None, b"xyz"]],
    ids=lambda values: type(values[0]).__name__,
)  # fmt: skip
def test_chunks_and_offsets_of_arrow_do_not_count(values: list[Any]) -> None:
    whole = pa.chunked_array([values])
    parts = pa.chunked_array([values[:1], values[1:3], values[3:]], whole.type)
    shifted = pa.chunked_array([pa.array([values[0], values[1], *values], whole.type)[2:]])
    assert fingerprint(whole) == fingerprint(parts) == fingerprint(shifted)
    assert fingerprint(whole) != fingerprint(whole[:3])
    table = pa.table({"x": whole})
    assert fingerprint(table) == fingerprint(pa.table({"x": parts})) != fingerprint(pa.table({"y": whole}))


def test_known_digests_are_used() -> None:
    big = np.arange(10)
    asked: list[Any] = []

    def known(value: object) -> str | None:
        asked.append(value)
        return "0" * 32 if value is big else None

    assert fingerprint(big, known=known) == "0" * 32
    assert any(value is big for value in asked)
    assert fingerprint([big], known=known) != fingerprint([big])


# --- what has no content


async def coroutine() -> None: ...


@pytest.fixture
def passing(tmp_path: pathlib.Path) -> Any:
    """Values that live in this process only."""
    later, file = coroutine(), (tmp_path / "f").open("w")
    one, two = socket.socketpair()
    base = sqlite3.connect(":memory:")
    yield {
        "generator": (i for i in ()), "iterator": iter([]), "map": map(int, []), "coroutine": later, "file": file,
        "socket": one, "lock": threading.Lock(), "event": threading.Event(), "base": base,
        "thread": threading.Thread(), "match": re.match("a", "a"), "frame": sys._getframe(),
    }  # fmt: skip
    later.close()
    file.close()
    one.close()
    two.close()
    base.close()


@pytest.mark.parametrize(
    "name",
    ["generator", "iterator", "map", "coroutine", "file", "socket", "lock", "event", "base", "thread",
     "match",
     "frame"],
)  # fmt: skip
def test_what_lives_in_this_process_only_has_no_content(passing: dict[str, Any], name: str) -> None:
    with pytest.raises(NoContent) as caught:
        fingerprint({"x": passing[name]})
    assert caught.value.path.startswith("['x']")


@pytest.mark.parametrize(
    ("wrap", "path"),
    [
        (lambda x: x, ""),
        (lambda x: {"a": [1, 2, 3, Point(x)]}, "['a'][3].x"),
        (lambda x: {(1, 2): {3: x}}, "[(1, 2)][3]"),
        (lambda x: [{"a": 1, "b": x}] * 20, "[0]['b']"),
        (lambda x: [{"a": i} if i % 2 else {"b": x if i == 18 else i} for i in range(20)], "[18]['b']"),
        (lambda x: np.array([1, x], object), "[1]"),
        (lambda x: pd.DataFrame({"a": [1], "b": [x]}), "['b'][0]"),
        (lambda x: Slotted(1, x), ".b"),
        (lambda x: functools.partial(max, key=x), ".keywords['key']"),
    ],
)
def test_the_error_says_where(wrap: Any, path: str) -> None:
    with pytest.raises(NoContent) as caught:
        fingerprint(wrap(threading.Lock()))
    assert caught.value.path == path
    assert "_thread.lock" in str(caught.value)
    assert path.removeprefix(".") in str(caught.value)


def test_an_object_that_refuses_to_be_taken_apart_has_no_content() -> None:
    class Stubborn:
        def __reduce_ex__(self, protocol: Any) -> Any:
            raise RuntimeError("no")

    class Odd:
        def __reduce_ex__(self, protocol: Any) -> Any:
            return 3

    for value in (Stubborn(), Odd()):
        with pytest.raises(NoContent):
            fingerprint(value)


# --- code


def compiled(text: str, **names: Any) -> Any:
    space: dict[str, Any] = {"__name__": "__main__", **names}
    exec(text, space)
    return space["f"]


def test_a_function_counts_by_what_it_says() -> None:
    one = compiled("def f(x, y=1): return x + y")
    assert fingerprint(one) == fingerprint(compiled("\n\ndef f(x,\n  y=1):\n  # so\n  return x + y"))
    for other in ("def f(x, y=2): return x + y", "def f(x, y=1): return x - y", "def f(x, y=1, *, z=1): return x + y",
                  "def f(x: int, y=1): return x + y", "def g(x, y=1): return x + y\nf = g"):  # fmt: skip
        assert fingerprint(one) != fingerprint(compiled(other))


def test_closures_and_attributes_count() -> None:
    text = "def outer(k):\n def f(x): return x * k\n return f\nf = outer({})"
    assert fingerprint(compiled(text.format(2))) == fingerprint(compiled(text.format(2)))
    assert fingerprint(compiled(text.format(2))) != fingerprint(compiled(text.format(3)))
    one, other = compiled("def f(): 1"), compiled("def f(): 1")
    other.unit = "m"
    assert fingerprint(one) != fingerprint(other)


def test_a_function_over_a_lock_still_has_a_digest() -> None:
    """The lock counts by its type: a function is not refused for what it closes over."""
    assert fingerprint(times(threading.Lock())) == fingerprint(times(threading.Lock())) != fingerprint(times(1))


@pytest.mark.parametrize(
    ("method", "draw", "own"),
    [(random.random, random.random, random.Random(1).random), (random.randint, random.random, random.Random(1).randint),
     (np.random.randn, np.random.rand, np.random.RandomState(1).randn)],
    ids=["in C", "in Python", "numpy's"],
)  # fmt: skip
def test_a_function_that_a_library_keeps_state_behind_counts_by_its_name(method: Any, draw: Any, own: Any) -> None:
    """``from random import randint`` depends on the state no more than ``import random``; an own object does."""
    before, apart = fingerprint(method), fingerprint(own)
    draw()
    assert fingerprint(method) == before != apart
    own(1, 2) if own.__name__ == "randint" else own()
    assert fingerprint(own) != apart


def test_recursive_functions_end() -> None:
    text = "def outer():\n def f(x): return g(x)\n def g(x): return f(x) + {}\n return f\nf = outer()"
    assert fingerprint(compiled(text.format(1))) == fingerprint(compiled(text.format(1)))
    assert fingerprint(compiled(text.format(1))) != fingerprint(compiled(text.format(2)))


def test_wrappers_count_by_what_they_wrap() -> None:
    text = "import functools\n@functools.lru_cache(maxsize={})\ndef f(x): return x + {}"
    one = compiled(text.format(8, 1))
    one(1)
    assert fingerprint(one) == fingerprint(compiled(text.format(8, 1))) != fingerprint(compiled(text.format(8, 2)))


def test_a_class_of_the_users_counts_by_its_members_and_its_objects_by_its_name() -> None:
    """Fixing a method must not make a payment for an old order a new call."""
    text = "class A:\n def m(self): return {}\n @property\n def p(self): return 1\n @staticmethod\n def s(): 1\nf = A"
    one, other = compiled(text.format(1)), compiled(text.format(2))
    assert fingerprint(one) == fingerprint(compiled(text.format(1))) != fingerprint(other)
    assert fingerprint(one()) == fingerprint(other())


@pytest.mark.parametrize(
    "member",
    ["x = 2", "def m(self): return 3", "@property\n def p(self): return 2", "@staticmethod\n def s(): 2",
     "@classmethod\n def c(cls): 2", "@functools.cached_property\n def p(self): return 2", "y: str = 'a'", "'doc'"],
)  # fmt: skip
def test_every_kind_of_member_counts(member: str) -> None:
    text = "import functools\nclass A:\n {}\nf = A"
    assert fingerprint(compiled(text.format(member))) != fingerprint(compiled(text.format("pass")))


def test_used_classes_stay_the_same() -> None:
    """Caches that the interpreter and the standard library put into a class are no part of it."""
    text = "import abc, functools\nclass A(abc.ABC):\n __slots__ = ('a',)\n def m(self): return 1\nf = A"
    one = compiled(text)
    before = fingerprint(one)
    value = one()
    value.a = 1
    copy.copy(value)
    isinstance(1, one)
    assert fingerprint(one) == before


def test_the_digest_says_whether_code_is_in_the_value() -> None:
    assert [
        carries_code(fingerprint(value)) for value in ([1], np.arange(3), math.sin, [len], pd.DataFrame({"a": [1]}))
    ] == ([False] * 5)
    function, point = compiled("def f(): 1"), Point(1)
    assert all(carries_code(fingerprint(value)) for value in (function, [function], {"a": point}, [Point], times(1)))
    found = content({"a": function, "b": [point]})
    assert (found.definitions, found.types) == ((function,), (Point,))


# --- other processes


PROGRAM = """
import collections, decimal, enum, sys
from resumable_nb.canonical import fingerprint
class C:
    def __init__(self): self.tags = {"x", "y", "z"}
    def m(self): return {"a", "b", "c"}
def f(x): return x in {"p", "q", "r"}, frozenset({"s", "t"})
names = ["".join(["n", str(i)]) for i in range(50)]
values = [
    {n: {n, n + "x"} for n in names}, set(names), frozenset(names), {frozenset(names[:3]): 1, (1, "a"): 2}, f, C, C(),
    {"a", 1, None, (1, "b"), frozenset({"k"})}, collections.Counter(names), {C: 1, f: 2, len: 3},
    [{"b": 1, "a": {2}}] * 20,
    dict(zip(names, names)).keys(), lambda: {"u", "v", "w"} & {"x"},
]
print(*map(fingerprint, values))
"""


def test_other_hash_seeds_and_processes_agree() -> None:
    found = set()
    for seed in ("0", "1", "4242"):
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True, text=True, check=True, timeout=60,
        )  # fmt: skip
        found.add(done.stdout)
    assert len(found) == 1
    assert len(set(found.pop().split())) == 13


def test_nothing_heavy_is_imported() -> None:
    code = (
        "import sys; from resumable_nb.canonical import fingerprint; fingerprint([1]); print('pandas' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "False"


@pytest.mark.parametrize(
    ("value", "digest"),
    [
        (None, "34ab8b65c2622b75106dba567a23b032"),
        ([1, "a", 2.5], "d6c390791876c54be4572d4cf71afdb2"),
        ({"a": {"b": (1,)}}, "899bd299b99faf093a90b4a4670611ca"),
        (np.arange(3, dtype="<i8"), "d5b1406a3056f1e7e1c459bb63989a81"),
    ],
    ids=["none", "list", "dict", "array"],
)
def test_digests_are_pinned(value: Any, digest: str) -> None:
    """They stand in stores: a change here makes every step run again and every recorded call a new one."""
    assert fingerprint(value) == digest


def test_an_array_is_hashed_with_its_head_only() -> None:
    """No more work than blake3 over the bytes: one pass, one hash."""
    one = np.arange(1000)
    head = b"Na" + len(text := f"{one.dtype!r} {one.shape}").to_bytes(4, "little") + text.encode()
    chunk = b"#" + blake3(head + one.tobytes()).digest(length=16)
    assert fingerprint(one) == blake3(chunk).hexdigest(length=16)


PLAIN = ("c985e85b2c42284335f75b7beb4bbdd5", "7b7478f5124638a0c12e2c2ef3a7b1a6", "1892619350024c9bd8fc063f1051720c")
WITH_NANS = ("05650b22b5edfd58b8f4bc0c7f2c2788", "f95876f66caf0f3d1f2122e236ba1c54", "a589124065db610d3f3288ac584f8153")


@pytest.mark.parametrize(
    ("nans", "digests"),
    [((), PLAIN), ((0x7FF8000000000000, 0xFFF8000000000001), WITH_NANS)],
    ids=["without", "with"],
)
def test_digests_of_large_arrays_are_pinned_with_and_without_nans(
    nans: tuple[int, ...], digests: tuple[str, ...]
) -> None:
    """They are hashed in boxes, some in other threads: nothing of that shows."""
    flat = np.arange(2_000_000) / 7
    for place, bits in zip((1_500_000, 1_600_000), nans, strict=False):
        flat.view("u8")[place] = bits
    matrix = flat.reshape(-1, 10)
    assert fingerprint(flat) == digests[0]
    assert fingerprint(matrix) == fingerprint(np.asfortranarray(matrix)) == digests[1]
    assert fingerprint(pd.DataFrame(matrix)) == digests[2]


@pytest.mark.parametrize("worthwhile_bytes", [0, 1 << 40], ids=["together", "one by one"])
def test_digests_of_many_arrays_are_pinned_whoever_hashes_them(
    worthwhile_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrays, "WORTHWHILE_BYTES", worthwhile_bytes)
    many = [np.arange(k, k + 70_000) / 7 for k in range(20)]
    many[3][5] = np.nan
    many[4].view("u8")[6] = 0xFFF8000000000001
    value = [*many, "x", many[0], many[1].astype("f4"), {"a": many}]
    assert fingerprint(value) == "c38980be022fe46446cf0a2bf590b7c2"
    many[-1][-1] += 1
    assert fingerprint(value) != "c38980be022fe46446cf0a2bf590b7c2"


def test_an_array_that_is_known_is_not_read_with_the_others() -> None:
    many = [np.arange(k, k + 70_000) for k in range(20)]
    own = {id(many[7]): "seven"}
    found = fingerprint([*many], known=lambda each: own.get(id(each)))
    many[7][:] = 0
    assert found == fingerprint([*many], known=lambda each: own.get(id(each))) != fingerprint([*many])


def test_what_changes_while_it_is_read_has_no_content() -> None:
    """As the queue of a library's thread does; no error of Python's comes out of a look at a variable."""

    class Busy(collections.deque[int]):
        def __reduce__(self) -> Any:
            made = super().__reduce__()
            self.append(1)
            return made

    with pytest.raises(NoContent, match="it changed while it was read"):
        fingerprint(Busy([1, 2]))


def test_code_that_a_library_made_of_its_own_file_is_not_the_users() -> None:
    """As templates are: its globals say of no module that it is theirs."""

    def made(path: str) -> Any:
        space: dict[str, Any] = {}
        exec(compile("def root(context): return context", path, "exec"), space)
        del space["__builtins__"]
        return space["root"]

    theirs = str(pathlib.Path(pytest.__file__).with_name("page.html"))
    for path, users in ((theirs, False), ("<template>", True), ("/home/me/page.html", True)):
        assert bool(content([made(path)], is_user=user_module).definitions) == users


class Restless:
    """What it says of itself has a part that is made, and counted, at each look."""

    looks = iter(range(1000))

    def __getstate__(self) -> dict[str, Any]:
        return {"part": [next(self.looks)]}


class Fresh:
    """The parts of what it says are other objects at each look, and equal ones. One leads back to it."""

    def __getstate__(self) -> dict[str, Any]:
        return {"part": ["a"], "self": [self]}


def test_what_says_something_else_of_itself_at_each_look_has_no_content() -> None:
    for _ in "ab":
        with pytest.raises(NoContent, match="at each look"):
            fingerprint([Restless()])
    assert fingerprint(Fresh()) == fingerprint(Fresh())
