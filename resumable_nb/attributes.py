"""What an object has, asked for without a word to its ``__getattr__``: that may do or raise anything."""

from __future__ import annotations

import abc
import contextlib
import types
from collections.abc import Iterator
from typing import Any


def own_dict(thing: object) -> dict[str, Any]:
    """An object's attributes."""
    found = told(thing, "__dict__")
    return found if isinstance(found, dict) else {}


def own_slots(thing: object) -> Iterator[tuple[str, Any]]:
    """What is in the slots that its classes in Python have, by their names there."""
    for kind in type(thing).__mro__:
        if "__slots__" not in vars(kind):
            continue
        for place in vars(kind).values():
            if isinstance(place, types.MemberDescriptorType):
                with contextlib.suppress(AttributeError):  # empty
                    yield place.__name__, place.__get__(thing)


def told(thing: object, name: str) -> Any:
    """One attribute (what it is called, where it is from), or ``None``."""
    try:
        return object.__getattribute__(thing, name)
    except AttributeError:
        return None


def registered_of(kind: type) -> list[type]:
    """The virtual subclasses of an abstract class."""
    if not isinstance(kind, abc.ABCMeta):
        return []
    return [found for each in abc._get_dump(kind)[0] if (found := each()) is not None]  # type: ignore[attr-defined]  # for a look inside


_told: dict[object, dict[int, list[abc.ABCMeta]]] = {}
"""By the number of registrations until now: ``id()`` of each virtual subclass, and the abstract classes that it has."""


def registered_with(kind: type) -> list[abc.ABCMeta]:
    """The abstract classes of modules that have been told of a class of the notebook, in a lasting order."""
    if told(kind, "__module__") != "__main__":
        return []
    token = abc.get_cache_token()
    if (known := _told.get(token)) is None:
        known = _virtual_subclasses()
        _told.clear()
        _told[token] = known
    found = [each for each in known.get(id(kind), ()) if any(kind is other for other in registered_of(each))]
    return sorted(found, key=lambda each: (each.__module__, each.__qualname__))


def _virtual_subclasses() -> dict[int, list[abc.ABCMeta]]:
    known, todo = dict[int, type](), list[type]([object])
    while todo:
        below: list[type] = type.__subclasses__(todo.pop())
        new = {id(each): each for each in below if id(each) not in known}
        known |= new
        todo += new.values()
    found: dict[int, list[abc.ABCMeta]] = {}
    for each in known.values():
        if isinstance(each, abc.ABCMeta) and told(each, "__module__") != "__main__":
            for other in registered_of(each):
                found.setdefault(id(other), []).append(each)
    return found
