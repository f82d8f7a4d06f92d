"""What steps change of the process's settings, kept and set again. It also decides what later steps look like."""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Collection, Mapping
from typing import Any, Final

from resumable_nb.facets import FACETS, Values

State = dict[str, Values]

SEEN: Final = ("matplotlib", "pandas", "numpy")
"""The facets that decide how results look."""


COUNTED: Final = ("decimal", "sklearn", "torch")
"""The facets that decide what values come out, with code that uses their libraries."""
_KINDS: Final = {"Decimal": "decimal", "Tensor": "torch", "Parameter": "torch"}


class Changed:
    """What a step left of one facet: ``put`` was set, ``gone`` was removed. Plain data, for a pickle."""

    __slots__ = ("gone", "put")

    def __init__(self, put: Values, gone: tuple[str, ...] = ()) -> None:
        self.put = put
        self.gone = gone

    def __repr__(self) -> str:
        return f"Changed({self.put!r}, {self.gone!r})"


Changes = dict[str, Changed]


class Settings:
    """One process's settings, from step to step. What is restored waits until code runs that may need it."""

    def __init__(self) -> None:
        self._due: Changes = {}
        self._began: dict[str, State] = {}

    def begin(self, step: str) -> None:
        """A body starts. One that failed before in this process goes on from the state that it found then."""
        self.settle()
        self._began.setdefault(step, state())

    def end(self, step: str, earlier: Changes | None = None) -> Changes:
        """What the body changed, and what its ``earlier`` version had: here that does not differ any more."""
        return changed(self._began.pop(step, {}), state(), earlier)

    def at_start(self, step: str, name: str) -> Values:
        """What differed from the library's defaults when the body began."""
        return _differing(name, self._began.get(step, {}).get(name))

    def now(self, name: str) -> Values:
        """What differs from the library's defaults now, or would if it were loaded."""
        if name in self._due:
            _apply({name: self._due.pop(name)})
        loaded = FACETS[name].module in sys.modules
        return _differing(name, FACETS[name].read() if loaded else None)

    def restore(self, changes: Changes) -> None:
        """A step is skipped: set again what it had changed, now or before the next body runs."""
        self._due = merged(self._due, changes)
        _apply({name: self._due.pop(name) for name in changes if name in FACETS and _at_once(name)})

    def due(self, name: str) -> Values:
        """What is still to be set of one facet."""
        return self._due[name].put if name in self._due else {}

    def arrived(self) -> None:
        """Libraries and variables may have been loaded: what is due there is set, before anybody looks at it."""
        loaded = [name for name in self._due if name in FACETS and FACETS[name].module in sys.modules]
        _apply({name: self._due.pop(name) for name in loaded})

    def settle(self) -> None:
        """Code is about to run."""
        due, self._due = self._due, {}
        _apply(due)


def state() -> State:
    """All facets whose libraries are loaded."""
    found: State = {}
    for name, facet in FACETS.items():
        if facet.module in sys.modules:
            with contextlib.suppress(Exception):  # a library of another age: its settings are not followed
                found[name] = facet.read()
    return found


def changed(before: State, after: State, earlier: Changes | None = None) -> Changes:
    """What differs, and with it what ``earlier`` speaks of. A library that was not loaded before had its defaults."""
    found: Changes = {}
    for name, now in after.items():
        default = FACETS[name].default
        was = before.get(name)
        if was is None:
            was = default() if default is not None else {}
        touched = {key for key in was.keys() | now.keys() if not _same(was, now, key)}
        if earlier and name in earlier:
            touched |= {*earlier[name].put, *earlier[name].gone}
        if touched:
            put = {key: value for key, value in now.items() if key in touched}
            found[name] = Changed(put, tuple(sorted(touched - now.keys())))
    return found


def merged(first: Changes, second: Changes) -> Changes:
    """Both, the second after the first."""
    found = dict(first)
    for name, new in second.items():
        old = found.get(name, Changed({}))
        kept = {key: value for key, value in old.put.items() if key not in new.gone and key not in new.put}
        found[name] = Changed({**new.put, **kept}, tuple(sorted({*old.gone, *new.gone} - new.put.keys() - kept.keys())))
    return found


def seen_in(outputs: Collection[Mapping[str, Any]], values: Collection[str]) -> list[str]:
    """Facets that what a step showed depends on. ``values``: its inputs, described (``DataFrame 3 × 4``)."""
    data = [each.get("data", {}) for each in outputs]
    mimes = {mime for each in data for mime in each}
    texts = [str(each.get("text", "")) for each in outputs] + [str(text) for each in data for text in each.values()]
    found = []
    if any(mime.startswith("image/") or mime == "application/pdf" for mime in mimes):
        found.append("matplotlib")
    if _any_in(texts, ("dataframe", "dtype", " rows x ")) or _any_start(values, ("DataFrame", "Series")):
        found.append("pandas")
    if _any_in(texts, ("array(", "dtype")) or _any_start(values, ("ndarray", "array")):
        found.append("numpy")
    return found if texts else []


def counted_in(names: Collection[str]) -> list[str]:
    """Facets that the values depend on. ``names``: modules, functions, classes and types that the code uses."""
    used = {_KINDS.get(name.partition(" ")[0], name.partition(".")[0]).lstrip("_") for name in names}
    return [name for name in COUNTED if name in used]


def _any_in(texts: Collection[str], parts: tuple[str, ...]) -> bool:
    return any(part in text for text in texts for part in parts)


def _any_start(values: Collection[str], starts: tuple[str, ...]) -> bool:
    return any(value.startswith(starts) for value in values)


def _at_once(name: str) -> bool:
    return FACETS[name].early or (FACETS[name].module in sys.modules and not FACETS[name].late)


def _apply(changes: Changes) -> None:
    """Libraries are imported for it; one that is gone has no settings to miss."""
    for name, change in changes.items():
        if name in FACETS:
            with contextlib.suppress(ImportError):
                importlib.import_module(FACETS[name].module)
                FACETS[name].write(change.put, change.gone)


def _differing(name: str, values: Values | None) -> Values:
    default = FACETS[name].default
    if values is None or default is None:
        return {}
    usual = default()
    return {key: values[key] for key in sorted(values) if not _same(usual, values, key)}


_ABSENT: Final = object()


def _same(one: Values, two: Values, key: str) -> bool:
    left, right = one.get(key, _ABSENT), two.get(key, _ABSENT)
    if left is right:
        return True
    try:
        return type(left) is type(right) and bool(left == right)
    except Exception:  # arrays and the like
        return False
