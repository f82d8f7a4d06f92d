"""What a directory adds to the contract: it outlives its process, and can be damaged, locked, full and foreign."""

from __future__ import annotations

import itertools
import json
import os
import pickle
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import diskcache
import pytest

from resumable_nb.errors import Corrupt, StoreLost, StoreUnavailable, Untrusted, UsageError
from resumable_nb.events import Bus, Event
from resumable_nb.model import MISSING
from resumable_nb.store.base import Read
from resumable_nb.store.disk import DiskStore, database

LARGE = 2_000_000
"""More than a row holds inline, so it goes to a value file."""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / ".resumable" / "task"


@pytest.fixture
def open_store(path: Path) -> Iterator[Callable[..., DiskStore]]:
    """Opens the store anew, as another process would; all are closed at the end."""
    opened: list[DiskStore] = []

    def open_store(at: Path = path, **options: object) -> DiskStore:
        opened.append(DiskStore(at, **options))
        return opened[-1]

    yield open_store
    for each in opened:
        each.close()


@pytest.fixture
def strace() -> str:
    found = shutil.which("strace")
    assert found, "this test counts fsync calls with strace: install the package 'strace'"
    return found


Open = Callable[..., DiskStore]


@pytest.fixture
def filled(open_store: Open) -> DiskStore:
    """A store with an inline row and a value file."""
    store = open_store()
    store.commit({"small": b"s" * 100, "large": b"l" * LARGE})
    return store


def start(script: str, *arguments: object, prefix: tuple[str, ...] = ()) -> subprocess.Popen[str]:
    command = [*prefix, sys.executable, "-c", textwrap.dedent(script), *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def run(script: str, *arguments: object, prefix: tuple[str, ...] = ()) -> str:
    process = start(script, *arguments, prefix=prefix)
    output, _ = process.communicate(timeout=100)
    assert process.returncode == 0
    return output


def tree(path: Path) -> dict[str, tuple[int, float]]:
    return {str(each): (each.stat().st_size, each.stat().st_mtime) for each in path.rglob("*")}


def sql(path: Path, statement: str, *values: object) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(path / "cache.db", isolation_level=None)) as connection:
        return connection.execute(statement, values).fetchall()


# -- opening is reading


def test_reading_creates_nothing(tmp_path: Path, path: Path, open_store: Open, key_file: Path) -> None:
    store = open_store()
    assert not store.exists()
    assert store.get("a") is MISSING
    assert [*store.scan(""), *store.keys(""), *store.packs()] == []
    store.close()
    assert list(tmp_path.iterdir()) == []
    assert not key_file.exists()


def test_reading_a_closed_store_creates_nothing(path: Path, filled: DiskStore, open_store: Open) -> None:
    filled.close()
    before = tree(path)
    reader = open_store()
    assert reader.get("small") == b"s" * 100
    assert tree(path) == before
    reader.close()
    assert tree(path) == before


def test_reader_follows_a_writer_that_comes_and_goes(filled: DiskStore, open_store: Open) -> None:
    """The reader never restarts; what it sees is always the last commit."""
    filled.close()
    reader = open_store()
    for n in range(5):
        writer = open_store()
        writer.commit({"n": b"%d" % n})
        assert reader.get("n") == b"%d" % n
        writer.commit({"n": b"%d again" % n}, durable=False)
        assert reader.get("n") == b"%d again" % n
        writer.close()
        assert reader.get("n") == b"%d again" % n


def test_first_commit_makes_private_files(path: Path, filled: DiskStore) -> None:
    with filled.new_pack() as pack:
        pack.append(memoryview(b"x"), "digest")
    files = {each for each in path.parent.rglob("*") if each.is_file()}
    directories = {path.parent, *(each for each in path.parent.rglob("*") if each.is_dir())}
    assert {each.stat().st_mode & 0o777 for each in files} == {0o600}
    assert {each.stat().st_mode & 0o777 for each in directories} == {0o700}
    assert (path.parent / ".gitignore").read_text() == "*\n"
    assert {each.name for each in path.iterdir()} >= {"cache.db", "task.json", "packs", "values"}


def test_directory_of_others_is_not_ignored(tmp_path: Path, open_store: Open) -> None:
    """A store placed in a project must not hide the project from git."""
    open_store(tmp_path / "store").commit({"a": b"1"})
    assert not (tmp_path / ".gitignore").exists()
    assert (tmp_path / "store" / ".gitignore").read_text() == "*\n"


