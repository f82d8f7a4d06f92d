"""Which variables share mutable objects? They are saved together, so that two names for one list stay one list.

Everything that each variable holds is walked with ``gc.get_referents``. Arrays, which the collector does not see into,
share where their address ranges overlap. pandas objects are an island: since copy-on-write two frames over one memory
are two values, and must never be restored over one.
"""

from __future__ import annotations

import collections
import contextvars
import dataclasses
import functools
import gc
import itertools
import sys
import types
import weakref
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from resumable_nb.attributes import own_dict
from resumable_nb.groups.graphs import leaves
from resumable_nb.groups.memory import (
    array_children,
    can_be_view,
    clusters,
    extent,
    is_index,
    memory_of,
    pandas_children,
    root,
)  # fmt: skip
from resumable_nb.groups.verdict import ATOMS, Verdict, is_atom, members_of, verdict_of, wrapped

Written = Literal["imported", "named", "held"]
"""How a stream writes a function or class: as a module's attribute, as the name of a definition, or by value."""


@dataclass(slots=True)
class Holding:
    """What one variable holds: mutable objects by ``id()``, arrays, and functions and classes that go by name."""

    nodes: dict[int, object] = field(default_factory=dict)
    arrays: list[Any] = field(default_factory=list)
    island: list[Any] = field(default_factory=list)
    """Arrays inside pandas objects."""
    definitions: dict[int, Any] = field(default_factory=dict)
    owned: set[int] = field(default_factory=set)
    """Classes inside a class that is the variable's own value."""
    folded: bool = False
    """One of the objects may be met on several ways."""

    @property
    def size_bytes(self) -> int:
        """A guess at how much there is to write."""
        return 64 * len(self.nodes) + sum(int(each.nbytes) for each in (*self.arrays, *self.island))

    def join(self, other: Holding) -> None:
        """This one leads to all that the other holds."""
        for mine, others in ((self.arrays, other.arrays), (self.island, other.island)):
            known = set(map(id, mine))
            mine += [each for each in others if id(each) not in known]
        self.nodes |= other.nodes
        self.definitions |= other.definitions
        self.owned |= other.owned


_NOTHING: Final = Holding()
_NO_METADATA: Final = id(gc.get_referents(dataclasses.field().metadata)[0])
"""One empty dictionary, which all fields of dataclasses have and nobody can change."""


