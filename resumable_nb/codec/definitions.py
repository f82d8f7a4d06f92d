"""Notebook functions and classes: which of them a pickle may name instead of hold, and under which digest.

A *definition* is a function or class that no module can be asked for. It is *named* in a pickle where its name and a
digest of what it does say all there is to say. One that carries state of its own (a closure over data, a mutable
default, attributes) has to be held by value, together with everything that shares the state.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import sys
import types
import weakref
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import cloudpickle

from resumable_nb.attributes import told
from resumable_nb.canonical import module_named
from resumable_nb.codec.apart import marked
from resumable_nb.model import MISSING, digest
from resumable_nb.source import code_form

CachedFunction: Final = type(functools.lru_cache(lambda: None))
"""The type of a function under ``lru_cache``."""

APART: Final = "apart "
"""What the digest begins with of a class that is not what its name leads to, be it that one's equal."""

_ATOMS: Final = (type(None), bool, int, float, complex, str, bytes, type(...), type(NotImplemented), range)
_NOT_BEHAVIOUR: Final = frozenset(
    {"__dict__", "__weakref__", "__module__", "__qualname__", "__doc__", "__firstlineno__", "__static_attributes__"}
    | {"__abstractmethods__", "__parameters__", "__orig_bases__", "__annotate__", "__annotate_func__"}
    | {"__annotations_cache__", "__match_args__", "__dataclass_params__", "_abc_impl", "__slotnames__"}
)


def importable(thing: object) -> str:
    """``module:qualified.name`` where that leads to this very object, else an empty text.

    A function that a class method holds is behind it (``typing._proto_hook`` from 3.12 on).
    """
    module = told(thing, "__module__")
    path = told(thing, "__qualname__") or told(thing, "__name__")
    if not isinstance(module, str) or not isinstance(path, str) or module == "__main__":
        return ""
    found: object = module_named(module)
    for part in path.split("."):
        found = getattr(found, part, MISSING)
    if found is thing:
        return f"{module}:{path}"
    return f"{module}:{path}.__func__" if told(found, "__func__") is thing else ""


def is_definition(thing: object) -> bool:
    """A function (cached or not) or class that cannot be imported."""
    return isinstance(thing, types.FunctionType | type | CachedFunction) and not importable(thing)


