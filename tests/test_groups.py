"""Which variables share objects?"""

from __future__ import annotations

import collections
import enum
import functools
import json
import types
from typing import Any

import numpy as np
import pandas as pd
import pytest

from resumable_nb.groups import Survey, Written, is_atom


def kind_of(thing: object) -> Written:
    return "named" if getattr(thing, "__module__", "") == __name__ else "imported"


def groups(**values: Any) -> set[frozenset[str]]:
    return {group for group in Survey(values, kind_of, {}).groups.values() if len(group) > 1}


def one(*names: str) -> set[frozenset[str]]:
    return {frozenset(names)}


class Thing:
    pass


class Colour(enum.Enum):
    RED = 1


def holding(value: Any) -> Thing:
    thing = Thing()
    thing.value = value  # type: ignore[attr-defined]  # an open object
    return thing


SHARED: list[Any] = [1]


@pytest.mark.parametrize(
    "other",
    [
        SHARED,
        [SHARED],
        (SHARED,),
        {"k": SHARED},
        holding(SHARED),
        holding([(SHARED,)]),
        collections.deque([SHARED]),
        functools.partial(print, SHARED),
        SHARED.append,
        np.array([None, SHARED], object),
        np.array([(1, SHARED)], [("a", "i4"), ("b", "O")]),
        pd.Series([SHARED, None], dtype=object),
        pd.DataFrame({"a": [SHARED]}),
        types.SimpleNamespace(deep=holding(SHARED)),
        iter(SHARED),
        {1: 2, "view": {"a": SHARED}.values()},
        (each for each in SHARED),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_list_is_found_wherever_it_is(other: Any) -> None:
    assert groups(a=SHARED, b=other, c=[1]) == one("a", "b")


def test_what_cannot_change_is_not_shared() -> None:
    text, pair = "x" * 100, (1, "a")
    assert groups(a=[text, pair, Colour.RED, None, len, np.dtype("f8")], b=[text, pair, Colour.RED, None, len]) == set()
    assert groups(a=pair, b=pair, c=text, d=text) == set()
    assert groups(a=Thing(), b=Thing(), c=Thing) == set()


def test_arrays_share_where_their_addresses_overlap() -> None:
    base = np.arange(100.0)
    assert groups(a=base, b=base[10:20], c=base.reshape(10, 10).T, d=base.copy()) == one("a", "b", "c")
    assert groups(a=[base[:10]], b={"k": base[5:15]}, c=base[50:]) == one("a", "b")
    strided = np.lib.stride_tricks.as_strided(base, (5,), (16,))
    assert groups(a=base, b=strided, c=base[:0]) == one("a", "b")


def test_arrays_share_with_what_owns_their_memory() -> None:
    owner = bytearray(80)
    assert groups(a=owner, b=np.frombuffer(owner)) == one("a", "b")
    things = np.array([[1], 2, 3], object)
    assert groups(a=things[1:], b=things[2:]) == one("a", "b")


def test_pandas_objects_share_values_with_nobody() -> None:
    """Copy-on-write: a view of a frame is a value of its own. A change of the array below reaches the frame, though."""
    base = np.zeros((5, 2))
    frame = pd.DataFrame(base, copy=False)
    survey = Survey({"base": base, "frame": frame, "part": frame[0]}, kind_of, {})
    assert survey.group_of("frame") == {"frame"}
    assert survey.group_of("part") == {"part"}
    assert survey.extended({"base"}) >= {"base", "frame"}


def test_an_index_under_a_name_of_its_own_goes_with_its_frames() -> None:
    """Its name can be changed for all of them; an index that only frames have in common joins nothing."""
    frame = pd.DataFrame({"a": [1]}, index=pd.Index([5], name="k"))
    assert groups(a=frame, b=frame.copy()) == set()
    assert groups(a=frame, b=frame.index) == one("a", "b")


def test_same_frame_under_two_names_is_one() -> None:
    frame = pd.DataFrame({"a": [1]})
    assert groups(a=frame, b=frame, c=[frame]) == one("a", "b", "c")


def test_shared_memory_names_the_range_that_views_look_into() -> None:
    base = np.arange(100.0)
    survey = Survey({"a": base[:60], "b": [base[50:80]], "c": base[90:]}, kind_of, {})
    memory, roots = survey.shared_memory(("a", "b"))
    low = base.__array_interface__["data"][0]
    assert set(memory.values()) == {(low, low + 80 * 8)}
    assert len(memory) == 2
    assert roots == {}
    assert survey.shared_memory(("c",)) == ({}, {})


def test_memory_inside_pandas_is_never_a_shared_range() -> None:
    base = np.zeros((5, 2))
    survey = Survey({"a": base, "f": [pd.DataFrame(base, copy=False), base]}, kind_of, {})
    assert survey.shared_memory(("a", "f")) == ({}, {})


def test_cycles_end() -> None:
    loop: list[Any] = []
    loop.append(loop)
    assert groups(a=loop, b=[loop]) == one("a", "b")


def test_the_live_namespace_joins_nobody() -> None:
    live: dict[str, Any] = {}
    live["a"], live["b"] = [live], [live]
    survey = Survey(live, kind_of, live)
    assert survey.group_of("a") == {"a"}


def test_methods_around_a_librarys_function_share_nothing() -> None:
    """From Python 3.12 on, each enumeration has such a one of its own: the annotations in it are the function's."""
    names = ("One", "Two")
    one, two = (type(each, (), {"m": staticmethod(json.dumps), "__module__": __name__}) for each in names)
    assert groups(one=one, two=two) == set()
    vars(vars(one)["m"])["own"] = vars(vars(two)["m"])["own"] = []
    assert groups(one=one, two=two) == {frozenset({"one", "two"})}


def test_an_objects_own_dictionary_shares_what_is_in_it() -> None:
    """From Python 3.13 on the collector does not see into it."""
    inner: list[int] = []
    thing = holding(inner)
    assert groups(own=vars(thing), held=[inner]) == one("own", "held")
    assert groups(own=[vars(thing)], held=[inner]) == one("own", "held")
    assert groups(thing=thing, own=[vars(thing)]) == one("thing", "own")


def test_closures_share_their_cells() -> None:
    def make() -> tuple[Any, Any]:
        n = 0

        def up() -> None:
            nonlocal n
            n += 1

        return up, lambda: n

    up, get = make()
    survey = Survey({"up": up, "get": get}, lambda _: "held", {})
    assert survey.group_of("up") == {"up", "get"}


@pytest.mark.parametrize("value", [1, "a", None, 2.5, b"", pd.Timestamp(0), np.float64(1), range(3)])
def test_atoms(value: Any) -> None:
    assert is_atom(value)


@pytest.mark.parametrize(
    "value", [[], {}, Thing(), np.zeros(1), pd.Series([1]), pd.Index([1]), bytearray(), Thing, lambda: 0, (1, 2)]
)
def test_no_atoms(value: Any) -> None:
    assert not is_atom(value)
