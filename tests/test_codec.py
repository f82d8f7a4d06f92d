"""Values to bytes and back."""

from __future__ import annotations

import fractions
import functools
import gc
import logging
import numbers
import pickle
import subprocess
import sys
import threading
import types
import weakref
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import cloudpickle
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

from resumable_nb.codec import Codec, dumps_value, endings, loads_value
from resumable_nb.errors import NotSaved
from resumable_nb.fingerprint import fingerprint


def codec(**names: Any) -> Codec:
    return Codec({"__name__": "__main__", **names})


def live(text: str) -> dict[str, Any]:
    space: dict[str, Any] = {"__name__": "__main__"}
    exec(text, space)
    return space


def round_trip(value: Any, coder: Codec | None = None) -> Any:
    coder = coder or codec()
    encoded = coder.encode(value)
    definitions = coder.definitions_of(encoded.refs)
    return Codec({"__name__": "__main__"}, fetch=definitions.__getitem__).decode(
        encoded.stream, [bytearray(each.raw) for each in encoded.buffers]
    )


@pytest.mark.parametrize(
    "value",
    [
        None, 1, 2.5, "text", b"bytes", [1, [2]], {"a": (1, {2})}, frozenset({1}), range(3), slice(1, 2), 1j, ...,
        len, np.add, np.float64, logging.getLogger("x"), sys.stdout, functools.reduce, int.from_bytes,
    ],
)  # fmt: skip
def test_plain_values_come_back(value: Any) -> None:
    assert round_trip(value) == value


def test_large_buffers_stay_out_of_the_stream() -> None:
    array, frame = np.arange(20_000.0), pd.DataFrame({"a": np.arange(20_000.0), "b": np.arange(20_000)})
    encoded = codec().encode([array, frame, np.arange(3)])
    assert len(encoded.stream) < 5_000
    assert len(encoded.buffers) == 3
    assert np.shares_memory(np.frombuffer(encoded.buffers[0].raw), array)


def test_in_band_streams_have_no_buffers() -> None:
    assert codec().encode(np.ones(50_000), in_band=True).buffers == ()


def test_a_block_of_long_rows_says_how_long_they_are() -> None:
    (buffer,) = codec().encode(np.ones((3, 200_000))).buffers
    assert buffer.row_bytes == 1_600_000
    (buffer,) = codec().encode(np.ones((200_000, 3))).buffers
    assert buffer.row_bytes == 4_800_000


def test_functions_are_rebuilt_on_the_live_globals() -> None:
    space = live("k = 1\ndef f(x=2, *, y=3): return x + y + k\ndef g(): return f() + 1")
    coder = Codec(space)
    encoded = coder.encode([space["f"], space["g"]])
    assert set(encoded.refs.values()) == {space["f"], space["g"]}
    fresh: dict[str, Any] = {"__name__": "__main__", "k": 10}
    definitions = coder.definitions_of(encoded.refs)
    f, g = Codec(fresh, fetch=definitions.__getitem__).decode(encoded.stream)
    assert f() == 15
    assert f.__globals__ is fresh
    assert f.__kwdefaults__ == {"y": 3}
    fresh["f"] = f
    assert g() == 16


def test_streams_share_a_definition_that_is_built_once() -> None:
    space = live("class A: pass\nclass B(A): pass\na, b = A(), B()")
    coder = Codec(space)
    streams = [coder.encode(space[name]) for name in ("a", "b")]
    definitions = {key: data for each in streams for key, data in coder.definitions_of(each.refs).items()}
    other = Codec({"__name__": "__main__"}, fetch=definitions.__getitem__)
    a, b = (other.decode(each.stream) for each in streams)
    assert type(b).__mro__[1] is type(a) is not space["A"]


