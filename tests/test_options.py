"""The first line of a step's cell: what it may say, and one line for each mistake."""

from __future__ import annotations

import pytest

from resumable_nb.errors import UsageError
from resumable_nb.magics.options import cell_options
from resumable_nb.model import StepOptions


@pytest.mark.parametrize(
    ("line", "name", "options"),
    [
        ("fetch", "fetch", StepOptions()),
        ("'a b' --quiet", "a b", StepOptions(quiet=True)),
        ("fetch --files a.csv b.csv --makes c.png", "fetch", StepOptions(files=("a.csv", "b.csv"), makes=("c.png",))),
        ("fetch --files a.csv --files b.csv", "fetch", StepOptions(files=("a.csv", "b.csv"))),
        ("fetch --keep x y --drop z", "fetch", StepOptions(keep=("x", "y"), drop=("z",))),
        ("fetch --always --rerun --no-output", "fetch", StepOptions(always=True, rerun=True, output=False)),
        ("--quiet fetch", "fetch", StepOptions(quiet=True)),
    ],
)
def test_valid_lines(line: str, name: str, options: StepOptions) -> None:
    assert cell_options(line) == (name, options)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("", "needs a name"),
        ("--quiet", "needs a name"),
        ("fetch --flies a.csv", "did you mean --files?"),
        ("fetch --nonsense-option", "unknown option"),
        ("fetch pages", "one name"),
        ("fetch --files", "--files: expected at least one argument"),
        ("fetch 'open", "unbalanced quotes"),
        ("fetch --keep 1x", "no variable's name"),
        ("fetch --qui", "did you mean --quiet?"),
    ],
)
def test_mistakes_are_one_line(line: str, says: str) -> None:
    with pytest.raises(UsageError) as caught:
        cell_options(line)
    assert says in caught.value.message
    assert "\n" not in caught.value.message