class Definitions:
    """The definitions of one live namespace. ``former`` says which class a name goes on with that is not loaded yet."""

    def __init__(self, live: Mapping[str, object], former: Callable[[str], object] = lambda _: MISSING) -> None:
        self._live = live
        self._former = former
        self._forms: dict[int, tuple[types.CodeType, str]] = {}

    def reference(self, thing: object) -> tuple[str, str] | None:
        """Name and digest to write in place of ``thing``; None where it has to be held by value."""
        if not is_definition(thing):
            return None
        found = self._describe(thing, [], strict=True)
        if found is None:
            return None
        named = self.named(thing)
        prefix = APART if isinstance(thing, type) and not named else ""
        return self._path(thing), marked(f"{prefix}{digest(found.encode())}", thing, named=named)

    @staticmethod
    def importable(thing: object) -> bool:
        return bool(importable(thing))

    def own_name(self, thing: object) -> str:
        """The variable that ``thing`` is bound to, itself or through the class around it; or empty."""
        return self._path(thing).partition(".")[0] if self.named(thing) else ""

    def named(self, thing: object) -> bool:
        """Whether the live namespace has ``thing`` under its own name."""
        return self.find(self._path(thing)) is thing

    def lost_name(self, thing: object, earlier: tuple[str, str] | None) -> bool:
        """Whether a class, which had that reference ``earlier``, is not what its name leads to any more."""
        apart = earlier is not None and earlier[1].startswith(APART)
        return isinstance(thing, type) and not apart and not self.named(thing)

    def owned(self, kind: type) -> list[type]:
        """A class, and those inside it that go by a name through it: their state is its own."""
        inner = [each for each in vars(kind).values() if isinstance(each, type) and each is not kind]
        nested = [each for each in inner if each.__qualname__.startswith(f"{kind.__qualname__}.") and self.named(each)]
        return [kind, *(deeper for each in nested for deeper in self.owned(each))]

    def find(self, path: str) -> object:
        """What the live namespace has under a qualified name, or ``MISSING``."""
        first, *rest = path.split(".")
        found = self._live[first] if first in self._live else self._former(first)
        for part in rest:
            found = vars(found).get(part, MISSING) if isinstance(found, type) else MISSING
        return found

    @staticmethod
    def _path(thing: object) -> str:
        return str(getattr(thing, "__qualname__", None) or getattr(thing, "__name__", "?"))

    def _describe(self, thing: object, busy: list[object], *, strict: bool) -> str | None:
        """One text that says what ``thing`` does; None where it holds state (``strict``), which else is left out."""
        for depth, each in enumerate(busy):
            if each is thing:
                return f"cycle {depth}"
        match thing:
            case types.ModuleType():
                return f"module {thing.__name__}"
            case types.FunctionType() | type() | CachedFunction():
                if found := importable(thing):
                    return f"import {found}"
            case types.CodeType():
                return self._form(thing)
            case tuple() | frozenset() if type(thing) in (tuple, frozenset):
                parts = self._all(thing, [*busy, thing], strict)
                return (
                    None
                    if parts is None
                    else f"{type(thing).__name__} {parts if type(thing) is tuple else sorted(parts)}"
                )
            case _ if type(thing) in _ATOMS:
                return f"{type(thing).__name__} {thing!r}"
            case _:
                return None if strict else f"a {type(thing).__qualname__}"
        busy = [*busy, thing]
        if isinstance(thing, types.FunctionType):
            return self._function(thing, busy, strict)
        if isinstance(thing, type):
            return self._class(thing, busy)
        return self._cached(thing, busy, strict)

    def _all(self, things: Iterable[object], busy: list[object], strict: bool) -> list[str] | None:
        found = [self._describe(each, busy, strict=strict) for each in things]
        return None if None in found else [each for each in found if each is not None]

    def _form(self, code: types.CodeType) -> str:
        known = self._forms.get(id(code))
        if known is None or known[0] is not code:
            if len(self._forms) > 10_000:
                self._forms.clear()
            known = self._forms[id(code)] = (code, digest(code_form(code)))
        return known[1]

    def _function(self, function: types.FunctionType, busy: list[object], strict: bool) -> str | None:
        contents = [cell.cell_contents if is_filled(cell) else None for cell in function.__closure__ or ()]
        # A cell over data may be rebound by any function that shares it; one over a function is a decorator's.
        if strict and any(not isinstance(each, types.FunctionType | type | types.ModuleType) for each in contents):
            return None
        names = [f"{key}" for key in (*(function.__kwdefaults__ or {}), "/", *function.__dict__)]
        values = (
            *contents,
            *(function.__defaults__ or ()),
            *(function.__kwdefaults__ or {}).values(),
            *function.__dict__.values(),
        )
        parts = self._all(values, busy, strict)
        if parts is None or (strict and self.globals_of(function) is None):
            return None
        return f"def {function.__qualname__} {self._form(function.__code__)} {names} {parts}"

    def _cached(self, function: Any, busy: list[object], strict: bool) -> str | None:
        inner = self._describe(function.__wrapped__, busy, strict=strict)
        return None if inner is None else f"cached {function.cache_parameters()} {inner}"

    def globals_of(self, function: types.FunctionType) -> str | None:
        """Where the function's globals are found again: "" for the live namespace, else a module's name, or None."""
        if function.__globals__ is self._live:
            return ""
        name = function.__globals__.get("__name__")
        module = sys.modules.get(name) if isinstance(name, str) and name != "__main__" else None
        return name if module is not None and vars(module) is function.__globals__ else None

    def _class(self, kind: type, busy: list[object]) -> str | None:
        # The data attributes of a class under its own name may change without making it another class.
        strict = not self.named(kind)
        bases = self._all((type(kind), *kind.__bases__), busy, strict=False)
        parts = [f"class {kind.__qualname__} {bases}"]
        for name, value in sorted(vars(kind).items()):
            if name in _NOT_BEHAVIOUR or isinstance(value, types.MemberDescriptorType | types.GetSetDescriptorType):
                continue
            part = self._member(name, value, busy, strict)
            if part is None:
                return None
            if part:
                parts.append(f"{name}: {part}")
        if issubclass(kind, enum.Enum):
            parts.append(repr([(name, _fixed(member.value)) for name, member in kind.__members__.items()]))
        return "\n".join(parts)

    def _member(self, name: str, value: object, busy: list[object], strict: bool) -> str | None:
        match value:
            case types.FunctionType() | type() | CachedFunction():
                return self._describe(value, busy, strict=strict and not _generated(value))
            case staticmethod() | classmethod() | property() | functools.cached_property() | functools.partialmethod():
                inner = [getattr(value, part, None) for part in ("__func__", "fget", "fset", "fdel", "func")]
                found = self._all([each for each in inner if each is not None], busy, strict)
                return None if found is None else f"{type(value).__name__} {found}"
            case dict() if name == "__annotations__":
                return repr(
                    [
                        (key, each if isinstance(each, str) else getattr(each, "__name__", "?"))
                        for key, each in value.items()
                    ]
                )
            case dict() if name == "__dataclass_fields__":
                return repr([(key, _plain(field)) for key, field in value.items()])
            case _ if name in ("__slots__", "_fields"):
                return repr(value)
            case _ if isinstance(value, enum.Enum) or name.startswith("_member_") or name == "_value2member_map_":
                return ""
            case _:
                return self._describe(value, busy, strict=True) if strict else ""


