"""A step's own change is no reason to run it again, as long as nobody else has set the variable since."""

from __future__ import annotations

import pytest

from tests.lives import Lives

ADD = ("b", "x += 1")
GROW = ("b", "x.append(2)")
SPEND = ("b", "pay(x)\nx = 0")

SET = {
    "a number": (ADD, "x = 1", "x = 2"),
    "a value that is spent": (SPEND, "x = 3", "x = 0"),
    "a list": (GROW, "x = [1]", "x = [1, 2]"),
    "an object that is not a literal": (ADD, "x = 10**9", "x = 10**9 + 1"),
    "in a loop": (ADD, "for x in [1]: pass", "for x in [2]: pass"),
    "through a function": (ADD, "def f():\n    global x\n    x = 1\nf()", "def f():\n    global x\n    x = 2\nf()"),
    "through a name that is looked up": (ADD, "globals()['x'] = 1", "globals()['x'] = 2"),
    "in exec": (ADD, "exec('x = 1')", "exec('x = 2')"),
    "an element": (("b", "x['n'] += 1"), "x = globals().get('x', {})\nx['n'] = 1", "x = x\nx['n'] = 2"),
    "a block": (("b", "with step('m'):\n    x += 1"), "x = 1", "x = 2"),
}


@pytest.mark.parametrize("kernel", ["live", "new"])
@pytest.mark.parametrize("by", ["", "up"], ids=["plain cell", "step"])
@pytest.mark.parametrize("case", SET)
def test_value_that_is_edited_to_what_the_step_had_left_is_another(
    notebook: Lives, case: str, by: str, kernel: str
) -> None:
    cell, before, after = SET[case]
    assert "b" in notebook.run((by, before), cell)
    if kernel == "new":
        notebook.restart()
        after = after.replace("x = x\n", "x = {}\n")
    assert "b" in notebook.run((by, after), cell)


@pytest.mark.parametrize(
    ("case", "by"),
    [(each, "") for each in SET if each != "an element"]
    + [(each, "up") for each in SET if each not in ("an element", "in exec", "through a name that is looked up")],
)
def test_finished_step_is_skipped_however_often_it_is_run(notebook: Lives, case: str, by: str) -> None:
    cell, before, _ = SET[case]
    notebook.run((by, before), cell)
    left = notebook.value("x")
    assert notebook.run(cell, cell) == []
    assert notebook.run((by, before), cell) == []
    assert notebook.run(cell) == []
    assert notebook.value("x") == left
    assert notebook.run(("", "y = [x for x in [x]]"), cell) == []
    notebook.restart()
    assert notebook.run((by, before), cell, cell) == []
    assert notebook.run((by, before), cell) == []
    assert notebook.value("x") == left
    assert notebook.run(cell) == []


def test_two_steps_that_add_to_one_number(notebook: Lives) -> None:
    up, first, second = ("", "x = 1"), ("a", "x += 1"), ("b", "x += 1")
    notebook.run(up, first, second)
    assert notebook.run(up, first, second) == []
    assert notebook.run(second) == []
    assert notebook.run(first) == ["a"], "it is not what it left: the later step has changed it"
    assert notebook.value("x") == 4
    assert notebook.run(up, first, second) == ["a"]
    assert notebook.value("x") == 3
    notebook.restart()
    assert notebook.run(up, first, second, second) == []
    assert notebook.value("x") == 3


def test_later_step_that_sets_what_an_earlier_one_left(notebook: Lives) -> None:
    up, first, second = ("", "x = 1"), ("a", "x += 1"), ("b", "x = 2")
    notebook.run(up, first, second)
    assert notebook.run(first) == ["a"]
    assert notebook.value("x") == 3


def test_upstream_step_run_again_with_the_same_result_cuts_off(notebook: Lives) -> None:
    notebook.run(("up", "x = 1"), ADD)
    assert notebook.run(("up", "x = 2 - 1"), ADD) == ["up"]
    assert notebook.value("x") == 2
    assert notebook.run(ADD) == []


def test_cell_that_may_set_a_variable_and_does_not(notebook: Lives) -> None:
    notebook.run(("", "x = 1"), ADD)
    assert notebook.run(("", "try:\n    x\nexcept NameError:\n    y = 1\nif not x:\n    x = 2"), ADD) == []
    assert notebook.value("x") == 2


def test_block_in_a_plain_cell_is_run_again(notebook: Lives) -> None:
    cell = ("", "with step('m'):\n    pay(x)\n    x += 1")
    assert notebook.run(("", "x = 1"), cell) == [1]
    assert notebook.run(cell, cell) == []
    assert notebook.run(("", "x = 1"), cell, cell) == []
    assert notebook.run(("", "x = 2"), cell) == [2]
    assert notebook.value("x") == 3


def test_block_in_a_step_that_is_edited(notebook: Lives) -> None:
    inner = "with step('m'):\n    pay(x[0])\n    x.append(2)\n"
    notebook.run(("", "x = [1]"), ("b", inner))
    assert notebook.run(("b", f"{inner}y = 1")) == ["b"], "the block has left x as it is"
    assert notebook.value("x") == [1, 2]
    assert notebook.run(("b", f"x = [1, 2]\n{inner}")) == ["b", 1], "the step itself has set it"


def test_functions_variable_is_made_anew_by_each_call(notebook: Lives) -> None:
    text = "def f(c):\n    with step('m'):\n        pay(c)\n        c = 0\n    return c\n"
    assert notebook.run(("", f"{text}y = f(3)")) == [3]
    assert notebook.run(("", f"{text}y = f(3)")) == []
    assert notebook.run(("", f"{text}y = f(0)")) == [0]


def test_functions_block_that_changes_a_global(notebook: Lives) -> None:
    define = ("", "def f():\n    with step('m'):\n        pay(len(x))\n        x.append(2)\n")
    call = ("", "f()")
    assert notebook.run(("", "x = [1]"), define, call) == [1]
    assert notebook.run(call) == []
    assert notebook.run(("", "x = [1, 2]"), call) == [2]


def test_deleted_variable(notebook: Lives) -> None:
    cell = ("b", "y = x\ndel x")
    notebook.run(("", "x = 1"), cell)
    assert notebook.run(cell) == []
    assert notebook.run(("", "x = 1"), cell) == []


def test_class_that_the_step_changes(notebook: Lives) -> None:
    make, count = ("", "class Foo:\n    n = 1"), ("b", "Foo.n += 1")
    notebook.run(make, count)
    assert notebook.run(count) == []
    assert notebook.run(make, count) == []
    assert notebook.run(("", "class Foo:\n    n = 2"), count) == ["b"]
