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
