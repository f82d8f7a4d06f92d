"""``Seeding``: where the random generators that everybody shares stand, and whether the notebook has put them there.

A generator that nobody has seeded stands elsewhere in each process: that is no difference. One that was seeded stands
where code has put it, so what a step draws depends on that, as on any value.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from resumable_nb import randomness
from resumable_nb.canonical import home, user_module
from resumable_nb.source import Body, calls_of

UNSEEDED: Final = "unseeded"
SEEDED: Final = "seeded here"
"""In the key of a step that seeds a generator itself: what it draws depends on nothing before."""
_ALL: Final = frozenset(("Python", "numpy", "torch"))
_SETTERS: Final = {
    "Python": ("random:seed", "random:setstate"),
    "numpy": ("numpy.random:seed", "numpy.random:set_state"),
    "torch": ("torch:manual_seed", "torch:seed", "torch:set_rng_state"),
}


class Seeding:
    """One process's, from one piece of code to the next."""

    def __init__(self) -> None:
        self._running: Body | None = None
        self._around: dict[str, Body | None] = {}
        self._last: dict[str, str] = {}
        self._seen: dict[str, set[str]] = {}
        """Where each generator was since it was seeded last; one that nobody has seeded is not here."""
        self._began: dict[str, tuple[dict[str, str], frozenset[str]]] = {}

    def run(self, body: Body, variables: Mapping[str, Any]) -> None:
        """Code outside any step is about to run."""
        self.look(variables)
        self._running = body

    def look(self, variables: Mapping[str, Any]) -> None:
        """See where the running code has left them by now."""
        now = randomness.marks()
        moved = [name for name in now if now[name] != self._last.get(name)]
        seeded = seeds(self._running, variables) if moved and self._running is not None else frozenset()
        for name in moved:
            if name in seeded:
                self._seen[name] = {now[name]}
            elif name in self._seen:
                self._seen[name].add(now[name])
        self._last = now

    def now(self, name: str, recorded: str) -> str:
        """What stands for the generator now, where ``recorded`` did when a step began.

        Where it was there since it was seeded, code that has drawn since is no difference: cells are run anew in any
        order.
        """
        if recorded in (SEEDED, self._last.get(name), *self._seen.get(name, ())):
            return recorded
        return self._last.get(name, UNSEEDED) if name in self._seen else UNSEEDED

    def back(self, step: str, state: bytes) -> bytes:
        """Of where the generators stood when an unfinished step began first: what is to be set for it to go on.

        A seeded one stays where it is, where that is another place: what is above was edited, or runs only now.
        In the kernel that the step began in, cells may have drawn in any order.
        """
        anew = step not in self._began
        left = [
            name
            for name, mark in randomness.marks_of(state).items()
            if name in self._seen and mark != self._last[name] and (anew or mark not in self._seen[name])
        ]
        return randomness.without(state, left)

    def begin(self, step: str, body: Body) -> None:
        """A step's body starts. What goes on after an error stands where it had begun."""
        self._began.setdefault(step, (self._last, frozenset(self._seen)))
        self._around[step], self._running = self._running, body

    def end(self, step: str, body: Body, before: Callable[[], bytes], variables: Mapping[str, Any]) -> dict[str, str]:
        """What the body has drawn from, and where that stood ``before`` it."""
        self.look(variables)
        self._running = self._around.pop(step, None)
        found, known = self._began.pop(step, ({}, frozenset[str]()))
        if found == self._last:
            return {}
        start = randomness.marks_of(before())
        moved = [
            name
            for name, mark in self._last.items()
            if mark != start.get(name) and (name in start or not randomness.is_fresh(name))
        ]
        seeded = seeds(body, variables) if moved else frozenset()
        return {
            name: SEEDED if name in seeded else start.get(name, UNSEEDED) if name in known else UNSEEDED
            for name in moved
        }

    def skipped(self, parts: Mapping[str, str], variables: Mapping[str, Any]) -> None:
        """A step is skipped, and has put them where it had left them. ``parts``: what ``end`` gave for it."""
        before, self._running = self._running, None
        self.look(variables)
        self._running = before
        for name, part in parts.items():
            if part == SEEDED and name in self._last:
                self._seen[name] = {self._last[name]}


def seeds(body: Body, variables: Mapping[str, Any]) -> frozenset[str]:
    """Generators that the code seeds, or sets the state of, also in functions of the user's that it calls."""
    if any(root == "get_ipython" for root, _ in body.touched.calls) and _named(body.attributes | body.reads):
        return _ALL  # code in a magic: which generator it speaks of was not followed
    found: set[str] = set()
    seen: set[int] = set()
    todo = [thing for call in body.touched.calls for thing in _called(call, variables)]
    while todo:
        thing = todo.pop()
        if id(thing) in seen:
            continue
        seen.add(id(thing))
        found |= {name for name, setters in _SETTERS.items() if any(thing is _at(each) for each in setters)}
        if isinstance(thing, types.MethodType):
            todo.append(thing.__func__)
        elif isinstance(thing, type) and user_module(thing.__module__):
            todo += [each for each in vars(thing).values() if isinstance(each, types.FunctionType)]
        elif isinstance(thing, types.FunctionType) and user_module(home(thing)):
            space = thing.__globals__
            todo += [each for call in calls_of(thing.__code__) for each in _called(call, space)]
        elif isinstance(thing, types.FunctionType) and home(thing) != "random" and _named({thing.__name__}):
            found |= _ALL  # a library's own, for all that it knows
    return frozenset(found)


def _named(words: frozenset[str] | set[str]) -> bool:
    return any("seed" in word or word in ("setstate", "set_state", "set_rng_state") for word in words)


def _called(call: tuple[str, str], space: Mapping[str, Any]) -> Iterator[Any]:
    """What a dotted name leads to, through modules and classes alone: a property would run."""
    root, rest = call
    thing = space[root] if root in space else sys.modules.get(root)
    for name in () if rest == root else rest.split("."):
        if not isinstance(thing, types.ModuleType | type):
            return
        try:
            thing = getattr(thing, name, None)
        except Exception:  # any code may stand behind a module's attribute
            return
    yield thing


def _at(place: str) -> Any:
    """A function of a library that is loaded; else something that nothing else is."""
    module, _, name = place.partition(":")
    return getattr(sys.modules.get(module), name, _ALL)
