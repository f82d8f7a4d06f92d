"""Which objects variables share is a part of a step's key, where the step changes them in place or keeps them."""

from __future__ import annotations

import itertools
from argparse import Namespace
from types import SimpleNamespace

import numpy as np
import pytest

from resumable_nb.groups import Survey, joints
from tests.lives import Lives

EDITED = {
    "two names for one list": ("ys = xs", "ys = list(xs)", "xs.append(2)", "ys"),
    "a list in a dict": ("ys = {'a': xs}", "ys = {'a': list(xs)}", "xs.append(2)", "ys"),
    "another list in a dict": ("ys = {'a': xs, 'b': [1]}", "ys = {'a': [1], 'b': xs}", "xs.append(2)", "ys"),
    "a view and its base": ("ys = vs[1:]", "ys = vs[1:].copy()", "vs[1] = 7", "ys.tolist()"),
    "another view": ("ys = vs[:2]", "ys = vs[2:]", "vs[3] = 7", "ys.tolist()"),
    "an attribute of an object": ("ys = Box(xs)", "ys = Box(list(xs))", "xs.append(2)", "ys.inner"),
    "within a library's object": ("ys = Namespace(a=xs)", "ys = Namespace(a=list(xs))", "xs.append(2)", "ys.a"),
    "rows of one list": ("ys = [xs] * 2", "ys = [list(xs), list(xs)]", "ys[0].append(2)", "ys"),
    "rows of themselves": ("ys = [[0]] * 2", "ys = [[0], [0]]", "ys[0].append(2)", "ys"),
    "joined in what the step makes": ("ys = xs", "ys = list(xs)", "zs = [xs, ys]", "zs[0] is zs[1], xs is ys"),
    "through a name that the step does not know": ("ys = xs", "ys = list(xs)", "xs.sort()\nxs.append(2)", "ys"),
}  # fmt: skip
MAKE = (
    "make",
    "import numpy as np\nfrom argparse import Namespace\n"
    "class Box:\n    def __init__(self, inner): self.inner = inner\nxs = [1]\nvs = np.zeros(4)",
)


@pytest.mark.parametrize("kernel", ["live", "new"])
@pytest.mark.parametrize("by", ["", "join"], ids=["plain cell", "step"])
@pytest.mark.parametrize("back", [False, True], ids=["parted", "joined"])
@pytest.mark.parametrize("case", EDITED)
def test_sharing_that_is_edited_above_a_step_counts(
    notebook: Lives, case: str, back: bool, by: str, kernel: str
) -> None:
    before, after, change, look = EDITED[case]
    if back:
        before, after = after, before
    cells = [MAKE, (by, before), ("s", change)]
    steps = ["make", "join", "s"] if by else ["make", "s"]
    assert notebook.run(*cells) == steps
    assert notebook.run(*cells) == []
    notebook.restart()
    assert notebook.run(*cells) == []
    assert notebook.run(*cells) == []
    if kernel == "new":
        notebook.restart()
    cells[1] = (by, after)
    assert notebook.run(*cells) == steps[1:]
    found = repr([notebook.value(name) for name in ("xs", "ys")] and eval(look, notebook.variables))
    plain: dict[str, object] = {}
    for _, text in cells:
        exec(text, plain)
    assert found == repr(eval(look, plain))
    notebook.restart()
    assert notebook.run(*cells) == []


def test_why_names_what_was_one(notebook: Lives) -> None:
    for text in ("ys = xs", "ys = list(xs)", "ys = {1: xs}", "ys = [xs]"):
        notebook.run(MAKE, ("", text), ("s", "xs.append(2)"))
    versions = notebook.session.journal.versions("s")
    assert [each.why for each in versions] == [
        "first run",
        "xs and ys are no longer one object",
        "xs and ys share an object now",
        "input ys changed; xs and ys share other objects",
    ]


