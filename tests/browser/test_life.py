"""A long run, watched and steered in a browser: paused, stopped, killed, and finished with every effect once."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.browser.page import KERNELS, LOAD, Book

pytestmark = pytest.mark.browser

TOOLS = """import time
from pathlib import Path
from resumable_nb import tool, track
ledger = Path("ledger.txt")

@tool
def charge(order: int) -> int:
    with ledger.open("a") as book:
        book.write(f"{order}\\n")
    while Path(f"hold-{order}").exists():
        time.sleep(0.02)
    time.sleep(0.03)
    return order * 10"""
FETCH = "%%resumable fetch\nimport random\nprices = [random.uniform(1, 2) for _ in range(5)]\nprint('fetched', *prices)"
PAY = """%%resumable pay
paid = 0
for order in track(range(60), "orders"):
    paid += charge(order)
paid"""
SUM = "print('total', paid, round(prices[0], 6))"


def orders(book: Book) -> list[int]:
    path = book.folder / "ledger.txt"
    return [int(each) for each in path.read_text().split()] if path.exists() else []


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_run_is_paused_stopped_killed_and_finished(open_book: Callable[..., Book], kernel: str) -> None:
    book = open_book([LOAD, "%resumable", TOOLS, FETCH, PAY, SUM], kernel=kernel)
    holds = [book.folder / f"hold-{order}" for order in (10, 20, 45)]
    for each in holds:
        each.touch()

    def pause_at(hold: Path) -> None:
        """Clicked while that order is on its way, so that it cannot come too late."""
        book.until(lambda: int(hold.name[5:]) in orders(book))
        book.button("Pause").click()
        hold.unlink()
        expect(book.head).to_contain_text("paused")

    book.run_all()
    book.runs(4)
    pause_at(holds[0])
    book.runs(4)
    book.runs(5)
    paused_at = len(orders(book))
    book.page.wait_for_timeout(400)
    assert len(orders(book)) == paused_at < 45, "nothing goes on while it is paused"
    book.until(lambda: book.server.kernel(book.name)["execution_state"] == "busy")  # an idle one may be culled
    book.shot(f"paused {kernel}")

    book.button("Resume").click()
    expect(book.head).to_contain_text("running")
    pause_at(holds[1])
    book.interrupt()  # the toolbar's stop button, between two calls: nothing is in doubt
    book.ran(4)
    expect(book.output(4)).to_contain_text("Stopped: stopped by an interrupt")
    expect(book.prompt(5)).to_have_text("[ ]:")

    book.run_all()
    book.until(lambda: 45 in orders(book))
    expect(book.step("pay")).to_contain_text("orders: 45 of 60")
    book.kill()
    expect(book.panel).to_be_hidden()
    copy = book.output(1).locator(".rnb-static")
    expect(copy).to_contain_text("Run %resumable for the living panel")
    holds[2].unlink()

    book.run_all()
    book.ran(4)
    expect(book.output(3)).to_contain_text("fetch: restored")
    expect(book.output(3)).to_contain_text("fetched 1.")
    expect(book.output(4)).to_contain_text("InDoubt")
    doubt = book.panel.locator(".rnb-doubt:visible")
    expect(doubt).to_contain_text("charge(order=45)")
    expect(book.step("pay")).to_contain_text("say so above")
    expect(doubt.get_by_role("button", name="Ask the tool")).to_be_hidden()  # nobody can be asked
    doubt.scroll_into_view_if_needed()
    book.shot(f"in doubt {kernel}")
    doubt.get_by_label("Result").fill("450")
    doubt.get_by_role("button", name="It happened").click()
    expect(book.panel.get_by_role("alert")).to_contain_text("charge(order=45) happened, with the result 450?")
    book.button("Yes: it happened").click()
    expect(doubt).to_have_count(0)
    expect(book.panel.get_by_role("status")).to_contain_text("recorded as happened")

    book.run_all()
    book.ran(5)
    expect(book.output(5)).to_contain_text(re.compile(rf"total {sum(range(60)) * 10} 1\.\d+"))
    expect(book.step("fetch")).to_contain_text("restored")
    expect(book.step("pay")).to_contain_text("done")
    assert orders(book) == list(range(60)), "every order once"
    book.shot(f"finished {kernel}")
