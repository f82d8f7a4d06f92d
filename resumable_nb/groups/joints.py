"""Where do variables share objects, told so that two runs of the same code tell the same?

An object is known by its path from the variable (``['a'][0].rows``), memory by how far apart two arrays look into it.
Ways into a library's own objects are not told apart: those fill caches and come back in another form (a figure), so
all that is within one counts as one place, and what only two such places share does not count.
"""

from __future__ import annotations

import collections
import functools
import gc
import itertools
import operator
import types
import weakref
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from blake3 import blake3

from resumable_nb.attributes import own_dict, own_slots, told
from resumable_nb.change import NAMED
from resumable_nb.groups.memory import extent, memory_of, root
from resumable_nb.groups.survey import Holding, Survey, sources
from resumable_nb.groups.verdict import Verdict, is_atom, members_of, verdict_of, wrapped

MANY: Final = 20_000
"""Objects up to which paths are followed; of more it only counts with whom they are shared."""
DEEP: Final = 100_000
"""Parts of libraries' objects that are looked through."""
CROWD: Final = 30
"""Variables up to which each is compared with each."""
ITSELF: Final = ""
"""In place of another variable: one object is met twice on the way through this one."""

SAME: Final = "is"
"""In place of a digest: the two are one object."""

Joints = Mapping[str, str]
"""Other variables that share objects with one, each with a digest of what is shared. See also ``NAMED``."""

_OPEN: Final = frozenset(
    {
        list,
        dict,
        set,
        types.CellType,
        collections.deque,
        collections.OrderedDict,
        collections.defaultdict,
        types.SimpleNamespace,
    }
    | {collections.UserDict, collections.UserList, collections.ChainMap}
)
_LEAVES: Final = (Verdict.STOP, Verdict.DEFINITION, Verdict.ENUM, Verdict.REFERENCE, Verdict.EXPRESSION)


def joints(
    survey: Survey, names: frozenset[str], values: Mapping[str, Any], is_users: Callable[[type], bool]
) -> Mapping[str, Joints]:
    """Of variables that form a sharing group; those that share nothing have an empty mapping.

    ``is_users``: whether a class is of the notebook or the user's modules.
    """
    held = {name: holding for name in sorted(names) if (holding := survey.holding(name)) is not None}
    found: dict[str, dict[str, str]] = {name: {} for name in held}
    if len(held) == 1 and not any(each.folded for each in held.values()):
        return found
    if len(held) > CROWD:
        return {name: _many(held, name) for name in held}
    trails: dict[str, _Trail] = {}
    known: dict[int, _Parts] = {}
    for name in held:
        inner = held[name].definitions.keys() & held[name].nodes.keys()
        trails[name] = _Trail(values[name], is_users, known, inner)
        if sum(len(each.steps) - len(each.within) for each in trails.values()) > MANY:
            return {name: _many(held, name) for name in held}
    for name, trail in trails.items():
        if trail.again:
            found[name][ITSELF] = _digest(sorted(set(trail.again)))
    for one, other in itertools.combinations(held, 2):
        common = sorted(set(_common(trails[one], trails[other])))
        if common:
            found[one][other] = _digest(common)
            found[other][one] = _digest([(there, here, -apart) for here, there, apart in common])
    return found


def partners(shared: Joints) -> set[str]:
    """The other variables that share what can be changed in both."""
    return {other for other, mark in shared.items() if other != ITSELF and mark != NAMED}


def _many(held: Mapping[str, Holding], name: str) -> dict[str, str]:
    return dict.fromkeys(held.keys() - {name}, "many") | ({ITSELF: "many"} if held[name].folded else {})


def _digest(found: list[tuple[str, str, int]]) -> str:
    if found == [("", "", 0)]:
        return SAME
    return blake3(repr(sorted(found)).encode("utf-8", "surrogatepass")).hexdigest(length=6)