@pytest.mark.parametrize(
    "later", ["zs = xs", "zs = {'a': xs}", "print(zs)", "zs['t'].append(1)\nzs['t'].pop()"], ids=lambda text: text
)
def test_what_later_cells_share_does_not_count(notebook: Lives, later: str) -> None:
    cells = [MAKE, ("join", "ys = xs"), ("s", "xs.append(2)\ny = 1"), ("t", "zs = {'t': xs}"), ("", later)]
    notebook.run(*cells)
    for _ in range(2):
        assert notebook.run(cells[2], cells[3], cells[2]) == []
        assert notebook.run(*cells) == []
        assert notebook.run(cells[2]) == []
        assert notebook.value("zs")
        assert eval("xs is ys and (zs is xs or any(each is xs for each in zs.values()))", notebook.variables)
    notebook.restart()
    assert notebook.run(*cells) == []
    assert notebook.run(*cells) == []


def test_what_the_step_does_not_change_does_not_count(notebook: Lives) -> None:
    assert notebook.run(MAKE, ("", "ys = xs"), ("s", "n = len(xs) + len(ys)")) == ["make", "s"]
    assert notebook.run(MAKE, ("", "ys = list(xs)"), ("s", "n = len(xs) + len(ys)")) == []


def test_sharing_is_known_without_loading(notebook: Lives) -> None:
    cells = [MAKE, ("join", "ys = {'a': xs}\nws = vs[1:]"), ("s", "xs.append(2)"), ("t", "vs[1] = 5")]
    notebook.run(*cells)
    notebook.restart()
    assert notebook.run(*cells) == []
    assert {"xs", "ys", "ws", "vs"} <= notebook.session.snapshots.pending()


def test_loop_goes_on_with_all_that_shares_with_what_it_keeps(notebook: Lives) -> None:
    loop = "for n in track(range(4), keep='xs'):\n    xs.append(n)\n    if n == 2 and fail: raise KeyboardInterrupt"
    cells = [MAKE, ("", "from resumable_nb import track\nys = {'a': xs}"), ("s", loop)]
    with pytest.raises(KeyboardInterrupt):
        notebook.run(("", "fail = True"), *cells)
    notebook.restart()
    assert notebook.run(("", "fail = False"), *cells) == ["s"]
    for _ in range(2):
        assert notebook.value("ys") == {"a": [1, 0, 1, 2, 3]}
        assert notebook.variables["ys"]["a"] is notebook.value("xs")
        notebook.restart()
        notebook.run(("", "fail = False"), *cells)


def joined(**values: object) -> dict[str, dict[str, str]]:
    survey = Survey(values, lambda _: "imported", {})
    return {name: dict(found) for name, found in joints(survey, frozenset(values), values, lambda _: False).items()}


def test_how_a_librarys_object_is_made_up_does_not_count() -> None:
    """A figure fills caches when it is drawn, and comes back without them."""
    xs = [1]
    assert joined(a=Namespace(xs=xs), b=Namespace(xs=xs)) == {"a": {}, "b": {}}
    assert joined(a=Namespace(xs=xs, again=[xs]), b=Namespace(cache={"xs": xs})) == {"a": {}, "b": {}}
    plain = joined(a=Namespace(xs=xs), xs=xs)
    assert plain == joined(a=Namespace(cache=[xs]), xs=xs)
    assert plain["a"].keys() == {"xs"}
    assert plain != joined(a=Namespace(xs=[1]), xs=xs)


def test_a_librarys_object_beside_what_it_holds_counts() -> None:
    xs = [1]
    apart = joined(it=SimpleNamespace(a=xs, ab=Namespace(xs=[1])))
    assert joined(it=SimpleNamespace(a=xs, ab=Namespace(xs=xs))) != apart == {"it": {}}
    one = Namespace(a=xs)
    one.b = Namespace(back=one)
    assert joined(it=[one]) == joined(it=[Namespace(a=xs)]), "its own parts lead back to it"


