"""A store whose database went back in time says so, and repeats nothing on its own."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from resumable_nb.cli.command import run
from resumable_nb.errors import StoreLost
from resumable_nb.store.disk import DiskStore
from resumable_nb.store.disk.counter import TURN, missing

WRITER = """
import sys
from resumable_nb.store.disk import DiskStore
store = DiskStore(sys.argv[1])
for n in range(40):
    store.commit({"row": b"%d" % n}, durable=n % 4 != 3)
print("written", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / ".resumable" / "task"


@pytest.fixture
def open_store(path: Path) -> Iterator[Callable[[], DiskStore]]:
    opened: list[DiskStore] = []

    def fresh() -> DiskStore:
        opened.append(DiskStore(path))
        return opened[-1]

    yield fresh
    for store in opened:
        store.close()


def write_and_die(path: Path) -> None:
    """40 commits, of which each fourth is not durable, and a SIGKILL: the log is left as it is."""
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "written\n"
        os.kill(process.pid, signal.SIGKILL)


def test_a_killed_writer_is_no_journey_in_time(path: Path, open_store: Callable[[], DiskStore]) -> None:
    write_and_die(path)
    assert open_store().get("row") == b"39"


def test_a_log_that_was_cut_is_noticed(path: Path, open_store: Callable[[], DiskStore]) -> None:
    write_and_die(path)
    log = path / "cache.db-wal"
    os.truncate(log, log.stat().st_size // 2)
    with pytest.raises(StoreLost, match=r"went back in time: its database lacks the last \d+ of the commits"):
        open_store().get("row")
    with pytest.raises(StoreLost, match="went back"):
        open_store().commit({"row": b"40"})


def test_an_older_database_is_noticed_until_it_is_trusted(
    path: Path, open_store: Callable[[], DiskStore], capsys: pytest.CaptureFixture[str]
) -> None:
    store = open_store()
    store.commit({"row": b"1"})
    store.close()
    shutil.copyfile(path / "cache.db", path.parent / "backup")
    store.commit({"row": b"2"})
    store.commit({"row": b"3"})
    store.close()
    shutil.copyfile(path.parent / "backup", path / "cache.db")
    with pytest.raises(StoreLost) as caught:
        store.exists()
    assert caught.value.behind == 2
    assert run(["doctor", str(path)]) == 1
    assert "✗ records: store" in capsys.readouterr().out
    assert run(["trust", str(path)]) == 0
    assert open_store().get("row") == b"1"
    open_store().commit({"row": b"4"})
    assert open_store().get("row") == b"4"


@pytest.mark.parametrize(
    "damage", [Path.unlink, lambda file: file.write_bytes(b""), lambda file: file.write_bytes(b"x")]
)
def test_without_a_note_nobody_is_accused(
    path: Path, open_store: Callable[[], DiskStore], damage: Callable[[Path], object]
) -> None:
    """As after a power cut, or in a store of an earlier version."""
    store = open_store()
    store.commit({"row": b"1"})
    store.close()
    damage(path / "commits")
    assert store.get("row") == b"1"
    store.commit({"row": b"2"})
    assert (path / "commits").read_bytes() == b"0000000002\n"


def test_the_count_begins_anew_at_its_end() -> None:
    assert missing(5, None) == missing(5, 5) == missing(6, 5) == missing(0, TURN - 1) == missing(3, TURN - 4) == 0
    assert missing(5, 7) == 2
    assert missing(TURN - 1, 1) == 2
