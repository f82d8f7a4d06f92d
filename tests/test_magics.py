"""``%%resumable`` in IPython shells: what a cell does when it runs, when it is skipped, and when it fails."""

from __future__ import annotations

import pytest

from tests.kernels import Kernels

COUNT = """
def count(name):
    with open(f"{name}.count", "a") as file:
        file.write(".")
"""


def test_first(kernels: Kernels) -> None:
    k = kernels(COUNT)
    shown = k("%%resumable a\ncount('a')\nprint('out')\nx = 1\nx + 1")
    assert shown.value == "2", shown
    shown = k("%%resumable a\ncount('a')\nprint('out')\nx = 1\nx + 1")
    assert shown.messages, shown
    k = kernels.again(COUNT)
    shown = k("%%resumable a\ncount('a')\nprint('out')\nx = 1\nx + 1")
    assert shown.messages, shown
    assert k("x").value == "1"
    assert k("_3, Out[2]").value == "", shown
