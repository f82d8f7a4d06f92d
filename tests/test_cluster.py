"""``task().map`` over a Dask cluster of real processes, which runs lost tasks again: no call is begun twice."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from distributed import Client, LocalCluster

from resumable_nb import cluster, tools
from resumable_nb.errors import InDoubt, UsageError, WorkerLost
from resumable_nb.fanout import FanOut, fan_out
from resumable_nb.tools import tool
from tests.bench import Bench

pytestmark = pytest.mark.sweep


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    options = {"n_workers": 2, "threads_per_worker": 1, "processes": True, "dashboard_address": "127.0.0.1:0"}
    with LocalCluster(host="127.0.0.1", silence_logs=50, **options) as local, Client(local) as client:
        yield client


def over(bench: Bench, client: Any, call: Any, items: Any, **options: Any) -> list[Any]:
    defaults: dict[str, Any] = {"concurrency": 8, "errors": "raise", "label": None, "star": False}
    return fan_out(FanOut(call, items, bench.desk(), **{**defaults, **options}), client)


@pytest.fixture
def send(tmp_path: Path) -> Any:
    """Notes each call in a ledger; what an item says is done after that."""
    folder = str(tmp_path)

    def send(what: str) -> tuple[str, int]:
        fd = os.open(f"{folder}/ledger", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(fd, f"{what}\n".encode())
        os.fsync(fd)
        os.close(fd)
        if what == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        if what == "fail":
            raise ValueError("bad")
        return what, os.getpid()

    return send


def ledger(folder: Path) -> list[str]:
    return sorted((folder / "ledger").read_text().split())


def test_results_and_errors_come_back_from_the_workers(bench: Bench, tmp_path: Path, client: Client, send: Any) -> None:
    items = [*"abcdef", "fail", *"ghij"]
    for _ in range(2):
        results = over(bench, client, tool(send), items, errors="collect")
        assert isinstance(results.pop(6), ValueError)
        assert [what for what, _ in results] == [*"abcdefghij"]
        assert os.getpid() not in {pid for _, pid in results}
        bench.restart()
    # A failure is made again, as ever; nothing else is.
    assert ledger(tmp_path) == sorted([*items, "fail"])


def test_a_worker_that_dies_leaves_its_call_in_doubt(bench: Bench, tmp_path: Path, client: Client, send: Any) -> None:
    """Dask starts the task again on another worker, and there it does not call."""
    with pytest.raises(WorkerLost, match="sent to a worker"):
        over(bench, client, tool(send), ["die"])
    assert bench.only().status == "intent"
    with pytest.raises(InDoubt):
        over(bench, client, tool(send), ["die"])
    assert ledger(tmp_path) == ["die"]


def test_a_call_that_may_be_repeated_is_left_to_dask(bench: Bench, tmp_path: Path, client: Client) -> None:
    folder = str(tmp_path)

    @tool(repeatable=True)
    def look(n: int) -> int:
        try:
            os.close(os.open(f"{folder}/died", os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return n * 10
        os.kill(os.getpid(), signal.SIGKILL)
        return 0

    assert over(bench, client, look, range(5)) == [0, 10, 20, 30, 40]
    assert (tmp_path / "died").exists()


class Unloadable:
    """Can be sent, and not be read there."""

    def __reduce__(self) -> tuple[Any, ...]:
        return int, ("no number",)


def test_what_no_worker_can_load_was_not_done(bench: Bench, client: Client, send: Any) -> None:
    with pytest.raises(WorkerLost, match="not begun by any worker, and will not be: ValueError"):
        over(bench, client, tool(send, key=lambda what: "same"), [Unloadable()])
    assert bench.only().status == "failed"


class Gate:
    """Something waits in a worker; we know that it does, and say when it may go on."""

    def __init__(self, folder: Path) -> None:
        self._waits, self._go = folder / "waits", folder / "go"
        folder.mkdir()
        os.mkfifo(self._waits)
        os.mkfifo(self._go)

    def wait(self) -> None:
        """In the worker."""
        self._waits.write_text("")
        self._go.read_text()

    def until_it_waits(self) -> None:
        self._waits.read_text()

    def open(self) -> None:
        self._go.write_text("")


def test_what_was_not_begun_in_time_is_not_begun_any_more(
    bench: Bench, tmp_path: Path, client: Client, send: Any
) -> None:
    """All workers are busy until the call was given up; what then begins finds no permit."""
    client.wait_for_workers(2)
    gates = [Gate(tmp_path / str(n)) for n in range(2)]
    busy = [client.submit(gate.wait, pure=False) for gate in gates]
    for gate in gates:
        gate.until_it_waits()
    with pytest.raises(WorkerLost, match="not begun by any worker, and will not be: TimeoutError"):
        over(bench, client, tool(send, timeout_s=0.2), ["a"])
    assert bench.only().status == "failed"
    for gate in gates:
        gate.open()
    client.gather(busy)
    assert [what for what, _ in over(bench, client, tool(send), ["b"])] == ["b"]
    assert ledger(tmp_path) == ["b"]


def test_the_receiver_is_asked_when_no_worker_is_at_work_any_more(
    bench: Bench, tmp_path: Path, client: Client, send: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The call of a kernel that died goes on in the cluster; asked too early, it would seem not to have happened."""
    gate = Gate(tmp_path / "gate")

    def slow(what: str) -> Any:
        gate.wait()
        return send(what)

    def lookup(what: str) -> Any:
        return tools.Happened(what) if (tmp_path / "ledger").exists() else tools.NotHappened()

    pay = tool(slow, name="pay", reconcile=lookup)
    with ThreadPoolExecutor(1) as threads:
        with Client(client.scheduler.address, set_as_default=False) as dying:
            first = threads.submit(over, bench, dying, pay, ["a"])
            gate.until_it_waits()
        assert isinstance(first.exception(), WorkerLost)
        bench.restart()
        looked = threading.Event()
        monkeypatch.setattr(cluster, "time", SimpleNamespace(sleep=lambda seconds: looked.set()))
        second = threads.submit(over, bench, client, pay, ["a"])
        looked.wait()
        gate.open()
        assert second.result() == ["a"]
    assert ledger(tmp_path) == ["a"]


def test_a_client_that_could_call_twice_or_not_wait_is_refused(bench: Bench, client: Client, send: Any) -> None:
    with pytest.raises(UsageError, match="client itself"):
        over(bench, client.get_executor(), tool(send), ["a"])
