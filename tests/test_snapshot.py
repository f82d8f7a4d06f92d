"""What a step changed is found, saved and brought back; one kernel and the next, in this process."""

from __future__ import annotations

import math
import os
import random
import sys
import weakref
from typing import Any

import numpy as np
import pytest

from resumable_nb.errors import Corrupt, NotSaved
from resumable_nb.model import RESULT
from resumable_nb.snapshot import Snapshots, imports
from tests.notebook import Notebook


def test_reading_saves_nothing() -> None:
    notebook = Notebook()
    notebook.plain("import numpy as np\na = np.ones(50_000)\nd = {'k': [1]}")
    capture = notebook.step("sum(a); d['k'][0]; len(d)")
    assert capture.saved == ()
    assert capture.changed == frozenset()
    assert not list(notebook.store.packs())


@pytest.mark.parametrize(
    ("make", "change"),
    [
        ("x = [1, 2]", "x.append(3)"),
        ("x = {'a': 1, 'b': 2}", "x['a'] = x.pop('a')"),
        ("x = {1}", "x.add(2)"),
        ("x = {'deep': [[], {'k': {1}}]}", "x['deep'][1]['k'].add(5)"),
        ("import pandas as pd; x = pd.DataFrame({'a': [1, 2]})", "x.attrs['k'] = 1"),
        ("import pandas as pd; x = pd.DataFrame({'a': [1, 2]})", "x.columns = ['b']"),
        ("import pandas as pd; x = pd.DataFrame({'a': [1, 2]})", "x.index.name = 'i'"),
        ("import pandas as pd; x = pd.DataFrame({'a': [1, 2]})", "x.iloc[0, 0] = 5"),
        ("import pandas as pd; x = pd.DataFrame({'a': [[1], 2]})", "x.loc[0, 'a'].append(2)"),
        ("import numpy as np; x = np.zeros(20_000)", "x[19_999] = 1"),
        ("import numpy as np; x = np.zeros(300_000); y = x; z = [x]", "z[0][5] = 1"),
        ("import numpy as np; x = np.zeros(3)", "x[0] = -0.0"),
        ("import numpy as np; x = np.zeros(3)", "x.flags.writeable = False"),
        ("import numpy as np; x = np.array([None, [1]], object)", "x[1].append(2)"),
        ("import numpy as np; x = np.zeros(3); v = x[1:]", "v[0] = 1"),
        ("import numpy as np; x = np.zeros(3); holder = {'v': x[1:]}", "holder['v'][0] = 1"),
        ("class C: pass\nx = C(); x.inner = C()", "x.inner.value = 1"),
        ("class C: pass\nx = C; y = [C()]", "type(y[0]).total = 1"),
        ("class C:\n  class In: n = 0\nx = C", "C.In.n = 1"),
        ("def x(a=[]): a.append(1)", "x()"),
        ("def make():\n  n = 0\n  def up():\n    nonlocal n\n    n += 1\n  return up\nx = make()", "x()"),
        ("def x(): pass", "x.note = 1"),
        ("import collections; x = collections.deque([1])", "x.rotate(); x.append(2)"),
        ("x = bytearray(b'a')", "x += b'b'"),
        ("import array; x = array.array('i', [1])", "x.append(2)"),
        ("x = iter([1, 2, 3])", "next(x)"),
        ("import random; x = random.Random(1)", "x.random()"),
        ("import numpy as np; x = np.random.default_rng(1)", "x.random()"),
        ("import io; x = io.StringIO('abc')", "x.read(1)"),
        ("x = [1]\ndef f(): x.append(2)\ng = [f]", "g[0]()"),
        ("x = [1]\nclass K:\n  @property\n  def p(self): x.append(1)\nk = {'k': K()}", "k['k'].p"),
        ("x = [1]\nimport functools\np = functools.partial(lambda l: x.append(l), 1)", "p()"),
        ("x = [1]\ngen = (x.append(i) for i in range(3))", "next(gen)"),
        ("x = [1]\ny = {'s': x}", "y['s'] = list(x)"),
        ("x = [1]\ny = x\nz = (y,)", "z[0].append(1)"),
    ],
)  # fmt: skip
def test_change_in_place_is_found(make: str, change: str) -> None:
    """Strict: order, sharing, attributes and hidden state count. ``x`` is not named in most of the changes."""
    notebook = Notebook()
    notebook.plain(make)
    changed = notebook.step(change).changed
    assert changed & {"x", "y", "C"}


