"""``fingerprint``: the canonical digest of a value, in hexadecimal."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from blake3 import blake3

from resumable_nb.canonical.arrays import numpy_expander
from resumable_nb.canonical.containers import CONTAINERS
from resumable_nb.canonical.definitions import DEFINITIONS, class_expander
from resumable_nb.canonical.frames import frame_expander
from resumable_nb.canonical.leaves import SCALARS
from resumable_nb.canonical.objects import SMALL, object_expander
from resumable_nb.canonical.origin import user_module
from resumable_nb.canonical.styles import style_expander
from resumable_nb.canonical.tensors import tensor_expander
from resumable_nb.canonical.writer import Canonical, Expander, Node
from resumable_nb.collector import collector_off
from resumable_nb.errors import NoContent
from resumable_nb.source import formula_words

_EXACT: Final[dict[type, Expander]] = {
    **CONTAINERS,
    **SMALL,
    **DEFINITIONS,
}
_PLAIN_BYTES: Final = 16
_CODE_BYTES: Final = 20


@dataclass(frozen=True, slots=True)
class Content:
    """A value's digest, and the user's code in it: functions, classes and modules, and the classes of objects."""

    digest: str
    definitions: tuple[Any, ...]
    types: tuple[type, ...]


def fingerprint(value: object, *, known: Callable[[object], str | None] | None = None) -> str:
    """The canonical digest of a value, typed: 32 hexadecimal characters, 40 where code of the user's is in it, or a
    formula, whose functions are looked up in the notebook.

    Equal types and contents, equal digests: ``1``, ``1.0`` and ``True`` differ, ``-0.0`` and ``0.0`` too; all NaNs are
    one; the order of dicts and sets, memory layout and sharing don't count. A class counts by its name where an object
    of it is met, by its members where it is a value itself. ``known`` may give the digest of the value, or of an array
    or frame inside it. Raises ``NoContent``, with the ``path`` to the culprit.
    """
    if known is not None and (found := known(value)) is not None:
        return found
    kind = type(value)
    if kind in SCALARS or (kind in _SHORT and len(value) <= _FEW):  # type: ignore[arg-type]  # those have a length
        chunk = _SMALL(value)
        if chunk is not None:
            return blake3(chunk).hexdigest(length=_CODE_BYTES if formula_words(value) else _PLAIN_BYTES)
    return content(value, known=known).digest


def content(
    value: object,
    *,
    known: Callable[[object], str | None] | None = None,
    is_user: Callable[[types.ModuleType | str], bool] = user_module,
    lenient: bool = False,
) -> Content:
    """As ``fingerprint``, with the code that was met. ``lenient``: what has no content counts by its type."""
    canon = Canonical(_expand, known=known, is_user=is_user, lenient=lenient)
    with collector_off():
        try:
            raw = blake3(canon.chunk(value))
        except NoContent:
            if not lenient:
                raise
            raw = blake3(repr(type(value)).encode())  # too tangled to be put in order
    digest = raw.hexdigest(length=_CODE_BYTES if canon.carries_code or formula_words(value) else _PLAIN_BYTES)
    return Content(digest, tuple(canon.definitions.values()), tuple(canon.types.values()))


def carries_code(digest: str) -> bool:
    """Whether the value with this digest held code of the user's, whose own dependencies count too."""
    return len(digest) == 2 * _CODE_BYTES


def is_plain(digest: str) -> bool:
    """Whether it is the digest of a value's content, with no code of the user's in it."""
    return len(digest) == 2 * _PLAIN_BYTES


def _expand(value: Any, canon: Canonical) -> bytes | Node:
    kind: type = type(value)
    return (_EXACT.get(kind) or _expander(kind))(value, canon)


@functools.lru_cache(maxsize=4096)
def _expander(kind: type) -> Expander:
    if issubclass(kind, type):
        return class_expander
    found = numpy_expander(kind) or frame_expander(kind) or tensor_expander(kind) or style_expander(kind)
    return found or object_expander(kind)


_SMALL: Final = Canonical(_expand, is_user=user_module).small
_SHORT: Final = frozenset({list, tuple, dict})
_FEW: Final = 256
"""In a longer container the collector would come by."""
