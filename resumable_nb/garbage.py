"""What no record needs any more: blobs, chunks and packs of forgotten steps, old versions, and killed kernels."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, Protocol

import msgspec

from resumable_nb.errors import Corrupt
from resumable_nb.events import Bus
from resumable_nb.model import MISSING, Extent
from resumable_nb.pack import ROW as CHUNK
from resumable_nb.records import Fence
from resumable_nb.store.base import Store

BLOB: Final = "blob/"
_NAME: Final = re.compile(rb"[0-9a-f]{32,}")
_LENGTHS: Final = (32, 64)
"""Of the names of packs and blobs."""


class Sweepable(Store, Protocol):
    """A store that writers which were killed may have left files in."""

    def pack_size(self, pack: str) -> int: ...
    def sweep(self) -> tuple[int, int]: ...


class Freed(msgspec.Struct, frozen=True, kw_only=True):
    """What a collection took away; ``size_bytes``: how much that was."""

    versions: int = 0
    blobs: int = 0
    chunks: int = 0
    packs: int = 0
    files: int = 0
    size_bytes: int = 0


class Garbage:
    """Marks from all rows that mean something, and takes away the rest. The lease keeps others from writing meanwhile.

    A name counts as used wherever it stands, in a record or in any blob that is used itself: whatever a later version
    writes about blobs and packs, nothing that is needed goes.
    """

    def __init__(self, store: Sweepable, lease: Fence, bus: Bus) -> None:
        self._store, self._lease, self._bus = store, lease, bus

    def collect(self, keep: int | None = None) -> Freed:
        """Take away what is not needed, the finished versions of each step but the newest ``keep`` among it.

        Rows go in one transaction, then the packs that only they had named: killed at any instant, what is left is
        right, and the next collection finishes it. Raises ``TaskBusy``.
        """
        self._lease.ensure()
        versions = set() if keep is None else self._old_versions(keep)
        blobs, packs = self._mark(versions)
        dead_blobs = [row for row in self._store.keys(BLOB) if row.removeprefix(BLOB) not in blobs]
        dead_packs = [pack for pack in self._store.packs() if pack not in packs]
        dead_chunks = [row for row, extent in self._chunks() if extent.pack not in packs]
        size_bytes = sum(self._size(row) for row in (*dead_blobs, *versions))
        self._bus.emit("garbage.marked")
        gone = [*versions, *dead_blobs, *dead_chunks]
        if gone:
            self._store.commit({}, gone, guard=self._lease.guard)
        self._bus.emit("garbage.rows_gone")
        for pack in dead_packs:
            size_bytes += self._store.pack_size(pack)
            self._store.remove_pack(pack)
            self._bus.emit("garbage.pack_gone")
        files, files_bytes = self._store.sweep()
        return Freed(
            versions=len(versions),
            blobs=len(dead_blobs),
            chunks=len(dead_chunks),
            packs=len(dead_packs),
            files=files,
            size_bytes=size_bytes + files_bytes,
        )

    def _old_versions(self, keep: int) -> set[str]:
        rows: dict[str, list[str]] = {}
        for row in self._store.keys("version/"):
            rows.setdefault(row.rpartition("@")[0], []).append(row)
        return {row for of_step in rows.values() for row in of_step[:-keep]}

    def _mark(self, without: set[str]) -> tuple[set[str], set[str]]:
        """The names of the blobs and packs that are reached from all rows but these."""
        there = {row.removeprefix(BLOB) for row in self._store.keys(BLOB)}
        packs = set(self._store.packs())
        used, found, todo = set[str](), set[str](), list[str]()

        def look(data: bytes) -> None:
            for name in _names(data):
                if name in packs:
                    used.add(name)
                if name in there and name not in found:
                    found.add(name)
                    todo.append(name)

        for data in self._records(without):
            look(data)
        while todo:
            row = BLOB + todo.pop()
            if (blob := self._store.get(row)) is MISSING:
                raise Corrupt(f"{self._store.uri}: row {row!r} went while it was needed; nothing was removed", row=row)
            look(blob)
        return found, used

    def _records(self, without: set[str]) -> Iterator[bytes]:
        kinds = {row.partition("/")[0] for row in self._store.keys("") if not row.startswith((BLOB, CHUNK))}
        for kind in sorted(kinds):
            yield from (data for row, data in self._store.scan(kind) if row not in without and _is_of(row, kind))

    def _chunks(self) -> Iterator[tuple[str, Extent]]:
        return ((row, msgspec.json.decode(data, type=Extent)) for row, data in self._store.scan(CHUNK))

    def _size(self, row: str) -> int:
        data = self._store.get(row)
        return 0 if data is MISSING else len(data)


def _is_of(row: str, kind: str) -> bool:
    return row == kind or row.startswith(f"{kind}/")


def _names(data: bytes) -> Iterator[str]:
    """Everything in the bytes that could be a blob's or pack's name."""
    for match in _NAME.finditer(data):
        run = match[0].decode()
        for length in _LENGTHS:
            yield from (run[at : at + length] for at in range(len(run) - length + 1))