def test_a_living_definition_is_used_only_where_it_is_the_same() -> None:
    text = "class A:\n  limit = 1\n  def f(self): return {}\na = A()"
    old = live(text.format(1))
    coder = Codec(old)
    encoded = coder.encode(old["a"])
    definitions = coder.definitions_of(encoded.refs)
    same, changed = live("\n\n" + text.format(1) + "\nA.limit = 2"), live(text.format(2))
    assert type(Codec(same, fetch=definitions.__getitem__).decode(encoded.stream)) is same["A"]
    got = Codec(changed, fetch=definitions.__getitem__).decode(encoded.stream)
    assert type(got) is not changed["A"]
    assert got.f() == 1


def test_what_does_the_same_and_has_no_name_stays_two() -> None:
    text = "def make():\n  class A: pass\n  return A\na = [lambda: 1, make()]\nb = [lambda: 1, make(), *a]"
    coder = Codec(space := live(text))
    streams = [coder.encode(space[name]) for name in ("a", "b")]
    definitions = {key: data for each in streams for key, data in coder.definitions_of(each.refs).items()}
    texts = [each.stream for each in streams]
    assert [coder.decode(each) for each in texts] == [space["a"], space["b"]]  # those that live
    del coder, streams
    space.clear()
    gc.collect()
    other = Codec({"__name__": "__main__"}, fetch=definitions.__getitem__)
    a, b = map(other.decode, texts)
    assert a == b[2:]
    assert len({*a, *b}) == 4
    assert other.encode(b).refs.keys() == definitions.keys()


def test_class_is_registered_again_with_the_abstract_classes_of_libraries() -> None:
    coder = Codec(space := live("class A: pass\nclass B: pass"))
    before = fingerprint(space["A"]), fingerprint(space["B"])
    numbers.Number.register(space["A"])
    assert fingerprint(space["A"]) != before[0]
    assert fingerprint(space["B"]) == before[1]
    a, b = (coder.encode(each, own=[each]).stream for each in (space["A"], space["B"]))
    other = codec()
    assert issubclass(other.decode(a), numbers.Number)
    assert not issubclass(other.decode(b), numbers.Number)


def test_a_missing_definition_is_said() -> None:
    space = live("class A: pass\na = A()")
    stream = Codec(space).encode(space["a"]).stream
    with pytest.raises(NotSaved, match="definition of A is not in the store"):
        codec().decode(stream)


def test_the_stream_is_for_the_codec_only() -> None:
    space = live("class A: pass\na = A()")
    with pytest.raises(pickle.UnpicklingError, match="Codec only"):
        pickle.loads(Codec(space).encode(space["a"]).stream)


def test_reading_back_leaves_living_classes_alone() -> None:
    """The trial of a stream that holds a class with state must not set that state."""
    space = live(
        "class Own:\n  data = []\n  def __setstate__(self, s): pass\n  def __getstate__(self): return 1\nx = Own()"
    )
    data = space["Own"].data
    coder = Codec(space)
    coder.prove(coder.encode([space["Own"], space["x"]], own=[space["Own"]]))
    assert space["Own"].data is data


def test_functions_behind_a_librarys_class_methods_are_its_own_again() -> None:
    """From Python 3.12 on, a protocol has such a one of typing: a copy of it was another function."""
    function = fractions.Fraction.from_float.__func__  # type: ignore[attr-defined]  # mypy sees a bound method
    assert round_trip([function])[0] is function
    space = live("import typing\nclass Sized(typing.Protocol):\n    def size(self) -> int: ...")
    assert fingerprint(round_trip(space["Sized"])) == fingerprint(space["Sized"])


HOOKS = """
made = []
class Meta(type):
    def __new__(m, n, b, d):
        made.append(n)
        return super().__new__(m, n, b, d)
class Base(metaclass=Meta):
    def __init_subclass__(cls): made.append('sub ' + cls.__name__)
class Sub(Base): pass
"""


