"""``Callers``: the functions that wait for a loop, up to the notebook's cell. What it keeps may be theirs, too."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import FrameType
from typing import Any, Final

from resumable_nb import frame as frames
from resumable_nb.fingerprint import user_module
from resumable_nb.model import MISSING

_OF: Final = " of "
"""Between a variable and its function: no name in code has it."""


class Callers:
    """Of the code in ``frame``. Functions of libraries are passed over: what those hold is their own affair."""

    def __init__(self, frame: FrameType) -> None:
        self._inner = frame
        self._frames = [*_waiting(frame)]

    def variables(self, hidden: Callable[[str], bool]) -> dict[str, Any]:
        """What they hold, by names that also say whose it is."""
        own = frames.own_names(self._inner)
        return {
            self._name(at, name): value
            for at, each in enumerate(self._frames)
            for name, value in frames.variables(each).items()
            if not hidden(name) and (name in own or not self._is_seen(each))
        }

    def assign(self, values: Mapping[str, Any]) -> None:
        """Set those of ``values`` that are theirs."""
        for at, each in enumerate(self._frames):
            own = {name: values.get(self._name(at, name), MISSING) for name in frames.variables(each)}
            if own := {name: value for name, value in own.items() if value is not MISSING}:
                frames.assign(each, own)

    def _is_seen(self, frame: FrameType) -> bool:
        """Whether the inner code sees these very variables, where it has none of its own under their names."""
        return frames.is_module(frame) and frame.f_globals is self._inner.f_globals

    def _name(self, at: int, name: str) -> str:
        return f"{name}{_OF}{self._frames[at].f_code.co_qualname}{_OF}{at}"


def is_theirs(name: str) -> bool:
    """Whether a name is one of ``Callers.variables``."""
    return _OF in name


def told(name: str) -> str:
    """The name as people are told it."""
    own, of, function = name.partition(_OF)
    return f"{own!r}" + (f"{of}{function.partition(_OF)[0]}()" if of else "")


def _waiting(frame: FrameType) -> Iterator[FrameType]:
    each: FrameType | None = frame
    while each is not None and not frames.is_module(each):
        each = each.f_back
        if each is not None and user_module(each.f_globals.get("__name__", "")):
            yield each
