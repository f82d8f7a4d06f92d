"""The panel after a reload, in a second tab, after a restart, in the saved notebook; and what its buttons change."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from nbconvert import HTMLExporter
from playwright.sync_api import expect

from tests.browser.page import LOAD, Book

pytestmark = pytest.mark.browser

TOOLS = """import time
from pathlib import Path
from resumable_nb import task, tool, track
ledger = Path("ledger.txt")

def write(line):
    with ledger.open("a") as book:
        book.write(line + "\\n")

def refund(order: int) -> None:
    write(f"refund {order}")

@tool(compensate=refund)
def charge(order: int) -> int:
    write(f"charge {order}")
    return order"""
HELD = """%%resumable pay
paid = []
for n in track(range(10), "orders"):
    paid.append(charge(n))
    for _ in track(iter(lambda: n == 4 and Path("hold").exists(), False), "held"):
        time.sleep(0.02)
len(paid)"""
DRAWN = """task().complete()
while "completed" not in task().panel().children[1].value:
    time.sleep(0.02)
write("drawn")"""
PAY = "%%resumable pay\npaid = [charge(n) for n in track(range(10), 'orders')]\nlen(paid)"


def ledger(book: Book) -> list[str]:
    path = book.folder / "ledger.txt"
    return path.read_text().splitlines() if path.exists() else []


def copies(book: Book) -> str:
    """The panel in the saved notebook, as readers without a kernel see it."""
    return "".join(output.data.get("text/html", "") for output in book.save().cells[1].outputs)


def test_reload_second_tab_restart_and_saved_notebook(open_book: Callable[..., Book]) -> None:
    book = open_book([LOAD, "%resumable", TOOLS, HELD, DRAWN])
    hold = book.folder / "hold"
    hold.touch()
    book.run_all()
    book.until(lambda: "charge 4" in ledger(book))
    expect(book.step("pay")).to_contain_text("orders: 4 of 10")
    # The page is saved and loaded anew in the middle of the run: it is told what to show while the cell runs, and is
    # so slow that the run ends before it listens.
    book.save()
    with book.late_widgets() as asked:
        book.open(fresh=False)
        book.until(asked)
        hold.unlink()
        book.until(lambda: "drawn" in ledger(book))
    expect(book.step("pay")).to_contain_text("done")
    expect(book.head).to_contain_text("completed")
    book.button("History").click()
    expect(book.panel.locator(".rnb-table:visible tbody tr")).to_have_count(10)
    # That page does not know where the static copy stands. A button shows the panel anew, and with it the copy.
    assert "completed" not in copies(book)
    again = book.button("Bring it up to date")
    again.scroll_into_view_if_needed()
    book.shot("loaded anew")
    again.click()
    expect(again).to_have_count(0)
    expect(book.panel.locator(".rnb-table:visible tbody tr")).to_have_count(10)
    assert "completed" in copies(book)
    other = book.page.context.new_page()
    second = Book(other, book.server, book.name)
    expect(second.panel.locator(".rnb-table:visible tbody tr")).to_have_count(10)
    second.button("Steps").click()
    expect(book.step("pay")).to_contain_text("done")
    other.close()

    book.restart()
    expect(book.panel).to_be_hidden()
    expect(book.output(1).locator(".rnb-static")).to_contain_text("Run %resumable for the living panel")
    book.shot("restarted")
    book.run_all()
    book.ran(4)
    expect(book.panel).to_be_visible()
    expect(book.output(1).locator(".rnb-static")).to_be_hidden()
    expect(book.step("pay")).to_contain_text("restored")
    assert [each for each in ledger(book) if each != "drawn"] == [f"charge {n}" for n in range(10)]


def test_steps_are_restored_run_again_and_undone_by_clicks(open_book: Callable[..., Book]) -> None:
    book = open_book([LOAD, "%resumable", TOOLS, PAY, "print('first', paid[0])", "paid = ['lost']"])
    book.run_all()
    book.ran(5)
    book.panel.get_by_role("button", name="▸ pay").click()
    said = book.panel.get_by_role("status")

    book.button("Restore step").click()
    book.button("Cancel").click()
    expect(book.button("Cancel")).to_be_hidden()
    book.button("Restore step").click()
    book.button("Yes: restore").click()
    expect(said).to_contain_text("pay: restored paid")
    book.run_cell(4)
    book.ran(4, 7)
    expect(book.output(4)).to_contain_text("first 0")

    book.button("Rerun step").click()
    book.button("Yes: rerun").click()
    expect(said).to_contain_text("pay runs again the next time")
    expect(book.step("pay")).to_contain_text("runs again when its cell is executed")
    book.shot("to run again")
    book.run_cell(3)
    book.ran(3, 8)
    expect(book.step("pay")).to_contain_text("asked to run again")
    expect(book.step("pay")).to_contain_text("done")
    assert ledger(book) == [f"charge {n}" for n in range(10)], "recorded calls still answer"
    book.panel.get_by_label("of version", exact=True).select_option(index=1)
    book.run_cell(5)
    book.ran(5, 9)
    book.button("Restore step").click()
    expect(book.panel.get_by_role("alert")).to_contain_text("after version 1 of pay?")
    book.button("Yes: restore").click()
    expect(said).to_contain_text("pay: restored paid, as version 1 left them")

    book.button("Compensate").click()
    book.button("Yes: compensate").click()
    expect(said).to_contain_text("pay: 10 calls undone")
    expect(book.panel.locator(".rnb-detail")).to_contain_text("compensated")
    assert ledger(book)[10:] == [f"refund {n}" for n in reversed(range(10))]
    book.shot("compensated")

    # What a reader without a kernel sees: the last state, as HTML.
    copy = book.output(1).locator(".rnb-static")
    expect(copy).to_contain_text("refund(order=0)")
    expect(copy).to_be_hidden()
    page, _ = HTMLExporter().from_notebook_node(book.save())
    assert re.search(r'<div class="rnb-static">.*refund\(order=0\)', page, re.DOTALL)
    assert "widget-view" not in page.partition('<div class="rnb-static">')[2]
