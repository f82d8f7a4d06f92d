"""What is shown: narrow and wide, light and dark, by mouse and by keys, to eyes and to screen readers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.browser.page import LOAD, Book

pytestmark = pytest.mark.browser

AXE = Path(__file__).parents[2] / ".browser" / "node_modules" / "axe-core" / "axe.min.js"
TOOLS = """import time
from resumable_nb import step, tool, track

@tool(repeatable=True)
def fetch(page: int, *, token: str = "s3cr3t") -> dict:
    return {"page": page, "rows": list(range(page % 7))}

@tool
def refund(order: int) -> None:
    pass

@tool(compensate=refund, retries=2, retry_on=ConnectionError, backoff=0.01)
def charge(order: int) -> int:
    if order == 3 and not tried:
        tried.append(1)
        raise ConnectionError("the line broke")
    return order * 10

@tool
def ship(order: int) -> str:
    raise ValueError(f"no address for {order}")

tried = []"""
RUN = [
    "%%resumable pages\npages = [fetch(n) for n in track(range(60), 'pages')]\nprint('fetched', len(pages))",
    "%%resumable orders\nwith step('charge'):\n    paid = [charge(n) for n in range(8)]\n"
    "try:\n    ship(7)\nexcept ValueError as error:\n    print(error)\npaid",
]
HOSTILE = """from resumable_nb import tool
bad = [
    "<img src=x onerror='window.hurt=1'>", "</textarea><script>window.hurt=1</script>",
    "\\x1b[31mred\\x1b[0m \\x1b]8;;http://evil.example\\x07link", "\\u202egnp.exe", "zero\\u200bwidth",
    "x" * 10_000_000, "\\ud800 half", "' onfocus='window.hurt=1' autofocus='", "{{7*7}} ${7*7}", "&lt;b&gt;",
]

