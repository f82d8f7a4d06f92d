"""Pause, stop, SIGINT and SIGTERM in real kernels, seen from the front end and from another process."""

from __future__ import annotations

import contextlib
import io
import os
import signal
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from resumable_nb.cli.command import run
from resumable_nb.session import opened
from resumable_nb.task import Task
from tests.kernel.test_cells import TIMEOUT_S, Client, Reply, kernel
from tests.kernels import LOAD

pytestmark = pytest.mark.kernel

TOOLS = """
import asyncio, os, time
from resumable_nb import tool, track
def note(text):
    with open("ledger", "a") as file:
        file.write(text + "\\n")
        file.flush(); os.fsync(file.fileno())
@tool
def charge(n):
    note(f"charge {n}")
    return n
@tool
async def order(n):
    note(f"order {n}")
    await asyncio.sleep(0)
    return n
@tool
def slow(n):
    note(f"slow {n}")
    print("in flight", flush=True)
    time.sleep(600)
"""
SYNC = """%%resumable pay
print("begun", flush=True)
done = []
for n in range(10**9):
    done.append(charge(min(n, 3)))
    time.sleep(0.001)
    if os.path.exists("enough"):
        break
"""
ASYNC = """%%resumable pay
print("begun", flush=True)
done = []
for n in range(10**9):
    done += await asyncio.gather(order(min(n, 3)), order(10 + min(n, 3)))
    await asyncio.sleep(0.001)
    if os.path.exists("enough"):
        break
"""
CPU = """%%resumable pay
print("begun", flush=True)
x = 0
for n in track(range(10**9), "sums", keep=["x"], every=10**8):
    x += sum(range(1000))
    if os.path.exists("enough"):
        break
"""


class Cell:
    """A cell that runs; its messages are read as they come."""

    def __init__(self, client: Client, text: str) -> None:
        self._client = client
        self._id = client.client.execute(text, stop_on_error=True)
        self.messages: list[dict[str, Any]] = []

    def until(self, text: str) -> None:
        """Return when it has shown this text."""
        while text not in self._read():
            pass

    def reply(self) -> Reply:
        """Wait for its end."""
        while True:
            answer = self._client.client.get_shell_msg(timeout=TIMEOUT_S)
            if answer["parent_header"].get("msg_id") == self._id:
                break
        while self._read() != "idle":
            pass
        content = answer["content"]
        return Reply(content["status"], content.get("ename", ""), self.messages)

    def _read(self) -> str:
        while True:
            message = self._client.client.get_iopub_msg(timeout=TIMEOUT_S)
            if message["parent_header"].get("msg_id") == self._id:
                break
        self.messages.append(message)
        content = message["content"]
        return str(content.get("text") or content.get("data", {}).get("text/plain") or content.get("execution_state"))


def traceback(reply: Reply) -> list[str]:
    """The error as it was shown, by lines."""
    (error,) = reply.of("error")
    return "\n".join(error["traceback"]).splitlines()


class Book:
    """A task of its own in a kernel, and how it looks from this process, which is another one."""

    def __init__(self, client: Client, folder: Path, name: str) -> None:
        self.client, self.folder, self.name = client, folder, name

    def command(self, *words: str) -> str:
        """``resumable`` on this task."""
        shown = io.StringIO()
        with contextlib.redirect_stdout(shown):
            assert run([*words, str(self.folder / ".resumable" / self.name)]) == 0
        return shown.getvalue().strip()

    def ledger(self) -> list[str]:
        return (self.folder / "ledger").read_text().splitlines()

    def start(self, text: str) -> Cell:
        return Cell(self.client, text)

    def status(self) -> str:
        with opened(self.name, self.folder / ".resumable", live={}) as session:
            return Task(session).status


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Client, Path]]:
    """One kernel for the tests that leave it alive."""
    folder = tmp_path_factory.mktemp("shared")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RESUMABLE_KEY_FILE", str(folder / "key"))
        with kernel(folder) as made:
            assert made(f"{LOAD}\n{TOOLS}").status == "ok"
            yield made, folder


@pytest.fixture
def book(shared: tuple[Client, Path], request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Book:
    client, folder = shared
    monkeypatch.setenv("RESUMABLE_KEY_FILE", str(folder / "key"))
    for left in ("ledger", "enough"):
        (folder / left).unlink(missing_ok=True)
    name = f"t{abs(zlib.crc32(request.node.name.encode()))}"
    assert client(f"%resumable task {name}").status == "ok"
    return Book(client, folder, name)


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Book]:
    """A kernel of its own, for a test that ends it."""
    with kernel(tmp_path) as made:
        assert made(f"{LOAD}\n{TOOLS}").status == "ok"
        yield Book(made, tmp_path, "book")


