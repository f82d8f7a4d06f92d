"""Headless runs, with real kernels that really die."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path

import nbformat
import psutil
import pytest
import zmq
import zmq.asyncio
from jupyter_client.session import Session
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from resumable_nb.errors import UsageError
from resumable_nb.supervisor import ReplyChannel, Report, run_notebook

pytestmark = pytest.mark.kernel

DIE = "import os, signal, pathlib\nwhile not pathlib.Path('enough').exists():\n    os.kill(os.getpid(), signal.SIGKILL)"


def write(folder: Path, *sources: str) -> Path:
    path = folder / "work.ipynb"
    nbformat.write(new_notebook(cells=[new_markdown_cell("# Work"), *map(new_code_cell, sources)]), path)
    return path


def texts(report: Report) -> list[str]:
    outputs = [output for cell in report.notebook.cells for output in cell.get("outputs", ())]
    return [output["text"] for output in outputs if "text" in output]


def assert_gone(report: Report) -> None:
    assert report.pids
    assert not any(psutil.pid_exists(pid) for pid in report.pids)


def test_completed_run_knows_the_notebook_and_leaves_no_kernel(tmp_path: Path) -> None:
    told: list[int] = []
    path = write(
        tmp_path,
        "import os\nprint(os.getpid(), os.environ['JPY_SESSION_NAME'], os.getcwd(), os.environ['COLOUR'])",
        "1 + 1",
    )
    report = run_notebook(path, env={"COLOUR": "red"}, on_kernel=told.append, output=tmp_path / "done.ipynb")
    assert report.status == "completed"
    assert (report.error, report.restarts, list(report.pids)) == (None, 0, told)
    assert texts(report)[0].split() == [str(told[0]), str(path), str(tmp_path), "red"]
    assert nbformat.read(tmp_path / "done.ipynb", 4).cells[2].outputs[0].data["text/plain"] == "2"
    assert sorted(each.name for each in tmp_path.iterdir()) == ["done.ipynb", "work.ipynb"]
    assert_gone(report)


def test_dead_kernel_is_replaced_and_all_cells_run_again(tmp_path: Path) -> None:
    """The first two kernels kill themselves in the second cell."""
    write(
        tmp_path,
        "from pathlib import Path\nlog = Path('log'); log.write_text((log.read_text() if log.exists() else '') + 'x')",
        "if len(log.read_text()) > 2: Path('enough').touch()\n" + DIE,
        "print('end')",
    )
    report = run_notebook(tmp_path / "work.ipynb")
    assert (report.status, report.restarts, (tmp_path / "log").read_text()) == ("completed", 2, "xxx")
    assert texts(report) == ["end\n"]
    assert len(set(report.pids)) == 3
    assert_gone(report)


def test_kernel_that_always_dies_is_given_up(tmp_path: Path) -> None:
    die = "import os, sys\nos.write(sys.__stderr__.fileno(), b'out of luck')\nos.kill(os.getpid(), 9)"
    report = run_notebook(write(tmp_path, "print('begun')", die), max_restarts=1, output=tmp_path / "work.ipynb")
    assert (report.status, report.restarts, texts(report)) == ("dead", 1, ["begun\n"])
    assert report.last_words == "out of luck"
    assert nbformat.read(tmp_path / "work.ipynb", 4).cells[1].outputs[0].text == "begun\n"
    assert_gone(report)


def test_death_is_noticed_in_a_cell_that_would_never_end(tmp_path: Path) -> None:
    """Killed from outside, without a word, while it blocks; the second kernel finds the file that lets it pass."""

    def kill_first(pid: int) -> None:
        if not seen:
            threading.Thread(target=when, args=(tmp_path / "blocked", lambda: os.kill(pid, signal.SIGKILL))).start()
        seen.append(pid)

    seen: list[int] = []
    write(
        tmp_path,
        "import os, time\nfrom pathlib import Path\n"
        "if not Path('blocked').exists():\n    Path('blocked').touch()\n    time.sleep(10_000)",
    )
    report = run_notebook(tmp_path / "work.ipynb", on_kernel=kill_first)
    assert (report.status, list(report.pids)) == ("completed", seen)
    assert report.restarts == 1
    assert_gone(report)


def when(path: Path, act: Callable[[], None]) -> None:
    """Act as soon as the file is there."""
    pause = threading.Event()
    while not path.exists():
        pause.wait(0.01)
    act()


def test_raising_cell_ends_the_run_and_is_named(tmp_path: Path) -> None:
    path = write(tmp_path, "print('before')", "{}['gone']", "print('after')")
    report = run_notebook(path)
    assert report.status == "failed"
    assert report.error is not None
    assert (report.error.cell, report.error.name, report.error.value) == (3, "KeyError", "'gone'")
    assert texts(report)[0] == "before\n"
    assert "after\n" not in texts(report)
    assert_gone(report)


def test_what_is_no_notebook_is_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "text.ipynb").write_text("hello")
    (tmp_path / "list.ipynb").write_text("[]")
    for name in ("absent.ipynb", "text.ipynb", "list.ipynb"):
        with pytest.raises(UsageError, match=name) as caught:
            run_notebook(tmp_path / name)
        assert "\n" not in str(caught.value)


def test_missing_kernel_is_named(tmp_path: Path) -> None:
    path = write(tmp_path, "1")
    notebook = nbformat.read(path, 4)
    notebook.metadata["kernelspec"] = {"name": "cobol", "display_name": "COBOL", "language": "cobol"}
    nbformat.write(notebook, path)
    with pytest.raises(UsageError, match="'cobol'"):
        run_notebook(path)


def test_a_preempted_kernel_is_replaced(tmp_path: Path) -> None:
    """SIGTERM ends the first kernel in good order, with an error reply; the second one goes on."""
    path = write(
        tmp_path,
        "%load_ext resumable_nb",
        "%%resumable a\nimport os, pathlib, signal, time\nwith open('log', 'a') as log: log.write('x')\n"
        "if pathlib.Path('log').read_text() == 'x':\n    os.kill(os.getpid(), signal.SIGTERM)\n    time.sleep(60)",
    )
    report = run_notebook(path)
    assert (report.status, report.restarts) == ("completed", 1)
    assert (tmp_path / "log").read_text() == "xx"
    assert_gone(report)


async def test_reply_that_comes_while_something_is_sent_is_seen() -> None:
    """What is sent to ``Output`` widgets goes past the event loop, and takes the sign that a reply is there with it."""
    session = Session(key=b"")
    with (
        zmq.Context() as there,
        zmq.asyncio.Context() as here,
        there.socket(zmq.ROUTER) as kernel,
        here.socket(zmq.DEALER) as client,
    ):
        client.connect(f"tcp://127.0.0.1:{kernel.bind_to_random_port('tcp://127.0.0.1')}")
        channel = ReplyChannel(client, session)
        channel.send(session.msg("execute_request"))
        name = kernel.recv_multipart()[0]
        reply = asyncio.ensure_future(channel.get_msg())
        await asyncio.sleep(0)
        session.send(kernel, "execute_reply", ident=name)
        assert zmq.Socket.shadow(client.underlying).poll(30_000)
        assert (await asyncio.wait_for(reply, 30))["header"]["msg_type"] == "execute_reply"
