"""``Left``: which variables are what a step has left in them, and nobody has set since."""

from __future__ import annotations

import types
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Final

from resumable_nb.groups import is_atom
from resumable_nb.model import MISSING
from resumable_nb.snapshot.reach import codes
from resumable_nb.snapshot.space import Namespace
from resumable_nb.source import ANY_NAME, Body, names_of

_NOT_THERE: Final = 0


@dataclass(frozen=True, slots=True)
class _Mark:
    step: str
    at: int
    """``id()`` of the value, or ``_NOT_THERE``: not loaded yet, or deleted."""
    kept: Any = None
    """The value itself, where it may be gone when the next one comes to lie at its address."""


class Left:
    """Of one live namespace. Equal values tell nothing: ``x = 1`` edited to ``x = 2`` may hit what a step left."""

    def __init__(self, live: dict[str, Any]) -> None:
        self._live = live
        self._by: dict[str, _Mark] = {}
        self._unfinished: dict[str, _Mark] = {}

    def note(self, space: Namespace, names: Collection[str], step: str) -> None:
        """The step has set these, now or when it ran."""
        self._by |= self._marks(space, names, step)
        for name in names & self._unfinished.keys():
            del self._unfinished[name]

    def interrupt(self, space: Namespace, names: Collection[str], step: str) -> None:
        """The step has failed, or was stopped, and may have set these before."""
        self._unfinished |= self._marks(space, names, step)

    def _marks(self, space: Namespace, names: Collection[str], step: str) -> dict[str, _Mark]:
        found: dict[str, _Mark] = {}
        for name in names:
            if space.live is not self._live or name in space.own:
                continue  # a function's own variables are made anew by each call
            value = space.variables.get(name, MISSING)
            at = _NOT_THERE if value is MISSING else id(value)
            found[name] = _Mark(step, at, None if self._live.get(name, value) is value else value)
        return found

    def is_left(self, space: Namespace, name: str, step: str) -> bool:
        """Whether the variable is what the step, or one that it is part of, has left in it."""
        return self._is(self._by.get(name), space, name, step)

    def by(self, space: Namespace, name: str) -> str:
        """The step that has left what the variable is; empty where none has."""
        mark = self._by.get(name)
        return mark.step if mark is not None and self._is(mark, space, name, mark.step) else ""

    def is_unfinished(self, space: Namespace, name: str, step: str) -> bool:
        """Whether it is what an interrupted body of the step has left in it."""
        return self._is(self._unfinished.get(name), space, name, step)

    def _is(self, mark: _Mark | None, space: Namespace, name: str, step: str) -> bool:
        if mark is None or space.live is not self._live or name in space.own:
            return False
        at = id(space.variables[name]) if name in space.variables else _NOT_THERE
        return at == mark.at and f"{step}/".startswith(f"{mark.step}/")

    def run(self, body: Body, step: str = "") -> None:
        """Code that surely sets some variables is about to run: the body of a step, or a plain cell."""
        names = body.sets | self._set_by_calls(body)
        if ANY_NAME in names:
            # An atom that is set to what it is cannot be told from one that is not set.
            names |= {name for name in (*self._by, *self._unfinished) if is_atom(self._live.get(name))}
        for name in names & self._by.keys():
            del self._by[name]
        for name in names & self._unfinished.keys():
            if self._unfinished[name].step != step:  # it may be about to go on from what it has kept
                del self._unfinished[name]

    def loaded(self, names: Collection[str]) -> None:
        """These came out of the store, and are the objects that they are from now on."""
        for name in names & self._by.keys():
            if self._by[name].at == _NOT_THERE and name in self._live:
                self._by[name] = _Mark(self._by[name].step, id(self._live[name]))

    def put_off(self, name: str, value: object) -> None:
        """An equal value that is not loaded yet takes the place of this one."""
        self._unfinished.pop(name, None)
        mark = self._by.get(name)
        if mark is not None and value is not MISSING:
            if mark.at == id(value):
                self._by[name] = _Mark(mark.step, _NOT_THERE)
            else:
                del self._by[name]

    def take_over(self, other: Left) -> None:
        """The same task was open in this process before."""
        self._by |= other._by

    def _set_by_calls(self, body: Body) -> frozenset[str]:
        """Globals that functions set which the code calls. Steps inside of a function set theirs themselves."""
        if not self._by and not self._unfinished:
            return frozenset()
        found: set[str] = set()
        todo, seen = [root for root, _ in body.touched.calls], set[str]()
        while todo:
            name = todo.pop()
            function = self._live.get(name)
            if name in seen or not isinstance(function, types.FunctionType):
                continue
            seen.add(name)
            for code in codes(function):
                names = names_of(code)
                todo += names.globals
                if "enter_block" not in names.attributes:
                    found |= names.stores
        return frozenset(found)