@dataclass(slots=True)
class _Trail:
    """The way through one value."""

    value: Any
    is_users: Callable[[type], bool]
    known: dict[int, _Parts]
    """``id()`` to what is in an object, for all trails: those that share a figure have all of it in common."""
    inner: Collection[int]
    """``id()`` of functions and classes that it holds itself, and does not only name."""
    steps: dict[int, tuple[int, str]] = field(default_factory=dict)
    """``id()`` to the one that led there first, and how."""
    within: dict[int, int] = field(default_factory=dict)
    """``id()`` of what is a part of a library's object, to that object's."""
    arrays: list[tuple[int, int, int]] = field(default_factory=list)
    """Address range, and ``id()`` of the object that the array is of."""
    again: list[tuple[str, str, int]] = field(default_factory=list)
    kept: list[Any] = field(default_factory=list)
    """Nothing that was met may go before the end, and another come to lie at its address."""

    def __post_init__(self) -> None:
        libraries = self._walk()
        # After all that is the user's own, so that a way there is the user's where there is one.
        for thing in libraries:
            if len(self.within) > DEEP:
                break
            self._look_through(thing)
        self.arrays.sort()
        for (low, high, one), (begin, _, other) in itertools.pairwise(self.arrays):
            if begin < high and one != other and not (one in self.within and other in self.within):
                told = one not in self.within and other not in self.within
                self.again.append((self.path(one), self.path(other), begin - low if told else 0))

    def _walk(self) -> list[Any]:
        """Follow the user's ways; returns objects of libraries that were met, whose parts were not followed."""
        found: list[Any] = []
        leaf = verdict_of(type(self.value)) in _LEAVES and id(self.value) not in self.inner
        todo: list[_Way] = [] if leaf else [(self.value, 0, "")]
        while todo and len(self.steps) <= MANY:
            thing, parent, label = todo.pop()
            verdict = verdict_of(type(thing))
            key = id(thing)
            self.kept.append(thing)
            if key in self.steps:
                if verdict is not Verdict.TRANSPARENT:
                    self.again.append((self.path(key), f"{self.path(parent)}{label}", 0))
                continue
            self.steps[key] = (parent, label)
            if self._is_open(thing, verdict):
                todo += self._ways(thing)
            else:
                found.append(thing)
        return found

    def _look_through(self, thing: Any) -> None:
        """Note what is in a library's object. Variables that share a figure do so in turn: nothing but look-ups here,
        for what is known."""
        library, steps, within, known = id(thing), self.steps, self.within, self.known
        todo = [(each, library, "") for each, _, _ in self._ways(thing)]
        todo.reverse()
        open_ = len(steps) - len(within)
        while todo and len(within) <= DEEP and open_ <= MANY:
            thing, parent, label = todo.pop()
            key = id(thing)
            if key in within:
                continue
            if key in steps:
                # A library's parts lead back to it.
                if verdict_of(type(thing)) is not Verdict.TRANSPARENT and not self._leads_to(library, key):
                    self.again.append((self.path(key), f"{self.path(parent)}{label}", 0))
                continue
            steps[key] = (parent, label)
            within[key] = library
            parts = known.get(key)
            if parts is None:
                parts = known[key] = _Parts(thing)  # which keeps what it leads to
            self.arrays += parts.spans
            todo += parts.ways
            if parts.definitions:
                todo += [way for way in parts.definitions if id(way[0]) in self.inner]

    def _is_open(self, thing: Any, verdict: Verdict) -> bool:
        """Whether the ways through it are the user's."""
        return verdict is not Verdict.PLAIN or type(thing) in _OPEN or self.is_users(type(thing))

    def _leads_to(self, key: int, other: int) -> bool:
        """Whether the other one is on the way to this one, or is this one."""
        while key in self.steps and key != other:
            key = self.steps[key][0]
        return key == other

    def path(self, key: int) -> str:
        key = self.within.get(key, key)
        labels = []
        while key in self.steps:
            key, label = self.steps[key]
            labels.append(label)
        return "".join(reversed(labels))

    def _ways(self, thing: Any) -> list[_Way]:
        """The ways on, the first one last; its memory is noted."""
        found = self.known.get(id(thing))
        if found is None:
            found = self.known[id(thing)] = _Parts(thing)
        self.arrays += found.spans
        own = [way for way in found.definitions if id(way[0]) in self.inner]
        return found.ways + own if own else found.ways


_Way = tuple[Any, int, str]
"""An object, the ``id()`` of the one that led there, and how."""


