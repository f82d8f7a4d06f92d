"""How everything else is taken apart: the small types of the standard library, and objects by what pickle asks for."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import copyreg
import datetime
import decimal
import enum
import io
import pathlib
import re
import sys
import threading
import types
import typing
import uuid
import weakref
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import Executor, Future
from typing import Any, Final

from blake3 import blake3

from resumable_nb.attributes import own_dict
from resumable_nb.canonical.definitions import Kind, kind_of, wrapper_of
from resumable_nb.canonical.leaves import count, plain, shrink, text
from resumable_nb.canonical.looks import is_steady
from resumable_nb.canonical.origin import home, qualified
from resumable_nb.canonical.writer import Canonical, Expander, Node, Written
from resumable_nb.errors import RAISED_BY, NoContent
from resumable_nb.source import code_form
from resumable_nb.widgets import functions_of, is_shell, is_tied

_NEW: Final = {copyreg.__newobj__, copyreg.__newobj_ex__, copyreg._reconstructor}  # type: ignore[attr-defined]  # typeshed leaves it out
_SAID: Final = {"__notes__", RAISED_BY}
"""What is said about an error on its way, and differs where the error is answered from the record."""
_STRINGS: Final = frozenset({str})
_PASSING: Final[tuple[type, ...]] = (
    io.IOBase,
    threading.Thread,
    types.FrameType,
    types.TracebackType,
    weakref.ReferenceType,
    *weakref.ProxyTypes,
    Future,
    asyncio.Future,
    asyncio.AbstractEventLoop,
)
"""What is alive in this process only."""
_RESTLESS: Final = frozenset(
    {("matplotlib.artist", "Artist"), ("matplotlib.cbook", "CallbackRegistry")}
    | {("distributed.client", "Client"), ("distributed.deploy.cluster", "Cluster")}
)


def object_expander(kind: type) -> Expander:
    """How objects of a type that has no way of its own are taken apart."""
    for base, expander in _BY_BASE:
        if issubclass(kind, base):
            return expander
    if kind in (io.StringIO, io.BytesIO):
        return _buffer
    if is_shell(kind):
        return _shell
    if is_tied(kind):
        return _tied
    if issubclass(kind, _PASSING) or _is_restless(kind):
        return _passing
    if issubclass(kind, Iterator | AsyncIterator) and kind.__module__ in ("builtins", "itertools", "_csv"):
        return _passing
    if hasattr(kind, "__pydantic_fields__"):
        return _pydantic
    return _object


def _weak_dict(value: Any, _canon: Canonical) -> Node:
    return Node(_head(b"w", value), [dict(value.items())])


def _is_restless(kind: type) -> bool:
    """Its attributes change by themselves: of a figure when it is drawn or saved, of what threads of its own serve.

    A registry of callbacks counts how often it was pickled.
    """
    return not _RESTLESS.isdisjoint((each.__module__, each.__name__) for each in kind.__mro__)


def _passing(_value: object, _canon: Canonical) -> bytes:
    raise NoContent("it lives in this process only")


def _tied(value: object, canon: Canonical) -> bytes:
    for each in functions_of(value):  # whoever has it may have them called
        if canon.is_user(home(each)):
            canon.met(each)
    return _passing(value, canon)


def _shell(_value: object, _canon: Canonical) -> bytes:
    return b"get_ipython()"


def _head(tag: bytes, value: object) -> bytes:
    return tag + text(qualified(type(value)))


def _executor(_value: object, _canon: Canonical) -> bytes:
    """Where something runs does not decide what comes of it; its attributes change as it works."""
    return b"executor"


# --- small types


def _buffer(value: Any, _canon: Canonical) -> Node:
    """A file in memory."""
    return Node(_head(b"i", value), [] if value.closed else [value.getvalue(), value.tell()])


def _complex(value: complex, _canon: Canonical) -> Node:
    return Node(b"y", [value.real, value.imag])


def _bytearray(value: bytearray, _canon: Canonical) -> bytes:
    return b"Y" + blake3(value).digest(length=16) + count(len(value))


def _memoryview(value: memoryview, _canon: Canonical) -> bytes:
    try:
        value.nbytes  # noqa: B018  # asked whether it was released
    except ValueError:
        raise NoContent("it was released") from None
    data = value.cast("B") if value.c_contiguous and value.nbytes else value.tobytes()
    return b"V" + text(f"{value.format} {value.shape}") + blake3(data).digest(length=16)


def _moment(value: datetime.datetime | datetime.time, _canon: Canonical) -> bytes | Node:
    head = _head(b"z", value) + text(value.replace(tzinfo=None).isoformat()) + count(value.fold)
    return head if value.tzinfo is None else Node(head, [value.tzinfo])


def _date(value: datetime.date, _canon: Canonical) -> bytes:
    return b"zd" + count(value.toordinal())


def _duration(value: datetime.timedelta, _canon: Canonical) -> bytes:
    return b"zt" + text(f"{value.days} {value.seconds} {value.microseconds}")


def _decimal(value: decimal.Decimal, _canon: Canonical) -> bytes:
    return b"zn" + text(str(value))


def _uuid(value: uuid.UUID, _canon: Canonical) -> bytes:
    return b"zu" + value.bytes


def _range(value: range, _canon: Canonical) -> Node:
    """By its elements: ``range(0, 3, 2)`` equals ``range(0, 4, 2)``."""
    size = len(value)
    return Node(b"r", [size, value.start if size else None, value.step if size > 1 else None])


def _slice(value: slice, _canon: Canonical) -> Node:
    return Node(b"s", [value.start, value.stop, value.step])


def _ellipsis(value: object, _canon: Canonical) -> bytes:
    return b"C" + text(repr(value))


def _pattern(value: re.Pattern[Any], _canon: Canonical) -> Node:
    return Node(b"e", [value.pattern, value.flags])


def _path(value: pathlib.PurePath, _canon: Canonical) -> Node:
    return Node(_head(b"p", value), [str(value)])


def _module(value: types.ModuleType, canon: Canonical) -> bytes:
    if canon.is_user(value):
        canon.met(value)
    return b"M" + text(value.__name__)


def _code(value: types.CodeType, _canon: Canonical) -> bytes:
    return b"c" + code_form(value)


def _proxy(value: types.MappingProxyType[Any, Any], _canon: Canonical) -> Node:
    return Node(b"m", [dict(value)])


def _enum(value: enum.Enum, canon: Canonical) -> Node:
    return Node(b"U" + kind_of(type(value), canon).name, [value._name_, value._value_])


def _type_parameter(value: Any, _canon: Canonical) -> Node:
    """Pickle's way is by the name alone."""
    parts = []
    for name in _OF_TYPES:
        with contextlib.suppress(Exception):  # from Python 3.12 on it is evaluated now
            parts.append((name, getattr(value, f"__{name}__")))
    return Node(_head(b"j", value) + text(value.__name__), parts)


