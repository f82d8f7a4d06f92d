"""Rolling back from a notebook: by the cell's option, by the line magic, with tools that came back from the store."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kernels import Kernels

pytestmark = pytest.mark.kernel

TOOLS = """
from resumable_nb import step, task, tool

def do(*what):
    with open("did", "a") as file:
        print(*what, file=file)

def refund(order, result):
    do("refund", order, result)

@tool(compensate=refund)
def charge(order):
    do("charge", order)
    return f"receipt of {order}"
"""
BUY = (
    '%%resumable buy --on-error compensate\npaid = [charge("a"), charge("b")]\nif broken: raise ValueError("no stock")'
)


def did(folder: Path) -> list[str]:
    return (folder / "did").read_text().splitlines()


CHARGED = ["charge a", "charge b"]
REFUNDED = ["refund b receipt of b", "refund a receipt of a"]


def test_cell_that_fails_is_undone_and_runs_anew(kernels: Kernels, tmp_path: Path) -> None:
    kernel = kernels(TOOLS, "broken = True")
    shown = kernel.attempt(BUY)
    assert (shown.error, shown.said) == ("ValueError", "no stock")
    assert shown.messages == ["↶ buy: 2 tool calls undone"]
    assert "buy  compensated" in kernel("%resumable").stdout
    kernel = kernels.again(TOOLS, "broken = False")
    assert kernel(BUY).messages == ["● buy: runs again: its calls were undone"]
    assert did(tmp_path) == CHARGED + REFUNDED + CHARGED


def test_line_magic_undoes_with_tools_that_are_restored(kernels: Kernels, tmp_path: Path) -> None:
    """They were defined in a step that is skipped, and nothing has used them yet."""
    tools, buy = f"%%resumable tools\n{TOOLS}", "%%resumable buy\npaid = [charge(each) for each in 'ab']"
    kernels(tools, buy)
    kernel = kernels.again(tools)
    assert kernel("%resumable compensate buy").messages == ["↶ buy: 2 tool calls undone"]
    assert did(tmp_path) == CHARGED + REFUNDED
    assert kernel("%resumable compensate").messages == []
    assert kernel.attempt("%resumable compensate nothing").error == "UsageError"


def test_block_that_fails_is_undone_alone(kernels: Kernels, tmp_path: Path) -> None:
    block = """%%resumable all
charge("a")
try:
    with step("inner", on_error="compensate"):
        charge("b")
        raise ValueError
except ValueError:
    kept = True
"""
    kernels(TOOLS, block)
    assert did(tmp_path) == [*CHARGED, REFUNDED[0]]
    kernel = kernels.again(TOOLS, block)
    assert kernel("dict(task().steps().status)").value == "{'all': 'done', 'all/inner': 'compensated'}"
    assert did(tmp_path) == [*CHARGED, REFUNDED[0]]
    shown = kernel.attempt("step('x', on_error='undo')")
    assert shown.said == "step('x', on_error='undo'): it is one of keep, compensate"
