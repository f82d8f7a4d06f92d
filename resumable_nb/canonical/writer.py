"""The canonical digest of a value: typed, the same for equal values however they were built, never pickle bytes.

A value becomes *chunks*. Plain scalars and containers of scalars are one chunk, written by ``marshal`` in its version
without references; anything else is a node: a head and parts, each part a chunk again. A chunk of more than 256 bytes
is replaced by its digest. All chunks are self-delimiting, so no two values share one.

Sharing does not count: a node is written once and its chunk used again. Cycles do: inside a cyclic structure an object
met again is written as the distance back to it, counted in objects that are still open.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Sequence
from typing import Any, Final, NoReturn

from blake3 import blake3

from resumable_nb.canonical.leaves import (
    INLINE_BYTES,
    PLAIN,
    SCALARS,
    count,
    leaf,
    plain,
    plain_keys,
    scalar,
    shrink,
    text,
)
from resumable_nb.errors import NoContent

Expander = Callable[[Any, "Canonical"], "bytes | Node"]

_FLUSH: Final = 1 << 15
_PATIENCE: Final = 300_000
_REVISIT: Final = 50
_LONG_PATH: Final = 200
_MANY_KEYS: Final = 1000


class Node:
    """What is written of a value: ``head``, then each of ``parts``, sorted by their chunks if ``unordered``.

    ``label`` names part i for a message. ``lenient``: a part without content counts by its type.
    """

    __slots__ = ("head", "label", "lenient", "parts", "unordered")

    def __init__(
        self,
        head: bytes,
        parts: Sequence[object],
        label: Callable[[int], str] = lambda _i: "",
        *,
        unordered: bool = False,
        lenient: bool = False,
    ) -> None:
        self.head = head
        self.parts = parts
        self.label = label
        self.unordered = unordered
        self.lenient = lenient


class Written:
    """A part that was written already."""

    __slots__ = ("chunk",)

    def __init__(self, chunk: bytes) -> None:
        self.chunk = chunk


class _Frame:
    """A node that is being written."""

    __slots__ = ("chunks", "depth", "hasher", "key", "low", "members", "next", "node")

    def __init__(self, node: Node, key: int, depth: int, members: int, chunks: list[bytes], written: int) -> None:
        self.node = node
        self.key = key
        self.depth = depth
        """Its place among the open objects."""
        self.low = depth
        """The outermost open object that it leads back to."""
        self.members = members
        self.chunks = chunks
        self.next = written
        self.hasher: blake3 | None = None


def _written(node: Node, chunks: list[bytes]) -> bytes:
    """The chunk of a node, from those of its parts."""
    if node.unordered:
        chunks.sort()
    body = node.head + b"".join(chunks)
    if len(body) <= INLINE_BYTES:
        return b"@" + len(body).to_bytes(2, "little") + body
    return b"#" + blake3(body).digest(length=16)


class Canonical:
    """Writes values. ``expand`` knows how to take each kind apart; ``known`` may know a digest beforehand.

    Afterwards ``definitions`` holds the user's functions and classes that were met, and ``types`` the user's classes
    of which objects were met.
    """

    def __init__(
        self,
        expand: Expander,
        *,
        known: Callable[[object], str | None] | None = None,
        is_user: Callable[[types.ModuleType | str], bool],
        lenient: bool = False,
    ) -> None:
        self.known = known
        self.is_user = is_user
        self.definitions: dict[int, Any] = {}
        self.types: dict[int, type] = {}
        self.kinds: dict[int, Any] = {}
        """What is known of the classes that were met, by ``id()``."""
        self._keys: dict[tuple[str, ...], tuple[list[str], bytes]] = {}
        self._expand = expand
        self._memo: dict[int, bytes] = {}
        self._alive: list[object] = []
        self._open: dict[int, int] = {}
        self._component: list[int] = []
        self._members: list[int] = []
        self._revisits = 0
        self._lenient = int(lenient)
        self._stack: list[_Frame] = []

    def apart(self) -> Canonical:
        """Another one, which takes apart in the same way what is looked at beside; what has no content by its type."""
        return Canonical(self._expand, known=self.known, is_user=self.is_user, lenient=True)

    def met(self, definition: Any) -> None:
        """Note a function, class or module of the user's whose code counts."""
        self.definitions[id(definition)] = definition

    @property
    def carries_code(self) -> bool:
        """Whether what the value does depends on code of the user's."""
        return bool(self.definitions or self.types)

    def chunk(self, value: object) -> bytes:
        """The chunk of one value. Raises ``NoContent``."""
        self._stack = stack = [_Frame(Node(b"", [value]), 0, 0, 0, [], 0)]
        while True:
            frame = stack[-1]
            child = self._go_on(frame)
            if child is not None:
                stack.append(child)
            elif len(stack) == 1:
                return frame.chunks[0]
            else:
                stack.pop()
                self._finish(frame, stack[-1])

    def following(self, many: int) -> Sequence[Any]:
        """What comes after the part that is being taken apart."""
        if not self._stack:
            return ()
        frame = self._stack[-1]
        return frame.node.parts[frame.next : frame.next + many]

    def foretell(self, part: object, chunk: bytes) -> None:
        """The chunk of a part that has no parts of its own, and is not met yet."""
        self._memo[id(part)] = chunk
        self._alive.append(part)

    def _go_on(self, frame: _Frame) -> _Frame | None:
        """Write parts until one of them is a node of its own."""
        node, chunks = frame.node, frame.chunks
        parts, end = node.parts, len(node.parts)
        while True:
            began = frame.next
            frame.next = self._leaves(parts, began, chunks)
            if len(chunks) > _FLUSH and not node.unordered:
                self._flush(frame)
            if frame.next == end:
                return None
            if frame.next - began == _FLUSH:
                continue
            part = parts[frame.next]
            frame.next += 1
            if node.unordered:
                self._forget_siblings(frame)
            made = self._node(part, frame)
            if isinstance(made, _Frame):
                return made
            chunks.append(made)

    def _leaves(self, parts: Sequence[object], i: int, chunks: list[bytes]) -> int:
        """Write parts from the i-th on while they are leaves, and not too many; returns where it stopped."""
        end = min(len(parts), i + _FLUSH)
        add = chunks.append
        while i < end:
            part = parts[i]
            kind = type(part)
            if kind in SCALARS:
                add(scalar(part))
            elif kind in PLAIN and (chunk := plain(part, kind)) is not None:
                add(chunk)
            elif kind is Written:
                add(part.chunk)  # type: ignore[attr-defined]  # its class was just seen
            else:
                return i
            i += 1
        return i

    def _flush(self, frame: _Frame) -> None:
        if frame.hasher is None:
            frame.hasher = blake3(frame.node.head)
        frame.hasher.update(b"".join(frame.chunks))
        frame.chunks.clear()

    def _node(self, part: object, parent: _Frame) -> bytes | _Frame:
        """The chunk of what is no leaf, or the frame that will write it."""
        key = id(part)
        chunk = self._memo.get(key)
        if chunk is not None:
            return chunk
        place = self._open.get(key)
        if place is not None:
            parent.low = min(parent.low, place)
            self._revisits += parent.node.unordered
            return b"^" + count(len(self._component) - place)
        made = self._try_expand(part)
        self._alive.append(part)  # no other object may get its id meanwhile
        if isinstance(made, bytes):
            chunk = self._memo[key] = shrink(made)
            return chunk
        chunks: list[bytes] = []
        stopped = self._leaves(made.parts, 0, chunks)
        if stopped == len(made.parts):  # nothing but leaves: no way back to it
            chunk = self._memo[key] = _written(made, chunks)
            return chunk
        depth = len(self._component)
        self._open[key] = depth
        self._component.append(key)
        self._lenient += made.lenient
        return _Frame(made, key, depth, len(self._members), chunks, stopped)

    def _try_expand(self, part: object) -> bytes | Node:
        try:
            return self._expand(part, self)
        except NoContent as error:
            if self._lenient:
                kind = type(part)
                return b"?" + text(f"{kind.__module__}.{kind.__qualname__}")
            self._refuse(error.message, part)

    def _refuse(self, why: str, part: object) -> NoReturn:
        path = "".join(frame.node.label(frame.next - 1) for frame in self._stack)
        shown = path if len(path) <= _LONG_PATH else f"{path[:_LONG_PATH]}…"
        where = f" at {shown.removeprefix('.')}" if path else ""
        kind = type(part)
        raise NoContent(
            f"a value of type {kind.__module__}.{kind.__qualname__}{where} has no lasting content: {why}", path=path
        ) from None

    def _finish(self, frame: _Frame, parent: _Frame) -> None:
        node, chunks = frame.node, frame.chunks
        self._lenient -= node.lenient
        if node.unordered:
            self._forget_siblings(frame)
        if frame.hasher is not None:
            self._flush(frame)
            chunk = b"#" + frame.hasher.digest(length=16)
        else:
            chunk = _written(node, chunks)
        if frame.low < frame.depth:
            parent.low = min(parent.low, frame.low)  # part of a cycle that began further out
        else:
            self._close(frame, chunk)
        parent.chunks.append(chunk)

    def _close(self, frame: _Frame, chunk: bytes) -> None:
        """Nothing that was met since the node began leads out of it: its chunk holds wherever it is met again."""
        component, open_ = self._component, self._open
        members = component[frame.depth :]
        del component[frame.depth :]
        for k, key in enumerate(members):
            del open_[key]
            if k == 0:
                self._memo[key] = chunk
            else:
                self._memo[key] = b"%" + count(k) + blake3(chunk).digest(length=16)
                self._members.append(key)

    def _forget_siblings(self, frame: _Frame) -> None:
        """What one element of a set found out about its cycle must not show in the next: their order is chance."""
        depth = frame.depth + 1
        forgotten = self._component[depth:]
        del self._component[depth:]
        for key in forgotten:
            del self._open[key]
        members = self._members[frame.members :]
        del self._members[frame.members :]
        for key in members:
            self._memo.pop(key, None)
        self._revisits += _REVISIT * (len(forgotten) + len(members))
        if self._revisits > _PATIENCE:
            self._refuse("it is a cyclic structure through sets, too tangled to be put in order", frame.node)

    def small(self, value: object) -> bytes | None:
        """The chunk of a leaf, or of a container with nothing but leaves in it; else ``None``."""
        if (chunk := leaf(value)) is not None:
            return chunk
        made = self._expand(value, self)
        if isinstance(made, bytes):
            return shrink(made)
        chunks: list[bytes] = []
        return _written(made, chunks) if self._leaves(made.parts, 0, chunks) == len(made.parts) else None

    def text_keys(self, as_met: tuple[str, ...]) -> tuple[list[str], bytes]:
        """Keys that are text, in order, and how they are written for a head."""
        found = self._keys.get(as_met)
        if found is None:
            keys = sorted(as_met)
            found = keys, plain_keys(keys)
            if len(self._keys) < _MANY_KEYS:
                self._keys[as_met] = found
        return found