def test_hooks_of_notebook_classes_do_not_run_again() -> None:
    """What they did is in the state that comes back; they do run for classes that are new."""
    space = live(HOOKS)
    coder = Codec(space)
    encoded = coder.encode(space["Sub"])
    fresh: dict[str, Any] = {"__name__": "__main__", "made": []}
    sub = Codec(fresh, fetch=coder.definitions_of(encoded.refs).__getitem__).decode(encoded.stream)
    assert fresh["made"] == []
    assert type(sub).__name__ == "Meta"
    type(sub)("New", (sub,), {})
    assert fresh["made"] == ["New", "sub New"]


DESCRIPTORS = """
import functools
@functools.singledispatch
def show(x): return 'any'
@show.register
def _(x: int): return 'int'
@functools.total_ordering
class V:
    def __init__(s, v): s.v = v
    def __eq__(s, o): return s.v == o.v
    def __lt__(s, o): return s.v < o.v
    @functools.cached_property
    def twice(s): return s.v * 2
    @functools.singledispatchmethod
    def m(s, x): return 'any'
    @m.register
    def _(s, x: int): return 'int'
"""


def test_singledispatch_and_cached_property_and_total_ordering() -> None:
    space = live(DESCRIPTORS)
    coder = Codec(space)
    encoded = coder.encode([space["show"], space["V"]], own=[space["V"]])
    definitions = coder.definitions_of(encoded.refs)
    show, kind = Codec({"__name__": "__main__"}, fetch=definitions.__getitem__).decode(encoded.stream)
    assert show(1) == "int"
    assert show("a") == "any"
    assert kind(1) <= kind(2)
    assert kind(2).twice == 4
    assert kind(1).m(1) == "int"
    assert kind(1).m("a") == "any"


def test_functions_of_importable_modules_keep_their_globals() -> None:
    """A closure that a module made sees that module's variables, not a copy of them."""
    module = types.ModuleType("made_up_helpers")
    exec(
        "count = 0\ndef make():\n  def step():\n    global count\n    count += 1\n    return count\n  return step",
        vars(module),
    )
    sys.modules["made_up_helpers"] = module
    try:
        step = round_trip(module.make())
        assert step() == 1
        assert module.count == 1
    finally:
        del sys.modules["made_up_helpers"]


def answer(code: str, folder: Path) -> str:
    """What a new process prints."""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=True, timeout=60
    )
    return done.stdout


def test_class_whose_module_its_library_has_not_loaded_yet_is_the_librarys(tmp_path: Path) -> None:
    code = (
        "import sys, numpy as np\n"
        "from resumable_nb.codec import dumps_value\n"
        "print('numpy.rec' in sys.modules)\n"
        "print(b'__getitem__' in dumps_value(np.zeros(2, 'i4,f8').view(np.recarray)))"
    )
    assert answer(code, tmp_path).split() == ["False", "False"]


def test_no_module_of_the_users_is_imported_because_a_class_names_it(tmp_path: Path) -> None:
    (tmp_path / "helpers").mkdir()
    (tmp_path / "helpers" / "__init__.py").write_text("class A:\n    __module__ = 'helpers.part'\n")
    (tmp_path / "helpers" / "part.py").write_text("print('imported')\n")
    code = "import helpers\nfrom resumable_nb.codec import importable\nprint([importable(helpers.A)])"
    assert answer(code, tmp_path).split() == ["['']"]


@pytest.mark.parametrize("depth", [1_000, 100_000])
def test_deep_chains_are_written(depth: int) -> None:
    chain: list[Any] = []
    for _ in range(depth):
        chain = [chain]
    got = round_trip(chain)
    for _ in range(depth):
        (got,) = got
    assert got == []
    while chain:
        chain = chain[0]


def test_recursion_without_end_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("resumable_nb.codec.coder.DEEP_RECURSION", 20_000)
    space = live(
        "class E:\n  def __reduce__(self): return E.make, (E(),)\n  @staticmethod\n  def make(x): return x\ne = E()"
    )
    with pytest.raises(NotSaved, match="nested too deeply"):
        Codec(space).encode(space["e"])


