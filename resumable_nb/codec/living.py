"""A class that lives, and goes on as a step has left it: it stays one object, for those that are of it."""

from __future__ import annotations

import _abc  # type: ignore[import-not-found]  # typeshed leaves it out
import abc
import enum
import functools
import types
from collections.abc import Callable, Collection, Iterable
from typing import Any, Final

from resumable_nb.attributes import registered_of, registered_with
from resumable_nb.codec import enums
from resumable_nb.codec.definitions import is_filled
from resumable_nb.source import code_form

_BEHAVIOUR: Final = (types.FunctionType, type, staticmethod, classmethod, property, functools.cached_property)
_PLACES: Final = (types.MemberDescriptorType, types.GetSetDescriptorType)
"""What stands in a class for its slots."""
_TYPING: Final = ("__parameters__", "__orig_bases__", "__annotations__")
"""Where a class names variables of the notebook that may come back with it."""
_MADE: Final = frozenset(
    {
        *_TYPING, "__module__", "__qualname__", "__slots__", "__slotnames__", "__firstlineno__",
        "__static_attributes__", "__abstractmethods__", "__annotate__", "__annotate_func__", "__annotations_cache__",
        "__match_args__", "__dataclass_fields__", "__dataclass_params__", "__signature__", "__protocol_attrs__",
        "__non_callable_proto_members__", "__callable_proto_members_only__", "_abc_impl",
    }
)  # fmt: skip
"""What the interpreter, ``dataclasses`` and ``typing`` keep in a class."""
_PLAIN: Final = (type(None), bool, int, float, complex, str, bytes, tuple, list, dict, set, frozenset)


def may_go_on(kind: object, meta: object = None, _name: str = "", bases: Any = (), *_: Any) -> bool:
    """Whether a living class can be made into the one that was saved with these."""
    if not isinstance(kind, type) or isinstance(kind, enum.EnumMeta) or type(kind) is not meta:
        return False
    return kind.__bases__ == types.resolve_bases(bases)


def go_on(kind: type, setter: Callable[[type, Any], None], state: tuple[dict[str, Any], Any]) -> None:
    members = state[0]
    for name in members.keys() & vars(kind).keys():
        _renew(kind, name, vars(kind)[name], members[name])
    if setter is enums.set_enum:
        enums.renew(kind, state, _is_data)
        return
    for name in () if issubclass(kind, enum.Enum) else vars(kind).keys() - members.keys():
        if isinstance(vars(kind)[name], _BEHAVIOUR) or _is_data(name, vars(kind)[name]):
            delattr(kind, name)
    if isinstance(kind, abc.ABCMeta):
        _register(kind, members.get("_abc_impl", ()))
    for name, value in members.items():
        if _is_data(name, value) or name in _TYPING or (name not in vars(kind) and isinstance(value, _BEHAVIOUR)):
            setattr(kind, name, value)


def _register(kind: abc.ABCMeta, registered: Iterable[type]) -> None:
    """Virtual subclasses: those of a later step, and no others."""
    if {*registered_of(kind)} == {*registered}:
        return
    _abc._reset_registry(kind)
    _abc._reset_caches(kind)
    for each in registered:
        kind.register(each)


def register_with(kind: type, abstract: Collection[abc.ABCMeta]) -> None:
    """The class is a virtual subclass of these classes of libraries, and of no others."""
    for other in registered_with(kind):
        if other not in abstract:
            _register(other, [each for each in registered_of(other) if each is not kind])
            for each in other.__mro__[1:]:
                if isinstance(each, abc.ABCMeta):
                    _abc._reset_caches(each)
    for other in abstract:
        other.register(kind)


def data_of(kind: type) -> dict[str, Any]:
    """What a class holds beside its code."""
    return {name: value for name, value in vars(kind).items() if _is_data(name, value)}


def _renew(kind: type, name: str, here: Any, saved: Any) -> None:
    """A function of the class: others may hold it, and it stays where it does the same."""
    pairs = [*zip(_functions(here), _functions(saved), strict=False)]
    if any(code_form(one.__code__) != code_form(other.__code__) for one, other in pairs):
        setattr(kind, name, saved)
        return
    for one, other in pairs:
        if one is other:
            continue
        one.__defaults__, one.__kwdefaults__ = other.__defaults__, other.__kwdefaults__
        one.__dict__.clear()
        one.__dict__.update(other.__dict__)
        for cell, filled in zip(one.__closure__ or (), other.__closure__ or (), strict=True):
            if is_filled(filled):
                cell.cell_contents = filled.cell_contents


def _functions(member: Any) -> list[types.FunctionType]:
    """The functions in what is in a class."""
    match member:
        case property():
            found = [member.fget, member.fset, member.fdel]
        case staticmethod() | classmethod():
            found = [member.__func__]
        case functools.cached_property() | functools.partialmethod():
            found = [member.func]
        case _:
            found = [member]
    return [each for each in found if isinstance(each, types.FunctionType)]


def _is_data(name: str, value: object) -> bool:
    """Of what is in a class: neither its code, nor what is kept there for others."""
    made = name in _MADE or (name.startswith("__") and (name.startswith("__pydantic_") or type(value) not in _PLAIN))
    theirs = hasattr(type(value), "__set_name__") and type(value).__module__ != "__main__"
    return not (made or isinstance(value, (*_BEHAVIOUR, *_PLACES)) or theirs)