class Survey:
    """What a set of variables holds, and which of them share. A value that is an atom is in no group.

    ``kind_of(thing)`` says of a function or class how streams write it.
    """

    def __init__(
        self, values: Mapping[str, object], kind_of: Callable[[object], Written], live: Mapping[str, object]
    ) -> None:
        self._kind_of = kind_of
        self._kinds: dict[int, Written] = {}
        self._live = id(live)
        self._labels = {id(value) for value in values.values() if is_index(value)}
        """Indexes that are variables themselves: a frame may have one, too."""
        self._values = values
        self._walked: dict[str, Holding] = {}
        self._tangled: dict[int, Holding] = {}
        """What objects hold that were walked through, and in which one thing is met on several ways, by ``id()``."""

    def holding(self, name: str) -> Holding | None:
        """What one variable holds; ``None`` for an atom, and for what is no variable."""
        if name not in self._walked and not is_atom(self._values.get(name)):
            value = self._values[name]
            found = self._walked[name] = self._walk(value)
            if found.folded and verdict_of(type(value)) is Verdict.PLAIN:
                self._tangled[id(value)] = found
        return self._walked.get(name)

    @functools.cached_property
    def holdings(self) -> dict[str, Holding]:
        """What each variable holds that is no atom."""
        return {name: found for name in self._values if (found := self.holding(name)) is not None}

    @functools.cached_property
    def groups(self) -> dict[str, frozenset[str]]:
        return self._partition(islands=False)

    @functools.cached_property
    def near(self) -> dict[str, frozenset[str]]:
        """As ``groups``, with pandas objects joined to the arrays whose memory they use."""
        joined = any(holding.island for holding in self.holdings.values())
        return self._partition(islands=True) if joined else self.groups

    def groups_of(self, names: Iterable[str]) -> set[frozenset[str]]:
        """The groups that these variables are in. The others are not looked at, where these hold nothing to share."""
        held = {name: found for name in names if (found := self.holding(name)) is not None}
        if any(each.nodes for each in held.values()):
            return {self.groups[name] for name in held}
        return {frozenset((name,)) for name in held}

    def group_of(self, name: str) -> frozenset[str]:
        return next(iter(self.groups_of((name,))), frozenset((name,)))

    def extended(self, names: Collection[str]) -> frozenset[str]:
        """``names``, and all that share with them, through pandas objects too."""
        held = {name: found for name in names if (found := self.holding(name)) is not None}
        if not any(each.nodes for each in held.values()):
            return frozenset(names)
        return frozenset().union(names, *(self.near[name] for name in held))

    def shared_memory(self, names: Iterable[str]) -> tuple[dict[int, tuple[int, int]], dict[int, Any]]:
        """The arrays of a group that overlap: ``id()`` to the address range that they look into together.

        The second mapping is for arrays of objects: ``id()`` of a view to the array that owns its elements.
        """
        holdings = [found for name in names if (found := self.holding(name)) is not None]
        arrays = {id(each): each for holding in holdings for each in holding.arrays}
        flat = [each for each in arrays.values() if not root(each).dtype.hasobject and can_be_view(each)]
        memory: dict[int, tuple[int, int]] = {}
        for cluster in clusters([(*bounds, each) for each in flat if (bounds := extent(each))]):
            if len(cluster) > 1:
                low, high = min(each[0] for each in cluster), max(each[1] for each in cluster)
                memory |= {id(each[2]): (low, high) for each in cluster}
        owners: dict[int, list[Any]] = {}
        for each in arrays.values():
            if root(each).dtype.hasobject:
                owners.setdefault(id(root(each)), []).append(each)
        roots = {id(each): root(each) for family in owners.values() if len(family) > 1 for each in family}
        return memory, roots

    # --- walking

    def _walk(self, value: object) -> Holding:
        verdict = verdict_of(type(value))
        if verdict is Verdict.DEFINITION and self._written(value) == "imported":
            return _NOTHING  # ``from library import *`` binds hundreds
        found = Holding()
        held = itertools.chain(gc.get_referents(value), _inline([value]))
        if verdict is Verdict.PLAIN and ATOMS.issuperset(map(type, held)):
            found.nodes[id(value)] = value  # most variables, and the longest lists
            return found
        seen: set[int] = {id(value), _NO_METADATA}
        frontier: list[Any] = [value]
        top, ways, tangled = True, 0, False
        while frontier:
            verdicts = {kind: verdict_of(kind) for kind in {*map(type, frontier)}}
            plain = _of(frontier, verdicts, Verdict.PLAIN)
            found.nodes.update(zip(map(id, plain), plain, strict=True))
            children = gc.get_referents(*plain, *_of(frontier, verdicts, Verdict.TRANSPARENT))
            if dict in verdicts:
                children += _inline(plain)
            if not _IN_BULK.issuperset(verdicts.values()):
                for thing in frontier:
                    if (verdict := verdicts[type(thing)]) not in _IN_BULK:
                        children += self._singly(thing, verdict, found, top=top)
            ways += sum(count for kind, count in collections.Counter(map(type, children)).items() if _is_node(kind))
            frontier = self._new(children, seen)
            top = False
            for known in [self._tangled[id(each)] for each in frontier if id(each) in self._tangled]:
                found.join(known)  # a figure has much to walk through, and many variables lead into it
                seen |= known.nodes.keys()
                frontier = [each for each in frontier if id(each) not in known.nodes]
                tangled = True
        things = len(found.nodes.keys() - found.definitions.keys() - {id(value)})
        found.folded = tangled or ways > things or len(found.arrays) > 1
        return found

    def _singly(self, thing: Any, verdict: Verdict, found: Holding, *, top: bool) -> list[Any]:
        """Note a thing that has a way of its own; what it leads to."""
        match verdict:
            case Verdict.DEFINITION:
                return self._definition(thing, found, top=top)
            case Verdict.ARRAY:
                found.nodes[id(thing)] = thing
                found.arrays.append(thing)
                return array_children(thing)
            case Verdict.PANDAS:
                found.nodes[id(thing)] = thing
                axes = getattr(getattr(thing, "_mgr", None), "axes", ())
                labels = [each for each in axes if id(each) in self._labels]
                return pandas_children(thing, found.island) + labels
            case Verdict.WEAK:
                found.nodes[id(thing)] = thing
                kept = thing.values() if isinstance(thing, weakref.WeakValueDictionary) else thing
                return [*gc.get_referents(thing), *kept]
            case Verdict.TENSOR:
                found.nodes[id(thing)] = thing
                found.arrays += memory_of(thing)
                return [thing.grad if thing.is_leaf else None, *vars(thing).values(), *leaves(thing)]
            case Verdict.REFERENCE:
                target = thing()
                # Libraries tie much together in this way that nobody sees; through one to a container that is changed
                # (torch's handle of a hook).
                seen = top or type(target).__module__ == "__main__" or type(target) in _CONTAINERS
                return [target] if seen else []
            case Verdict.VARIABLE:
                found.nodes[id(thing)] = thing
                return [contextvars.copy_context().get(thing)]
            case Verdict.ENUM:
                return [type(thing)]
            case Verdict.RESULTS:
                found.nodes[id(thing)] = thing
                return sources(thing)
            case Verdict.ROW:  # of a structured array: what is set in it is set there
                found.nodes[id(thing)] = thing
                return [thing.base]
            case Verdict.WRAPPER:
                found.nodes[id(thing)] = thing
                return [*wrapped(thing).values()]
            case Verdict.EXPRESSION:
                return [*thing.args]  # not the library's caches, in which all of them meet
            case _:
                return []

    def _new(self, children: list[Any], seen: set[int]) -> list[Any]:
        """Those that were not met, and are not atoms. In bulk: most of a survey's time is spent here."""
        verdicts = {kind: verdict_of(kind) for kind in {*map(type, children)}}
        if Verdict.STOP in verdicts.values():
            children = [child for child in children if verdicts[type(child)] is not Verdict.STOP]
        fresh = dict(zip(map(id, children), children, strict=True))
        fresh.pop(self._live, None)
        for key in fresh.keys() & seen:
            del fresh[key]
        seen.update(fresh)
        return list(fresh.values())

    def _written(self, thing: object) -> Written:
        if id(thing) not in self._kinds:
            self._kinds[id(thing)] = self._kind_of(thing)
        return self._kinds[id(thing)]

    def _definition(self, thing: Any, found: Holding, *, top: bool) -> list[Any]:
        """Functions and classes: those that go by name are noted, the others are objects like any other.

        A class that is a variable's own value is saved with its state.
        """
        written = self._written(thing)
        if written == "imported":
            return []
        found.definitions[id(thing)] = thing
        if written == "named" and not (isinstance(thing, type) and (top or id(thing) in found.owned)):
            return []
        found.nodes[id(thing)] = thing
        if isinstance(thing, type):
            inner = [each for each in vars(thing).values() if isinstance(each, type)]
            found.owned |= {id(each) for each in inner if each.__qualname__.startswith(f"{thing.__qualname__}.")}
            members = (value for name, value in vars(thing).items() if name != "__dict__")
            return [type(thing), *thing.__bases__, *members, *map(own_dict, members_of(thing))]
        if isinstance(thing, types.FunctionType):
            parts = (thing.__closure__, thing.__defaults__, thing.__kwdefaults__, thing.__dict__ or None)
            return [part for part in parts if part is not None]
        return [thing.__wrapped__, vars(thing)]

    # --- joining

    def _partition(self, *, islands: bool) -> dict[str, frozenset[str]]:
        held = {name: found for name, found in self.holdings.items() if found.nodes or found.arrays or found.island}
        parent = {name: name for name in held}

        def find(name: str) -> str:
            while parent[name] != name:
                parent[name] = name = parent[parent[name]]
            return name

        owner: dict[int, str] = {}
        for name, holding in held.items():
            for other in {*map(owner.__getitem__, holding.nodes.keys() & owner.keys())}:
                parent[find(other)] = find(name)
            owner.update(dict.fromkeys(holding.nodes, name))
        spans = [
            (*bounds, name)
            for name, holding in held.items()
            for each in ((*holding.arrays, *holding.island) if islands else holding.arrays)
            if (bounds := extent(each))
        ]
        for cluster in clusters(spans):
            for _, _, name in cluster[1:]:
                parent[find(name)] = find(cluster[0][2])
        members: dict[str, list[str]] = {}
        for name in parent:
            members.setdefault(find(name), []).append(name)
        alone = {name: frozenset((name,)) for name in self.holdings.keys() - held.keys()}
        return alone | {name: group for names in members.values() for group in [frozenset(names)] for name in names}