def test_what_leads_to_each_other_changes_together() -> None:
    notebook = Notebook()
    notebook.plain(
        "class P: pass\na, b, c = P(), P(), P()\na.o, b.o, c.o = b, c, a\nbox, own = [a], [1]\nd = P(); d.own = own"
    )
    assert notebook.step("b.n = 1").changed == {"a", "b", "c", "box"}
    assert notebook.step("own.append(2)").changed == {"own", "d"}
    assert notebook.step("a.o.n").changed == frozenset()
    assert notebook.step("a = P()").changed == {"a"}
    assert notebook.step("a = b; c.n = 1").changed == {"a", "b", "c", "box"}


def test_ring_whose_members_part_has_changed() -> None:
    notebook = Notebook()
    notebook.plain("class P: pass\na, b, c = P(), P(), P()\na.o, b.o, c.o = b, c, a")
    assert notebook.step("a.o = c").changed == {"a", "c"} | {"b"}
    assert notebook.step("del c.o, b.o").changed == {"a", "b", "c"}
    assert notebook.step("b.n = 1").changed == {"b"}


FIGURE = (
    "from matplotlib.figure import Figure\nfig = Figure(); ax = fig.subplots(); line, = ax.plot([1, 2]); axes = [ax]"
)


def test_skip_in_one_kernel_leaves_a_figure_that_is_as_it_was() -> None:
    notebook = Notebook()
    made = notebook.step(FIGURE)
    figure, line = notebook["fig"], notebook["line"]
    notebook.skip(made)
    assert notebook["fig"] is figure
    assert notebook["line"] is line
    assert notebook["axes"] == [figure.axes[0]]
    assert notebook.step("fig.dpi, line.get_color()").changed == frozenset()


@pytest.mark.parametrize("change", ["line.set_color('red')", "fig.set_dpi(50)", "ax.text(0, 0, 'x')"])
def test_skip_in_one_kernel_brings_back_a_figure_that_was_changed(change: str) -> None:
    notebook = Notebook()
    made = notebook.step(FIGURE)
    figure, line = notebook["fig"], notebook["line"]
    colour, dpi = line.get_color(), figure.dpi
    notebook.plain(change)
    notebook.skip(made)
    assert notebook["fig"] is not figure
    assert notebook["line"].figure is notebook["fig"]
    assert (notebook["line"].get_color(), notebook["fig"].dpi, len(notebook["ax"].texts)) == (colour, dpi, 0)
    assert notebook["axes"] == notebook["fig"].axes


@pytest.mark.parametrize(
    "make",
    [
        "{(3, 1), (1, 2), (1, 3), (2, 3)}",
        "{k * k * 7919 % 10007 for k in range(200)}",
        "set(np.arange(400) ** 3 % 997)",
        "{-k * 0.5 for k in range(40)}",
        "{(k % 7, k % 5) for k in range(30)} | {(k % 3, k) for k in range(30)}",
    ],
)
def test_sets_are_gone_through_as_before(make: str) -> None:
    """Where elements have met in a table, the order tells which came first."""
    notebook = Notebook()
    notebook.plain("import numpy as np")
    made = notebook.step(f"s = {make}\nbox = {{'s': [s]}}\norder = list(s)\npickled = set(order)")
    assert notebook["order"] != list(notebook["pickled"]), "an order that pickle keeps proves nothing"
    other = notebook.again(made)
    assert list(other["s"]) == notebook["order"]
    assert other["box"]["s"][0] is other["s"]
    other["s"].add("x")
    assert len(other["s"]) == len(notebook["order"]) + 1