def test_each_pair_says_the_same_whoever_else_leads_into_the_object() -> None:
    """Ways that were looked through for one variable are not looked through again for the next."""
    memory, xs = np.arange(9.0), [1]
    figure = Namespace(xs=xs, memory=memory[2:], inner=Namespace())
    figure.inner.axes = [Namespace(figure=figure, own=(xs, memory)), Namespace(figure=figure)]
    values = {
        "figure": figure, "axes": figure.inner.axes, "one": figure.inner.axes[0], "two": {"it": figure.inner.axes[1]},
        "xs": xs, "view": memory[:4], "twice": [figure.inner.axes[0], xs], "lone": [1],
    }  # fmt: skip
    for order in (values, dict(reversed(values.items()))):
        together = joined(**order)
        for one, other in itertools.permutations(order, 2):
            pair = joined(**{one: values[one], other: values[other]})
            assert together[one].get(other) == pair[one].get(other), (one, other)
            assert together[one].get("") == pair[one].get(""), one
    assert together["xs"].keys() == {"figure", "axes", "one", "two", "twice"}
    assert together["view"].keys() == {"figure", "axes", "one", "two", "twice"}
    assert together["figure"]["xs"] != together["twice"]["xs"]
    assert together["lone"] == {}


def test_an_equal_list_that_another_step_left_is_not_the_steps_own(notebook: Lives) -> None:
    cells = [MAKE, ("s", "ys = xs"), ("t", "ys = list(xs)")]
    notebook.run(*cells)
    assert notebook.run(cells[0], ("s", "ys = xs\nmore = 1"), cells[2]) == ["s"]
    assert notebook.value("xs") == notebook.value("ys")
    assert notebook.value("xs") is not notebook.value("ys")


def test_skip_that_would_part_what_is_one_object_runs_instead(notebook: Lives) -> None:
    """What the cells above have left since shares with what a step saved, and would not come back with it."""
    above, below = ("up", "xs = [4]\nbox = {'k': xs, 'n': 5}"), ("pair", "pair = (xs, 2)")
    check = ("", "assert box['k'] is xs is pair[0]")
    assert notebook.run(above, below, check) == ["up", "pair"]
    notebook.restart()
    edited = ("up", "xs = [4]\nbox = {'k': xs, 'n': 7}")
    assert notebook.run(edited, below, check) == ["up", "pair"]
    for start in (lambda: None, notebook.restart):
        start()
        assert notebook.run(edited, below, check) == []
        start()
        new = ("new", "held = [xs]")
        notebook.run(edited, new, below, check, ("", "assert held[0] is xs"))
        assert notebook.run(edited, new, below, check, ("", "assert held[0] is xs"), below) == []


def test_what_held_a_changed_object_and_is_made_no_more_does_not_come_back(notebook: Lives) -> None:
    make, hold, add = ("make", "xs = [1]"), ("hold", "box = [xs]"), ("add", "xs.append(2)")
    check = ("", "assert xs == [1, 2] and 'box' not in globals()")
    assert notebook.run(make, hold, add) == ["make", "hold", "add"]
    notebook.restart()
    assert notebook.run(make, hold, add, ("", "assert box[0] is xs")) == []
    notebook.restart()
    assert notebook.run(make, ("hold", "bag = 1"), add, check) == ["hold"]


EQUAL = "class A:\n    def __init__(self, xs): self.xs = xs\n"
KIND = "class A:\n    n = {}\n    def __init__(self, xs): self.xs = xs\n"


