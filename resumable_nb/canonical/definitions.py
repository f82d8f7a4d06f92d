"""How functions and classes are taken apart: the user's by what they say, a library's by name."""

from __future__ import annotations

import enum
import functools
import sys
import types
from typing import Any, Final

from blake3 import blake3

from resumable_nb.attributes import own_dict, registered_of, registered_with
from resumable_nb.canonical.enrolled import is_enrolled, is_librarys
from resumable_nb.canonical.leaves import count, plain_keys, text
from resumable_nb.canonical.origin import home, is_ours, qualified
from resumable_nb.canonical.writer import Canonical, Expander, Node
from resumable_nb.source import code_form

_NO_MEMBERS: Final = frozenset(
    {
        "__dict__", "__weakref__", "__module__", "__qualname__", "__firstlineno__", "__static_attributes__",
        "__abstractmethods__", "_abc_impl", "__slotnames__", "__classcell__", "__signature__",
        "__annotations_cache__", "__class_vars__", "__callable_proto_members_only__", "__non_callable_proto_members__",
        "__protocol_attrs__",
    }
)  # fmt: skip
"""Members of a class that are about its place, made by the interpreter, or caches."""


_TRAITS: Final = frozenset(
    {
        "_all_trait_default_generators", "_descriptors", "_instance_inits", "_static_immutable_initial_values",
        "_trait_default_generators", "_traits",
    }
)  # fmt: skip
"""What traitlets gathers from a class and its bases. The bases' traits change when the first object is made."""


_BOOKS: Final = frozenset({"__annotations__", "__doc__", "__init__", "__table_args__", "__mapper_args__"})
"""Members of an enrolled class that its statement says, and that the library may put others in the place of."""


class TypeName:
    """A class that counts by its name."""

    __slots__ = ("type",)

    def __init__(self, kind: type) -> None:
        self.type = kind


class Kind:
    """A class of which an object was met: its name for a head, the names of its cached properties, and whether a
    library has entered it into a registry."""

    __slots__ = ("cached", "enrolled", "name", "type")

    def __init__(self, kind: type) -> None:
        self.type = kind  # kept, so that no other gets its id
        self.name = text(qualified(kind))
        self.enrolled = is_enrolled(kind)
        found = {name for each in kind.__mro__ for name, value in vars(each).items() if _is_cached(value)}
        self.cached = frozenset(name for name in found if _is_cached(getattr(kind, name, None)))


def _is_cached(member: object) -> bool:
    return isinstance(member, functools.cached_property)


def kind_of(kind: type, canon: Canonical) -> Kind:
    """An object of this class was met: where it is the user's, its methods may be called."""
    found: Kind | None = canon.kinds.get(id(kind))
    if found is None:
        found = canon.kinds[id(kind)] = Kind(kind)
        if canon.is_user(kind.__module__):
            canon.types[id(kind)] = kind
    return found


def wrapper_of(value: Any) -> Any:
    """The function that an object wraps (``lru_cache``, ``singledispatch``, a decorator's object), or ``None``."""
    if isinstance(value, functools._lru_cache_wrapper):
        return value.__wrapped__
    found = own_dict(value).get("__wrapped__")
    return found if callable(value) and callable(found) else None


def _type_name(value: TypeName, canon: Canonical) -> bytes:
    return b"T" + kind_of(value.type, canon).name


def _function(value: types.FunctionType, canon: Canonical) -> bytes | Node:
    where = home(value)
    if canon.is_user(where):
        canon.met(value)
    elif _is_found_by_name(value, where):
        return b"F" + text(f"{where}.{value.__qualname__}")
    elif is_ours(where) and (wrapped := wrapper_of(value)) is not None:
        return Node(b"W" + text(where), [wrapped])  # a tool's options don't change what its steps leave behind
    cells = [_Cell(each) for each in value.__closure__ or ()]
    own = {key: each for key, each in vars(value).items() if key != "__wrapped__"}
    names = value.__code__.co_freevars
    return Node(
        b"f" + text(where) + _form(value.__code__) + count(len(cells)),
        [value.__defaults__, value.__kwdefaults__, _plain_types(_annotations(value)), own, *cells],
        lambda i: f".{names[i - 4]}" if i >= 4 else "",
        lenient=True,
    )


class _Cell:
    """A variable that a function closes over."""

    __slots__ = ("cell",)

    def __init__(self, cell: types.CellType) -> None:
        self.cell = cell


def _cell(value: _Cell | types.CellType, _canon: Canonical) -> bytes | Node:
    try:
        content = (value.cell if isinstance(value, _Cell) else value).cell_contents
    except ValueError:
        return b"empty"
    return Node(b"cell", [content])


@functools.lru_cache(maxsize=10_000)
def _form(code: types.CodeType) -> bytes:
    return blake3(code_form(code)).digest(length=16)


def _is_found_by_name(value: types.FunctionType, where: str) -> bool:
    found: Any = sys.modules.get(where)
    for name in value.__qualname__.split("."):
        found = getattr(found, name, None)
    return getattr(found, "__func__", found) is value


def _annotations(value: Any) -> dict[str, Any]:
    try:
        return dict(value.__annotations__)
    except Exception:  # evaluated late, and what they name is gone
        return {}


def _plain_types(annotations: dict[str, Any]) -> dict[str, Any]:
    return {name: TypeName(each) if isinstance(each, type) else each for name, each in annotations.items()}


