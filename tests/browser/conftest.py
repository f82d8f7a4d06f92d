"""One server, one browser, for all these tests; a page and its own folder of the server for each.

They end with the package: while Playwright lives, this thread has a running event loop.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, Page, sync_playwright

from tests.browser.page import KERNELS, WAIT_MS, Book, write
from tests.browser.server import Server, serving

ROOT = Path(__file__).parents[2]
OVERLAYS = ROOT / ".browser"
ARGUMENTS = [
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip


@pytest.fixture(scope="package")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    home = tmp_path_factory.mktemp("home")
    here = {"RESUMABLE_KEY_FILE": str(home / "key"), "PYTHONDONTWRITEBYTECODE": "1"}
    specs = {"latest": {**here, "PYTHONPATH": str(ROOT)}}
    specs |= {name: {**here, "PYTHONPATH": f"{OVERLAYS / name}:{ROOT}"} for name in KERNELS[1:]}
    with serving(tmp_path_factory.mktemp("books"), home, specs) as served:
        yield served


@pytest.fixture(scope="package")
def chromium() -> Iterator[BrowserContext]:
    with tempfile.TemporaryDirectory() as profile, sync_playwright() as playwright:
        context = playwright.chromium.launch_persistent_context(
            profile, executable_path="/usr/bin/chromium", args=ARGUMENTS, viewport={"width": 1300, "height": 1000}
        )
        context.grant_permissions(["clipboard-read", "clipboard-write"])
        yield context
        context.close()


@pytest.fixture
def page(chromium: BrowserContext) -> Iterator[Page]:
    page = chromium.new_page()
    page.set_default_timeout(WAIT_MS)
    page.set_viewport_size({"width": 1300, "height": 1000})
    yield page
    page.close()


@pytest.fixture
def open_book(server: Server, page: Page, request: pytest.FixtureRequest) -> Iterator[Callable[..., Book]]:
    """Write a notebook into a folder of its own, and open it. The page must say nothing wrong on its console."""
    books: list[Book] = []
    faults: list[str] = []

    def make(cells: list[str], *, kernel: str = "latest", app: str = "lab") -> Book:
        folder = Path(tempfile.mkdtemp(dir=server.folder))
        write(folder / "nightly.ipynb", cells, kernel)
        books.append(Book(page, server, f"{folder.name}/nightly.ipynb", app=app))
        # Not before: Notebook 7 stumbles over its own settings when it starts.
        page.on("console", lambda said: faults.append(said.text) if said.type == "error" else None)
        page.on("pageerror", lambda error: faults.append(str(error)))
        return books[-1]

    yield make
    for book in books:
        book.shot(f"end of {request.node.name}")
    assert faults == []
    for book in books:
        page.goto("about:blank")
        for session in server.ask("/api/sessions"):
            if session["path"] == book.name:
                server.ask(f"/api/sessions/{session['id']}", "DELETE")
