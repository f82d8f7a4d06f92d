"""Buffers to chunks in a pack."""

from typing import Any

import pytest

from resumable_nb import pack
from resumable_nb.model import Extent
from resumable_nb.store.memory import MemoryStore

CHUNK = pack.CHUNK_BYTES


class Changing:
    """A pack's writer beside which another thread changes the array, and whose disk may be full."""

    def __init__(self, raw: bytearray, *, full_after: int = 100) -> None:
        self._raw, self._full_after = raw, full_after
        self.written: list[bytes] = []

    def append(self, data: memoryview, digest: str) -> Extent:
        if len(self.written) == self._full_after:
            raise OSError("disk full")
        self._raw[:] = bytes(len(self._raw))
        self.written.append(bytes(data))
        return Extent("p", sum(map(len, self.written[:-1])), data.nbytes, digest)

    def seal(self) -> None: ...
    def abort(self) -> None: ...


def builder(writer: Any) -> pack.PackBuilder:
    store = MemoryStore()
    store.new_pack = lambda: writer  # type: ignore[method-assign]  # a pack of the test's own
    return pack.PackBuilder(store, lambda kind: None)


@pytest.mark.parametrize("size_bytes", [1000, 2 * CHUNK + 7], ids=["small", "large"])
def test_a_chunk_is_what_its_name_says_though_the_array_changes_meanwhile(size_bytes: int) -> None:
    raw = bytearray(b"\1" * size_bytes)
    writer = Changing(raw)
    made = builder(writer).add(memoryview(raw), size_bytes)
    # A second chunk that was copied before the change is the first one again.
    assert {each.digest for each in made.extents} == {pack.digest(data) for data in writer.written}
    assert writer.written[0][:1] == b"\1"


def test_equal_chunks_of_a_buffer_are_written_once() -> None:
    raw = bytearray(3 * CHUNK)
    writer = Changing(raw)
    made = builder(writer).add(memoryview(raw), len(raw))
    assert len(writer.written) == 1
    assert len(made.extents) == 3
    assert made.size_bytes == len(raw)


def test_a_disk_that_is_full_is_told_by_the_chunk_that_it_refuses() -> None:
    raw = bytearray(bytes(range(3)) * CHUNK)
    with pytest.raises(OSError, match="disk full"):
        builder(Changing(raw, full_after=1)).add(memoryview(raw), len(raw) // 3)