def test_settings_are_those_that_keep_everything(path: Path, filled: DiskStore) -> None:
    stored = dict(sql(path, "SELECT key, value FROM Settings"))
    assert stored["eviction_policy"] == "none"
    assert stored["cull_limit"] == stored["statistics"] == 0
    assert stored["size_limit"] == 2**62
    assert stored["sqlite_synchronous"] == 2
    assert stored["disk_min_file_size"] == 2**20


def test_settings_of_another_opener_do_not_last(path: Path, filled: DiskStore, open_store: Open) -> None:
    filled.close()
    with diskcache.Cache(str(path), eviction_policy="least-recently-used", size_limit=1, sqlite_synchronous=0):
        pass
    open_store().commit({"a": b"1"})
    assert sql(path, "SELECT value FROM Settings WHERE key = 'sqlite_synchronous'") == [(2,)]
    assert sql(path, "SELECT value FROM Settings WHERE key = 'eviction_policy'") == [("none",)]


def test_settings_that_do_not_stick_are_refused(path: Path, filled: DiskStore, open_store: Open) -> None:
    filled.close()
    undo = "UPDATE Settings SET value = 10 WHERE key = 'cull_limit'"
    sql(path, f"CREATE TRIGGER mine AFTER UPDATE ON Settings BEGIN {undo}; END")
    with pytest.raises(StoreUnavailable, match="cull_limit"):
        open_store().commit({"a": b"1"})


# -- lost, foreign, damaged


def delete_database(path: Path) -> None:
    for each in path.glob("cache.db*"):
        each.unlink()


def empty_database(path: Path) -> None:
    delete_database(path)
    (path / "cache.db").touch()


def delete_rows(path: Path) -> None:
    sql(path, "DELETE FROM Cache")


def delete_tables(path: Path) -> None:
    sql(path, "DROP TABLE Cache")


def other_database(path: Path) -> None:
    other = DiskStore(path.parent / "other")
    other.commit({"a": b"1"})
    other.close()
    shutil.copyfile(path.parent / "other" / "cache.db", path / "cache.db")


LOSSES = [delete_database, empty_database, delete_rows, delete_tables, other_database]


@pytest.mark.parametrize("lose", LOSSES)
def test_lost_database_is_not_a_new_one(
    path: Path, filled: DiskStore, open_store: Open, lose: Callable[[Path], None]
) -> None:
    filled.close()
    lose(path)
    store = open_store()
    with pytest.raises(StoreLost, match="backup"):
        store.exists()
    with pytest.raises(StoreLost):
        store.get("small")
    with pytest.raises(StoreLost):
        list(store.scan(""))
    with pytest.raises(StoreLost):
        list(store.keys(""))
    with pytest.raises(StoreLost):
        store.commit({"a": b"1"})


@pytest.mark.parametrize("lose", [delete_database, delete_rows, shutil.rmtree])
def test_database_lost_while_open_takes_no_writes(path: Path, filled: DiskStore, lose: Callable[[Path], None]) -> None:
    """Without the marker's help too: rows written to a deleted file would be gone without a word."""
    lose(path)
    with pytest.raises(StoreLost):
        filled.commit({"a": b"1"})
    with pytest.raises(StoreLost):
        filled.update("a", lambda _: b"1")


def test_restored_backup_is_used_by_an_open_store(path: Path, filled: DiskStore) -> None:
    filled.close()
    shutil.copytree(path, path.with_name("backup"))
    filled.commit({"small": b"later"})
    shutil.rmtree(path)
    shutil.copytree(path.with_name("backup"), path)
    assert filled.get("small") == b"s" * 100
    filled.commit({"a": b"1"})
    assert sql(path, "SELECT count(*) FROM Cache WHERE key = 'a'") == [(1,)]


@pytest.mark.parametrize("damage", [lambda marker: marker.unlink(), lambda marker: marker.write_bytes(b'{"sto')])
def test_marker_is_written_again(
    path: Path, filled: DiskStore, open_store: Open, damage: Callable[[Path], None]
) -> None:
    marker = path / "task.json"
    before = marker.read_bytes()
    filled.close()
    damage(marker)
    store = open_store()
    assert store.get("small") == b"s" * 100
    store.commit({"a": b"1"})
    assert marker.read_bytes() == before
    assert set(json.loads(before)) == {"store", "key"}


