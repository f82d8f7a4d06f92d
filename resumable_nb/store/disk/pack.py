"""Large buffers: immutable files, written once, made durable once, mapped copy-on-write."""

from __future__ import annotations

import contextlib
import mmap
import os
import re
import secrets
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from resumable_nb.errors import Corrupt, StoreError
from resumable_nb.model import Extent
from resumable_nb.store.base import PACK_ALIGNMENT
from resumable_nb.store.disk.fault import fault
from resumable_nb.store.seal import sync_directory

_SUFFIX: Final = ".pack"
_NAME: Final = re.compile(r"[0-9a-f]{32}")


class PackFile:
    """A pack that is being written."""

    def __init__(self, directory: Path) -> None:
        self.name = secrets.token_hex(16)
        self._path = directory / f"{self.name}{_SUFFIX}"
        self._size_bytes = 0
        try:
            self._fd: int | None = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except OSError as error:
            raise self._fault(error) from error

    def append(self, data: memoryview, digest: str) -> Extent:
        self._write(memoryview(bytes(-self._size_bytes % PACK_ALIGNMENT)))
        extent = Extent(self.name, self._size_bytes, data.nbytes, digest)
        self._write(data.cast("B") if data.nbytes else data)
        return extent

    def seal(self) -> None:
        if self._fd is None:
            return
        try:
            os.fsync(self._fd)
            os.close(self._fd)
            self._fd = None
            sync_directory(self._path.parent)
        except OSError as error:
            raise self._fault(error) from error

    def abort(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None
        with contextlib.suppress(FileNotFoundError):
            self._path.unlink()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        if kind is not None:
            self.abort()
            return
        try:
            self.seal()
        except BaseException:
            self.abort()
            raise

    def _write(self, data: memoryview) -> None:
        assert self._fd is not None, "a sealed pack is never written again"
        try:
            while data.nbytes:
                written = os.write(self._fd, data)
                self._size_bytes += written
                data = data[written:]
        except OSError as error:
            raise self._fault(error) from error

    def _fault(self, error: OSError) -> StoreError:
        return fault(error, str(self._path.parent.parent), doing="written")


class Packs:
    """The packs of one store, in a directory of their own."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def new(self) -> PackFile:
        return PackFile(self.directory)

    def map(self, pack: str, offset: int, size_bytes: int) -> memoryview:
        """A private, writable view: pages are read when touched, and copied when written."""
        with self._open(pack, offset, size_bytes) as fd:
            if not size_bytes:
                return memoryview(bytearray())
            start = offset - offset % mmap.ALLOCATIONGRANULARITY
            mapped = mmap.mmap(fd, offset - start + size_bytes, access=mmap.ACCESS_COPY, offset=start)
        return memoryview(mapped)[offset - start :]

    def read(self, pack: str, offset: int, into: memoryview) -> None:
        with self._open(pack, offset, into.nbytes) as fd:
            into = into.cast("B") if into.nbytes else into
            while into.nbytes:
                count = os.preadv(fd, [into], offset)
                if not count:
                    raise self._damaged(pack, "it ends too early")
                offset += count
                into = into[count:]

    def names(self) -> Iterator[str]:
        try:
            found = sorted(os.listdir(self.directory))  # noqa: PTH208  # a listing, not a lazy scan: packs may go meanwhile
        except FileNotFoundError:
            found = []
        return (name.removesuffix(_SUFFIX) for name in found if name.endswith(_SUFFIX))

    def size(self, pack: str) -> int:
        return self._path(pack).stat().st_size

    def remove(self, pack: str) -> None:
        # Unlinked, never truncated: a map of a truncated file kills the process that touches it.
        self._path(pack).unlink(missing_ok=True)

    def _path(self, pack: str) -> Path:
        if not _NAME.fullmatch(pack):
            raise self._damaged(pack, "no pack has such a name")
        return self.directory / f"{pack}{_SUFFIX}"

    @contextlib.contextmanager
    def _open(self, pack: str, offset: int, size_bytes: int) -> Iterator[int]:
        path = self._path(pack)
        try:
            fd = os.open(path, os.O_RDONLY)
        except FileNotFoundError:
            raise self._damaged(pack, "the file is gone") from None
        except OSError as error:
            raise fault(error, str(self.directory.parent), doing="read") from error
        try:
            if offset < 0 or offset + size_bytes > os.fstat(fd).st_size:
                raise self._damaged(pack, "it ends too early")
            yield fd
        except OSError as error:
            raise fault(error, str(self.directory.parent), doing="read") from error
        finally:
            os.close(fd)

    def _damaged(self, pack: str, why: str) -> Corrupt:
        return Corrupt(
            f"pack {pack!r} in store {self.directory.parent} is damaged: {why}; run the step that made it again: "
            "`%resumable rerun STEP` and its cell",
            pack=pack,
        )
