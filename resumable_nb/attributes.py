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
