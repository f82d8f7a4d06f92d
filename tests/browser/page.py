"""A notebook in a browser, worked at by clicks and keys. Works for JupyterLab 4 and Notebook 7 alike."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import nbformat
from playwright.sync_api import Locator, Page, Route, expect

from tests.browser.server import Server

LOAD = "%load_ext resumable_nb"
KERNELS = ("latest", "ipykernel-7.3.0", "ipykernel-6.31.0")
SHOTS = Path(__file__).parent / "shots"
WAIT_MS = 90_000
"""A slow machine is no fault."""
expect.set_options(timeout=WAIT_MS)


def write(path: Path, cells: list[str], kernel: str) -> None:
    book = nbformat.v4.new_notebook()  # type: ignore[no-untyped-call]  # nbformat has no types
    book.metadata["kernelspec"] = {"name": kernel, "display_name": kernel, "language": "python"}
    book.cells = [nbformat.v4.new_code_cell(cell) for cell in cells]  # type: ignore[no-untyped-call]  # nbformat has no types
    nbformat.write(book, path)  # type: ignore[no-untyped-call]  # nbformat has no types


MANAGER = Path(sys.prefix) / "share/jupyter/labextensions/@jupyter-widgets/jupyterlab-manager/static"


def _is_model_code(url: str) -> bool:
    path = MANAGER / url.partition("?")[0].rpartition("/")[2]
    return "jupyterlab-manager/static" in url and "HTMLModel:()=>" in path.read_text()


class Book:
    """One open notebook."""

    def __init__(self, page: Page, server: Server, name: str, *, app: str = "lab") -> None:
        self.page, self.server, self.name, self.app = page, server, name, app
        self.open()

    def open(self, *, fresh: bool = True) -> None:
        """Load the page. ``fresh``: not as it was left, but as it was saved."""
        place = f"doc/tree/{self.name}" if self.app == "lab" else f"notebooks/{self.name}"
        self.page.goto(f"{self.server.url}/{place}?token={self.server.token}{'&reset' if fresh else ''}")
        self.page.locator(".jp-Notebook .jp-CodeCell").first.wait_for(timeout=WAIT_MS)
        self.until(self._connected)

    def _connected(self) -> bool:
        """Whether the page has its kernel: one that has none yet asks for it when a cell is run."""
        found = [each["kernel"] for each in self.server.ask("/api/sessions") if each["path"] == self.name]
        return bool(found) and found[0]["connections"] > 0 and found[0]["execution_state"] != "starting"

    # --- what a user does

    def menu(self, top: str, item: str) -> None:
        self.page.locator(".lm-MenuBar-item", has_text=re.compile(f"^{top}$")).click()
        self.page.locator(".lm-Menu-itemLabel:visible", has_text=re.compile(f"^{item}$")).first.click()

    def run_all(self) -> None:
        self.menu("Run", "Run All Cells")

    def run_cell(self, index: int) -> None:
        self.cell(index).locator(".jp-InputArea-editor").click()
        self.page.keyboard.press("Control+Enter")

    def interrupt(self) -> None:
        """The toolbar's stop button."""
        self.page.locator('[data-jp-item-name="interrupt"]').first.click()

    def restart(self) -> None:
        self.menu("Kernel", "Restart Kernel…")
        self.page.locator(".jp-Dialog .jp-mod-accept").click()

    def save(self) -> Any:
        """Save, and read what was saved."""
        path = self.server.folder / self.name
        before = path.stat().st_mtime_ns
        self.page.locator('[data-jp-item-name="save"]').first.click()
        self.until(lambda: path.stat().st_mtime_ns != before and path.read_bytes().endswith(b"}\n"))
        return nbformat.read(path, 4)  # type: ignore[no-untyped-call]  # nbformat has no types

    def kill(self) -> None:
        """SIGKILL the kernel's process; returns when the server has started another one."""
        before = self.pid()
        os.kill(before, signal.SIGKILL)
        self.page.locator(".jp-Dialog .jp-mod-accept").click()
        self.until(lambda: self.pid() not in (0, before))

    def pid(self) -> int:
        """The kernel's process: the one whose connection file has the kernel's id."""
        kernel = self.server.kernel(self.name)["id"]
        for each in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                words = each.read_bytes()
            except OSError:
                continue
            if kernel.encode() in words and b"ipykernel_launcher" in words:
                return int(each.parent.name)
        return 0

    @contextlib.contextmanager
    def late_widgets(self) -> Iterator[Callable[[], bool]]:
        """The page gets the code of the widgets' models at the block's end: till then it drops what the kernel sends.

        Yields whether it waits for that code, which it fetches when it has been told what to show.
        """
        waiting: list[Route] = []
        self.page.route(_is_model_code, lambda route: waiting.append(route))  # Playwright marks what it is given
        yield lambda: bool(waiting)
        for route in waiting:
            route.continue_()
        self.page.unroute(_is_model_code)

    # --- what is seen

    def cell(self, index: int) -> Locator:
        return self.page.locator(".jp-Notebook .jp-Cell").nth(index)

    def output(self, index: int) -> Locator:
        return self.cell(index).locator(".jp-OutputArea").first

    def prompt(self, index: int) -> Locator:
        return self.cell(index).locator(".jp-InputPrompt").first

    def ran(self, index: int, count: int | None = None) -> None:
        """Wait until the cell has ended."""
        expect(self.prompt(index)).to_have_text(re.compile(rf"\[{count or r'[0-9]+'}\]"))

    def runs(self, index: int) -> None:
        """The cell is at work, or waits for its turn."""
        expect(self.prompt(index)).to_have_text("[*]:")

    @property
    def folder(self) -> Path:
        return (self.server.folder / self.name).parent

    @property
    def head(self) -> Locator:
        return self.panel.locator(".rnb-head")

    @property
    def panel(self) -> Locator:
        return self.page.locator(".rnb-panel")

    def button(self, label: str) -> Locator:
        return self.panel.get_by_role("button", name=label, exact=True)

    def step(self, name: str) -> Locator:
        """The row of a step."""
        return self.panel.locator(
            ".rnb-row:visible", has=self.page.get_by_role("button", name=re.compile(rf"[▸▾] {name}$"))
        )

    def until(self, condition: Any, seconds: float = WAIT_MS / 1000) -> None:
        for _ in range(int(seconds * 20)):
            if condition():
                return
            self.page.wait_for_timeout(50)
        raise AssertionError("it did not come to that")

    def shot(self, name: str) -> None:
        """A picture for people's eyes."""
        SHOTS.mkdir(exist_ok=True)
        self.page.screenshot(path=str(SHOTS / f"{name}.png"))