@pytest.mark.parametrize("kernel", ["live", "new"])
@pytest.mark.parametrize("back", [False, True], ids=["another", "its own"])
@pytest.mark.parametrize(
    ("kind", "change"), [("alike", "a.xs.append(3)"), ("equal", "a.xs.append(3)"), ("equal", "xs = xs[:]")]
)
def test_class_of_the_name_that_an_object_is_of_counts(
    notebook: Lives, kind: str, change: str, back: bool, kernel: str
) -> None:
    make, other = f"{EQUAL}xs = [1]\na = A(xs)", f"{EQUAL}    n = 1" if kind == "alike" else EQUAL
    before, after = (other, "y = 1") if back else ("y = 1", other)
    check = ("", f"assert type(a) is {'' if back else 'not '}A and (a.xs is xs) is {change[0] != 'x'}")
    cells = [("make", make), ("mid", before), ("s", change)]
    assert notebook.run(*cells) == ["make", "mid", "s"]
    assert notebook.run(*cells) == []
    notebook.restart()
    assert notebook.run(*cells) == []
    if kernel == "new":
        notebook.restart()
    cells[1] = ("mid", after)
    notebook.run(*cells, check)
    assert notebook.run(*cells, check) == []
    notebook.restart()
    assert notebook.run(*cells, check) == []
    assert notebook.run(*cells, check) == []


ENUM = "import enum\nclass E(enum.Enum):\n    A = 1\n    B = [2]\n    def __init__(self, v): self.v = v"
AGAIN = {
    "an object of a class defined anew": (KIND.format(1), KIND.format(2), "a = A([1])", "type(a) is A"),
    "an object of a class that is its equal": (EQUAL, EQUAL, "a = A([1])", "type(a) is A"),
    "a list in an enum's member": (ENUM, "E.A.note = [3]", "x = E.B.v", "x is E.B.v"),
    "a list that a member was given": (ENUM, "E.A.note = [3]", "x = E.A.note", "x is E.A.note"),
    "a list that a class was given": (KIND.format(1), "A.more = [2]", "x = A.more", "x is A.more"),
    "a default": ("def f(d=[1]):\n    d.append(1)\n    return d", "y = f()", "x = f()", "x is y is f.__defaults__[0]"),
    "what a closure holds": ("f = (lambda v: lambda: v)([1])", "f().append(2)", "x = f()", "x is f() == [1, 2]"),
}  # fmt: skip


@pytest.mark.parametrize("case", AGAIN)
def test_all_of_it_again_in_the_kernel_that_has_it(notebook: Lives, case: str) -> None:
    make, change, hold, look = AGAIN[case]
    cells = [("make", make), ("change", change), ("hold", hold), ("", f"assert {look}")]
    notebook.run(*cells)
    for _ in range(2):
        assert notebook.run(*cells) == []
        notebook.run(cells[2], cells[1], *cells)
        notebook.restart()
        assert notebook.run(*cells) == []
        assert notebook.run(*cells) == []


def test_what_an_enums_member_was_given_is_edited_above(notebook: Lives) -> None:
    make, hold = ("make", "import enum\nclass E(enum.Enum):\n    A = 1\n    B = [2]"), ("hold", "x = E.B.value")
    assert notebook.run(make, ("note", "E.A.note = 3"), hold) == ["make", "note", "hold"]
    notebook.restart()
    check = ("", "assert E.A.note == 4 and x is E.B.value")
    assert notebook.run(make, ("note", "E.A.note = 4"), hold, check) == ["note", "hold"]


def test_iterator_over_what_a_step_changes_is_made_above_it_now(notebook: Lives) -> None:
    change, make = ("s", "xs.append(2)"), ("it", "ys = enumerate(xs), zip(xs)")
    assert notebook.run(MAKE, change, make) == ["make", "s", "it"]
    notebook.restart()
    check = ("", "assert [*ys[0]] == [(0, 1), (1, 2)] and [*ys[1]] == [(1,), (2,)]")
    assert notebook.run(MAKE, make, change, check) == ["it", "s"]


