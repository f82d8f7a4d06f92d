"""The order in which a set is gone through: that of its table, which depends on what was put in first.

Of two elements that belong in one place the later one goes on looking. So a set that is filled in its own order may
come out in another one. Here its places are found, and from them an order of filling that leads to the same; it is
tried before it is used. What hashes otherwise in each process (text) has no order to be kept.

The ways through a table are those of CPython's ``Objects/setobject.c``.
"""

from __future__ import annotations

import bisect
import itertools
import numbers
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

MANY: Final = 100_000
"""Elements up to which the order is looked at."""
FINDABLE: Final = 2_000
"""Elements up to which another order of filling is looked for."""

_EMPTY_BYTES: Final = set().__sizeof__()
_PLACE_BYTES: Final = 16
_SMALL: Final = 8
_NEAR: Final = 9
"""Places that are looked at one after another, before a leap."""
_LOOKS: Final = 64
"""Places that an element may have gone past."""

Filling = list[Any] | dict[Any, None]
"""The elements in the order in which they are put in; a dictionary's are counted first."""


class Laid:
    """A value with sets in it that have to be filled otherwise than pickle does."""

    def __init__(self, value: Any, fillings: list[tuple[set[Any], Filling]]) -> None:
        self._value, self._fillings = value, fillings

    def __reduce__(self) -> Any:
        return lay, (self._value, self._fillings)


def lay(value: Any, fillings: list[tuple[set[Any], Filling]]) -> Any:
    """Put the sets in the value in order; returns the value."""
    for items, filling in fillings:
        items.clear()
        items.update(filling)
    return value


def laid(value: Any, nodes: Iterable[Mapping[int, object]]) -> Any:
    """The value, with how to fill those of the objects in it that are sets, where that is known and needed."""
    sets = {key: each for held in nodes for key, each in held.items() if type(each) is set}
    fillings = [(each, found) for each in sets.values() if (found := filling(each)) is not None]
    return Laid(value, fillings) if fillings else value


def filling(items: set[Any]) -> Filling | None:
    """What to fill an empty set with, so that it has the order of this one.

    ``None`` where its own order is good enough, or no better one is found.
    """
    if len(items) > MANY or not all(map(_is_the_same_everywhere, items)):
        return None
    wanted = list(items)
    if list(set(wanted)) == wanted or len(wanted) > FINDABLE:
        return None
    order = _order(wanted, _places_of(items) - 1)
    found: list[Filling] = [order, dict.fromkeys(order), dict.fromkeys(wanted)] if order else [dict.fromkeys(wanted)]
    return next((each for each in found if list(set(each)) == wanted), None)


def _is_the_same_everywhere(element: object) -> bool:
    """Whether it hashes alike in each process."""
    if type(element) is tuple:
        return all(map(_is_the_same_everywhere, element))
    return isinstance(element, numbers.Number)


def _places_of(items: set[Any]) -> int:
    more = items.__sizeof__() - _EMPTY_BYTES
    return more // _PLACE_BYTES or _SMALL


def _way(key: int, mask: int) -> Iterator[int]:
    """The places at which an element with this hash is looked for."""
    leap, place = key & (2**64 - 1), key & mask
    while True:
        yield from range(place, place + 1 + (_NEAR if place + _NEAR <= mask else 0))
        leap >>= 5
        place = (place * 5 + 1 + leap) & mask


def _order(wanted: list[Any], mask: int) -> list[Any]:
    """The elements, each after those that it went past; empty where the places are not found."""
    keys = [*map(hash, wanted)]
    places = _places(keys, mask)
    owner = {place: k for k, place in enumerate(places)}
    after: list[list[int]] = [[] for _ in wanted]
    waits = [0] * len(wanted)
    for k, place in enumerate(places):
        passed = {*itertools.takewhile(place.__ne__, _way(keys[k], mask))}
        if not passed <= owner.keys():  # by an element that was removed
            return []
        waits[k] = len(passed)
        for each in passed:
            after[owner[each]].append(k)
    found: list[int] = []
    ready = [k for k, count in enumerate(waits) if not count and places]
    while ready:
        found += ready
        free: list[int] = []
        for k in itertools.chain.from_iterable(after[each] for each in ready):
            waits[k] -= 1
            if not waits[k]:
                free.append(k)
        ready = sorted(free)
    return [wanted[k] for k in found] if len(found) == len(wanted) else []


def _places(keys: list[int], mask: int) -> list[int]:
    """One place for each, rising, so that the fewest are gone past; empty where there is none for all of them."""
    layers: list[list[tuple[int, int, int]]] = []  # place, places gone past so far, and which of the layer before
    before = [(-1, 0, 0)]
    for key in keys:
        looks = enumerate(itertools.islice(_way(key, mask), _LOOKS))
        cost: dict[int, int] = {}
        for count, place in looks:
            cost.setdefault(place, count)
        best = [*itertools.accumulate(((past, k) for k, (_, past, _) in enumerate(before)), min)]
        here = []
        for place in sorted(cost):
            if (k := bisect.bisect_left(before, place, key=lambda each: each[0])) > 0:
                past, which = best[k - 1]
                here.append((place, past + cost[place], which))
        if not here:
            return []
        layers.append(here)
        before = here
    found: list[int] = []
    which = min(range(len(before)), key=lambda k: before[k][1]) if layers else 0
    for layer in reversed(layers):
        place, _, which = layer[which]
        found.append(place)
    return found[::-1]
