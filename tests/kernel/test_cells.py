"""Cells in real Jupyter kernels: what a front end sees."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import nbformat
import pytest
from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import KernelManager

from resumable_nb.supervisor import Report, run_notebook
from tests.kernels import LOAD

pytestmark = pytest.mark.kernel

TIMEOUT_S = 60

LISTEN = """
heard = []
def opened(comm, message):
    comm.on_msg(lambda message: heard.append(len(globals()["unusual_" + "name"])))
get_ipython().kernel.comm_manager.register_target("widget", opened)
"""


@dataclass
class Reply:
    """A cell's reply, and the messages that it published."""

    status: str
    name: str
    messages: list[dict[str, Any]] = field(default_factory=list)

    def of(self, kind: str) -> list[Any]:
        return [each["content"] for each in self.messages if each["msg_type"] == kind]

    @property
    def text(self) -> str:
        return "".join(each["text"] for each in self.of("stream"))


class Client:
    """One kernel and a front end for it."""

    def __init__(self, manager: KernelManager, client: BlockingKernelClient) -> None:
        self.manager, self.client = manager, client
        self.pid: int = manager.provisioner.pid  # type: ignore[union-attr]  # it runs

    def __call__(self, cell: str) -> Reply:
        messages: list[dict[str, Any]] = []
        reply = self.client.execute_interactive(
            cell, timeout=TIMEOUT_S, output_hook=messages.append, stop_on_error=True
        )
        return Reply(reply["content"]["status"], reply["content"].get("ename", ""), messages)


@contextlib.contextmanager
def kernel(folder: Path) -> Iterator[Client]:
    manager = KernelManager(kernel_name="python3")
    env = {**os.environ, "JPY_SESSION_NAME": str(folder / "book.ipynb")}
    manager.start_kernel(cwd=str(folder), env=env)
    client = manager.blocking_client()
    client.start_channels()
    try:
        client.wait_for_ready(timeout=TIMEOUT_S)
        yield Client(manager, client)
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
        manager.cleanup_resources()


def run_all(folder: Path, *cells: str) -> Report:
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in (LOAD, *cells)])
    path = folder / "book.ipynb"
    nbformat.write(notebook, path)
    return run_notebook(path, max_restarts=0)


def outputs(report: Report, cell: int) -> list[dict[str, Any]]:
    assert report.error is None, report.error
    return [
        {key: value for key, value in output.items() if key != "execution_count"}
        for output in report.notebook.cells[cell].outputs
        if "resumable_nb" not in output.get("metadata", {})
    ]


def test_run_all_in_a_new_kernel_shows_and_leaves_the_same(tmp_path: Path) -> None:
    cells = [
        "import random, numpy as np\ndef tool():\n    open('ran', 'a').write('.')",
        """%%resumable first
import sys
tool()
print("out"); print("err", file=sys.stderr)
random.seed(1); np.random.seed(1)
rows, scratch = [1, 2], 3
same = rows
big = np.arange(100_000.0)
{"last": [3]}
""",
        """%%resumable second
tool()
del scratch
rows.append(random.random())
view = big[10:20]
view[0] = -1
from IPython.display import HTML, display
display(HTML("<b>bold</b>"))
await __import__("asyncio").sleep(0, np.random.random())
""",
        """
checks = [same is rows, len(rows), view.base is not None and np.shares_memory(view, big), float(big[10]),
          "scratch" in globals(), random.random(), np.random.random(), Out[3], rows]
checks
""",
    ]
    first = run_all(tmp_path, *cells)
    second = run_all(tmp_path, *cells)
    assert (tmp_path / "ran").read_text() == ".."
    for cell in range(1, 5):
        assert outputs(second, cell) == outputs(first, cell)
    assert outputs(second, 4)[0]["data"]["text/plain"].startswith("[True,\n 3,\n True,\n -1.0,\n False,")


def test_figure_is_recorded_and_shown_again(tmp_path: Path) -> None:
    cells = ["%matplotlib inline\nimport matplotlib.pyplot as plt", "%%resumable a\nplt.plot([1, 2]);"]
    first, second = run_all(tmp_path, *cells), run_all(tmp_path, *cells)
    (figure,) = outputs(first, 2)
    assert "image/png" in figure["data"]
    assert outputs(second, 2) == [figure]


def test_failing_step_stops_run_all_and_is_continued(tmp_path: Path) -> None:
    cells = ["import os", "%%resumable a\nx = 1\nif not os.path.exists('go'):\n    1 / 0", "open('after', 'w').close()"]
    report = run_all(tmp_path, *cells)
    assert report.error is not None
    assert (report.error.cell, report.error.name) == (3, "ZeroDivisionError")
    assert "resumable_nb" not in report.error.traceback
    assert not (tmp_path / "after").exists()
    (tmp_path / "go").touch()
    assert run_all(tmp_path, *cells).error is None
    assert (tmp_path / "after").exists()