def test_digestible_stands_for_what_cannot_be_written() -> None:
    def make(data: list[int]) -> Any:
        return {"lock": lock, "data": data}

    lock = threading.Lock()
    lock.acquire()
    first, again, other = (codec().digestible(make(data)).stream for data in ([1], [1], [2]))
    assert first == again != other


def test_digestible_takes_what_is_used_up_for_changed(tmp_path: Path) -> None:
    """Whether a generator went on, or a file without a path was read, since the last look cannot be seen."""
    with (tmp_path / "a").open("w") as file:
        (tmp_path / "a").unlink()
        for each in (iter(x for x in ()), file):
            first, again = (codec().digestible({"it": each}).stream for _ in range(2))
            assert first != again


def test_executor_that_was_shut_down_comes_back_shut_down() -> None:
    """As every ``with ThreadPoolExecutor() as ex`` leaves one."""
    with ThreadPoolExecutor(3, "w") as executor:
        executor.submit(int).result()
    back = round_trip(executor)
    assert (type(back), back._max_workers, back._thread_name_prefix) == (ThreadPoolExecutor, 3, "w")
    with pytest.raises(RuntimeError, match="after shutdown"):
        back.submit(int)


@pytest.mark.parametrize("mode", ["r", "rb", "w", "a+", "r+b"])
def test_closed_file_comes_back_closed(mode: str, tmp_path: Path) -> None:
    """As every ``with open(…) as f`` leaves one; the file of that name is not touched."""
    path = tmp_path / "a"
    path.write_text("before")
    with path.open(mode) as file:
        pass
    path.write_text("after")
    back = round_trip(file)
    assert (type(back), back.name, back.mode, back.closed) == (type(file), file.name, file.mode, True)
    assert path.read_text() == "after"


def test_values_travel_alone() -> None:
    """Results of tools: notebook classes and functions come along."""
    main = sys.modules["__main__"]
    exec(
        "class Receipt:\n  def __init__(self, n): self.n = n\n  def double(self): return twice(self.n)\n"
        "def twice(n): return 2 * n",
        vars(main),
    )
    try:
        data = dumps_value({"r": main.Receipt(3), "f": main.twice, "a": np.ones(3)})
        assert type(loads_value(data)["r"]) is main.Receipt
        del main.Receipt
        got = loads_value(data)
        main.twice = got["f"]
        assert got["r"].double() == 6
        assert got["a"].tolist() == [1, 1, 1]
    finally:
        vars(main).pop("Receipt", None)
        vars(main).pop("twice", None)


def test_each_load_is_a_fresh_copy() -> None:
    data = dumps_value([1])
    loads_value(data).append(2)
    assert loads_value(data) == [1]


@pytest.mark.parametrize("value", [iter(x for x in ()), [open], "text", None])
def test_values_that_can_be_saved_are_saved(value: Any) -> None:
    if isinstance(value, types.GeneratorType):
        with pytest.raises(NotSaved, match="cannot pickle 'generator' object"):
            dumps_value(value)
    else:
        assert loads_value(dumps_value(value)) == value


def test_exceptions_keep_their_facts() -> None:
    error = ValueError("bad", 3)
    error.add_note("more")
    got = loads_value(dumps_value(error))
    assert type(got) is ValueError
    assert got.args == ("bad", 3)
    assert got.__notes__ == ["more"]


def test_bytes_that_are_no_value_are_refused() -> None:
    with pytest.raises(NotSaved, match="cannot be read back"):
        loads_value(b"nonsense")


def test_pyplot_keeps_its_figures_when_one_is_read_on_trial_or_copied() -> None:
    plt.switch_backend("agg")
    figure, other = plt.figure(3), plt.figure(7)
    coder = codec()
    encoded = coder.encode([figure])
    coder.prove(encoded)
    coder.copy([figure])
    assert (plt.get_fignums(), plt.gcf()) == ([3, 7], other)
    plt.close("all")
    (again,) = coder.decode(encoded.stream)
    assert (plt.get_fignums(), plt.gcf()) == ([3], again)
    plt.close("all")


