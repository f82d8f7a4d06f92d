"""Large buffers to chunks in a pack and back. A chunk that some pack holds already is not written again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final, Protocol

import msgspec
from blake3 import blake3

from resumable_nb.errors import Corrupt
from resumable_nb.model import Buffer, Extent, Missing
from resumable_nb.threads import WORTHWHILE_BYTES, shared

CHUNK_BYTES: Final = 8 << 20
ROW: Final = "chunk/"
"""Prefix of the rows that say where a chunk lies."""


class Writer(Protocol):
    """The part of a pack's writer that is used here."""

    def append(self, data: memoryview, digest: str) -> Extent: ...
    def seal(self) -> None: ...
    def abort(self) -> None: ...


class Packs(Protocol):
    """The part of a store that is used here."""

    def get(self, key: str) -> bytes | Missing: ...
    def new_pack(self) -> Any: ...
    def packs(self) -> Iterator[str]: ...
    def map_pack(self, pack: str, offset: int, size_bytes: int) -> memoryview: ...
    def read_pack(self, pack: str, offset: int, into: memoryview) -> None: ...


def digest(data: bytes | memoryview) -> str:
    """The name of a chunk or stream."""
    return blake3(data).hexdigest()


def chunks(raw: memoryview, row_bytes: int) -> Iterator[memoryview]:
    """Pieces of at most ``CHUNK_BYTES`` that begin anew at each row: an unchanged row has unchanged chunks."""
    for row in range(0, raw.nbytes, row_bytes):
        end = min(row + row_bytes, raw.nbytes)
        for start in range(row, end, CHUNK_BYTES):
            yield raw[start : min(start + CHUNK_BYTES, end)]


def chunk_digests(raw: memoryview, row_bytes: int) -> tuple[str, ...]:
    parts = list(chunks(raw, row_bytes))
    return tuple(shared(lambda k: digest(parts[k]), len(parts), raw.nbytes))


_damaged: Final[set[str]] = set()
"""Packs that this process found damaged: nothing new relies on them. Their names are unique."""


class PackBuilder:
    """Puts buffers into one new pack, which is made when the first chunk needs it.

    ``rows`` are to be committed with the record that names the extents. ``tell`` hears of ``pack_begun``,
    ``pack_written`` and ``pack_synced``.
    """

    def __init__(self, store: Packs, tell: Callable[[str], None]) -> None:
        self._store = store
        self._tell = tell
        self._pack: Writer | None = None
        self._there: frozenset[str] | None = None
        self._placed: dict[str, Extent] = {}
        self.rows: dict[str, bytes] = {}
        self.size_bytes = 0

    def add(self, raw: memoryview, row_bytes: int, *, readonly: bool = False) -> Buffer:
        """Place a buffer. Each chunk is hashed while the one before it is written."""
        extents: list[Extent] = []
        last: Future[Extent] | None = None
        with ThreadPoolExecutor(1) as writer:
            for chunk in chunks(raw, row_bytes):
                # A copy: were it changed by a thread meanwhile, other bytes would be known by its name for good.
                own = memoryview(bytes(chunk))
                name = digest(own)
                if last is not None:
                    extents.append(self._note(last.result()))
                    last = None
                if (found := self._placed.get(name) or self._known(name)) is not None:
                    self._placed[name] = found
                    extents.append(found)
                elif raw.nbytes <= WORTHWHILE_BYTES:
                    extents.append(self._note(self._open().append(own, name)))
                else:
                    last = writer.submit(self._open().append, own, name)
            if last is not None:
                extents.append(self._note(last.result()))
        return Buffer(raw.nbytes, readonly, tuple(extents))

    def _open(self) -> Writer:
        if self._pack is None:
            self._tell("step.pack_begun")
            self._pack = self._store.new_pack()
        return self._pack

    def _note(self, written: Extent) -> Extent:
        self._placed[written.digest] = written
        self.rows[ROW + written.digest] = msgspec.json.encode(written)
        self.size_bytes += written.size_bytes
        return written

    def _known(self, name: str) -> Extent | None:
        row = self._store.get(ROW + name)
        if isinstance(row, Missing):
            return None
        extent = msgspec.json.decode(row, type=Extent)
        if self._there is None:
            self._there = frozenset(self._store.packs())
        # The row of a collected pack would be a promise that nobody keeps, that of a damaged one would keep the damage.
        return extent if extent.pack in self._there and extent.pack not in _damaged else None

    def seal(self) -> None:
        """Make all of it durable."""
        if self._pack is not None:
            self._tell("step.pack_written")
            self._pack.seal()
            self._tell("step.pack_synced")

    def abort(self) -> None:
        if self._pack is not None:
            self._pack.abort()


def load(store: Packs, buffer: Buffer, *, verify: bool = False) -> memoryview:
    """A buffer's bytes, writable and private: a copy-on-write map where they lie in one piece, else a copy.

    Raises ``Corrupt`` for bytes that are not what was written; those of a map are checked with ``verify`` only.
    """
    view = _mapped(store, buffer)
    if view is None:
        view = memoryview(bytearray(buffer.size_bytes))
        start = 0
        for extent in buffer.extents:
            store.read_pack(extent.pack, extent.offset, view[start : start + extent.size_bytes])
            start += extent.size_bytes
        verify = True
    if verify:
        check(view, buffer.extents)
    return view.toreadonly() if buffer.readonly else view


def check(view: memoryview, extents: tuple[Extent, ...]) -> None:
    start = 0
    for extent in extents:
        if digest(view[start : start + extent.size_bytes]) != extent.digest:
            _damaged.add(extent.pack)
            raise Corrupt(
                f"pack {extent.pack} does not hold at {extent.offset} what was written: run the step that made "
                "the value again, `%resumable rerun STEP` and its cell",
                pack=extent.pack,
            )
        start += extent.size_bytes


def _mapped(store: Packs, buffer: Buffer) -> memoryview | None:
    if not buffer.extents:
        return None
    first = end = buffer.extents[0]
    for extent in buffer.extents[1:]:
        if extent.pack != end.pack or extent.offset != end.offset + end.size_bytes:
            return None
        end = extent
    return store.map_pack(first.pack, first.offset, buffer.size_bytes)
