"""Sharing groups to streams, chunks and rows: everything that one capture writes."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

import msgspec

from resumable_nb import pack
from resumable_nb.codec import Codec, Encoded, Linked, Shared, laid, stands_for_one
from resumable_nb.errors import NotSaved
from resumable_nb.groups import Joints, Survey
from resumable_nb.model import Group

INLINE_BYTES: Final = 256 << 10
"""Streams up to this size are rows; longer ones go into the pack."""

SMALL_BYTES: Final = 32 << 10
"""Sharing groups up to about this size are written together, up to ``BUNDLE_BYTES``: a row for each would be slow."""

LARGE_BYTES: Final = 1 << 20

BUNDLE_BYTES: Final = 1 << 20


def own_definitions(values: Iterable[object]) -> list[object]:
    """Classes that are variables of the stream: it holds them, with their state."""
    return [value for value in values if isinstance(value, type)]


def encode(codec: Codec, survey: Survey, values: Mapping[str, Any]) -> Encoded:
    """Variables that share, as one stream: a dict of name to value. Raises ``NotSaved``."""
    names = sorted(values)
    shared = Shared(*survey.shared_memory(names))
    own = own_definitions(values.values())
    whole = {name: values[name] for name in names}
    encoded = codec.encode(whole, own=own, shared=shared)  # its errors say the way from a variable
    held = [found.nodes for name in names if (found := survey.holding(name)) is not None]
    return encoded if (other := laid(whole, held)) is whole else codec.encode(other, own=own, shared=shared)


class Read:
    """Digests of large buffers that were read a moment ago: several variables may share one.

    For one look at the namespace only: whoever keeps it longer misses what code does to the memory meanwhile.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[int, int, int], tuple[memoryview, tuple[str, ...]]] = {}

    def chunks(self, raw: memoryview, row_bytes: int) -> tuple[str, ...]:
        numpy = sys.modules.get("numpy")
        if numpy is None or raw.nbytes < LARGE_BYTES:
            return pack.chunk_digests(raw, row_bytes)
        at = numpy.frombuffer(raw, numpy.uint8).__array_interface__["data"][0]
        key = (at, raw.nbytes, row_bytes)
        if key not in self._known:  # with the buffer itself, so that no other comes to lie there
            self._known[key] = raw, pack.chunk_digests(raw, row_bytes)
        return self._known[key][1]


def digest(codec: Codec, survey: Survey, values: Mapping[str, Any], read: Read, *, untouched: bool = False) -> str:
    """Changes whenever what is saved would; good within one process only.

    What is used up with each use (a generator) counts as changed at each look, unless it surely was ``untouched``.
    """
    names = sorted(values)
    shared = Shared(*survey.shared_memory(names))
    encoded = codec.digestible(
        # Interned: a name that is an attribute's too is written once only where both are one object.
        {sys.intern(name): values[name] for name in names},
        own=own_definitions(values.values()),
        shared=shared,
        untouched=untouched,
    )
    parts = [pack.digest(encoded.stream)]
    for each in encoded.buffers:
        parts.append(f"{each.readonly} {each.row_bytes}")
        parts += read.chunks(each.raw, each.row_bytes)
    for raw in encoded.mapped:
        parts += read.chunks(raw, raw.nbytes)
    return pack.digest("\n".join(parts).encode())


