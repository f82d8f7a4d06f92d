"""Manifests and groups back to values."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from resumable_nb import pack
from resumable_nb.codec import Codec, is_linked, link
from resumable_nb.errors import Corrupt
from resumable_nb.model import MISSING, SCHEMA, Group, Manifest, Missing
from resumable_nb.store.base import Store


class Reader:
    """Reads what ``Writer`` wrote. Every stream is checked before it is unpickled."""

    def __init__(self, store: Store, *, verify: bool = False) -> None:
        self._store = store
        self._verify = verify
        self.again: Callable[[Group, str], Any] | None = None
        """Computes a tensor of a group once more, with the graph behind it."""

    def manifest(self, name: str) -> Manifest:
        try:
            manifest = msgspec.json.decode(self.blob(name), type=Manifest)
        except msgspec.MsgspecError as error:
            raise Corrupt(f"manifest {name[:12]} cannot be read: {error}", blob=name) from error
        assert manifest.schema <= SCHEMA
        return manifest

    def blob(self, name: str) -> bytes:
        """A blob's bytes. Raises ``Corrupt`` where it is missing or not what was written."""
        data = self._store.get(f"blob/{name}")
        if isinstance(data, Missing):
            raise Corrupt(
                f"blob {name[:12]} is named by a record and is gone: run its step again, `%resumable rerun STEP`",
                blob=name,
            )
        return self._checked(data, name)

    def find(self, name: str) -> bytes | Missing:
        """As ``blob``, but a missing one is ``MISSING``."""
        data = self._store.get(f"blob/{name}")
        return MISSING if isinstance(data, Missing) else self._checked(data, name)

    @staticmethod
    def _checked(data: bytes, name: str) -> bytes:
        if pack.digest(data) != name:
            raise Corrupt(
                f"blob {name[:12]} does not hold what was written: run its step again, `%resumable rerun STEP`",
                blob=name,
            )
        return data

    def values(
        self,
        codec: Codec,
        group: Group,
        *,
        apart: bool = False,
        met: dict[int, Any] | None = None,
        beside: Mapping[str, Any] = {},
    ) -> dict[str, Any]:
        """The variables of a group, ``apart`` from what lives in the namespace. ``met`` gets whatever makes them.

        ``beside``: see ``Codec.decode``.

        Raises ``Corrupt``, or ``NotSaved`` where the objects' own code fails.
        """
        stream = self.blob(group.stream) if group.stream else self._long_stream(group)
        buffers = [pack.load(self._store, each, verify=self._verify) for each in group.buffers]
        found: dict[str, Any] = (
            codec.decode_apart(stream, buffers, met) if apart else codec.decode(stream, buffers, met, beside)
        )
        again = self.again if group.graphs else None
        for name, value in found.items():
            if again is not None and is_linked(value):
                link(value, functools.partial(again, group, name))
        return found

    def _long_stream(self, group: Group) -> bytes:
        data = bytearray(sum(extent.size_bytes for extent in group.stream_extents))
        view, start = memoryview(data), 0
        for extent in group.stream_extents:
            self._store.read_pack(extent.pack, extent.offset, view[start : start + extent.size_bytes])
            start += extent.size_bytes
        pack.check(view, group.stream_extents)
        return bytes(data)


def misses_a_name(error: BaseException | None) -> bool:
    """Whether an object's own code has looked up a name that is not loaded."""
    while error is not None and not isinstance(error, NameError):
        error = error.__cause__ or error.__context__
    return error is not None