def test_sets_whose_order_is_each_process_s_own_are_saved_as_they_are() -> None:
    notebook = Notebook()
    made = notebook.step("texts, mixed, none = {'a', 'b', 'c'}, {(1, 'a'), 2}, set()\nmany = set(range(5000))")
    other = notebook.again(made)
    assert (other["texts"], other["mixed"], other["none"]) == ({"a", "b", "c"}, {(1, "a"), 2}, set())
    assert list(other["many"]) == list(range(5000))


def test_unreached_variables_are_left_alone() -> None:
    notebook = Notebook()
    notebook.plain("a, b = [1], [2]")
    capture = notebook.step("a.append(1)")
    assert capture.saved == ("a",)


def test_a_value_that_cannot_be_saved_and_was_changed_is_named() -> None:
    notebook = Notebook()
    notebook.plain("import threading\nclass M: pass\nm = M(); m.lock = threading.Lock(); m.lock.acquire(); m.data = []")
    assert notebook.step("m.data").changed == frozenset()
    capture = notebook.step("m.data.append(1)")
    assert capture.changed == {"m"}
    assert capture.unsaved == {"m": "m.lock: cannot pickle 'lock' object, which is held"}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            "import socket\nclass C: pass\nbad = C(); bad.conn = C()\n"
            "bad.conn._sock = socket.socket(); bad.conn._sock.close()",
            "bad.conn._sock: cannot pickle 'socket' object",
        ),
        ("bad = {'a': [1, 2, (i for i in range(3))]}", "bad['a'][2]: cannot pickle 'generator' object"),
        ("bad = [open(0, closefd=False)]", "bad[0]: cannot pickle 'TextIOWrapper' object, which has no path"),
        (
            "import weakref\nclass C: pass\nc = C(); bad = weakref.ref(c)",
            "bad: cannot pickle 'weakref.ReferenceType' object",
        ),
        ("bad = [memoryview(b'abc')]; bad[0].release()", "bad[0]: cannot pickle 'memoryview' object"),
        ("bad = lambda g=(x for x in ()): g", "bad default 0: cannot pickle 'generator' object"),
        (
            "class E:\n  def __init__(self, a, b): pass\n  def __reduce__(self): return E, (1,)\nbad = E(1, 2)",
            "bad: cannot be read back: E.__init__() missing 1 required positional argument: 'b'",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_saved_is_named_with_its_place(text: str, reason: str) -> None:
    """The step goes on: the rest is saved, also of the group that shares with it."""
    notebook = Notebook()
    capture = notebook.step(f"good = [1]\n{text}\nshares = (good, 5)")
    assert capture.unsaved["bad"] == reason
    after = notebook.again(capture)
    assert after["good"] == [1]
    assert after["shares"][0] is after["good"]
    assert "bad" not in after.live


def test_objects_without_their_own_code_are_not_loaded_at_save_time() -> None:
    notebook = Notebook()
    notebook.step("class Plain: pass\nmade = []\nclass Own:\n  def __setstate__(self, s): made.append(1)\n"
                  "  def __getstate__(self): return {'a': 1}\np, o = Plain(), Own()")  # fmt: skip
    assert notebook["made"] == [1]


def test_result_shares_with_the_variables() -> None:
    notebook = Notebook()
    capture = notebook.step("frame = [1]\nother = 2", result="frame")
    after = Notebook(notebook.store)
    restored = after.skip(capture)
    assert after.snapshots.pending() == {"frame", "other"}
    assert after.snapshots.result(after.space, restored.result) is after["frame"]
    assert set(restored.names) == {"frame", "other"}
    assert RESULT not in after.live


def test_result_that_cannot_be_saved_is_no_loss() -> None:
    notebook = Notebook()
    capture = notebook.step("a = 1", result=iter(x for x in ()))
    after = Notebook(notebook.store)
    assert capture.unsaved == {}
    assert after.skip(capture).result == ""
    assert after["a"] == 1


@pytest.mark.parametrize("result", [None, dict, math.hypot, math, os.environ], ids=lambda each: type(each).__name__)
def test_what_there_is_one_of_is_a_result(result: Any) -> None:
    notebook = Notebook()
    capture = notebook.step("a = 1", result=result)
    after = Notebook(notebook.store)
    restored = after.skip(capture)
    assert after.snapshots.result(after.space, restored.result) is result
    assert after.snapshots.result_of(capture.manifest_digest) is result
    assert restored.names == ("a",)
    assert RESULT not in after.live


def test_keep_and_drop_choose() -> None:
    text = "a, b, c = [1], [2], [3]"
    assert Notebook().step(text, keep=("a",)).saved == ("a",)
    assert Notebook().step(text, drop=("a",)).saved == ("b", "c")
    assert Notebook().step("a = [1]\nb = {'a': a}", keep=("a",)).saved == ("a",)


def test_run_again_in_the_same_kernel_saves_what_it_binds() -> None:
    """Small numbers, modules and cached objects are the very objects that were there before."""
    notebook = Notebook()
    text = "import os\nn = 5\nflag = True\nfor i in range(3): pass\nsame = n"
    notebook.step(text)
    after = notebook.again(notebook.step(text))
    assert (after["n"], after["flag"], after["i"], after["same"]) == (5, True, 2, 5)
    assert after["os"].path


def test_an_assignment_that_did_not_happen_overwrites_nothing() -> None:
    notebook = Notebook()
    notebook.plain("data = [1]\nuse = False")
    capture = notebook.step("if use:\n  data = [2]")
    after = Notebook(notebook.store)
    after.plain("data = ['newer']")
    after.skip(capture)
    assert after["data"] == ["newer"]


def test_a_companion_with_a_newer_value_is_left_alone() -> None:
    """It was saved for the sharing only; the step neither read nor changed it."""
    notebook = Notebook()
    notebook.plain("shared = [0]\na = {'s': shared}\nc = [shared, 'old']")
    capture = notebook.step("a['own'] = 1")
    assert capture.changed == {"a"}
    assert set(capture.saved) == {"a", "c", "shared"}
    same = Notebook(notebook.store)
    same.plain("shared = [0]\na = {'s': shared}\nc = [shared, 'old']")
    same.skip(capture)
    assert same["a"]["s"] is same["c"][0] is same["shared"]
    newer = Notebook(notebook.store)
    newer.plain("shared = [0]\na = {'s': shared}\nc = [shared, 'new']")
    newer.skip(capture)
    assert newer["c"] == [[0], "new"]
    assert newer["a"] == {"s": [0], "own": 1}


def test_skip_reads_only_the_manifest() -> None:
    notebook = Notebook()
    capture = notebook.step("import numpy as np\nbig = np.ones(50_000)\nsmall = [1]")
    after = Notebook(notebook.store)
    read: list[str] = []
    get = after.store.get
    after.store.get = lambda key: (read.append(key), get(key))[1]  # type: ignore[method-assign]  # a spy
    after.skip(capture)
    assert read == [f"blob/{capture.manifest_digest}"]
    assert after.snapshots.pending() == {"big", "small"}
    assert after.snapshots.known("big", after.space) == capture.digests["big"]
    after.plain("total = small[0]")
    assert after.snapshots.pending() == {"big"}


def test_pending_functions_bring_what_they_use() -> None:
    notebook = Notebook()
    first = notebook.step(
        "import numpy as np\nrate = [2]\ntable = np.ones(50_000)\nclass K:\n  def use(self): return rate[0]"
    )
    second = notebook.step("def price(n): return n * K().use()\nunused = [bytes(40_000)]")
    after = notebook.again(first, second)
    after.plain("p = price(3)")
    assert after["p"] == 6
    assert after.snapshots.pending() >= {"table"}


def test_a_name_bound_before_it_was_needed_is_kept() -> None:
    notebook = Notebook()
    after = notebook.again(notebook.step("a = [1]\nb = a"))
    after.live["a"] = "mine"
    assert after["b"] == [1]
    assert after.live["a"] == "mine"


def test_the_later_step_wins_name_by_name() -> None:
    notebook = Notebook()
    first = notebook.step("a = [1]\nb = a\ngone = [3]")
    second = notebook.step("a = [2]\ndel gone")
    after = notebook.again(first, second)
    assert "gone" not in after.snapshots.pending()
    assert after["b"] == [1]
    assert after["a"] == [2]
    assert "gone" not in after.live


def test_a_step_runs_while_others_are_pending() -> None:
    notebook = Notebook()
    first = notebook.step("a = [1]\nb = [bytes(40_000)]\nc = [3]")
    after = notebook.again(first)
    capture = after.step("d = a + [0]")
    assert capture.saved == ("d",)
    assert capture.changed == {"d"}
    third = after.step("b = 'new'")
    assert third.changed == {"b"}
    assert "b" not in after.snapshots.pending()
    last = notebook.again(first, capture, third)
    assert last["b"] == "new"
    assert last["c"] == [3]
    assert last["d"] == [1, 0]


def test_what_is_loaded_inside_a_body_was_there_before() -> None:
    notebook = Notebook()
    first = notebook.step("a, b = [1], [2]")
    after = notebook.again(first)
    after.live["load"] = lambda: after.snapshots.materialise(after.space)
    assert after.step("load()\nd = 1").changed & {"a", "b", "d"} == {"d"}
    after = notebook.again(first)
    after.live["change"] = lambda: (after.snapshots.materialise(after.space), after.live["a"].append(5))
    assert after.step("change()").changed & {"a", "b"} == {"a"}


def test_a_skip_in_the_live_kernel_keeps_the_objects() -> None:
    notebook = Notebook()
    capture = notebook.step("import numpy as np\nbase = np.zeros(50_000)\nlst = [1]")
    notebook.plain("view = base[:3]\nsame = lst")
    notebook.skip(capture)
    assert notebook["lst"] is notebook["same"]
    assert np.shares_memory(notebook["view"], notebook["base"])
    notebook.plain("lst.append(2)")
    notebook.skip(capture)
    assert notebook["lst"] == [1]


def test_only_what_is_new_is_written() -> None:
    notebook = Notebook()
    first = notebook.step("import numpy as np\nbig = np.arange(3_000_000.0)")
    assert first.size_bytes > 24_000_000
    again = notebook.step("copy = big.copy()")
    assert again.size_bytes < 10_000
    one = notebook.step("big[0] = -1")
    assert 8_000_000 < one.size_bytes < 9_000_000
    after = notebook.again(first, again, one)
    assert after["big"][0] == -1
    assert after["copy"][0] == 0
    assert after["big"][-1] == 2_999_999


def test_columns_are_chunks_of_their_own() -> None:
    notebook = Notebook()
    first = notebook.step("import numpy as np\nblock = np.ones((4, 200_000)) * np.arange(4)[:, None]")
    second = notebook.step("block[2] *= 2")
    assert first.size_bytes > 6_400_000
    assert 1_600_000 < second.size_bytes < 1_700_000
    after = notebook.again(first, second)
    assert after["block"].sum(axis=1).tolist() == [0, 200_000, 800_000, 600_000]


def test_a_long_stream_lies_in_the_pack() -> None:
    notebook = Notebook()
    capture = notebook.step("words = [str(i) for i in range(100_000)]")
    assert len(list(notebook.store.packs())) == 1
    assert max(map(len, capture.rows.values())) < 100_000
    assert notebook.again(capture)["words"][-1] == "99999"


def test_pack_events_come_in_order_and_only_with_a_pack() -> None:
    notebook = Notebook()
    kinds: list[str] = []
    notebook.bus.listen(lambda event: kinds.append(event.kind))
    notebook.step("a = [1]")
    assert kinds == []
    notebook.step("b = bytes(1_000_000)\nimport numpy as np\nc = np.ones(50_000)")
    assert kinds == ["step.pack_begun", "step.pack_written", "step.pack_synced"]


def test_a_failing_pack_is_removed() -> None:
    notebook = Notebook()
    removed: list[str] = []
    new_pack = notebook.store.new_pack

    def broken() -> Any:
        pack = new_pack()
        pack.seal = lambda: (_ for _ in ()).throw(OSError("disk full"))  # type: ignore[method-assign]  # a full disk
        pack.abort = lambda: removed.append(pack.name)  # type: ignore[method-assign]  # a fault that is put in
        return pack

    notebook.store.new_pack = broken  # type: ignore[method-assign]  # a fault that is put in
    with pytest.raises(OSError, match="disk full"):
        notebook.step("import numpy as np\nc = np.ones(50_000)")
    assert len(removed) == 1


def damage_packs(notebook: Notebook) -> None:
    for name, data in notebook.store._packs.items():
        notebook.store._packs[name] = bytes([data[0] ^ 1]) + data[1:]


def test_a_damaged_manifest_is_an_error() -> None:
    notebook = Notebook()
    capture = notebook.step("v = [1]")
    notebook.store._rows[f"blob/{capture.manifest_digest}"] += b" "
    with pytest.raises(Corrupt, match="does not hold what was written"):
        Notebook(notebook.store).skip(capture)


def test_a_damaged_stream_is_never_unpickled() -> None:
    notebook = Notebook()
    capture = notebook.step("v = [1]")
    (key,) = capture.rows.keys() - {f"blob/{capture.manifest_digest}"}
    notebook.store._rows[key] += b" "
    after = notebook.again(capture)
    with pytest.raises(Corrupt, match="does not hold what was written"):
        after["v"]


@pytest.mark.parametrize("text", ["v = [str(i) for i in range(100_000)]", "v = bytes(300_000)"])
def test_a_damaged_long_stream_is_never_unpickled(text: str) -> None:
    notebook = Notebook()
    after = notebook.again(notebook.step(text))
    damage_packs(notebook)
    with pytest.raises(Corrupt, match="does not hold at 0 what was written"):
        after["v"]


def test_damaged_chunks_that_are_gathered_are_an_error() -> None:
    """They lie in two packs, so they are copied, and can be checked on the way."""
    notebook = Notebook()
    notebook.step("import numpy as np\na = np.arange(2_000_000.0)")
    capture = notebook.step("b = np.concatenate([a[:1 << 20], a])")
    after = notebook.again(capture)
    assert after["b"][1 << 20] == 0
    damage_packs(notebook)
    after = notebook.again(capture)
    with pytest.raises(Corrupt, match="rerun STEP"):
        after["b"]


def test_verify_checks_mapped_buffers_too() -> None:
    notebook = Notebook()
    capture = notebook.step("import numpy as np\nv = np.ones(50_000)")
    damage_packs(notebook)
    after = Notebook(notebook.store)
    after.snapshots = Snapshots(after.store, after.bus, after.live, verify=True)
    after.skip(capture)
    with pytest.raises(Corrupt, match="does not hold at 0"):
        after["v"]


def test_a_missing_blob_is_an_error() -> None:
    notebook = Notebook()
    capture = notebook.step("v = [1]")
    notebook.store._rows.clear()
    with pytest.raises(Corrupt, match="is gone"):
        Notebook(notebook.store).skip(capture)


def test_a_module_that_is_gone_is_said() -> None:
    notebook = Notebook()
    notebook.live["make"] = lambda: __import__("sys").modules.__setitem__(
        "gone_mod", __import__("types").ModuleType("gone_mod")
    )
    capture = notebook.step("make()\nimport gone_mod")
    __import__("sys").modules.pop("gone_mod")
    with pytest.raises(NotSaved, match="gone_mod cannot be imported again"):
        Notebook(notebook.store).skip(capture)


def test_random_state_is_restored_where_the_step_moved_it() -> None:
    notebook = Notebook()
    random.seed(1)
    quiet = notebook.step("a = 1")
    moved = notebook.step("import random\nr = random.random()")
    expected = random.random()
    random.seed(99)
    state = random.getstate()
    after = notebook.again(quiet)
    assert random.getstate() == state
    after.skip(moved)
    assert random.random() == expected


def test_names_are_saved_for_a_loop_and_restored_at_once() -> None:
    notebook = Notebook()
    notebook.plain("import numpy as np\nmodel = {'w': np.ones(50_000)}\nalias = model['w']\nother = [1]")
    capture = notebook.snapshots.save_names(notebook.space, ["model", "alias"])
    notebook.store.commit(capture.rows)
    after = Notebook(notebook.store)
    restored = after.snapshots.restore_now(after.space, capture.manifest_digest)
    assert restored.names == ("alias", "model")
    assert after.snapshots.pending() == frozenset()
    assert np.shares_memory(after.live["alias"], after.live["model"]["w"])


def test_a_namespace_that_is_not_lazy_is_filled_at_once() -> None:
    notebook = Notebook(lazy=False)
    capture = notebook.step("a = [1]\nb = a")
    after = Notebook(notebook.store, lazy=False)
    after.skip(capture)
    assert after.live["a"] is after.live["b"]
    assert after.live["a"] == [1]


def test_ten_thousand_small_variables_are_one_stream() -> None:
    notebook = Notebook()
    capture = notebook.step("for i in range(10_000): globals()[f'v{i}'] = [i]")
    assert len(capture.saved) == 10_001
    assert len(capture.rows) < 10
    assert notebook.again(capture)["v9999"] == [9999]


def test_two_frames_over_one_memory_stay_two_values() -> None:
    notebook = Notebook()
    after = notebook.again(
        notebook.step("import pandas as pd, numpy as np\na = pd.DataFrame({'x': np.zeros(20_000)})\nb = a[:]")
    )
    after.plain("a.loc[0, 'x'] = 7")
    assert after["b"].loc[0, "x"] == 0


def test_deleting_a_variable_frees_its_memory() -> None:
    """Nothing in here may keep a large object alive."""
    import gc
    import weakref

    notebook = Notebook()
    notebook.step("import numpy as np\nbig = np.ones(50_000)\nclass C: pass\nc = C()")
    watch = [weakref.ref(notebook.live["big"]), weakref.ref(notebook.live["c"])]
    gc.disable()
    try:
        notebook.plain("del big, c")
        assert [each() for each in watch] == [None, None]
    finally:
        gc.enable()


def test_a_capture_says_what_the_body_left_as_it_was() -> None:
    """Only of what it could reach: the rest was not looked at."""
    notebook = Notebook()
    notebook.plain("read, grown, same, far = [1], [2], [3], [4]; also = grown")
    capture = notebook.step("total = sum(read); grown.append(5); same = list(same)")
    assert capture.unchanged == {"read"}


def test_nothing_is_imported_from_the_notebook_under_its_second_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """multiprocessing has ``__main__`` as ``__mp_main__``, too."""
    thing = weakref.WeakSet()
    name = weakref.ref(thing)
    monkeypatch.setitem(sys.modules, "__mp_main__", sys.modules["__main__"])
    monkeypatch.setattr(sys.modules["__main__"], "name", name, raising=False)
    assert imports.origin("name", name) == ""


def test_a_result_that_cannot_be_saved_and_holds_a_changed_variable_is_left_out() -> None:
    notebook = Notebook()
    notebook.plain("import threading; gate = threading.Lock(); gate.acquire(); inner = [1]")
    capture = notebook.step("inner.append(2)", result="[inner, gate]")
    assert (capture.saved, [*capture.unsaved]) == (("inner",), ["gate"])


def test_of_closures_only_those_over_a_changed_function_are_saved_with_it() -> None:
    """A library's functions are closures by the hundred, and most of them lead nowhere."""
    notebook = Notebook()
    notebook.plain(
        "import functools\n"
        "def base(): return 1\n"
        "def wrap(f):\n  def inner(): return f()\n  return inner\n"
        "over, cached, far = wrap(base), functools.lru_cache(wrap(wrap(base))), wrap(len)\n"
    )
    assert notebook.step("base.calls = 1").saved == ("base", "cached", "over")