def test_error_of_the_commit_fails_the_cell(tmp_path: Path) -> None:
    """The reply is an error in one line, so that a front end stops Run All; later the step just runs again."""
    limit = "import os, resource\nresource.setrlimit(resource.RLIMIT_FSIZE, ({}, resource.RLIM_INFINITY))"
    step = "%%resumable a\nx = os.urandom(1_000_000)"
    with kernel(tmp_path) as ask:
        for cell in (LOAD, "%%resumable small\ny = 1", limit.format(400_000)):
            assert ask(cell).status == "ok"
        reply = ask(step)
        assert (reply.status, reply.name) == ("error", "StoreUnavailable")
        (error,) = reply.of("error")
        assert len(error["traceback"]) == 1
        assert ask(limit.format(-1)).status == "ok"
        assert ask(step).status == "ok"
        assert ask("assert len(x) == 1_000_000 and y == 1").status == "ok"


@pytest.mark.parametrize(
    "wait", ["import time; time.sleep(60)", "for _ in range(600): await __import__('asyncio').sleep(0.1)"]
)
def test_stop_button(tmp_path: Path, wait: str) -> None:
    step = f"%%resumable a\nprint('begun', flush=True)\nif not __import__('os').path.exists('go'):\n    {wait}\nx = 1"
    with kernel(tmp_path) as ask:
        assert ask(LOAD).status == "ok"
        begun = threading.Event()

        def stop() -> None:
            begun.wait(TIMEOUT_S)
            os.kill(ask.pid, signal.SIGINT)

        thread = threading.Thread(target=stop)
        thread.start()

        def hook(message: dict[str, Any]) -> None:
            if "begun" in message["content"].get("text", ""):
                begun.set()

        reply = ask.client.execute_interactive(step, timeout=TIMEOUT_S, output_hook=hook)
        thread.join()
        assert reply["content"]["status"] == "error"
        (tmp_path / "go").touch()
        again = ask(step)
        assert again.status == "ok"
        assert again.of("display_data")[0]["data"]["text/plain"].startswith("↻ a: continued after ")


def test_second_kernel_is_refused_until_the_first_is_killed(tmp_path: Path) -> None:
    step = "%%resumable a\nx = 1"
    with kernel(tmp_path) as first, kernel(tmp_path) as second:
        for ask in (first, second):
            assert ask(LOAD).status == "ok"
        assert first(step).status == "ok"
        reply = second(step)
        assert reply.name == "TaskBusy"
        assert f"pid {first.pid} " in reply.of("error")[0]["evalue"]
        os.kill(first.pid, signal.SIGKILL)
        first.manager.provisioner.process.wait()  # type: ignore[union-attr]  # it is a local one
        reply = second(step)
        assert reply.status == "ok", reply.of("error")
        assert "✓ a: restored 1 variable" in reply.of("display_data")[0]["data"]["text/plain"]


def test_progress_is_one_display_updated_at_most_four_times_a_second(tmp_path: Path) -> None:
    with kernel(tmp_path) as ask:
        assert ask(f"{LOAD}\nimport time\nfrom resumable_nb import track").status == "ok"
        reply = ask("began = time.monotonic()\nfor n in track(range(120), 'pages'):\n    time.sleep(0.01)")
        took = ask("print(time.monotonic() - began)").text
        (shown,) = reply.of("display_data")
        updates = reply.of("update_display_data")
        assert {each["transient"]["display_id"] for each in [shown, *updates]} == {shown["transient"]["display_id"]}
        assert 2 <= len(updates) <= float(took) * 4 + 1
        assert "120/120" in updates[-1]["data"]["text/plain"]


def test_inspection_and_completion_of_pending_names(tmp_path: Path) -> None:
    """What a front end asks outside of cells finds restored names."""
    step = "%%resumable a\nunusual_name = [1, 2, 3]\ndef unusual_function():\n    'What it does.'"
    with kernel(tmp_path) as ask:
        assert [ask(LOAD).status, ask(step).status] == ["ok", "ok"]
    with kernel(tmp_path) as ask:
        assert [ask(LOAD).status, ask(step).status] == ["ok", "ok"]
        found = ask.client.complete("unusual_", reply=True, timeout=TIMEOUT_S)["content"]["matches"]
        assert found == ["unusual_function", "unusual_name"]
        answer = ask.client.inspect("unusual_function", reply=True, timeout=TIMEOUT_S)["content"]
        assert "What it does." in answer["data"]["text/plain"]
        reply = ask.client.execute("", user_expressions={"n": "len(unusual_name)"}, reply=True, timeout=TIMEOUT_S)
        assert reply["content"]["user_expressions"]["n"]["data"]["text/plain"] == "3"
    with kernel(tmp_path) as ask:  # a widget's message, between cells: nothing but its callback names the variable
        assert [ask(LOAD).status, ask(LISTEN).status, ask(step).status] == ["ok"] * 3
        session, channel = ask.client.session, ask.client.shell_channel
        channel.send(session.msg("comm_open", {"comm_id": "c", "target_name": "widget", "data": {}}))
        channel.send(session.msg("comm_msg", {"comm_id": "c", "data": {}}))
        assert ask("print(heard)").text == "[3]\n"
    with kernel(tmp_path) as ask:
        assert [ask(LOAD).status, ask(step).status] == ["ok", "ok"]
        reply = ask.client.execute("len(unusual_name)", silent=True, reply=True, timeout=TIMEOUT_S)
        assert reply["content"]["status"] == "ok"