class Signal(np.ndarray):
    """As numpy's documentation says how to add an attribute to an array."""

    def __array_finalize__(self, obj: object) -> None:
        self.unit = getattr(obj, "unit", None)


def test_attributes_of_array_subclasses_are_kept() -> None:
    signal = np.arange(3.0).view(Signal)
    signal.unit = "V"
    signal.owner = [signal]
    got = round_trip({"one": signal, "part": signal[1:]})
    assert (got["one"].unit, got["part"].unit, list(got["one"])) == ("V", "V", [0, 1, 2])
    assert got["one"].owner[0] is got["one"]
    assert np.shares_memory(got["one"], got["part"]) is False  # who shares is the survey's affair


def test_of_objects_with_endings_one_copy_is_kept() -> None:
    """A copy that was read on trial may not run ``__del__``; one for each save would fill the memory."""
    space = live(
        "gone = []\n"
        "class Own:\n"
        "    def __setstate__(self, state): self.__dict__.update(state)\n"
        "    def __del__(self): gone.append(1)\n"
        "x = Own()"
    )
    coder = Codec(space)
    kept = len(endings._kept)
    for number in range(5):
        space["x"].n = number
        coder.prove(coder.encode({"x": space["x"]}))
    gc.collect()
    assert not space["gone"]
    assert len(endings._kept) == kept + 1


def test_iterators_that_have_nothing_left_stay_what_they_are() -> None:
    short = ["a", "b"]
    beyond = reversed(short)
    del short[0]
    ended = [
        iter({}),
        iter({}.items()),
        reversed({}.values()),
        iter(set()),
        reversed([]),
        iter(b""),
        iter("ü"),
        iter([]),
    ]
    for each in ended:
        next(each, None)
    codec = Codec({})
    for each in (*ended, beyond):
        again = codec.decode(codec.encode(each).stream)
        assert type(again) is type(each)
        assert [*again] == []


class Told(list[Any]):
    """As bokeh's properties are: it tells of each change, to whom it knows as an attribute."""

    def __init__(self, items: Any) -> None:
        super().__init__(items)
        self.seen: list[Any] = []
        self.me = self

    def extend(self, items: Any) -> None:
        self.seen.append([*items])
        super().extend(items)

    append = __iadd__ = extend  # type: ignore[assignment]


class Noted(dict[str, Any]):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def __setitem__(self, key: str, value: Any) -> None:
        self.seen.append(key)
        super().__setitem__(key, value)

    def __iter__(self) -> Any:
        raise AssertionError("nobody asks")


def test_containers_have_their_attributes_before_they_are_filled() -> None:
    """And not by their own methods, which would count once more."""
    told, noted = Told([1, 2]), Noted()
    told.extend([3])
    noted["a"] = told
    got, other = round_trip([told, noted])
    assert (type(got), got[:3], got.seen, got.me is got) == (Told, [1, 2, 3], [[3]], True)
    assert (type(other), other["a"] is got, other.seen) == (Noted, True, ["a"])


def test_weak_reference_to_what_is_in_the_stream() -> None:
    held = Told([])
    got, reference, again = round_trip([held, weakref.ref(held), weakref.ref(held)])
    assert reference is again
    assert reference() is got
    with pytest.raises(NotSaved, match="ReferenceType"):
        Codec({}).encode([weakref.ref(held)])
    with pytest.raises(NotSaved, match="ReferenceType"):
        Codec({}).encode([held, weakref.ref(held, print)])


def test_function_that_names_no_module_is_looked_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    function = eval("lambda: 5", {})
    function.__module__ = None
    assert round_trip(function)() == 5
    asked, look = [], cloudpickle.cloudpickle._whichmodule
    monkeypatch.setattr(cloudpickle.cloudpickle, "_whichmodule", lambda *args: asked.append(args[0]) or look(*args))
    assert round_trip(function)() == 5
    assert function not in asked