def test_damaged_marker_still_says_that_there_was_a_database(path: Path, filled: DiskStore, open_store: Open) -> None:
    filled.close()
    delete_database(path)
    (path / "task.json").write_bytes(b"")
    with pytest.raises(StoreLost):
        open_store().exists()


def test_store_of_another_key_is_refused(path: Path, filled: DiskStore, open_store: Open) -> None:
    stranger = open_store(key=b"k" * 32)
    for attempt in (
        stranger.exists,
        lambda: stranger.get("small"),
        lambda: list(stranger.scan("")),
        lambda: stranger.commit({"a": b"1"}),
        lambda: stranger.update("a", lambda _: b"1"),
        stranger.new_pack,
    ):
        with pytest.raises(Untrusted, match=re.escape(f"`resumable trust {path}`")):
            attempt()
    assert set(filled.keys("")) == {"small", "large"}


def test_store_is_refused_without_a_key(path: Path, filled: DiskStore, open_store: Open, key_file: Path) -> None:
    filled.close()
    key_file.unlink()
    with pytest.raises(Untrusted, match="resumable trust"):
        open_store().get("small")
    assert not key_file.exists()


def test_trusted_store_is_ones_own(path: Path, filled: DiskStore, open_store: Open) -> None:
    rows = dict(filled.scan(""))
    filled.close()
    mine = open_store(key=b"k" * 32)
    mine.trust()
    assert dict(mine.scan("")) == rows
    mine.commit({"a": b"1"})
    assert open_store(key=b"k" * 32).get("a") == b"1"
    with pytest.raises(Untrusted):
        open_store().get("a")


def test_nothing_to_trust(path: Path, open_store: Open) -> None:
    with pytest.raises(UsageError, match=r"cache\.db"):
        open_store().trust()
    assert not path.exists()


def value_file(path: Path) -> Path:
    (found,) = (path / "values").iterdir()
    return found