class _Parts:
    """What is in an object: ways on, those to functions and classes apart, and address ranges of its memory."""

    __slots__ = ("definitions", "spans", "ways")

    def __init__(self, thing: Any) -> None:
        key, verdict = id(thing), verdict_of(type(thing))
        self.spans: list[tuple[int, int, int]] = []
        parts: Iterable[tuple[str, Any]] = ()
        match verdict:
            case Verdict.ARRAY | Verdict.TENSOR:
                for array in [thing] if verdict is Verdict.ARRAY else memory_of(thing):
                    if span := extent(array):
                        self.spans.append((*span, key))
                if verdict is Verdict.ARRAY and thing.dtype.hasobject and root(thing) is thing:
                    parts = (("[]", each) for each in thing.ravel().tolist())
            case Verdict.PLAIN | Verdict.TRANSPARENT:
                parts = _parts(thing)
            case Verdict.RESULTS:
                parts = ((f"~{k}", each) for k, each in enumerate(sources(thing)))
            case Verdict.DEFINITION:
                parts = _members(thing)
        ways = [(each, key, label) for label, each in parts]
        ways.reverse()
        self.ways = [way for way in ways if verdict_of(type(way[0])) not in _LEAVES]
        self.definitions = [way for way in ways if verdict_of(type(way[0])) is Verdict.DEFINITION]


def _parts(thing: Any) -> Iterator[tuple[str, Any]]:
    known = True
    if type(thing) in weakref.ProxyTypes:  # answers for what it leads to, which may be gone
        return
    match thing:
        case list() | tuple() | collections.deque():
            yield from ((f"[{k}]", each) for k, each in enumerate(thing) if not is_atom(each))
        case dict():
            items = [(repr(key) if is_atom(key) else "?", each) for key, each in dict.items(thing)]
            yield from sorted(
                ((f"[{key}]", each) for key, each in items if not is_atom(each)), key=lambda each: each[0]
            )
        case set() | frozenset():
            yield from (("{}", each) for each in thing if not is_atom(each))
        case staticmethod() | classmethod():
            yield from ((f".{name}", each) for name, each in sorted(wrapped(thing).items()) if not is_atom(each))
            return
        case _:
            known = False
    own = told(thing, "__dict__") if type(thing).__dictoffset__ else None
    kind: type = type(thing)
    slotted = _has_slots(kind)
    if type(own) is dict:
        parts = [(str(name), each) for name, each in own.items() if not is_atom(each)]
        yield from ((f".{name}", each) for name, each in sorted(parts, key=operator.itemgetter(0)))
    elif not known and not slotted:
        yield from ((f"~{k}", each) for k, each in enumerate(gc.get_referents(thing)) if not is_atom(each))
    if slotted:
        yield from ((f".{name}", each) for name, each in own_slots(thing))


def _members(thing: Any) -> Iterator[tuple[str, Any]]:
    """What a function or class has that others may have, too; not what Python or a library keeps in a class."""
    if isinstance(thing, type):
        yield from ((f".__bases__[{k}]", each) for k, each in enumerate(thing.__bases__))
        for name, each in sorted(vars(thing).items(), key=operator.itemgetter(0)):
            if not name.startswith("__") or isinstance(each, types.FunctionType):
                yield f".{name}", each
        yield from ((f".{each._name_}", own_dict(each)) for each in members_of(thing))
        return
    if isinstance(thing, types.FunctionType):
        yield from ((f".__closure__[{k}]", each) for k, each in enumerate(thing.__closure__ or ()))
        yield from ((f".__defaults__[{k}]", each) for k, each in enumerate(thing.__defaults__ or ()))
        yield from ((f".__kwdefaults__[{name}]", each) for name, each in sorted((thing.__kwdefaults__ or {}).items()))
    yield from ((f".{name}", each) for name, each in sorted(vars(thing).items()))


@functools.lru_cache(maxsize=4096)
def _has_slots(kind: type) -> bool:
    return any("__slots__" in vars(each) for each in kind.__mro__)


def _common(one: _Trail, other: _Trail) -> Iterator[tuple[str, str, int]]:
    """The outermost objects that both have, and arrays that look into one memory."""
    both = one.steps.keys() & other.steps.keys()
    for key in both - (one.within.keys() & other.within.keys()):
        if one.steps[key][0] not in both:
            yield one.path(key), other.path(key), 0
    spans = sorted([(*each, True) for each in one.arrays] + [(*each, False) for each in other.arrays])
    for (low, high, here, first), (begin, _, there, second) in itertools.pairwise(spans):
        if begin >= high or first == second:
            continue
        mine, others, apart = (here, there, begin - low) if first else (there, here, low - begin)
        inside = (mine in one.within) + (others in other.within)
        if inside < 2:
            yield one.path(mine), other.path(others), 0 if inside else apart
