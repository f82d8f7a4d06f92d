"""Objects with a ``__del__`` that we let go, and the user's code did not: they are kept for good, so that it never
runs.

What it does (closes, deletes a file, prints) would otherwise be done for a copy whose original lives.
"""

from __future__ import annotations

import types
import weakref
from collections.abc import Iterator
from typing import Any, Final

from resumable_nb.attributes import own_dict

_LOOKED_AT: Final = 1_000
"""How many objects that a value holds are looked at."""

_kept: Final[list[Any]] = []


def has_ending(kind: object) -> bool:
    """Whether it is a class whose objects run code of somebody's when they go."""
    return isinstance(kind, type) and any(
        isinstance(vars(each).get("__del__"), types.FunctionType) for each in kind.__mro__
    )


def keep(value: object) -> None:
    """Let ``value`` live as long as the process."""
    _kept.append(value)


def keep_endings(value: object) -> None:
    """The same, if it or something that it holds has an ending."""
    if any(has_ending(type(each)) for each in _held(value)):
        keep(value)


def is_noticed(value: object) -> bool:
    """Whether somebody's code may notice that the value goes, or something that it holds."""
    return any(has_ending(type(each)) or _is_referred_to(each) for each in _held(value))


def _is_referred_to(thing: object) -> bool:
    return not isinstance(thing, type | types.FunctionType | types.ModuleType) and weakref.getweakrefcount(thing) > 0


def _held(value: object) -> Iterator[object]:
    todo, seen = [value], set[int]()
    while todo and len(seen) < _LOOKED_AT:
        each = todo.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        yield each
        match each:
            case dict():
                todo += [*each.values()][:_LOOKED_AT]
            case list() | tuple() | set() | frozenset():
                todo += [*each][:_LOOKED_AT]
            case type() | types.FunctionType() | types.ModuleType():
                pass
            case _:
                todo += [*own_dict(each).values()][:_LOOKED_AT]
