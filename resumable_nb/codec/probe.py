"""Where in a value is the object that cannot be written?"""

from __future__ import annotations

import copyreg
import io
import itertools
import pickle
import types
from collections import deque
from collections.abc import Collection, Iterator
from typing import Any, Final

from resumable_nb.attributes import own_dict, own_slots, told
from resumable_nb.canonical import content, is_enrolled, module_named
from resumable_nb.codec.definitions import is_filled
from resumable_nb.codec.encoder import Encoder
from resumable_nb.widgets import parts_of, state_of

FINDABLE: Final = 1_000_000
"""How many objects are looked at in search of a path."""


_USED_UP: Final = (types.GeneratorType, types.AsyncGeneratorType, io.IOBase)
"""Objects that change with each use."""


_IN_MEMORY: Final = frozenset(
    {
        ("sqlite3", "Connection"),
        ("sqlite3", "Cursor"),
        ("duckdb", "DuckDBPyConnection"),
        ("_duckdb", "DuckDBPyConnection"),
    }
)
"""Databases that may lie in memory alone."""


def used_up(thing: object) -> bool:
    """Whether each use changes it, and nothing shows that."""
    return isinstance(thing, _USED_UP)


def changing(things: Collection[object]) -> list[object]:
    """Those of many that code which can get at them may have changed, and nothing shows that."""
    kinds = {kind for kind in set(map(type, things)) if _changes_unseen(kind)}
    return [each for each in things if type(each) in kinds] if kinds else []


def _changes_unseen(kind: type) -> bool:
    return issubclass(kind, _USED_UP) or any((each.__module__, each.__name__) in _IN_MEMORY for each in kind.__mro__)


_LOOKS: Final = itertools.count(1)


def opaque(kind: str, identity: int, look: int, state: str) -> None:
    """What stands in a stream for an object that cannot be written. Such a stream is compared, never read."""


class Probe(Encoder):
    """An encoder that goes on after a failure, and notes it in ``offenders``: object and error."""

    def __init__(self, *args: Any, untouched: bool = False, **options: Any) -> None:
        super().__init__(*args, **options)
        self._untouched = untouched
        self.offenders: list[tuple[Any, Exception]] = []

    def reducer_override(self, thing: Any) -> Any:
        kind = type(thing)
        try:
            reduced = super().reducer_override(thing)
            if reduced is not NotImplemented or issubclass(kind, type) or kind is types.FunctionType:
                return reduced
            reducer = self.dispatch_table.get(kind) or copyreg.dispatch_table.get(kind)
            reduced = reducer(thing) if reducer is not None else thing.__reduce_ex__(5)
            if isinstance(reduced, str) and not _is_global(thing, reduced):
                raise pickle.PicklingError(f"cannot pickle {kind.__qualname__!r} object: {reduced} is another object")
        except RecursionError:
            raise
        except Exception as error:
            error.__traceback__ = error.__context__ = None  # whose frames hold us, and with us the value
            self.offenders.append((thing, error))
            # A generator goes on and a file's position moves, and nothing shows it: no two looks are the same.
            if issubclass(kind, type) and is_enrolled(thing):
                return opaque, (thing.__qualname__, id(thing), 0, content(thing, lenient=True).digest)
            look = next(_LOOKS) if _changes_unseen(kind) and not self._untouched else 0
            # Its parts as its state: they may lead back to it.
            return opaque, (kind.__qualname__, id(thing), look, state_of(thing)), parts_of(thing) or None
        return reduced


def offender(value: Any, offenders: list[tuple[Any, Exception]]) -> tuple[str, Exception]:
    """The shortest path from ``value`` to one of the offenders, and its error."""
    bad = {id(thing): error for thing, error in offenders}
    seen = {id(value)}
    queue: deque[tuple[Any, str]] = deque([(value, "")])
    while queue and len(seen) < FINDABLE:
        thing, path = queue.popleft()
        if id(thing) in bad:
            return path, bad[id(thing)]
        for label, child in _children(thing):
            if id(child) not in seen:
                seen.add(id(child))
                queue.append((child, path + label))
    return "", offenders[0][1]


def _children(thing: Any) -> Iterator[tuple[str, Any]]:
    """What ``thing`` holds, each with how a user would write the way there."""
    match thing:
        case dict():
            yield from ((f"[{key!r}]", value) for key, value in list(thing.items()))
            yield from ((" key", key) for key in list(thing))
        case list() | tuple():
            yield from ((f"[{i}]", each) for i, each in enumerate(thing))
        case set() | frozenset():
            yield from ((" element", each) for each in thing)
        case types.FunctionType():
            names = thing.__code__.co_freevars
            cells = zip(names, thing.__closure__ or (), strict=True)
            yield from ((f" closure {name}", cell.cell_contents) for name, cell in cells if is_filled(cell))
            yield from ((f" default {i}", each) for i, each in enumerate(thing.__defaults__ or ()))
            yield from ((f".{name}", each) for name, each in vars(thing).items())
        case types.MethodType():
            yield ".__self__", thing.__self__
            yield ".__func__", thing.__func__
    if not isinstance(thing, type | types.ModuleType | types.FunctionType):
        yield from ((f".{name}", each) for name, each in own_dict(thing).items())
        yield from ((f".{name}", each) for name, each in own_slots(thing))
    for name in ("func", "args", "keywords", "default_factory"):  # partial, defaultdict
        if type(thing).__module__ in ("functools", "collections") and hasattr(thing, name):
            yield f".{name}", getattr(thing, name)


def _is_global(thing: Any, path: str) -> bool:
    """Whether the name that an object gives for itself leads back to it, as the pickler will ask."""
    found: Any = module_named(told(thing, "__module__"))
    for part in path.split("."):
        found = getattr(found, part, None)
    return found is thing