PARTED = {
    "what is made again and has no content": (
        "import itertools", "xs = itertools.cycle('a')", "y, xs = 1, itertools.cycle('a')", "p = (xs, 1)", "p[0] is xs"
    ),
    "what cannot be saved": (
        "import threading", "xs = threading.local()", "y, xs = 1, threading.local()", "p = (xs, 1)", "p[0] is xs"
    ),
    "an order that is changed in place": (
        "n = 1", "xs = {'a': n, 'b': 2}", "xs = dict(a=n, b=2)", "xs['a'] = xs.pop('a')", "[*xs] == ['b', 'a']"
    ),
    "an array that is made read-only": (
        "import numpy as np", "xs = np.arange(3)", "xs = np.arange(0, 3)", "xs.flags.writeable = False",
        "not xs.flags.writeable",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", PARTED)
def test_what_is_made_again_above_is_what_the_steps_below_have_changed(notebook: Lives, case: str) -> None:
    make, before, after, change, look = PARTED[case]
    cells, check = [("make", make), ("up", after), ("s", change)], ("", f"assert {look}")
    notebook.run(cells[0], ("up", before), cells[2], check)
    for _ in range(2):
        notebook.run(*cells, check)
        assert "up" not in notebook.run(*cells, check)
        notebook.run(("up", before), *cells, check)
        notebook.restart()
        notebook.run(*cells, check)


@pytest.mark.parametrize("later", ["pass", "A.n += 1"])
def test_class_that_is_made_anew_keeps_its_data_beside_one_of_the_former_ones_cell(notebook: Lives, later: str) -> None:
    cells = [("make", f"{KIND.format(1)}class B: pass"), ("new", KIND.format(2)), ("more", f"b = B()\n{later}")]
    notebook.run(*cells)
    for names in (("A", "B", "b"), ("b", "B", "A")):
        notebook.restart()
        assert notebook.run(*cells) == []
        for name in names:
            notebook.value(name)
        assert notebook.value("A").n == (2 if later == "pass" else 3)
        assert type(notebook.value("b")) is notebook.value("B")


@pytest.mark.parametrize("alias", ["g = f", "g = [f]"])
def test_function_that_counts_in_an_attribute_is_one_under_all_its_names(notebook: Lives, alias: str) -> None:
    look = ("", "seen.append((f.n, (g if callable(g) else g[0]) is f))")
    cells = [("make", "def f():\n    f.n += 1\nf.n = 1"), ("alias", alias), look, ("count", "f()"), look]
    notebook.run(("", "seen = []"), *cells[:3])
    for ran in (["count"], []):
        notebook.restart()
        assert notebook.run(("", "seen = []"), *cells) == ran
        assert notebook.run(*cells) == []
        assert notebook.value("seen") == [(1, True), (2, True)] * 2


@pytest.mark.parametrize("by", ["", "make"], ids=["plain cell", "step"])
def test_class_that_is_patched_before_its_objects_are_loaded_is_theirs(notebook: Lives, by: str) -> None:
    cells = [
        (by, "class A: pass"),
        ("s", "a = A()"),
        ("", "A.g = lambda self: 1"),
        ("", "assert a.g() and type(a) is A"),
    ]
    for _ in range(2):
        notebook.run(*cells)
        notebook.run(*cells)
        notebook.restart()


def test_step_that_ran_alone_before_changes_what_cells_above_it_hold_now(notebook: Lives) -> None:
    make, hold, change = ("", "xs = [1]"), ("hold", "es = [xs]"), ("change", "xs.append(2)")
    check = ("", "assert es[0] is xs and xs == [1, 2]")
    notebook.run(make, change)
    assert notebook.run(make, hold, change, check) == ["hold", "change"]
    assert notebook.run(make, hold, change, check) == []
    notebook.restart()
    assert notebook.run(make, hold, change, check) == []


def test_proxy_of_what_is_gone_leads_nowhere(notebook: Lives) -> None:
    """numba's ufuncs hold one, and share what leads to it with others."""
    make = "import weakref\nclass A: pass\na = A()\nbox = [weakref.proxy(a)]\nheld = [box]\ndel a"
    assert notebook.run(("make", make), ("more", "box.append(1)"), ("", "assert held[0] is box")) == ["make", "more"]