def class_expander(value: type, canon: Canonical) -> bytes | Node:
    """A class of the user's by its bases and members, any other by its name."""
    if not canon.is_user(value.__module__):
        return b"T" + text(qualified(value))
    canon.met(value)
    gathered = _TRAITS if any(each.__module__ == "traitlets.traitlets" for each in type.mro(type(value))) else ()
    members = {
        name: each
        for name, each in sorted(vars(value).items())
        if name not in _NO_MEMBERS
        and name not in gathered
        and not isinstance(each, types.MemberDescriptorType | types.GetSetDescriptorType)
        and (not name.startswith("__pydantic_") or name == "__pydantic_fields__")
    }
    if is_enrolled(value):  # what the library makes of it changes as it goes; what made it is known elsewhere
        members = {name: each for name, each in members.items() if name not in _BOOKS and not is_librarys(each)}
    if not members.get("__annotations__", True):
        del members["__annotations__"]  # the interpreter has put it there for somebody who asked
    elif "__annotations__" in members:
        members["__annotations__"] = _plain_types(members["__annotations__"])
    if issubclass(value, enum.Flag):  # those put together are kept there as they are asked for
        known = members.get("_value2member_map_", {})
        members["_value2member_map_"] = {key: each for key, each in known.items() if each._name_ in value.__members__}
    if issubclass(value, enum.Enum) and (own := _members_own(value)):
        members[""] = own
    if registered := registered_of(value):
        members["_abc_impl"] = frozenset(map(qualified, registered))
    if told_of := registered_with(value):
        members[" registered"] = frozenset(map(qualified, told_of))
    names = list(members)
    bases = [TypeName(each) for each in (type(value), *value.__bases__)]
    return Node(
        b"t" + text(qualified(value)) + count(len(bases)) + plain_keys(names),
        [*bases, *members.values()],
        lambda i: f".{names[i - len(bases)]}" if i >= len(bases) else "",
        lenient=True,
    )


def _members_own(kind: type[enum.Enum]) -> dict[str, dict[str, Any]]:
    """What the members of an enumeration have besides their names and values."""
    cached = {name for each in kind.__mro__ for name, value in vars(each).items() if _is_cached(value)}
    found = {}
    for member in kind.__members__.values():
        own = {name: each for name, each in own_dict(member).items() if not _is_enums(name) and name not in cached}
        if own:
            found[member._name_] = own
    return found


def _is_enums(name: str) -> bool:
    return name.startswith("_") and name.endswith("_")


def _method(value: types.MethodType, canon: Canonical) -> bytes | Node:
    if where := _hidden_owner(value, canon):
        return b"B" + text(f"{where}.{value.__name__}")
    return Node(b"b", [value.__func__, value.__self__], lambda i: ".__self__" if i else "")


def _builtin(value: types.BuiltinFunctionType, canon: Canonical) -> bytes | Node:
    owner = value.__self__
    if owner is None or isinstance(owner, types.ModuleType | type):
        return b"B" + text(f"{qualified(owner) if owner is not None else value.__module__}.{value.__qualname__}")
    if where := _hidden_owner(value, canon):
        return b"B" + text(f"{where}.{value.__name__}")
    return Node(b"b" + text(value.__name__), [owner], lambda _i: ".__self__")


def _hidden_owner(value: types.MethodType | types.BuiltinFunctionType, canon: Canonical) -> str:
    """The library's module that has this method of an object of its own for a function: ``random.randint``.

    What state that object is in does not count for those who import it, as it does not for those who import the module.
    """
    where = type(value.__self__).__module__
    found = getattr(sys.modules.get(where), "__dict__", {}).get(value.__name__)
    return where if found is value and not canon.is_user(where) else ""


def _descriptor(value: Any, _canon: Canonical) -> bytes:
    return b"d" + text(f"{qualified(value.__objclass__)}.{value.__name__}")


def _bound_descriptor(value: types.MethodWrapperType, _canon: Canonical) -> Node:
    return Node(b"d" + text(value.__name__), [value.__self__])


def _wrapping(value: Any, _canon: Canonical) -> Node:
    return Node(b"w" + text(type(value).__name__), [value.__func__])


def _property(value: property, _canon: Canonical) -> Node:
    return Node(b"w" + b"property", [value.fget, value.fset, value.fdel])


def _partial(value: functools.partial[Any], _canon: Canonical) -> Node:
    parts = {"func": value.func, "args": value.args, "keywords": value.keywords, "__dict__": vars(value)}
    names = list(parts)
    return Node(b"w" + b"partial", list(parts.values()), lambda i: f".{names[i]}")


def _cached_property(value: Any, _canon: Canonical) -> Node:
    return Node(b"w" + b"cached_property", [value.func])


DEFINITIONS: Final[dict[type, Expander]] = {
    types.FunctionType: _function,
    types.MethodType: _method,
    types.BuiltinFunctionType: _builtin,
    types.MethodDescriptorType: _descriptor,
    types.ClassMethodDescriptorType: _descriptor,
    types.WrapperDescriptorType: _descriptor,
    types.GetSetDescriptorType: _descriptor,
    types.MemberDescriptorType: _descriptor,
    types.MethodWrapperType: _bound_descriptor,
    types.CellType: _cell,
    staticmethod: _wrapping,
    classmethod: _wrapping,
    property: _property,
    functools.cached_property: _cached_property,
    functools.partial: _partial,
    TypeName: _type_name,
    _Cell: _cell,
}
