"""Enumerations of the notebook, with all that their members have: aliases, attributes, values of any kind.

Python's own way to an enumeration calls the members' ``__new__`` and ``__init__``, which the notebook has done already.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from typing import Any, Final

from resumable_nb.codec.definitions import importable

State = tuple[dict[str, Any], list[tuple[str, dict[str, Any]]]]
"""What is in the class, and in each member."""

_MADE: Final = frozenset({"__dict__", "__weakref__", "__slotnames__", "_abc_impl"})
_PLACE: Final = frozenset({"_name_", "__objclass__", "_sort_order_"})
"""Attributes of a member that say where it stands."""

_VALUES: Final = frozenset(
    {"_value2member_map_", "_unhashable_values_", "_unhashable_values_map_", "_hashable_values_"}
)
"""Where a class has its members' values."""


def is_plain(kind: type) -> bool:
    """Whether it is an enumeration like most; one with a metaclass of its own is as that makes it."""
    return type(kind) is enum.EnumMeta and bool(vars(kind).get("_member_map_"))


def taken_apart(kind: type) -> tuple[tuple[Any, ...], State]:
    """The arguments of ``make_enum``, and the state for ``set_enum``."""
    members = _own(kind)
    made = [(name, tuple(object.__reduce_ex__(each, 2)[1][1:])) for name, each in members.items()]
    state = {name: value for name, value in vars(kind).items() if name not in _MADE}
    # Members that were put together (flags) are put together again when they are asked for.
    state["_value2member_map_"] = {
        value: each for value, each in state["_value2member_map_"].items() if members.get(each._name_) is each
    }
    return (
        (type(kind), kind.__name__, kind.__bases__, kind.__qualname__, made),
        (state, [(name, dict(vars(each))) for name, each in members.items()]),
    )


def _own(kind: Any) -> dict[str, Any]:
    return {each._name_: each for each in kind._member_map_.values()}


def make_enum(meta: type, name: str, bases: tuple[type, ...], qualname: str, members: list[tuple[str, Any]]) -> type:
    """The class with its members, each without what is in it."""
    found: Any = type.__new__(meta, name, bases, {"__qualname__": qualname})
    base = next(each for each in found.__mro__ if each.__module__ != "__main__" and not issubclass(each, enum.Enum))
    type.__setattr__(found, "_member_map_", {each: base.__new__(found, *args) for each, args in members})
    return found  # type: ignore[no-any-return]  # made by a metaclass


def set_enum(kind: Any, state: State) -> None:
    members = _bare(kind)
    for name, value in state[0].items():
        type.__setattr__(kind, name, value)
    for name, attributes in state[1]:
        vars(members[name]).update(attributes)


def _bare(kind: Any) -> dict[str, Any]:
    return dict(kind._member_map_)


def renew(kind: Any, state: State, is_data: Callable[[str, object], bool]) -> None:
    """The living class is to have what a later step has left in it."""
    members = _own(kind)
    for name, value in state[0].items():
        if name in _VALUES or (name not in members and not name.startswith("_") and is_data(name, value)):
            type.__setattr__(kind, name, value)
    for name, attributes in state[1]:
        if name in members:
            own = vars(members[name])
            for each in own.keys() - attributes.keys():
                del own[each]
            own.update({each: value for each, value in attributes.items() if each not in _PLACE})


def member(found: Any) -> Any:
    """How a member is reduced: by its name, for its value may be no other's equal."""
    kind = type(found)
    return (make_member, (kind, found._name_)) if kind._member_map_.get(found._name_) is found else NotImplemented


def make_member(kind: Any, name: str) -> Any:
    members: Mapping[str, Any] = kind._member_map_
    return members[name]


def goes_by_name(kind: type) -> bool:
    """Whether it is such an enumeration of the notebook's."""
    return issubclass(kind, enum.Enum) and is_plain(kind) and not importable(kind)
