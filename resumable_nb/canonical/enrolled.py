"""Classes of the notebook that a library has entered into registries of its own: it knows them, and they know it."""

from __future__ import annotations

import sys
import weakref
from typing import Final

from resumable_nb.canonical.origin import user_module

ENROLLED: Final = "which a library has entered into a registry"
"""Why such a class is not saved: a copy would be unknown to the library, and known to it under the name of another."""


def is_enrolled(kind: type) -> bool:
    """Whether an object of a library that stands in the class, or in one above it, is referred to weakly.

    That is how a registry holds its entries: a mapper's class and its manager, a registry of mappers.
    """
    return any(map(_has_entry, (each for each in kind.__mro__ if user_module(each.__module__) or not _is_found(each))))


def leads_to_enrolled(thing: object) -> bool:
    """Whether it is such a class, or one of a library's own that has a registry for them."""
    return isinstance(thing, type) and any(map(_has_entry, thing.__mro__))


def _has_entry(kind: type) -> bool:
    return any(map(_is_entry, tuple(vars(kind).values())))


def _is_found(kind: type) -> bool:
    """Whether its module has the class under its name; not where a call of the library has made it for the notebook."""
    found: object = sys.modules.get(kind.__module__)
    for name in kind.__qualname__.split("."):
        found = getattr(found, name, None)
    return found is kind


def is_librarys(thing: object) -> bool:
    """Whether an installed package has the class of this object."""
    package = str(type(thing).__module__).partition(".")[0]
    return package not in sys.stdlib_module_names and package != "None" and not user_module(type(thing).__module__)


def _is_entry(member: object) -> bool:
    try:
        return weakref.getweakrefcount(member) > 0 and not isinstance(member, type) and is_librarys(member)
    except TypeError:
        return False
