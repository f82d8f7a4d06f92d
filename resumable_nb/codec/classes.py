"""Classes of the notebook taken apart: what they are made with, and what they are given then."""

from __future__ import annotations

import enum
import types
import typing
from typing import Any

from resumable_nb.model import MISSING


def own_state(kind: type, state: dict[str, Any]) -> dict[str, Any]:
    """cloudpickle's ``state`` in the order in which it was set, with what that takes for inherited: own attributes
    that are the very objects its bases have."""
    whole = not issubclass(kind, enum.Enum)
    return {
        name: state.get(name, value)
        for name, value in vars(kind).items()
        if (name in state and name != "__slotnames__") or (whole and _as_its_base(kind, name, value))
    }  # but for a cache of copyreg's, which the first instance's pickle leaves


def _as_its_base(kind: type, name: str, value: object) -> bool:
    if name == "__module__":  # an argument of the making
        return False
    return any(vars(base).get(name, MISSING) is value for base in kind.__bases__)


def layout(kind: type, state: dict[str, Any]) -> dict[str, Any]:
    """What a class has to be made with, and cannot be given later; ``state`` is left with the rest."""
    made: dict[str, Any] = {"__qualname__": kind.__qualname__}
    slots = state.get("__slots__")
    if isinstance(slots, str | tuple | list | dict) and typing.NamedTuple not in vars(kind).get("__orig_bases__", ()):
        made["__slots__"] = state.pop("__slots__")
    for name, value in list(state.items()):
        if isinstance(value, types.MemberDescriptorType) and value.__objclass__ is kind:
            del state[name]
    return made
