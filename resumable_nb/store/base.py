"""What a store must do: sealed rows under text keys, atomic commits, and immutable packs for large buffers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from types import TracebackType
from typing import Final, Protocol, Self

from resumable_nb.errors import UsageError
from resumable_nb.model import Extent, Missing

PACK_ALIGNMENT: Final = 64
"""Buffers in a pack start at a multiple of this: a cache line, and enough for every vector unit."""

IDENTITY: Final = "_store"
"""A row that a store may keep for itself. Nobody sees it, and nobody may write it."""

Read = Callable[[str], "bytes | Missing"]
Guard = Callable[[Read], None]
"""Called inside the transaction, before anything is written; raises to refuse the write."""


def refuse_identity(*keys: str) -> None:
    if IDENTITY in keys:
        raise UsageError(f"the row {IDENTITY!r} belongs to the store; choose another key")


class PackWriter(Protocol):
    """A new pack. Nothing in it may be named by a record before ``seal`` has returned."""

    name: str

    def append(self, data: memoryview, digest: str) -> Extent:
        """Write ``data`` at a 64-byte boundary. The buffer must stay unchanged until ``seal`` or ``abort``."""

    def seal(self) -> None:
        """Make every appended byte durable (one fsync of the file, one of its directory). Idempotent."""

    def abort(self) -> None:
        """Remove the pack. Allowed after a failed ``append`` or ``seal``."""

    def __enter__(self) -> Self: ...
    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        """``seal`` on success, ``abort`` on error."""


class Store(Protocol):
    """One task's store. Thread-safe. Reading never creates anything; the first commit does.

    Every read authenticates: bytes that were not written under this user's key, under this row's name, raise
    ``Corrupt``; a read that fails raises ``StoreUnavailable``; only absence is ``MISSING``.
    """

    @property
    def uri(self) -> str:
        """Where it is, without passwords."""

    def exists(self) -> bool:
        """Whether anything was ever committed here. Raises ``StoreLost`` where it was, and is gone."""

    def get(self, key: str) -> bytes | Missing:
        """The row's bytes."""

    def scan(self, prefix: str) -> Iterator[tuple[str, bytes]]:
        """Rows whose key starts with ``prefix``, in key order, as of one instant."""

    def keys(self, prefix: str) -> Iterator[str]:
        """As ``scan``, without the values."""

    def commit(
        self,
        puts: Mapping[str, bytes],
        deletes: Collection[str] = (),
        *,
        guard: Guard | None = None,
        durable: bool = True,
    ) -> None:
        """Write and delete all the rows in one transaction, or nothing.

        ``durable=True``: on disk when it returns (one fsync). ``durable=False``: survives the death of the process,
        not of the machine, until the next durable commit.
        """

    def update(self, key: str, change: Callable[[bytes | Missing], bytes], *, durable: bool = True) -> bytes:
        """Read, change and write one row in one transaction; returns what was written. ``change`` raises to refuse."""

    def new_pack(self) -> PackWriter:
        """Begin a pack."""

    def map_pack(self, pack: str, offset: int, size_bytes: int) -> memoryview:
        """Copy-on-write view of a pack's bytes: writable, private, read from disk when touched."""

    def read_pack(self, pack: str, offset: int, into: memoryview) -> None:
        """Read exactly ``len(into)`` bytes, or raise ``Corrupt``."""

    def packs(self) -> Iterator[str]:
        """Names of the packs that exist."""

    def remove_pack(self, pack: str) -> None:
        """Unlink a pack; maps of it stay valid."""

    def close(self) -> None:
        """Let go of files and connections. A closed store opens again at the next use."""
