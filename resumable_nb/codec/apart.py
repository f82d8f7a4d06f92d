"""Functions and classes that no name leads to: two that do the same are told apart by a mark.

The mark goes with the name into streams, and with what is made of those: what shares such a function keeps doing so.
"""

from __future__ import annotations

import os
import threading
import weakref
from typing import Any, Final

from resumable_nb.model import MISSING

_BEFORE: Final = "#"

_marks: Final[dict[int, tuple[weakref.ref[Any], str]]] = {}
"""By ``id()``: a class may have a metaclass with an equality of its own."""

_bearers: Final[weakref.WeakValueDictionary[str, Any]] = weakref.WeakValueDictionary()
_lock: Final = threading.RLock()


def marked(digest: str, thing: object, *, named: bool) -> str:
    """The digest of a definition with its mark. What was written under its name alone goes on under that."""
    with _lock:
        mark = _known(thing)
        if mark is None:
            mark = "" if named else f"{_BEFORE}{os.urandom(6).hex()}"
            _keep(thing, mark)
    return digest + mark


def recall(digest: str, thing: object) -> None:
    """``thing`` was made of a stream that has this digest for it."""
    with _lock:
        if _known(thing) is None:
            _keep(thing, _mark_of(digest))


def bearer(digest: str) -> object:
    """The living function or class with the digest's mark; ``MISSING`` where it has none, or is gone."""
    with _lock:
        return _bearers.get(mark, MISSING) if (mark := _mark_of(digest)) else MISSING


def _mark_of(digest: str) -> str:
    _, found, mark = digest.partition(_BEFORE)
    return found + mark


def _known(thing: object) -> str | None:
    found = _marks.get(id(thing))
    return found[1] if found is not None and found[0]() is thing else None


def _keep(thing: Any, mark: str) -> None:
    at = id(thing)

    def gone(reference: weakref.ref[Any]) -> None:
        if (found := _marks.get(at)) is not None and found[0] is reference:
            del _marks[at]

    _marks[at] = weakref.ref(thing, gone), mark
    if mark:
        _bearers[mark] = thing
