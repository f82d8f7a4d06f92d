"""A loop that goes on at its last kept turn leaves one object one object, whoever else holds it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kernels import Died, Kernels
from tests.test_track import PRELUDE, ledger, until_done

pytestmark = pytest.mark.kernel

LOOP = """for n in track(range(4), "turns", keep=["{kept}"]):
    {kept}.append(n)
    die_once(f"death {{n}}", n in (1, 2))
"""


def loop(kept: str, indent: int = 0) -> str:
    return LOOP.format(kept=kept).replace("\n", "\n" + " " * indent)


@pytest.mark.parametrize(
    ("above", "cell", "told"),
    [
        pytest.param("", f"xs = []\nys = xs\n{loop('ys')}", "xs is ys, xs", id="alias in the cell"),
        pytest.param("", f"xs = []\nbox = [xs]\n{loop('xs')}", "box[0] is xs, xs", id="inside another"),
        pytest.param("xs = []\nys = xs", loop("xs"), "xs is ys, xs", id="alias above"),
        pytest.param(
            "", f"xs = []\ndef work(ys):\n    {loop('ys', 4)}\n    return ys\nzs = work(xs)", "xs is zs, xs",
            id="argument",
        ),
        pytest.param(
            "xs = []", f"def work(ys):\n    {loop('ys', 4)}\n    return ys\nzs = work(xs)", "xs is zs, xs",
            id="argument from above",
        ),
        pytest.param(
            "",
            f"def inner(ys):\n    {loop('ys', 4)}\n"
            "def outer():\n    mine = []\n    inner(mine)\n    return mine\nxs = outer()",
            "len(xs) == 4, xs",
            id="variable of the function that called",
        ),
        pytest.param(
            "",
            f"xs = []\ndef work(ys):\n    with step('inner'):\n        {loop('ys', 8)}\nwork(xs)",
            "len(xs) == 4, xs",
            id="argument in a block",
        ),
        pytest.param(
            "",
            f"xs = []\ndef work(own):\n    xs = own\n    {loop('xs', 4)}\nwork(xs)",
            "len(xs) == 4, xs",
            id="another variable of one name",
        ),
        pytest.param(
            "",
            f"class Fit:\n    def __init__(self):\n        self.seen = []\n"
            f"    def run(self):\n        seen = self.seen\n        {loop('seen', 8)}\nfit = Fit()\nfit.run()",
            "len(fit.seen) == 4, fit.seen",
            id="attribute of self",
        ),
        pytest.param(
            "xs = []\nys = xs",
            f"with step('inner'):\n    xs.append(9)\n{loop('xs')}\nxs.remove(9)",
            "xs is ys, xs",
            id="after a skipped block",
        ),
    ],
)  # fmt: skip
def test_who_shares_with_what_is_kept_still_does(kernels: Kernels, above: str, cell: str, told: str) -> None:
    kernel = until_done(kernels, above, f"%%resumable a\n{cell}")
    assert kernel(f"print({told})").stdout.split(maxsplit=1) == ["True", "[0, 1, 2, 3]\n"]
    kernel = kernels.again(PRELUDE, above, f"%%resumable a\n{cell}")
    assert kernel(f"print({told})").stdout.split(maxsplit=1) == ["True", "[0, 1, 2, 3]\n"]


def test_what_shares_with_the_kept_is_edited_while_the_step_is_unfinished(kernels: Kernels) -> None:
    cell = f"%%resumable a\n{loop('xs')}"
    with pytest.raises(Died):
        kernels(PRELUDE, "xs = []\nbox = [xs]", cell)
    kernel = until_done(kernels, "xs = []\nbox = [xs, 5]", cell)
    assert kernel("print(box, box[0] is xs)").stdout == "[[0, 1, 2, 3], 5] True\n"


def test_what_shares_with_the_changed_is_edited_after_the_step(kernels: Kernels) -> None:
    cell = "%%resumable a\nxs.append(1)"
    kernels(PRELUDE, "xs = []\nbox = [xs]", cell)
    kernel = kernels.again(PRELUDE, "xs = []\nbox = [xs, 5]", cell)
    assert kernel("print(box, box[0] is xs)").stdout == "[[1], 5] True\n"


@pytest.mark.parametrize(
    "cell", [loop("xs"), f"with step('inner'):\n    xs.append(9)\n{loop('other')}\nxs.remove(9)"], ids=["loop", "block"]
)
def test_sharing_counts_for_a_step_that_was_continued(kernels: Kernels, cell: str) -> None:
    """The step itself has not made what it was given back by a loop, or by a block: it has changed it."""
    cell = f"%%resumable a\n{cell}"
    kernel = until_done(kernels, "xs, other = [], []\nys = xs", cell)
    left = kernel("print(xs)").stdout
    kernel = kernels.again(PRELUDE, "xs, other = [], []\nys = list(xs)", cell)
    assert kernel("print(xs, ys)").stdout == f"{left.strip()} []\n"


def test_interrupted_loop_goes_on_in_the_same_kernel_with_what_shares(kernels: Kernels) -> None:
    cell = """%%resumable a
for n in track(range(4), "turns", keep=["xs"]):
    ledger(n)
    if n == 2 and not os.path.exists("go"):
        raise KeyboardInterrupt
    xs.append(n)
"""
    kernel = kernels(PRELUDE, "xs = []\nbox = [xs]")
    assert kernel.attempt(cell).error == "KeyboardInterrupt"
    Path(kernel.folder, "go").touch()
    kernel(cell)
    assert kernel("print(box, box[0] is xs)").stdout == "[[0, 1, 2, 3]] True\n"
    assert ledger(kernel.folder) == list("012" + "23")


@pytest.mark.parametrize(
    ("cell", "name"),
    [
        (f"xs = []\nlater = (x for x in xs)\n{loop('xs')}", "'later'"),
        (
            f"def inner(xs):\n    {loop('xs', 4)}\n"
            "def outer():\n    mine = []\n    later = (x for x in mine)\n    inner(mine)\nouter()",
            "'later' of outer()",
        ),
    ],
    ids=["variable", "variable of the function that called"],
)
def test_what_shares_and_cannot_be_saved_is_named_at_the_first_turn(kernels: Kernels, cell: str, name: str) -> None:
    shown = kernels(PRELUDE).attempt(f"%%resumable a\n{cell}")
    assert shown.error == "UsageError"
    assert f"{name} shares objects with what is kept, and cannot be saved: " in shown.said


def test_kept_variable_that_the_cell_does_not_mention_is_edited_above(kernels: Kernels) -> None:
    both = loop("seen").replace("keep=[", "keep=['xs', ")
    cell = f"%%resumable a\nseen = []\n{both}"
    with pytest.raises(Died):
        kernels(PRELUDE, "xs = [1]", cell)
    kernel = until_done(kernels, "xs = [2]", cell)
    assert kernel("print(xs, seen)").stdout == "[2] [0, 1, 2, 3]\n"


def test_what_the_step_makes_anew_each_time_is_no_reason_to_begin_anew(kernels: Kernels) -> None:
    cell = """%%resumable a
import time
xs = []
run = {"began": time.time_ns(), "xs": xs}
for n in track(range(4), "turns", keep=["xs"]):
    ledger(n)
    xs.append(n)
    die_once("death", n == 2)
"""
    kernel = until_done(kernels, cell)
    assert kernel("print(xs, run['xs'] is xs)").stdout == "[0, 1, 2, 3] True\n"
    assert ledger(kernel.folder) == list("012" + "23")
