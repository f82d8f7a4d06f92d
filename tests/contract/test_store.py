"""What every store must do. A new store joins by adding itself to ``STORES``."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from resumable_nb.errors import Corrupt, UsageError
from resumable_nb.events import Bus, Event
from resumable_nb.model import MISSING, Missing
from resumable_nb.store.base import PACK_ALIGNMENT, PackWriter, Read, Store
from resumable_nb.store.disk import DiskStore
from resumable_nb.store.memory import MemoryStore

STORES: dict[str, Callable[[Path, Bus], Store]] = {
    "disk": lambda path, bus: DiskStore(path / "task", bus=bus),
    "memory": lambda path, bus: MemoryStore(bus=bus),
}


@pytest.fixture
def bus() -> Bus:
    return Bus()


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest, tmp_path: Path, bus: Bus) -> Iterator[Store]:
    made = STORES[request.param](tmp_path, bus)
    yield made
    made.close()


def write_pack(store: Store, *buffers: bytes) -> tuple[str, list[int]]:
    with store.new_pack() as pack:
        offsets = [pack.append(memoryview(each), "digest").offset for each in buffers]
    return pack.name, offsets


class Refused(Exception):
    pass


def refuse(read: Read) -> None:
    raise Refused


# -- rows


def test_new_store_is_empty(store: Store) -> None:
    assert not store.exists()
    assert store.get("a") is MISSING
    assert list(store.scan("")) == []
    assert list(store.keys("")) == []
    assert list(store.packs()) == []


def test_rows_come_back(store: Store) -> None:
    store.commit({"a": b"1", "b": b"", "c": bytes(3_000_000)})
    assert store.exists()
    assert (store.get("a"), store.get("b"), store.get("c")) == (b"1", b"", bytes(3_000_000))
    assert store.get("d") is MISSING


def test_closed_store_opens_again(store: Store) -> None:
    store.commit({"a": b"1"})
    store.close()
    store.commit({"b": b"2"})
    store.close()
    assert dict(store.scan("")) == {"a": b"1", "b": b"2"}


def test_commit_replaces_and_deletes(store: Store) -> None:
    store.commit({"a": b"1", "b": b"2", "large": bytes(2_000_000)})
    store.commit({"a": b"3"}, ["b", "large", "never there"])
    assert dict(store.scan("")) == {"a": b"3"}


def test_scan_is_by_prefix_in_key_order(store: Store) -> None:
    store.commit({key: key.encode() for key in ("step/b", "step/a", "step", "step/", "steq", "step0", "ste")})
    assert list(store.keys("step/")) == ["step/", "step/a", "step/b"]
    assert list(store.scan("step/")) == [(key, key.encode()) for key in ("step/", "step/a", "step/b")]


KEYS = st.text(
    st.one_of(st.sampled_from("a/%_*?'\"\x00\ud7ff\ue000\U0010ffff"), st.characters(exclude_categories=["Cs"])),
    min_size=1,
    max_size=4,
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(names=st.sets(KEYS, max_size=12), prefix=st.one_of(st.just(""), KEYS))
def test_scan_agrees_with_startswith(store: Store, names: set[str], prefix: str) -> None:
    """For any text: quotes, wildcards, the last characters before a gap in Unicode and at its end."""
    store.commit(dict.fromkeys(names, b"x"), [key for key in store.keys("") if key not in names], durable=False)
    expected = sorted(key for key in names if key.startswith(prefix))
    assert list(store.keys(prefix)) == expected
    assert [key for key, _ in store.scan(prefix)] == expected


def test_scan_shows_one_instant(store: Store) -> None:
    store.commit({"a": b"1", "b": b"1"})
    rows = store.scan("")
    first = next(rows)
    store.commit({"a": b"2", "b": b"2"})
    assert [first, *rows] == [("a", b"1"), ("b", b"1")]


def test_update_reads_and_writes_in_one_transaction(store: Store) -> None:
    assert store.update("n", lambda old: b"1" if old is MISSING else old + b"!") == b"1"
    assert store.update("n", lambda old: b"" if old is MISSING else old + b"!") == b"1!"
    assert store.get("n") == b"1!"


def test_update_from_many_threads_loses_nothing(store: Store) -> None:
    def count() -> None:
        for _ in range(25):
            store.update("n", lambda old: b"1" if old is MISSING else b"%d" % (int(old) + 1), durable=False)

    threads = [threading.Thread(target=count) for _ in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert store.get("n") == b"200"


def test_refused_update_writes_nothing(store: Store) -> None:
    def change(old: bytes | Missing) -> bytes:
        raise Refused

    with pytest.raises(Refused):
        store.update("n", change)
    assert store.get("n") is MISSING


def test_guard_sees_committed_rows(store: Store) -> None:
    seen: list[bytes | Missing] = []
    store.commit({"lease": b"mine"})
    store.commit({"lease": b"yours"}, guard=lambda read: seen.extend([read("lease"), read("other")]))
    assert seen == [b"mine", MISSING]


def test_refused_commit_writes_nothing(store: Store) -> None:
    store.commit({"a": b"1", "large": b"1" * 2_000_000})
    with pytest.raises(Refused):
        store.commit({"a": b"2", "large": b"2" * 2_000_000, "b": b"2"}, ["a"], guard=refuse)
    assert dict(store.scan("")) == {"a": b"1", "large": b"1" * 2_000_000}
    store.commit({"b": b"3"})
    assert store.get("b") == b"3"


def test_event_comes_inside_the_transaction(store: Store, bus: Bus) -> None:
    """A listener that raises, as one that kills the process, leaves the old rows."""
    events: list[str] = []

    def listen(event: Event) -> None:
        events.append(event.kind)
        raise Refused

    store.commit({"a": b"1", "large": b"1" * 2_000_000})
    remove = bus.listen(listen)
    with pytest.raises(Refused):
        store.commit({"a": b"2", "large": b"2" * 2_000_000})
    with pytest.raises(Refused):
        store.update("a", lambda _: b"3")
    remove()
    assert events == ["store.transaction"] * 2
    assert dict(store.scan("")) == {"a": b"1", "large": b"1" * 2_000_000}


# -- packs


def test_buffers_come_back_aligned(store: Store) -> None:
    buffers = [b"x", b"", bytes(range(256)) * 700, b"last"]
    name, offsets = write_pack(store, *buffers)
    assert list(store.packs()) == [name]
    assert [offset % PACK_ALIGNMENT for offset in offsets] == [0, 0, 0, 0]
    for buffer, offset in zip(buffers, offsets, strict=True):
        assert store.map_pack(name, offset, len(buffer)) == buffer
        into = bytearray(len(buffer))
        store.read_pack(name, offset, memoryview(into))
        assert into == buffer


def test_map_is_private_and_writable(store: Store) -> None:
    name, (offset,) = write_pack(store, b"original")
    first = store.map_pack(name, offset, 8)
    first[:8] = b"changed!"
    assert store.map_pack(name, offset, 8) == b"original"
    assert first == b"changed!"


@pytest.mark.parametrize(("offset", "size_bytes"), [(0, 9), (8, 1), (100_000, 1), (-1, 1)])
def test_bytes_beyond_a_pack_are_corrupt(store: Store, offset: int, size_bytes: int) -> None:
    name, _ = write_pack(store, b"8 bytes.")
    with pytest.raises(Corrupt):
        store.map_pack(name, offset, size_bytes)
    with pytest.raises(Corrupt):
        store.read_pack(name, offset, memoryview(bytearray(size_bytes)))


@pytest.mark.parametrize("name", ["0" * 32, "../task", ""])
def test_pack_that_is_not_there_is_corrupt(store: Store, name: str) -> None:
    with pytest.raises(Corrupt):
        store.map_pack(name, 0, 1)
    with pytest.raises(Corrupt):
        store.read_pack(name, 0, memoryview(bytearray(1)))


def test_removed_pack_leaves_its_maps(store: Store) -> None:
    name, (offset,) = write_pack(store, b"original" * 10_000)
    mapped = store.map_pack(name, offset, 80_000)
    store.remove_pack(name)
    store.remove_pack(name)
    assert list(store.packs()) == []
    assert mapped == b"original" * 10_000
    with pytest.raises(Corrupt):
        store.map_pack(name, offset, 8)


def test_pack_is_gone_after_an_error(store: Store) -> None:
    def fail(pack: PackWriter) -> None:
        pack.append(memoryview(b"half"), "digest")
        raise Refused

    with pytest.raises(Refused), store.new_pack() as pack:
        fail(pack)
    assert list(store.packs()) == []


def test_pack_seals_once_and_can_be_aborted_after(store: Store) -> None:
    pack = store.new_pack()
    pack.append(memoryview(b"x"), "digest")
    pack.seal()
    pack.seal()
    assert list(store.packs()) == [pack.name]
    pack.abort()
    pack.abort()
    assert list(store.packs()) == []


def test_pack_alone_is_no_store(store: Store) -> None:
    """Packs come before the first commit; a crash in between leaves nothing that counts."""
    write_pack(store, b"x")
    assert not store.exists()
    store.commit({"a": b"1"})
    assert store.exists()


def test_extent_says_what_was_appended(store: Store) -> None:
    with store.new_pack() as pack:
        extent = pack.append(memoryview(b"x" * 10), "its digest")
    assert (extent.pack, extent.size_bytes, extent.digest) == (pack.name, 10, "its digest")


def test_identity_row_is_not_the_users(store: Store) -> None:
    """No store shows a row of its own, and none lets it be overwritten."""
    store.commit({"a": b"1"})
    assert list(store.keys("")) == ["a"]
    assert store.get("_store") is MISSING
    with pytest.raises(UsageError):
        store.commit({"_store": b"x"})
    with pytest.raises(UsageError):
        store.update("_store", lambda _: b"x")
