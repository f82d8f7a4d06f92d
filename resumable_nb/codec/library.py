"""What the names of functions and classes in a stream mean: the living one, one made earlier, or its definition."""

from __future__ import annotations

import copy
import threading
import types
import weakref
from collections.abc import Callable, Collection, Mapping
from typing import Any

from resumable_nb.codec.apart import bearer, recall
from resumable_nb.codec.definitions import APART, Definitions, is_definition
from resumable_nb.model import MISSING, Missing

Fetch = Callable[[str], "bytes | Missing"]
"""Key of a definition (``name@digest``) to the stream that holds it."""


class Shelf:
    """The library of one namespace. What it builds it keeps, so that all streams share one function or class.

    ``load`` brings a variable back that is pending, and says whether it did; ``build`` reads a definition's stream.
    """

    trial = False

    def __init__(
        self,
        definitions: Definitions,
        build: Callable[[bytes], Any],
        fetch: Fetch,
        load: Callable[[str], bool],
        former: Callable[[str], object],
    ) -> None:
        self._definitions = definitions
        self._build = build
        self._fetch = fetch
        self._load = load
        self._former = former
        self._built: dict[tuple[str, str], Any] = {}
        self._made: dict[str, list[weakref.ref[type]]] = {}
        """Classes by name. Others may have these names by now, and somebody still builds on the former ones."""
        self._lock = threading.RLock()

    def apart(self) -> Shelf:
        """The same, for reading what must not change anything living."""
        other = copy.copy(self)
        other.trial = True
        return other

    def resolve(self, name: str, digest: str) -> Any:
        with self._lock:
            found = self.adopt(name, digest)
            if found is MISSING and self._load(name.partition(".")[0]):
                found = self.adopt(name, digest)
            if found is MISSING:
                stream = self._fetch(f"{name}@{digest}")
                if not isinstance(stream, Missing):
                    found = self._built[name, digest] = self._build(stream)
                    recall(digest, found)
            return found

    def meet(self, keys: Collection[str]) -> None:
        """Of these names, keep what they mean now: code that runs before they are read may patch it."""
        with self._lock:
            for name, _, digest in (key.partition("@") for key in keys):
                found = self._definitions.find(name)
                if is_definition(found) and self._definitions.reference(found) == (name, digest):
                    self._built[name, digest] = found

    def adopt(self, name: str, digest: str) -> Any:
        former = self._made.get(name, ()) if digest.startswith(APART) else ()
        known = (self._definitions.find(name), self._former(name), bearer(digest), *(each() for each in former))
        for found in known:
            if found is not MISSING and is_definition(found) and self._definitions.reference(found) == (name, digest):
                return found
        built = self._built.get((name, digest), MISSING)
        if isinstance(built, types.FunctionType) and self._definitions.reference(built) not in ((name, digest), None):
            return MISSING  # its attributes were set since
        return built

    def goes_on(self, name: str, /) -> Any:
        found = self._former(name)
        return found if isinstance(found, type) and found.__qualname__ == name else MISSING

    def register(self, name: str, digest: str, thing: Any) -> None:
        self._built[name, digest] = thing
        recall(digest, thing)
        if isinstance(thing, type):
            self._made[name] = [*(each for each in self._made.get(name, ()) if each() is not None), weakref.ref(thing)]

    def forget(self, name: str) -> None:
        """Another class has that name from now on."""
        with self._lock:
            for key in [each for each in self._built if each[0].partition(".")[0] == name]:
                del self._built[key]


class Trial:
    """Reading back what was just written: every name means the object that it was written for."""

    trial = True

    def __init__(self, definitions: Definitions, refs: Mapping[str, object]) -> None:
        self._definitions = definitions
        self._refs = refs

    def resolve(self, name: str, digest: str) -> Any:
        return self._refs.get(f"{name}@{digest}", MISSING)

    def adopt(self, name: str, digest: str) -> Any:
        found = self._definitions.find(name)
        return found if is_definition(found) and self._definitions.reference(found) == (name, digest) else MISSING

    def goes_on(self, _name: str, /) -> Any:
        return MISSING

    def register(self, name: str, digest: str, thing: Any) -> None:
        """Nothing is kept."""
