"""Iterators: what they go through, and where they are in it; one that has ended stays of its type."""

from __future__ import annotations

import contextlib
import gc
import itertools
import operator
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any, Final

from resumable_nb.codec import rebuild

Reduced = Any

_DICTIONARIES: Final = {
    type(turn(getattr({}, name)())): (name, turn is reversed)
    for name in ("keys", "values", "items")
    for turn in (iter, reversed)
}


class _Sequence:
    """As long as Python's oldest way to be gone through allows: empty."""

    def __getitem__(self, _: int) -> object:
        raise IndexError


_EMPTY: Final[tuple[Callable[[], Iterator[Any]], ...]] = (
    lambda: iter({}.keys()),
    lambda: iter({}.values()),
    lambda: iter({}.items()),
    lambda: reversed({}.keys()),
    lambda: reversed({}.values()),
    lambda: reversed({}.items()),
    lambda: iter(OrderedDict()),
    lambda: iter(set()),
    lambda: reversed([]),
    lambda: iter(b""),
    lambda: iter(bytearray()),
    lambda: iter("é"),
    lambda: iter(_Sequence()),
)
_ENDED: Final = {type(make()).__name__: make for make in _EMPTY}
"""Those that say of themselves, when they have ended, that they are a list's or a tuple's."""


def make_ended(kind: str) -> Iterator[Any]:
    ended = _ENDED[kind]()
    for _ in ended:
        pass
    return ended


def of_itertools(iterator: Any) -> Reduced:
    with _can_still():
        reduced = iterator.__reduce__()
    return reduced if len(reduced) < 3 else (*reduced[:3], None, None, set_itertools)


def set_itertools(iterator: Any, state: Any) -> None:
    with _can_still():
        iterator.__setstate__(state)


@contextlib.contextmanager
def _can_still() -> Iterator[None]:
    """Python 3.12 and 3.13 warn that 3.14 cannot."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        yield


def _of_calls(iterator: Any) -> Reduced:
    """``iter(function, sentinel)``, ``re.finditer``: one that has ended says that it is a tuple's."""
    reduced = iterator.__reduce__()
    return (rebuild.make_ended_calls, ()) if reduced[1] == ((),) else reduced


def _of_builtins(iterator: Any) -> Reduced:
    reduced = iterator.__reduce__()
    ended = len(reduced) < 3 and reduced[0] is iter and type(reduced[1][0]) in (list, tuple, str) and not reduced[1][0]
    return (make_ended, (type(iterator).__name__,)) if ended else reduced


def _of_reversed_list(iterator: Any) -> Reduced:
    """One that stands beyond the end of a list that became shorter gives nothing; read back, it would begin anew."""
    return _of_builtins(iterator) if iterator.__length_hint__() else (make_ended, (type(iterator).__name__,))


def _of_dictionary(iterator: Any) -> Reduced:
    """With its dictionary: what is set in that later, the iterator gives. Raises where it has changed its size."""
    usual = iterator.__reduce__()
    mapping = next((each for each in gc.get_referents(iterator) if isinstance(each, dict)), None)
    if mapping is None or not (left := usual[1][0]):
        return _of_builtins(iterator)
    method, backwards = _DICTIONARIES[type(iterator)]
    again = (reversed if backwards else iter)(getattr(mapping, method)())
    taken = len(mapping) - len(left)
    same = all(_is_entry(one, two) for one, two in zip(itertools.islice(again, taken, None), left, strict=True))
    # Where an entry went and another came, what is left is no end of the dictionary.
    return (rebuild.make_iterator, (mapping, method, backwards, len(mapping), taken)) if same else usual


def _is_entry(one: Any, two: Any) -> bool:
    return one is two or (type(one) is tuple and type(two) is tuple and all(map(operator.is_, one, two)))


REDUCED: Final[dict[type, Callable[[Any], Reduced]]] = {
    type(iter(int, 0)): _of_calls,
    **{type(make()): _of_builtins for make in _EMPTY},
    type(reversed([])): _of_reversed_list,
    **dict.fromkeys(_DICTIONARIES, _of_dictionary),
}
"""How iterators of a type are taken apart; see ``special``."""