_CONTAINERS: Final = (set, collections.OrderedDict, collections.deque, collections.defaultdict, collections.Counter)
"""Those that can be referred to weakly."""
_NODES: Final = frozenset(
    {Verdict.PLAIN, Verdict.ARRAY, Verdict.TENSOR, Verdict.WEAK, Verdict.PANDAS, Verdict.VARIABLE, Verdict.WRAPPER}
)
_IN_BULK: Final = frozenset({Verdict.PLAIN, Verdict.TRANSPARENT, Verdict.STOP})


def sources(iterator: Any) -> list[Any]:
    """What an iterator goes through, without the tuple that it gave last, be that a variable's by now."""
    held = gc.get_referents(iterator)
    if type(iterator).__module__ == "builtins" and type(iterator) is not zip:
        return [each for each in held if type(each) is not tuple]
    return [*held[:1], *(each for each in held[1:] if type(each) is not tuple)]  # first what they go through


def _inline(things: list[Any]) -> list[Any]:
    """From Python 3.13 on the collector does not see into a dictionary whose values an object holds."""
    if sys.version_info < (3, 13):
        return []
    return [
        value
        for each in things
        if type(each) is dict and each and not gc.get_referents(each)
        for value in each.values()
    ]


def _is_node(kind: type) -> bool:
    return verdict_of(kind) in _NODES


def _of(things: list[Any], verdicts: Mapping[type, Verdict], wanted: Verdict) -> list[Any]:
    """The things of one verdict."""
    kinds = {kind for kind, verdict in verdicts.items() if verdict is wanted}
    if not kinds or len(kinds) == len(verdicts):
        return things if kinds else []
    return [thing for thing in things if type(thing) in kinds]
