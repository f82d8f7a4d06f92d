"""Buttons act while a cell runs: also an async one, and one that only computes."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import expect

from tests.browser.page import KERNELS, LOAD, Book

pytestmark = pytest.mark.browser

WAITING = """%%resumable waiting
import asyncio
from resumable_nb import track
for turn in track(range(400_000), "turns"):
    await asyncio.sleep(0.02)
turn"""
BUSY = """%%resumable busy
for turn in track(range(40_000_000), "sums"):
    sum(range(6000))
turn"""


@pytest.mark.parametrize(("kernel", "app"), [(KERNELS[0], "notebook"), (KERNELS[1], "lab"), (KERNELS[2], "lab")])
def test_buttons_act_in_async_and_in_busy_cells(open_book: Callable[..., Book], kernel: str, app: str) -> None:
    book = open_book([LOAD, "%resumable", WAITING, BUSY, "print('after', turn)"], kernel=kernel, app=app)
    book.run_all()
    for index, step in ((2, "waiting"), (3, "busy")):
        expect(book.step(step)).to_contain_text("running")
        expect(book.step(step).get_by_role("progressbar")).to_be_visible()
        book.button("Pause").click()
        expect(book.head).to_contain_text("paused")
        book.runs(index)
        book.button("Resume").click()
        expect(book.step(step)).to_contain_text("running")
        book.button("Stop").click()
        book.ran(index)
        expect(book.output(index)).to_contain_text("stopped by the panel")
        expect(book.prompt(4)).to_have_text("[ ]:")
        expect(book.step(step)).to_contain_text("stopped")
        book.run_cell(index + 1)
    book.ran(4)
    expect(book.output(4)).to_contain_text("after")
    book.shot(f"{app} {kernel}")


ASKABLE = """from pathlib import Path
from resumable_nb import Happened, tool
ledger = Path("ledger.txt")

def write(line):
    with ledger.open("a") as book:
        book.write(line + "\\n")

def find(order: int) -> Happened:
    write("asked")
    return Happened(order * 10)

@tool(reconcile=find)
def charge(order: int) -> int:
    write(f"charge {order}")
    raise ConnectionError("the line broke")"""


def test_a_tool_is_asked_by_a_click_what_became_of_its_call(open_book: Callable[..., Book]) -> None:
    book = open_book([LOAD, "%resumable", ASKABLE, "%%resumable pay\npaid = charge(7)\nprint('paid', paid)"])
    book.run_all()
    doubt = book.panel.locator(".rnb-doubt:visible")
    expect(doubt).to_contain_text("charge(order=7)")
    doubt.get_by_role("button", name="Ask the tool").click()
    expect(book.panel.get_by_role("status")).to_contain_text("it happened")
    expect(doubt).to_have_count(0)
    ledger = book.folder / "ledger.txt"
    assert ledger.read_text().split("\n") == ["charge 7", "asked", ""]
    book.run_cell(3)
    expect(book.output(3)).to_contain_text("paid 70")
    expect(book.step("pay")).to_contain_text("done")
    assert ledger.read_text().split("\n") == ["charge 7", "asked", ""], "charged once, and not asked again"
