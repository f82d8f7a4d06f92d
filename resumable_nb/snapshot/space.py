"""What goes in and comes out of ``Snapshots``."""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable, Collection, Container, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from resumable_nb.codec import is_noticed
from resumable_nb.groups import ITSELF, Joints
from resumable_nb.model import MISSING
from resumable_nb.source import Body

_LET_GO: Final = object()
"""In place of an object that nobody is to hold."""


@dataclass(frozen=True, slots=True)
class Namespace:
    """The variables of a step. ``live`` is what functions defined there have as their globals.

    ``lazy``: variables may be pending here. Only for the notebook's own namespace, where every cell asks first.
    """

    variables: dict[str, Any]
    live: dict[str, Any]
    hidden: Callable[[str], bool]
    lazy: bool = False
    own: Container[str] = frozenset()
    """Names that belong to a function which is running: another call makes them anew."""

    def visible(self) -> dict[str, Any]:
        """The user's variables."""
        return {
            name: value for name, value in self.variables.items() if name != "__builtins__" and not self.hidden(name)
        }


@dataclass(slots=True, eq=False, weakref_slot=True)
class Before:
    """A namespace before a step's body, to compare with."""

    body: Body
    references: dict[str, Any]
    """All visible variables: the objects are kept, so that an address is never taken for another object."""
    reached: frozenset[str]
    """What the body can reach by name."""
    groups: dict[str, tuple[frozenset[str], str]] = field(default_factory=dict)
    """Of what the body may change in place: its sharing group, and the group's digest."""
    alone: dict[str, tuple[frozenset[str], str]] = field(default_factory=dict)
    """Of single members of groups with several: those that are reached from each other, with their digest."""
    untouched: dict[frozenset[str], str] = field(default_factory=dict)
    """Digests of groups with a generator or the like, as if nobody had used it."""
    definitions: dict[int, tuple[Any, Any]] = field(default_factory=dict)
    """Functions and classes that the body may change: ``id()`` to the object, and how streams named it."""
    joints: dict[str, Joints] = field(default_factory=dict)
    """How those that the body may change in place share objects with others, and within."""
    restored: set[str] = field(default_factory=set)
    """What a step inside the body has brought back, or deleted again: not there before the body."""
    random: bytes = b""
    modules: frozenset[str] = frozenset()

    def unmoved(self, variables: Mapping[str, Any]) -> set[str]:
        """Those of the variables that are bound to what they were."""
        return {name for name, value in variables.items() if self.references.get(name, MISSING) is value}

    def let_go(self) -> None:
        """What the body may put an end to is held no more: who notices that does so within it. It counts as bound."""
        for name in self.references.keys() & (self.body.writes | self.body.deletes):
            if is_noticed(self.references[name]):
                self.references[name] = _LET_GO

    def stand_in(self, values: Mapping[str, Any]) -> None:
        """These stand for the objects that were there: they are what the body has made of those."""
        self.references |= {name: value for name, value in values.items() if name in self.groups}

    def joints_of(self, saved: Collection[str], variables: Mapping[str, Any]) -> dict[str, Joints]:
        """Of what was saved and still is the object that it was; what is only made anew was there by accident."""
        kept = {name for name, value in self.references.items() if variables.get(name, MISSING) is value}
        met = kept | self.reached | {ITSELF}
        return {
            name: {other: mark for other, mark in self.joints[name].items() if other in met}
            for name in kept.intersection(saved, self.joints)
        }

    def in_place(self, space: Namespace, names: Collection[str]) -> str:
        """Why a restored copy would not be the object that a function's caller holds; empty where it changed none."""
        same = [name for name in names if self.references.get(name, MISSING) is space.variables.get(name)]
        return f"it changes {', '.join(sorted(same))} of its caller in place" if same else ""


class Open(weakref.WeakSet[Before]):
    """The bodies that are running, each with what was there before it."""

    @contextlib.contextmanager
    def aside(self) -> Iterator[None]:
        """Within the block what is loaded is none of theirs."""
        kept = [*self]
        self.clear()
        try:
            yield
        finally:
            self.update(kept)


@dataclass(frozen=True, slots=True)
class Capture:
    """What was saved. ``rows`` are to be committed together with the record that names ``manifest_digest``."""

    manifest_digest: str
    rows: dict[str, bytes]
    size_bytes: int
    """Bytes that were not in the store before."""
    saved: tuple[str, ...]
    unsaved: dict[str, str]
    changed: frozenset[str]
    """Names that the step created, bound, changed in place or deleted."""
    digests: dict[str, str]
    """Canonical digests of what was saved."""
    unchanged: frozenset[str] = frozenset()
    """Names that were compared with what they were before the body, and are the same."""
    perhaps: frozenset[str] = frozenset()
    """Names that it may have bound, to the very objects that they had; or it has left them alone."""
    joints: Mapping[str, Joints] = field(default_factory=dict)
    """How variables that were there before, and are saved, shared objects when the body began."""
    set: frozenset[str] = frozenset()
    """Names that it surely has set: ``changed``, what it bound to what it was, and what could not be saved."""
    same: frozenset[str] = frozenset()
    """Names that were saved inside a body, and are bound to what they were when it began."""


@dataclass(frozen=True, slots=True)
class Restored:
    """``names`` are bound, or pending; ``deleted`` are gone."""

    names: tuple[str, ...]
    deleted: tuple[str, ...]
    set: frozenset[str] = frozenset()
    """Names that the step had surely set: those are what it left, loaded now, or as they were."""
    result: str = ""
    """What to ask ``Snapshots.result`` for the value of the last expression; empty where none was saved."""