def flip_file(path: Path) -> None:
    data = bytearray(value_file(path).read_bytes())
    data[len(data) // 2] ^= 1
    value_file(path).write_bytes(data)


def truncate_file(path: Path) -> None:
    os.truncate(value_file(path), LARGE // 2)


def empty_file(path: Path) -> None:
    os.truncate(value_file(path), 0)


def delete_file(path: Path) -> None:
    value_file(path).unlink()


def delete_all_files(path: Path) -> None:
    shutil.rmtree(path / "values")


@pytest.mark.parametrize("damage", [flip_file, truncate_file, empty_file, delete_file, delete_all_files])
def test_damaged_value_file_is_an_error(path: Path, filled: DiskStore, damage: Callable[[Path], None]) -> None:
    damage(path)
    with pytest.raises(Corrupt):
        filled.get("large")
    with pytest.raises(Corrupt):
        list(filled.scan(""))
    with pytest.raises(Corrupt):
        filled.update("large", lambda old: b"found" if old is MISSING else old)
    assert filled.get("small") == b"s" * 100


def read_small(read: Read) -> None:
    read("small")


DAMAGES = [
    "UPDATE Cache SET value = x'' WHERE key = 'small'",
    "UPDATE Cache SET value = NULL WHERE key = 'small'",
    "UPDATE Cache SET value = substr(value, 1, 60) WHERE key = 'small'",
    "UPDATE Cache SET value = 'text' WHERE key = 'small'",
    "UPDATE Cache SET value = 17 WHERE key = 'small'",
    "UPDATE Cache SET value = (SELECT value FROM Cache WHERE key = 'twin') WHERE key = 'small'",
    "UPDATE Cache SET filename = NULL, mode = 2 WHERE key = 'small'",
]


@pytest.mark.parametrize("statement", DAMAGES)
def test_damaged_row_is_an_error(path: Path, filled: DiskStore, statement: str) -> None:
    filled.commit({"twin": b"t" * 100})
    sql(path, statement)
    with pytest.raises(Corrupt):
        filled.get("small")
    with pytest.raises(Corrupt):
        list(filled.scan("small"))
    with pytest.raises(Corrupt):
        filled.commit({"a": b"1"}, guard=read_small)
    assert filled.get("a") is MISSING


class Bomb:
    def __reduce__(self) -> tuple[object, ...]:
        return os.mkdir, (os.environ["BOMB"],)


def test_pickle_is_never_loaded(tmp_path: Path, path: Path, filled: DiskStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither as a value nor as a key: diskcache would load both."""
    monkeypatch.setenv("BOMB", str(tmp_path / "exploded"))
    bomb = pickle.dumps(Bomb())
    sql(path, "UPDATE Cache SET value = ?, mode = 4 WHERE key = 'small'", bomb)
    sql(path, "INSERT INTO Cache (key, raw, mode, value) VALUES (?, 0, 4, ?)", bomb, bomb)
    with pytest.raises(Corrupt):
        filled.get("small")
    with pytest.raises(Corrupt):
        filled.commit({"a": b"1"}, guard=read_small)
    with pytest.raises(Corrupt):
        filled.trust()
    assert list(filled.keys("l")) == ["large"]
    assert not (tmp_path / "exploded").exists()


def test_damaged_database_is_an_error(path: Path, filled: DiskStore, open_store: Open) -> None:
    filled.close()
    data = bytearray((path / "cache.db").read_bytes())
    data[4096:] = os.urandom(len(data) - 4096)
    (path / "cache.db").write_bytes(data)
    with pytest.raises(Corrupt):
        open_store().get("small")
    (path / "cache.db").write_bytes(b"something else" * 1000)
    with pytest.raises(Corrupt):
        open_store().get("small")


# -- nothing is lost by a half-done write


def refuse_transaction(event: Event) -> None:
    raise InterruptedError("stopped in the transaction")


def test_rolled_back_replacement_keeps_the_old_value(path: Path, open_store: Open) -> None:
    """diskcache alone unlinks the old value file before the surrounding transaction commits."""
    bus = Bus()
    store = open_store(bus=bus)
    store.commit({"large": b"1" * LARGE})
    bus.listen(refuse_transaction)
    with pytest.raises(StoreUnavailable):
        store.commit({"large": b"2" * LARGE})
    with pytest.raises(StoreUnavailable):
        store.commit({}, ["large"])
    assert store.get("large") == b"1" * LARGE
    assert len(list((path / "values").iterdir())) == 1


def test_value_file_stays_until_its_replacement_is_durable(path: Path, filled: DiskStore) -> None:
    """A power cut may take back a commit that was not durable; the old row then needs its file."""
    old = value_file(path)
    filled.commit({"large": b"2" * LARGE}, durable=False)
    assert old.exists()
    filled.commit({"small": b"2"})
    assert not old.exists()
    assert filled.get("large") == b"2" * LARGE


WRITER = """
    import os, signal, sys
    from resumable_nb.events import Bus
    from resumable_nb.store.disk import DiskStore

    path, last = sys.argv[1], int(sys.argv[2])
    bus = Bus()
    store = DiskStore(path, bus=bus)
    n = int(store.update("start", lambda old: old if isinstance(old, bytes) else b"0"))
    while True:
        n += 1
        rows = {f"row/{i}": b"%d" % n for i in range(20)} | {"large": b"%09d" % n * 150_000, "start": b"%d" % n}
        if n == last:
            bus.listen(lambda event: os.kill(os.getpid(), signal.SIGKILL))
        store.commit(rows, durable=n % 3 != 0)
        print(n, flush=True)
"""


def check_whole(store: DiskStore) -> int:
    """All rows are of one commit; returns which."""
    values = {int(value) for _, value in store.scan("row/")}
    large = store.get("large")
    if not values:
        assert large is MISSING
        return 0
    (n,) = values
    assert len(list(store.keys("row/"))) == 20
    assert large == b"%09d" % n * 150_000
    assert store.get("start") == b"%d" % n
    return n


@pytest.mark.sweep
def test_killed_writer_leaves_whole_commits(path: Path, open_store: Open) -> None:
    """Killed inside the transaction, and at whatever instant the signal arrives; what was acknowledged is there."""
    acknowledged = 0
    for turn in range(8):
        with start(WRITER, path, acknowledged + 3 if turn % 2 else 0) as process:
            assert process.stdout is not None
            for line in process.stdout:
                acknowledged = int(line)
                if not turn % 2 and acknowledged % 4 == 3:
                    process.kill()
            process.wait()
        assert process.returncode == -signal.SIGKILL
        n = check_whole(open_store())
        assert n >= acknowledged
        acknowledged = n
    store = open_store()
    assert store.sweep()[0] > 0, "each death inside the transaction leaves a value file"
    assert store.sweep() == (0, 0)
    assert check_whole(store) == acknowledged


FIRST_COMMITS = """
    import importlib.util, sys, types

    # The store alone, without all that the package imports: this program runs a hundred times.
    package = types.ModuleType("resumable_nb")
    package.__path__ = importlib.util.find_spec("resumable_nb").submodule_search_locations
    sys.modules["resumable_nb"] = package
    from resumable_nb.store.disk import DiskStore

    store = DiskStore(sys.argv[1])
    for n in range(1, 4):
        store.commit({"a": b"%d" % n, "b": b"%d" % n, "large": b"%d" % n * 1_500_000}, durable=n != 2)
        print(n, flush=True)
    store.close()
    print("closed")
"""


@pytest.mark.sweep
def test_killed_at_each_write(tmp_path: Path, strace: str, open_store: Open) -> None:
    """From the first directory to the last unlink: a store is absent or whole, and never lost or damaged."""
    calls = "pwrite64,fsync,fdatasync,mkdir,rename,unlink,ftruncate,fchmod"
    for n in itertools.count(1):
        path = tmp_path / str(n) / "task"
        inject = f"inject={calls}:signal=SIGKILL:when={n}"
        command = (strace, "-f", "-qq", "-o", "/dev/null", "-e", f"trace={calls}", "-e", inject)
        with start(FIRST_COMMITS, path, prefix=command) as process:
            assert process.stdout is not None
            acknowledged = process.stdout.read().split()
        store = open_store(path)
        rows = dict(store.scan(""))
        if rows:
            assert rows == {"a": rows["a"], "b": rows["a"], "large": rows["a"] * 1_500_000}
        assert int(rows.get("a", b"0")) >= len(set(acknowledged) - {"closed"})
        store.commit({"after": b"1"})
        assert len(dict(store.scan(""))) == len(rows) + 1
        store.close()
        if "closed" in acknowledged:
            break
    assert n > 30


def test_sweep_of_nothing(open_store: Open, path: Path) -> None:
    assert open_store().sweep() == (0, 0)
    assert not path.exists()


def test_interrupt_does_not_cut_a_commit_short(open_store: Open) -> None:
    """The stop button while a transaction is open: it is finished, then KeyboardInterrupt comes; the store goes on."""
    main, interrupted = threading.main_thread().ident, threading.Event()
    assert main is not None

    def interrupt(event: Event) -> None:
        signal.pthread_kill(main, signal.SIGINT)
        interrupted.wait(10)

    def handle(number: int, frame: object) -> None:
        interrupted.set()
        raise KeyboardInterrupt

    bus = Bus()
    store = open_store(bus=bus)
    before = signal.signal(signal.SIGINT, handle)
    try:
        remove = bus.listen(interrupt)
        with pytest.raises(KeyboardInterrupt):
            store.commit({"a": b"1", "large": bytes(LARGE)})
        remove()
    finally:
        signal.signal(signal.SIGINT, before)
    assert interrupted.is_set()
    assert store.get("a") == b"1"
    store.commit({"b": b"2"})
    assert store.get("b") == b"2"


@pytest.mark.sweep
def test_more_than_a_gigabyte_is_kept(open_store: Open) -> None:
    """diskcache's own limit, above which it evicts."""
    store = open_store()
    block = os.urandom(1 << 20) * 120
    store.commit({f"small/{n:03d}": b"s" * 1000 for n in range(100)}, durable=False)
    for n in range(9):
        store.commit({f"large/{n}": bytes([n]) + block}, durable=n == 8)
    with store.new_pack() as pack:
        extent = pack.append(memoryview(block), "digest")
    store.close()
    assert sum(each.stat().st_size for each in Path(store.uri).glob("values/*")) > 1 << 30
    assert len(list(store.scan("small/"))) == 100
    for n in range(9):
        large = store.get(f"large/{n}")
        assert isinstance(large, bytes)
        assert large[0] == n
        assert memoryview(large)[1:] == block
    assert store.map_pack(extent.pack, extent.offset, extent.size_bytes) == block


# -- how much is synced


SYNCS = """
    import os, sys
    from resumable_nb.store.disk import DiskStore

    store = DiskStore(sys.argv[1])
    store.commit({"warm": b"1"})
    store.commit({"warm": b"2"}, durable=False)

    def mark(name):
        os.access(f"/mark/{name}", os.F_OK)

    mark("durable")
    for n in range(10):
        store.commit({f"a/{n}": b"x" * 500, f"b/{n}": b"y" * 500})
    mark("not durable")
    for n in range(10):
        store.commit({f"c/{n}": b"x" * 500}, durable=False)
        store.update("n", lambda old: b"z", durable=False)
    mark("durable again")
    store.update("n", lambda old: b"z")
    mark("nothing to write")
    store.commit({})
    mark("read")
    store.get("a/1"), list(store.scan("")), list(store.keys("")), store.exists()
    mark("pack")
    with store.new_pack() as pack:
        for n in range(20):
            pack.append(memoryview(bytes(100_000)), "digest")
    mark("large row")
    store.commit({"large": bytes(2_000_000)})
    mark("large row again")
    store.commit({"large": bytes(2_000_000)})
    mark("end")
    store.close()
"""


@pytest.mark.sweep
def test_number_of_syncs(path: Path, tmp_path: Path, strace: str) -> None:
    """One for each durable commit, none for the others, none for reading, two for a pack."""
    log = tmp_path / "strace"
    calls = "fsync,fdatasync,sync_file_range,msync,sync,syncfs,access,faccessat,faccessat2"
    run(SYNCS, path, prefix=(strace, "-f", "-o", str(log), "-e", f"trace=?{calls.replace(',', ',?')}"))
    counts: dict[str, int] = {}
    mark = ""
    for line in log.read_text().splitlines():
        if found := re.search(r'access.*"/mark/(.*?)"', line):
            mark = found[1]
            counts[mark] = 0
        elif mark and re.search(r"\b(fsync|fdatasync|sync_file_range|msync|sync|syncfs)\(", line):
            counts[mark] += 1
    # The first pack and the first value file also sync the names of their new directories.
    assert {name: count for name, count in counts.items() if name != "end"} == {
        "durable": 10,
        "not durable": 0,
        "durable again": 1,
        "nothing to write": 0,
        "read": 0,
        "pack": 2 + 1,
        "large row": 3 + 1,
        "large row again": 3,
    }


# -- not now: files in the way, permissions, full disks, locks


def one_line(error: pytest.ExceptionInfo[StoreUnavailable], *words: str) -> None:
    message = str(error.value)
    assert "\n" not in message
    assert all(word in message for word in words), message
    assert isinstance(error.value.__cause__, OSError | sqlite3.Error)


def test_file_in_the_way(tmp_path: Path, open_store: Open) -> None:
    """Also for root, whom permissions don't stop; the file is left as it was."""
    file = tmp_path / "file"
    file.write_text("mine")
    mode = file.stat().st_mode
    for place in (file, file / "task", file / "deep" / "task"):
        store = open_store(place)
        for attempt in (lambda s: s.get("a"), lambda s: s.commit({"a": b"1"}), lambda s: s.new_pack()):
            with pytest.raises(StoreUnavailable) as error:
                attempt(store)
            one_line(error, str(place), "move the file away")
    assert (file.read_text(), file.stat().st_mode) == ("mine", mode)


def test_locked_database(path: Path, filled: DiskStore, open_store: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    filled.close()
    monkeypatch.setattr(database, "BUSY_TIMEOUT_S", 0.01)
    store = open_store()
    store.commit({"a": b"1"})
    with closing(sqlite3.connect(path / "cache.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreUnavailable) as error:
            store.commit({"a": b"2"})
        one_line(error, str(path), "another process", "locked")
        assert store.get("a") == b"1"
        other.execute("ROLLBACK")
    store.commit({"a": b"2"})
    assert store.get("a") == b"2"


def test_short_lock_is_waited_for(path: Path, filled: DiskStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lock goes after the first attempt; the second one commits."""
    filled.close()
    monkeypatch.setattr(database, "BUSY_TIMEOUT_S", 0.01)
    filled.commit({"a": b"1"})
    with closing(sqlite3.connect(path / "cache.db", isolation_level=None, check_same_thread=False)) as other:

        def let_go(error: BaseException | None) -> bool:
            other.execute("ROLLBACK")
            return isinstance(error, sqlite3.OperationalError)

        monkeypatch.setattr(database, "is_busy", let_go)
        other.execute("BEGIN IMMEDIATE")
        filled.commit({"a": b"2"})
    assert filled.get("a") == b"2"


WITHOUT_PRIVILEGE: tuple[str, ...] = (
    ("setpriv", "--bounding-set", "-dac_override,-dac_read_search") if os.geteuid() == 0 else ()
)
"""Root writes wherever it likes, unless it gives that up."""

READ_ONLY = """
    import sys, sqlite3
    from resumable_nb.errors import StoreUnavailable
    from resumable_nb.store.disk import DiskStore

    store = DiskStore(sys.argv[1])
    assert store.exists()
    assert store.get("small") == b"s" * 100, store.get("small")
    assert store.get("large") == b"l" * 2_000_000
    assert [key for key, _ in store.scan("")] == list(store.keys("")) == ["large", "small"]
    for attempt in (lambda: store.commit({"a": b"1"}), store.new_pack):
        try:
            attempt()
        except StoreUnavailable as error:
            assert "permission denied" in str(error) and sys.argv[1] in str(error), error
            assert isinstance(error.__cause__, (OSError, sqlite3.Error))
        else:
            raise SystemExit("written")
    assert store.get("small") == b"s" * 100
    store.close()
"""


def make_read_only(path: Path) -> Callable[[], None]:
    changed = {each: each.stat().st_mode for each in (path, *path.rglob("*"))}
    for each, mode in changed.items():
        each.chmod(mode & ~0o222)

    def undo() -> None:
        for each, mode in changed.items():
            each.chmod(mode)

    return undo


@pytest.mark.sweep
@pytest.mark.parametrize("log", ["no log", "log", "log without lock files"])
def test_read_only_directory_can_be_read(path: Path, tmp_path: Path, filled: DiskStore, log: str) -> None:
    """A log is what a killed writer leaves; its last rows are only there."""
    copy = tmp_path / "copy"
    if log == "no log":
        filled.close()
    shutil.copytree(path, copy)
    if log == "log without lock files":
        (copy / "cache.db-shm").unlink()
    before = {each.name for each in copy.iterdir()}
    assert ("cache.db-wal" in before) == (log != "no log")
    undo = make_read_only(copy)
    try:
        run(READ_ONLY, copy, prefix=WITHOUT_PRIVILEGE)
        assert {each.name for each in copy.iterdir()} == before
    finally:
        undo()


UNWRITABLE = """
    import sys
    from resumable_nb.errors import StoreUnavailable
    from resumable_nb.store.disk import DiskStore

    store = DiskStore(sys.argv[1])
    assert not store.exists()
    try:
        store.commit({"a": b"1"})
    except StoreUnavailable as error:
        print(error)
        assert isinstance(error.__cause__, PermissionError)
"""


@pytest.mark.sweep
def test_directory_that_cannot_be_made(tmp_path: Path) -> None:
    parent = tmp_path / "parent"
    parent.mkdir(mode=0o500)
    message = run(UNWRITABLE, parent / "task", prefix=WITHOUT_PRIVILEGE)
    assert "permission denied" in message
    assert str(parent / "task") in message
    assert list(parent.iterdir()) == []


FULL_DISK = """
    import itertools, os, resource, sys
    from pathlib import Path
    from resumable_nb.errors import StoreUnavailable
    from resumable_nb.store.disk import DiskStore

    path, how = Path(sys.argv[1]), sys.argv[2]
    store = DiskStore(path)
    rows = {}

    def save(n, size):
        new = {f"row/{n}": os.urandom(size), f"twin/{n}": b"%d" % n}
        store.commit(new)
        rows.update(new)

    save(0, 3_000_000)
    filler = path.parent / "filler"

    def fill():
        with open(filler, "wb", buffering=0) as file:
            try:
                while True:
                    file.write(bytes(1 << 16))
            except OSError:
                pass
            try:
                while True:
                    file.write(bytes(1))
            except OSError:
                pass

    if how == "tmpfs":
        fill()
    else:
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 17, hard))

    errors = []
    for n, size in zip(itertools.count(1), [100, 50_000, 3_000_000] * 20):
        try:
            save(n, size)
        except StoreUnavailable as error:
            errors.append(error)
    assert len(errors) > 20, errors
    assert all("\\n" not in str(error) and error.__cause__ is not None for error in errors)
    assert how != "tmpfs" or all("disk is full" in str(error) for error in errors), errors[0]
    try:
        with store.new_pack() as pack:
            pack.append(memoryview(bytes(1 << 20)), "digest")
        raise SystemExit("a pack on a full disk")
    except StoreUnavailable as error:
        assert "disk is full" in str(error)
    assert list(store.packs()) == []

    assert dict(store.scan("")) == rows
    pid = os.fork()
    if not pid:
        # Another process, which opens it on the full disk.
        code = 1
        try:
            code = 0 if dict(DiskStore(path).scan("")) == rows else 2
        finally:
            os._exit(code)
    assert os.waitpid(pid, 0)[1] == 0
    store.close()
    assert dict(DiskStore(path).scan("")) == rows

    if how == "tmpfs":
        filler.unlink()
    else:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    save(999, 3_000_000)
    assert dict(store.scan("")) == rows
    named = {name for name in os.listdir(path / "values")}
    assert len(named) == sum(len(value) > 1 << 20 for value in rows.values()), named
    store.close()
"""


IN_NAMESPACE: tuple[str, ...] = ("unshare", "--map-root-user", "--mount")
FULL_DISKS = {"limit": ()}
if shutil.which("unshare") and subprocess.run([*IN_NAMESPACE, "true"], capture_output=True).returncode == 0:
    FULL_DISKS["tmpfs"] = IN_NAMESPACE


@pytest.mark.sweep
@pytest.mark.parametrize("how", FULL_DISKS)
def test_full_disk_loses_nothing(tmp_path: Path, how: str) -> None:
    """A limit on the size of files, which everybody may set; and a file system of 8 MB, where mounting is allowed."""
    place = tmp_path / "mount"
    place.mkdir()
    mount = ("sh", "-c", f'mount -t tmpfs -o size=8m none {place} && exec "$@"', "sh")
    prefix = FULL_DISKS[how] and (*FULL_DISKS[how], *mount)
    run(FULL_DISK, place / "task", how, prefix=prefix)


# -- processes and threads


FORK = """
    import os, sys, threading, warnings
    from resumable_nb.store.disk import DiskStore

    warnings.simplefilter("ignore", DeprecationWarning)
    store = DiskStore(sys.argv[1])
    store.commit({"n": b"0"})
    stop = threading.Event()

    def count(name):
        while not stop.is_set():
            store.update(name, lambda old: b"%d" % (int(old) + 1 if isinstance(old, bytes) else 1), durable=False)

    thread = threading.Thread(target=count, args=("thread",))
    thread.start()
    for turn in range(10):
        pid = os.fork()
        if not pid:
            code = 1
            try:
                for _ in range(5):
                    store.update("n", lambda old: b"%d" % (int(old) + 1))
                code = 0 if isinstance(store.get("thread"), bytes) or turn == 0 else 2
            finally:
                os._exit(code)
        store.update("n", lambda old: b"%d" % (int(old) + 1))
        assert os.waitpid(pid, 0)[1] == 0
    stop.set()
    thread.join()
    print(store.get("n").decode())
    store.close()
"""


@pytest.mark.sweep
def test_forked_processes_share_a_store(path: Path) -> None:
    """While another thread writes: no lock is carried over, no write is lost, neither side hangs."""
    assert run(FORK, path) == "60\n"


@pytest.mark.sweep
def test_stores_made_at_once_are_one(path: Path) -> None:
    """Several processes make the first commit together."""
    script = """
        import sys
        from resumable_nb.store.disk import DiskStore
        store = DiskStore(sys.argv[1])
        sys.stdin.read()
        store.commit({sys.argv[2]: b"1"})
        store.close()
    """
    command = [sys.executable, "-c", textwrap.dedent(script), str(path)]
    read_end, write_end = os.pipe()
    processes = [subprocess.Popen([*command, str(n)], stdin=read_end) for n in range(4)]
    os.close(read_end)
    os.close(write_end)
    assert [process.wait(60) for process in processes] == [0] * 4
    store = DiskStore(path)
    assert list(store.keys("")) == ["0", "1", "2", "3"]
    store.close()


def test_store_dropped_without_close_lets_go(path: Path) -> None:
    DiskStore(path).commit({"a": b"1"})
    threads = [each for each in threading.enumerate() if str(path.name) in each.name]
    for each in threads:
        each.join(10)
    assert not (path / "cache.db-wal").exists()


def test_written_in_an_exit_handler(path: Path, open_store: Open) -> None:
    script = """
        import atexit, sys
        from resumable_nb.store.disk import DiskStore
        store = DiskStore(sys.argv[1])
        store.commit({"a": b"1"})
        def last():
            store.commit({"b": b"2"})
            store.close()
        atexit.register(last)
    """
    run(script, path)
    assert list(open_store().keys("")) == ["a", "b"]