_OF_TYPES: Final = (
    "supertype", "bound", "constraints", "covariant", "contravariant", "default", "value", "type_params",
)  # fmt: skip


def _keys(value: Any, _canon: Canonical) -> Node:
    return Node(_head(b"k", value), list(value), unordered=not isinstance(value, type({}.values())))


def _set_kind(value: set[Any] | frozenset[Any], canon: Canonical) -> Node:
    """A subclass: its own ``__reduce__`` lists the elements in the order of chance."""
    kind = kind_of(type(value), canon)
    return Node(b"S" + kind.name, [frozenset(value), _attributes(own_dict(value), kind)])


class _State:
    """The attributes of an object."""

    __slots__ = ("found",)

    def __init__(self, found: dict[str, object]) -> None:
        self.found = found


def _state_part(found: dict[str, Any]) -> _State | Written:
    chunk = plain(found, dict)
    return _State(found) if chunk is None else Written(shrink(b"a" + chunk))


def _state(value: _State, canon: Canonical) -> Node:
    found = value.found
    keys, head = canon.text_keys(tuple(found))
    return Node(b"A" + head, [found[key] for key in keys], lambda i: f".{keys[i]}")


def _attributes(found: Any, kind: Kind) -> object:
    """An object's state; what ``cached_property`` computed from the rest is no part of it."""
    if type(found) is not dict or not {*map(type, found)} <= _STRINGS:
        return found
    if not kind.cached.isdisjoint(found):
        found = {key: value for key, value in found.items() if key not in kind.cached}
    return _state_part(found)


