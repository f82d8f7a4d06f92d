"""A store in this process's memory: for tests, and for trying things out. Nothing survives the process."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from types import TracebackType
from typing import Self

from resumable_nb.errors import Corrupt
from resumable_nb.events import Bus
from resumable_nb.model import MISSING, Extent, Missing
from resumable_nb.store.base import PACK_ALIGNMENT, Guard, refuse_identity


class MemoryPack:
    """A pack that other readers see once it is sealed."""

    def __init__(self, packs: dict[str, bytes]) -> None:
        self.name = secrets.token_hex(16)
        self._packs = packs
        self._data = bytearray()

    def append(self, data: memoryview, digest: str) -> Extent:
        self._data += bytes(-len(self._data) % PACK_ALIGNMENT)
        extent = Extent(self.name, len(self._data), data.nbytes, digest)
        self._data += data
        return extent

    def seal(self) -> None:
        self._packs.setdefault(self.name, bytes(self._data))

    def abort(self) -> None:
        self._packs.pop(self.name, None)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        if kind is None:
            self.seal()
        else:
            self.abort()


class MemoryStore:
    """Keeps to the contract of ``Store``, durability apart."""

    def __init__(self, *, bus: Bus | None = None) -> None:
        self._bus = bus or Bus()
        self._rows: dict[str, bytes] = {}
        self._packs: dict[str, bytes] = {}
        self._lock = threading.RLock()

    def __repr__(self) -> str:
        return f"<MemoryStore {len(self._rows)} rows>"

    @property
    def uri(self) -> str:
        return "memory:"

    def exists(self) -> bool:
        return bool(self._rows)

    def get(self, key: str) -> bytes | Missing:
        return self._rows.get(key, MISSING)

    def scan(self, prefix: str) -> Iterator[tuple[str, bytes]]:
        with self._lock:
            found = [(key, value) for key, value in self._rows.items() if key.startswith(prefix)]
        return iter(sorted(found))

    def keys(self, prefix: str) -> Iterator[str]:
        return (key for key, _ in self.scan(prefix))

    def commit(
        self,
        puts: Mapping[str, bytes],
        deletes: Collection[str] = (),
        *,
        guard: Guard | None = None,
        durable: bool = True,
    ) -> None:
        refuse_identity(*puts, *deletes)
        with self._lock:
            if guard is not None:
                guard(self.get)
            self._bus.emit("store.transaction", durable=durable)
            self._rows |= {key: bytes(value) for key, value in puts.items()}
            for key in deletes:
                self._rows.pop(key, None)

    def update(self, key: str, change: Callable[[bytes | Missing], bytes], *, durable: bool = True) -> bytes:
        refuse_identity(key)
        with self._lock:
            new = change(self.get(key))
            self.commit({key: new}, durable=durable)
            return new

    def new_pack(self) -> MemoryPack:
        return MemoryPack(self._packs)

    def map_pack(self, pack: str, offset: int, size_bytes: int) -> memoryview:
        return memoryview(bytearray(self._slice(pack, offset, size_bytes)))

    def read_pack(self, pack: str, offset: int, into: memoryview) -> None:
        into[:] = self._slice(pack, offset, len(into))

    def _slice(self, pack: str, offset: int, size_bytes: int) -> bytes:
        data = self._packs.get(pack)
        if data is None or offset < 0 or offset + size_bytes > len(data):
            raise Corrupt(f"pack {pack} has no {size_bytes} bytes at {offset}; rerun the step", pack=pack)
        return data[offset : offset + size_bytes]

    def packs(self) -> Iterator[str]:
        return iter(list(self._packs))

    def remove_pack(self, pack: str) -> None:
        self._packs.pop(pack, None)

    def close(self) -> None:
        """Nothing to let go of: the rows stay until the object goes."""
