"""Values that are no nodes: scalars, and containers of nothing but scalars, written by ``marshal``."""

from __future__ import annotations

import marshal
import math
import operator
from collections.abc import Collection, Sequence
from typing import Any, Final

from blake3 import blake3

INLINE_BYTES: Final = 256
"""A longer chunk is replaced by its digest."""
_DUMP: Final = marshal.dumps
_VERSION: Final = 2
"""The last version of marshal's format in which neither references nor interning show."""
_NAN: Final = _DUMP(math.nan, _VERSION)
_BIG: Final = 1 << 16
_STRINGS: Final = frozenset({str})
_ORDERED: Final = frozenset({int, str, float, bytes})
SCALARS: Final = frozenset({int, str, float, bool, type(None), bytes})
PLAIN: Final = frozenset({list, tuple, dict, set, frozenset})
"""The containers that may be leaves."""


def text(words: str) -> bytes:
    """Text for a head, self-delimiting."""
    data = words.encode("utf-8", "surrogatepass")
    return len(data).to_bytes(4, "little") + data


def count(number: int) -> bytes:
    return number.to_bytes(8, "little")


def shrink(chunk: bytes) -> bytes:
    """A self-delimiting chunk, or its digest."""
    return chunk if len(chunk) <= INLINE_BYTES else b"#" + blake3(chunk).digest(length=16)


def scalar(value: Any) -> bytes:
    kind = type(value)
    if kind is float:
        return _DUMP(value, _VERSION) if value == value else _NAN
    if (kind is str or kind is bytes) and len(value) > _BIG:
        data = value if kind is bytes else value.encode("utf-8", "surrogatepass")
        hasher = blake3(b"big bytes" if kind is bytes else b"big str")
        return b"#" + hasher.update(count(len(data))).update(data).digest(length=16)
    return shrink(_DUMP(value, _VERSION))


def leaf(value: object) -> bytes | None:
    """The chunk of a value that is no node, else ``None``."""
    kind = type(value)
    return scalar(value) if kind in SCALARS else plain(value, kind) if kind in PLAIN else None


def ordered(keys: Collection[Any]) -> list[Any] | None:
    """The keys of a dict in their own order, if they are scalars of one kind that has one."""
    kinds = {*map(type, keys)}
    if len(kinds) > 1 or not kinds <= _ORDERED or (kinds == {float} and True in map(operator.ne, keys, keys)):
        return None
    return sorted(keys)


def scalars(values: Collection[Any]) -> list[bytes | None]:
    """The chunk of each value, unshortened; nothing where one is no scalar."""
    kinds = {*map(type, values)}
    if not kinds <= SCALARS or (float in kinds and True in map(operator.ne, values, values)):
        return []
    return [_DUMP(each, _VERSION) for each in values]


def plain(part: Any, kind: type) -> bytes | None:
    """The chunk of a built-in container that holds scalars only, else ``None``."""
    try:
        if kind is dict:
            return _plain_dict(part)
        kinds = {*map(type, part)}
        if not kinds <= SCALARS or (float in kinds and True in map(operator.ne, part, part)):
            return None
        if kind is list or kind is tuple:
            return shrink(_DUMP(part, _VERSION))
        chunks = sorted([_DUMP(each, _VERSION) for each in part])
        return shrink((b"<" if kind is set else b">") + count(len(chunks)) + b"".join(chunks))
    except ValueError:  # more than 2 GB in one piece
        return None


def _plain_dict(part: dict[Any, Any]) -> bytes | None:
    values = part.values()
    kinds = {*map(type, values)}
    if not kinds <= SCALARS or (float in kinds and True in map(operator.ne, values, values)):
        return None
    kinds = {*map(type, part)}
    if kinds == _STRINGS:
        return shrink(b"{" + _DUMP(sorted(part.items()), _VERSION))
    if not kinds <= SCALARS or (float in kinds and True in map(operator.ne, part, part)):
        return None
    chunks = sorted([_DUMP(item, _VERSION) for item in part.items()])
    return shrink(b"E" + count(len(chunks)) + b"".join(chunks))


def plain_keys(keys: Sequence[Any]) -> bytes:
    """The keys of a dict, in order, for a head."""
    return shrink(_DUMP(list(keys), _VERSION))