@pytest.mark.parametrize("text", [SYNC, ASYNC, CPU], ids=["sync", "async", "cpu"])
def test_another_process_pauses_a_running_cell_resumes_and_stops_it(book: Book, text: str) -> None:
    cell = book.start(text)
    cell.until("begun")
    told = f"{book.name}: pid {book.client.pid} pauses at its next safe point; `resumable resume` lets it go on"
    assert book.command("pause") == told
    cell.until("paused by `resumable pause`")
    assert book.status() == "paused"
    book.command("resume")
    cell.until("then went on")
    book.command("stop")
    reply = cell.reply()
    assert (reply.status, reply.name) == ("error", "Stopped")
    (line,) = traceback(reply)
    assert line.startswith("Stopped: stopped by `resumable stop` before ")
    assert book.status() == "stopped"
    (book.folder / "enough").touch()
    reply = book.client(text)
    assert reply.status == "ok"
    assert any("continued after it was stopped" in str(each["data"]) for each in reply.of("display_data"))


def test_run_all_stops_at_a_stop(book: Book) -> None:
    cell = book.start(SYNC)
    later = book.client.client.execute("print('later')")
    cell.until("begun")
    book.command("stop")
    assert cell.reply().name == "Stopped"
    answer = book.client.client.get_shell_msg(timeout=TIMEOUT_S)
    assert answer["parent_header"]["msg_id"] == later
    assert answer["content"]["status"] == "aborted"


def test_a_paused_kernel_may_be_killed_and_run_all_goes_on(own: Book) -> None:
    cell = own.start(SYNC)
    cell.until("begun")
    own.command("pause")
    cell.until("paused by")
    before = own.ledger()
    os.kill(own.client.pid, signal.SIGKILL)
    assert own.status() == "paused"
    (own.folder / "enough").touch()
    with kernel(own.folder) as later:
        assert later(f"{LOAD}\n{TOOLS}").status == "ok"
        assert later(SYNC).status == "ok"
    assert own.ledger()[: len(before)] == before
    assert len(set(own.ledger())) == len(own.ledger())


def test_the_stop_button_ends_a_cell_in_one_line_and_leaves_its_call_in_doubt(book: Book) -> None:
    cell = book.start("%%resumable pay\ncharge(1)\nslow(1)")
    cell.until("in flight")
    os.kill(book.client.pid, signal.SIGINT)
    reply = cell.reply()
    assert reply.name == "Stopped"
    assert traceback(reply) == [
        "Stopped: stopped by an interrupt (the stop button, or SIGINT); what is finished is kept, and Run All goes on "
        "from here"
    ]
    assert book.client("%%resumable pay\ncharge(1)\nslow(1)").name == "InDoubt"
    assert book.ledger() == ["charge 1", "slow 1"]
    assert book.client("charge(2)").status == "ok"


def test_the_stop_button_ends_an_async_cell_in_one_line(book: Book) -> None:
    text = "%%resumable pay\nawait order(1)\nprint('waits', flush=True)\nawait asyncio.sleep(600)"
    cell = book.start(text)
    cell.until("waits")
    os.kill(book.client.pid, signal.SIGINT)
    reply = cell.reply()
    assert reply.status == "error"
    (line,) = traceback(reply)
    assert line.startswith("Stopped: stopped by an interrupt")
    assert book.status() == "stopped"
    reply = book.client(text.replace("600", "0"))
    assert reply.status == "ok"
    assert book.ledger() == ["order 1"]


def test_a_stop_in_tasks_of_a_cell_leaves_the_kernel_alive(book: Book) -> None:
    text = """%%resumable pay
async def many(k):
    for n in range(10**9):
        await order(f"{k} {min(n, 3)}")
        await asyncio.sleep(0.001)
print("begun", flush=True)
async with asyncio.TaskGroup() as group:
    for k in range(3):
        group.create_task(many(k))
"""
    cell = book.start(text)
    cell.until("begun")
    book.command("stop")
    reply = cell.reply()
    assert reply.name == "Stopped", reply
    assert book.status() == "stopped"
    assert book.client("1").status == "ok"


def test_a_second_interrupt_is_a_plain_one(book: Book) -> None:
    cell = book.start(
        "try:\n    slow(1)\nexcept KeyboardInterrupt:\n    print('cleaning up', flush=True)\n    time.sleep(600)",
    )
    cell.until("in flight")
    os.kill(book.client.pid, signal.SIGINT)
    cell.until("cleaning up")
    os.kill(book.client.pid, signal.SIGINT)
    assert cell.reply().name == "KeyboardInterrupt"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("%%resumable pay\ncharge(1)\nslow(1)", "in flight"),
        ("%%resumable pay\nawait order(1)\nprint('waits', flush=True)\nawait asyncio.sleep(600)", "waits"),
    ],
    ids=["sync", "async"],
)
def test_a_preempted_kernel_says_why_ends_its_run_and_gives_the_task_back(own: Book, text: str, shown: str) -> None:
    cell = own.start(text)
    cell.until(shown)
    os.kill(own.client.pid, signal.SIGTERM)
    reply = cell.reply()
    (line,) = traceback(reply)
    assert line.startswith("Stopped: stopped by a request to end the process (SIGTERM)")
    assert own.client.manager.provisioner is not None
    own.client.manager.provisioner.process.wait(TIMEOUT_S)  # type: ignore[attr-defined]  # a local kernel's provisioner has a process
    with opened("book", own.folder / ".resumable", live={}) as session:
        (run,) = session.journal.runs()
        assert run.ended_at is not None
        assert Task(session).status == "stopped"
        assert [each.end for each in session.control.pauses()] == ["stopped"]
