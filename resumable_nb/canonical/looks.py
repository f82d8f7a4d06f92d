"""Does an object say the same of itself at each look? Some count how often they are asked, or make a part anew."""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable, Iterator
from typing import Any, Final

from resumable_nb.canonical.writer import Canonical

_STEADY: Final[weakref.WeakKeyDictionary[type, bool]] = weakref.WeakKeyDictionary()
"""Classes of which an object was looked at twice."""


def is_steady(kind: type, reduced: object, again: Callable[[], object], canon: Canonical) -> bool:
    """Whether a second look at an unchanged object of ``kind`` finds what the first, ``reduced``, found.

    Only the first object of a class is looked at again, and only where code of the class had its say.
    """
    found = _STEADY.get(kind)
    if found is None:
        _STEADY[kind] = True  # while what it made leads back to it
        found = _STEADY[kind] = _is_usual(kind) or _finds_the_same(reduced, again, canon)
    return found


def _is_usual(kind: type) -> bool:
    own: Any = kind
    return (
        own.__reduce_ex__ is object.__reduce_ex__
        and own.__reduce__ is object.__reduce__
        and own.__getstate__ is object.__getstate__
    )


def _finds_the_same(reduced: object, again: Callable[[], object], canon: Canonical) -> bool:
    with contextlib.suppress(Exception):  # code of the class's own: what it raises is for those who save it
        anew = list(_made_anew(_told(reduced), _told(again())))
        return all(_content(one, canon) == _content(other, canon) for one, other in anew)
    return True


def _told(reduced: object) -> object:
    """Arguments and state, without what can be gone through once only."""
    return reduced[1:3] if isinstance(reduced, tuple) else reduced


def _made_anew(one: Any, other: Any) -> Iterator[tuple[object, object]]:
    """The parts of what the two looks found that are not one and the same object."""
    if one is other:
        return
    if type(one) is tuple and type(other) is tuple and len(one) == len(other):
        for each, its_other in zip(one, other, strict=True):
            yield from _made_anew(each, its_other)
    elif type(one) is dict and type(other) is dict and one.keys() == other.keys():
        for key, each in one.items():
            if each is not other[key]:
                yield each, other[key]
    else:
        yield one, other


def _content(part: object, canon: Canonical) -> bytes:
    return canon.apart().chunk(part)