@tool(name="<svg onload='window.hurt=1'>")
def tool_of_evil(text: str) -> str:
    if text == "raise":
        raise ValueError("<script>window.hurt=1</script>")
    return text"""
EVIL = """%%resumable '<b onclick=window.hurt=1>bold</b>'
kept = [tool_of_evil(each) for each in bad]
print(*bad[:5])
len(kept)"""
WORSE = "%%resumable <script>window.hurt=1</script>\ntool_of_evil('raise')"


STICKS_OUT = """panel => [...panel.querySelectorAll('*')].filter(each => each.scrollWidth > each.clientWidth + 1
    && getComputedStyle(each).overflowX === 'visible' && each.clientWidth > 0).length"""


def faults(book: Book, *, within: str) -> list[Any]:
    """What axe-core finds that is serious."""
    if not book.page.evaluate("() => 'axe' in window"):
        book.page.evaluate(f"(() => {{ const define = undefined, module = undefined; {AXE.read_text()} }})()")
    found = book.page.evaluate("(within) => axe.run(within)", within)
    return [
        (each["id"], each["help"], [node["html"][:200] for node in each["nodes"]])
        for each in found["violations"]
        if each["impact"] in ("serious", "critical")
    ]


def theme(book: Book, name: str) -> None:
    book.page.get_by_role("menuitem", name="Settings", exact=True).click()
    book.page.locator(".lm-Menu-itemLabel:visible", has_text="Theme").first.hover()
    book.page.locator(".lm-Menu-itemLabel:visible", has_text=name).first.click()
    expect(book.page.locator("body")).to_have_attribute("data-jp-theme-name", name)


def test_history_details_and_looks(open_book: Callable[..., Book]) -> None:
    book = open_book([LOAD, "%resumable", TOOLS, *RUN])
    book.run_all()
    book.ran(4)
    expect(book.step("orders")).to_contain_text("done")

    # History: searched, filtered, sorted, a page at a time.
    book.button("History").click()
    rows = book.panel.locator(".rnb-table:visible tbody tr")
    expect(book.panel).to_contain_text("69 calls, page 1 of 4")
    expect(rows).to_have_count(20)
    assert "s3cr3t" not in book.panel.inner_text()
    book.panel.get_by_label("Search", exact=True).fill("page=41")
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text("fetch(page=41")
    book.panel.get_by_label("Search", exact=True).fill("")
    expect(rows).to_have_count(20)
    book.panel.get_by_label("Status", exact=True).select_option("failed")
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text("no address for 7")
    book.panel.get_by_label("Status", exact=True).select_option("all")
    expect(rows).to_have_count(20)
    book.panel.get_by_label("Tool", exact=True).select_option("charge")
    expect(rows).to_have_count(8)
    expect(rows.filter(has_text="charge(order=3)")).to_contain_text("2")
    book.button("As pandas code").click()
    code = book.panel.get_by_label("pandas code for this list")
    expect(code).to_have_value("from resumable_nb import task\ncalls = task().history()\n"
                               "calls = calls[(calls.tool == 'charge')]\n"
                               "calls = calls.sort_values('started', ascending=False)\ncalls")  # fmt: skip
    book.button("Copy").click()
    assert book.page.evaluate("() => navigator.clipboard.readText()") == code.input_value()
    book.button("As pandas code").click()
    book.panel.get_by_label("Tool", exact=True).select_option("all")
    book.panel.get_by_label("Sort", exact=True).select_option("most tries first")
    expect(rows.first).to_contain_text("charge(order=3)")
    book.panel.get_by_label("Sort", exact=True).select_option("newest first")
    expect(book.panel).to_contain_text("page 1 of 4")
    book.button("Next page").click()
    expect(book.panel).to_contain_text("page 2 of 4")

    # Every view, in both themes and three widths, without serious faults of accessibility.
    sizes = ((1600, "light"), (480, "light"), (480, "dark"), (1600, "dark"))
    for width, colour in sizes:
        if colour == "dark" and width == 480:
            book.page.set_viewport_size({"width": 1300, "height": 1000})
            theme(book, "JupyterLab Dark")
        book.page.set_viewport_size({"width": width, "height": 1100})
        for name in ("Timeline", "History", "Steps"):
            book.button(name).click()
            if name == "Steps":
                opener = book.panel.get_by_role("button", name="▸ orders")
                opener.click()
                expect(book.panel.locator(".rnb-detail")).to_contain_text("no address for 7")
            else:
                expect(book.panel.locator(".rnb-time:visible, .rnb-table:visible").first).to_be_visible()
            assert faults(book, within=".rnb-panel") == [], (name, width, colour)
            book.shot(f"{name} {width} {colour}")
            if name == "Steps":
                book.panel.get_by_role("button", name="▾ orders").click()
                expect(book.panel.locator(".rnb-detail")).to_have_count(0)
    wide = book.panel.evaluate(STICKS_OUT)
    assert wide == 0, "nothing sticks out"


def test_foreign_text_is_shown_as_text(open_book: Callable[..., Book]) -> None:
    book = open_book([LOAD, "%resumable", HOSTILE, EVIL, WORSE])
    book.run_all()
    book.ran(4)
    expect(book.head).to_contain_text("failed")
    book.panel.get_by_role("button", name="▸ <b onclick").click()
    expect(book.panel.locator(".rnb-detail")).to_contain_text("<img src=x onerror='window.hurt=1'>")
    for seen in ("red link", "⟨U+202E⟩gnp.exe", "zero⟨U+200B⟩width"):
        expect(book.panel.locator(".rnb-detail")).to_contain_text(seen)
    book.button("History").click()
    book.panel.get_by_label("Search", exact=True).fill("onerror")
    expect(book.panel.locator(".rnb-table:visible tbody tr")).to_have_count(1)
    expect(book.panel.locator(".rnb-table:visible tbody tr")).to_contain_text("<img src=x onerror=")
    book.button("As pandas code").click()
    book.panel.get_by_label("Search", exact=True).fill("</textarea><script>window.hurt=1</script>")
    expect(book.panel.get_by_label("pandas code for this list")).to_contain_text("</textarea>")
    book.panel.get_by_label("Search", exact=True).fill("")
    expect(book.panel.get_by_label("pandas code for this list")).not_to_contain_text("</textarea>")
    book.button("Timeline").click()
    expect(book.panel.locator(".rnb-time")).to_be_visible()
    book.shot("hostile")
    assert book.page.evaluate("() => window.hurt") is None
    assert book.panel.locator("script, img, a, svg[onload]").count() == 0
    assert len(book.panel.inner_html()) < 300_000
    saved = book.save()
    pages = "".join(output.data.get("text/html", "") for output in saved.cells[1].outputs)
    assert "<script" not in pages
    assert "&lt;script&gt;window.hurt=1" in pages, "the last state, of a moment ago"


def test_it_is_worked_by_keys_alone(open_book: Callable[..., Book]) -> None:
    book = open_book([LOAD, "%resumable", TOOLS, *RUN])
    book.run_all()
    book.ran(4)
    keyboard = book.page.keyboard
    expect(book.button("Retry failed")).to_be_enabled()
    book.button("Pause").focus()

    def to(label: str) -> None:
        for _ in range(30):
            keyboard.press("Tab")
            if book.page.evaluate("() => document.activeElement.innerText") == label:
                return
        raise AssertionError(f"{label} cannot be reached")

    # Each key waits for what the one before it has done, as people do: a click goes to the kernel and back.
    to("Retry failed")
    keyboard.press("Enter")
    expect(book.button("Cancel")).to_be_focused()
    keyboard.press("Enter")
    expect(book.button("Cancel")).to_be_hidden()
    expect(book.button("Retry failed")).to_be_focused()
    to("History")
    keyboard.press("Space")
    search = book.panel.get_by_label("Search", exact=True)
    expect(search).to_be_visible()
    expect(book.button("History")).to_be_focused()
    keyboard.press("Tab")
    keyboard.press("Tab")
    expect(search).to_be_focused()
    keyboard.type("page=5")
    expect(book.panel.locator(".rnb-table:visible tbody tr")).to_have_count(11)
    book.button("History").focus()
    keyboard.press("Shift+Tab")
    expect(book.button("Steps")).to_be_focused()
    keyboard.press("Enter")
    expect(search).to_be_hidden()
    keyboard.press("Tab")
    keyboard.press("Tab")
    keyboard.press("Tab")
    expect(book.button("▸ pages")).to_be_focused()
    keyboard.press("Enter")
    expect(book.button("▾ pages")).to_be_focused()
    expect(book.panel.locator(".rnb-detail")).to_be_visible()
    to("Rerun step")
    keyboard.press("Enter")
    expect(book.button("Cancel")).to_be_focused()
    keyboard.press("Shift+Tab")
    expect(book.button("Yes: rerun")).to_be_focused()
    keyboard.press("Enter")
    expect(book.panel.get_by_role("status")).to_contain_text("runs again the next time")
    expect(book.page.locator(".jp-Notebook .jp-Cell")).to_have_count(5)