def _fixed(value: object) -> str:
    """A value in a definition; of one that may change, its type."""
    if type(value) in (tuple, frozenset):
        parts = [_fixed(each) for each in value]  # type: ignore[attr-defined]  # its type was asked
        return f"{type(value).__name__} {parts if type(value) is tuple else sorted(parts)}"
    return repr(value) if type(value) in _ATOMS else f"a {type(value).__qualname__}"


def is_filled(cell: types.CellType) -> bool:
    try:
        cell.cell_contents  # noqa: B018  # reading it is the question
    except ValueError:
        return False
    return True


def parts_of(thing: object) -> list[Any]:
    """What the name of a function stands for besides its code: closure, defaults, attributes, what a cache is round."""
    match thing:
        case types.FunctionType():
            contents = [cell.cell_contents for cell in thing.__closure__ or () if is_filled(cell)]
            return [*contents, thing.__defaults__, *(thing.__kwdefaults__ or {}).values(), *thing.__dict__.values()]
        case tuple() | frozenset():
            return [*thing]
        case CachedFunction():
            return [thing.__wrapped__]
    return []


def _generated(function: object) -> bool:
    """Methods that ``dataclass`` wrote close over its own constants."""
    code = getattr(function, "__code__", None)
    return code is not None and code.co_filename == "<string>"


def _plain(field: dataclasses.Field[Any]) -> str:
    default = field.default if type(field.default) in _ATOMS else type(field.default).__name__
    return f"{default!r} {field.init} {field.repr} {field.compare} {field.hash} {field.kw_only}"


def reduced_function(pickler: Any, function: types.FunctionType) -> Any:
    """What cloudpickle makes of a function. It looks for one that names no module in all modules, each time anew."""
    if function.__module__ is None and function in _nowhere:
        return pickler._dynamic_function_reduce(function)
    found = cloudpickle.Pickler.reducer_override(pickler, function)
    if function.__module__ is None and found is not NotImplemented:
        _nowhere.add(function)
    return found


_nowhere: Final[weakref.WeakSet[types.FunctionType]] = weakref.WeakSet()