# --- objects


def _pydantic(value: Any, canon: Canonical) -> Node:
    """Its fields; not which of them were given and which filled in."""
    kind = kind_of(type(value), canon)
    extra, private = (getattr(value, f"__pydantic_{each}__", None) for each in ("extra", "private"))
    return Node(b"H" + kind.name, [_state_part(vars(value)), extra, private])


def _object(value: Any, canon: Canonical) -> bytes | Node:
    wrapped = wrapper_of(value)
    if wrapped is not None:
        return Node(_head(b"W", value), [wrapped])
    kind = kind_of(type(value), canon)
    if kind.enrolled:
        raise NoContent("a library keeps books about it")
    reduced = _reduce(value, kind.type)
    if isinstance(reduced, str):
        return b"G" + kind.name + text(reduced)
    if not is_steady(kind.type, reduced, lambda: _reduce(value, kind.type), canon):
        raise NoContent("it says something else of itself at each look")
    make, args, state, items, pairs = (*reduced, None, None, None)[:5]
    if isinstance(value, BaseException) and type(state) is dict:
        state = {name: each for name, each in state.items() if name not in _SAID}
    head = b"O" + kind.name
    parts: list[object] = [
        Written(shrink(b"T" + kind_of(each, canon).name)) if isinstance(each, type) else each for each in args
    ]
    if make not in _NEW:
        head += text(qualified(make))
        if isinstance(make, types.MethodType) and not isinstance(make.__self__, type):
            parts.append(make.__self__)
    try:
        contents = _items(items), _pairs(value, pairs)
    except RuntimeError as error:  # a deque's iterator says so
        raise NoContent(f"it changed while it was read: {error}") from error
    return Node(head + count(len(parts)), [*parts, *_states(state, kind), *contents])


def _reduce(value: Any, kind: type) -> str | tuple[Any, ...]:
    """What pickle would be told. Raises ``NoContent`` for what it would refuse."""
    registered = copyreg.dispatch_table.get(kind)
    try:
        reduced = value.__reduce_ex__(4) if registered is None else registered(value)
    except Exception as error:
        raise NoContent(str(error)) from error
    if not isinstance(reduced, str | tuple):
        raise NoContent("its __reduce__ returns neither a string nor a tuple")
    return reduced


def _states(state: Any, kind: Kind) -> list[object]:
    if type(state) is tuple and len(state) == 2 and type(state[1]) is dict:  # with slots
        return [_attributes(each, kind) for each in state]
    return [_attributes(state, kind)]


def _items(items: Any) -> object:
    return None if items is None else list(items)


def _pairs(value: object, pairs: Any) -> object:
    if pairs is None:
        return None
    return list(pairs) if isinstance(value, collections.OrderedDict) else dict(pairs)


_BY_BASE: Final[tuple[tuple[type, Expander], ...]] = (
    (Executor, _executor),
    (enum.Enum, _enum),
    (pathlib.PurePath, _path),
    (types.ModuleType, _module),
    (set, _set_kind),
    (frozenset, _set_kind),
    (weakref.WeakKeyDictionary, _weak_dict),
    (weakref.WeakValueDictionary, _weak_dict),
)

SMALL: Final[dict[type, Expander]] = {
    complex: _complex,
    datetime.datetime: _moment,
    datetime.time: _moment,
    datetime.date: _date,
    datetime.timedelta: _duration,
    decimal.Decimal: _decimal,
    uuid.UUID: _uuid,
    bytearray: _bytearray,
    memoryview: _memoryview,
    range: _range,
    slice: _slice,
    type(...): _ellipsis,
    type(NotImplemented): _ellipsis,
    re.Pattern: _pattern,
    types.CodeType: _code,
    types.MappingProxyType: _proxy,
    type({}.keys()): _keys,
    type({}.values()): _keys,
    type({}.items()): _keys,
    **dict.fromkeys((typing.NewType, typing.TypeVar, typing.ParamSpec, typing.TypeVarTuple), _type_parameter),
    _State: _state,
}
if sys.version_info >= (3, 12):
    SMALL[typing.TypeAliasType] = _type_parameter