class Writer:
    """Writes groups. What cannot be saved ends up in ``failed``, and the rest of its group is written without it."""

    def __init__(
        self, codec: Codec, survey: Survey, builder: pack.PackBuilder, joints: Mapping[str, Joints] = {}
    ) -> None:
        self._joints = joints
        self._codec = codec
        self._survey = survey
        self._builder = builder
        self.groups: list[Group] = []
        self.rows: dict[str, bytes] = {}
        self.failed: dict[str, str] = {}
        self.size_bytes = 0

    def write(self, groups: Collection[Mapping[str, Any]]) -> None:
        for bundle in self._bundles(groups):
            self._write_together(bundle)

    def _bundles(self, groups: Collection[Mapping[str, Any]]) -> list[list[Mapping[str, Any]]]:
        bundles: list[list[Mapping[str, Any]]] = []
        small: list[Mapping[str, Any]] = []
        filled = 0
        for group in groups:
            size = sum(map(self._size, group, group.values()))
            if size > SMALL_BYTES:
                bundles.append([group])
                continue
            if filled + size > BUNDLE_BYTES and small:
                bundles.append(small)
                small, filled = [], 0
            small.append(group)
            filled += size
        return [*bundles, small] if small else bundles

    def _size(self, name: str, value: Any) -> int:
        held = self._survey.holding(name)
        if held is not None:
            return held.size_bytes
        return len(value) if isinstance(value, str | bytes) else 64

    def _write_together(self, bundle: list[Mapping[str, Any]]) -> None:
        values = {name: value for group in bundle for name, value in group.items()}
        try:
            if self._put(values, bundle):
                return
            for group in bundle:
                self._write_together([group])
        except NotSaved as error:
            if len(bundle) > 1:
                for group in bundle:
                    self._write_together([group])
            elif len(values) == 1:
                self.failed |= {name: self._reason(name, error) for name in values}
            else:
                self._write_without_offenders(values, error)

    def _write_without_offenders(self, values: dict[str, Any], error: NotSaved) -> None:
        bad: dict[str, str] = {}
        for name, value in values.items():
            try:
                self._codec.prove(encode(self._codec, self._survey, {name: value}))
            except NotSaved as own:
                bad[name] = self._reason(name, own)
        if not bad:  # each alone can be written, together they cannot
            bad = {name: self._reason(name, error) for name in values}
        self.failed |= bad
        rest = {name: value for name, value in values.items() if name not in bad}
        if rest:
            self._write_together([rest])

    @staticmethod
    def _reason(name: str, error: NotSaved) -> str:
        # The stream is a dict of variables: ['model'].conn is how it writes what the user knows as model.conn.
        start = f"[{name!r}]"
        return (
            name + error.message.removeprefix(start) if error.message.startswith(start) else f"{name}: {error.message}"
        )

    def _put(self, values: dict[str, Any], bundle: list[Mapping[str, Any]]) -> bool:
        """False where nothing was written: a file may be gone when it is opened again, and takes no others with it."""
        encoded = encode(self._codec, self._survey, values)
        handles = any(map(stands_for_one, encoded.kinds))
        if handles and len(bundle) > 1:
            return False
        self._codec.prove(encoded)
        refs: dict[str, str] = {}
        for key, stream in self._codec.definitions_of(encoded.refs).items():
            refs[key] = self.row(stream)
        buffers = tuple(self._builder.add(each.raw, each.row_bytes, readonly=each.readonly) for each in encoded.buffers)
        names = tuple(sorted(values))
        joints = {name: dict(found) for name in names if (found := self._joints.get(name))}
        parts = self._parts(bundle) if len(bundle) > 1 else ()
        graphs = Linked in encoded.kinds
        group = Group(
            names=names, buffers=buffers, refs=refs, handles=handles, graphs=graphs, parts=parts, joints=joints
        )
        if len(encoded.stream) <= INLINE_BYTES:
            group = msgspec.structs.replace(group, stream=self.row(encoded.stream))
        else:
            view = memoryview(encoded.stream)
            group = msgspec.structs.replace(group, stream_extents=self._builder.add(view, view.nbytes).extents)
        self.groups.append(group)
        return True

    def _parts(self, bundle: list[Mapping[str, Any]]) -> tuple[tuple[str, ...], ...]:
        """The names that come back together. Objects belong to their classes, which are shared by name."""
        apart: list[tuple[str, ...]] = []
        tied: list[str] = []
        for group in bundle:
            if any(held.definitions for name in group if (held := self._survey.holding(name)) is not None):
                tied += group
            else:
                apart.append(tuple(sorted(group)))
        return (*apart, tuple(sorted(tied))) if tied else tuple(apart)

    def row(self, data: bytes) -> str:
        """Put a blob among the rows; returns its name."""
        name = pack.digest(data)
        if f"blob/{name}" not in self.rows:
            self.rows[f"blob/{name}"] = data
            self.size_bytes += len(data)
        return name
