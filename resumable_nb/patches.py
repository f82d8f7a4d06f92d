"""Attributes of modules and of libraries' classes that steps set (``pd.DataFrame.shout = f``), kept and set again."""

from __future__ import annotations

import contextlib
import enum
import importlib
import sys
import types
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Final

from resumable_nb.model import MISSING
from resumable_nb.source import Body, Import, names_of

Values = dict[str, Any]
"""By anchor: ``module:attribute.attribute``."""

_OTHERS: Final = frozenset({"sys:path", "sys:modules", "os:environ"})
"""What settings follow, or nobody can set."""


class Original(enum.Enum):
    """What the library itself had there: a function's name would lead to what stands in its place."""

    ORIGINAL = "ORIGINAL"


class Patches:
    """One process's, from step to step. What is restored waits for its module as long as no code runs."""

    def __init__(self) -> None:
        self._paths: dict[tuple[str, frozenset[Import]], None] = {}
        """Targets of all the steps so far: a function that one step defines may be called by another."""
        self._began: dict[str, Values] = {}
        self._set: Values = {}
        """What steps have set in this process."""
        self._due: Values = {}
        self._originals: Values = {}

    def watch(self, body: Body) -> None:
        """A step is there, which may be skipped."""
        for path in sorted(body.touched.stores):
            self._paths[path, frozenset(each for each in body.imports if not each.level)] = None

    def begin(self, step: str, variables: Mapping[str, Any]) -> None:
        """A body starts. One that failed before in this process goes on from the state that it found then."""
        self.settle()
        now = self._began.setdefault(step, self._now(self._paths, variables))
        self._originals = {**now, **self._originals}

    def end(self, step: str, body: Body, variables: Mapping[str, Any], earlier: Collection[str]) -> Values:
        """What the body has set; ``MISSING`` is deleted. ``earlier``: what its version before had set."""
        before = self._began.pop(step, {})
        own = {key: None for key in self._paths if key[0] in body.touched.stores}
        known = self._now(own, variables).keys() | before.keys() | set(earlier)
        now = {anchor: _read(anchor) for anchor in sorted(known)}
        found = {
            anchor: Original.ORIGINAL if _is_own(anchor, value) else value
            for anchor, value in now.items()
            if not _same(value, before.get(anchor, MISSING)) or (anchor in earlier and value is not MISSING)
        }
        self._set |= found
        return found

    def restore(self, values: Values) -> None:
        """A step is skipped: what it had set is set again by ``patch``, or before the next body runs."""
        self._set |= values
        self._due |= values
        # At once: a variable may be imported from there.
        self._apply(anchor for anchor, value in values.items() if value is Original.ORIGINAL)

    def _apply(self, anchors: Iterable[str]) -> None:
        for anchor in [each for each in anchors if each.partition(":")[0] in sys.modules]:
            self._write(anchor, self._due.pop(anchor))

    def patch(self) -> None:
        """Set again what libraries that are loaded have; who calls them may find it from now on."""
        self._apply(self._due)

    def code(self) -> Body:
        """What the functions that steps have put into libraries look up in the notebook: anybody may call them."""
        found = {name for value in self._set.values() for name in _globals(value)}
        return Body("", reads=frozenset(found))

    def settle(self) -> None:
        """Code is about to run."""
        due, self._due = self._due, {}
        for anchor, value in due.items():
            with contextlib.suppress(ImportError):  # a library that is gone misses nothing
                importlib.import_module(anchor.partition(":")[0])
                self._write(anchor, value)

    def used_by(self, body: Body) -> Values:
        """Of what steps have set, what the code mentions."""
        return {anchor: self._set[anchor] for anchor in sorted(self._set) if _last(anchor) in body.attributes}

    def _write(self, anchor: str, value: Any) -> None:
        original = self._originals.setdefault(anchor, _read(anchor))
        _write(anchor, original if value is Original.ORIGINAL else value)

    def _now(self, paths: Collection[tuple[str, frozenset[Import]]], variables: Mapping[str, Any]) -> Values:
        anchors = {anchor for path, imports in paths for anchor in _anchors(path, imports, variables)}
        loaded = [anchor for anchor in anchors - _OTHERS if anchor.partition(":")[0] in sys.modules]
        return {anchor: _read(anchor) for anchor in sorted(loaded)}


def _anchors(path: str, imports: Collection[Import], variables: Mapping[str, Any]) -> Iterator[str]:
    """Where a dotted target lies; nothing for an attribute of the notebook's own things."""
    root, _, rest = path.partition(".")
    for each in imports:
        if each.bound == root and not each.names:
            whole = each.module.partition(".")[0] != root
            yield f"{each.module if whole else root}:{rest}"
        elif root in each.names:
            yield f"{each.module}.{root}:{rest}" if f"{each.module}.{root}" in sys.modules else f"{each.module}:{path}"
    match variables.get(root):
        case types.ModuleType() as module if module.__name__ != "__main__":
            yield f"{module.__name__}:{rest}"
        case type() as kind if kind.__module__ not in ("__main__", "builtins"):
            yield f"{kind.__module__}:{kind.__qualname__}.{rest}"


def _owner(anchor: str) -> tuple[Any, str]:
    """What has the attribute, and its name. Raises ``AttributeError`` where nothing does."""
    module, _, path = anchor.partition(":")
    owner: Any = sys.modules.get(module, MISSING)
    *way, name = path.split(".")
    for part in way:
        owner = getattr(owner, part)
    return owner, name


def _last(anchor: str) -> str:
    return anchor.rpartition(".")[2].rpartition(":")[2]


def _read(anchor: str) -> Any:
    """A class's own attributes as they are in it: a ``property`` is one."""
    try:
        owner, name = _owner(anchor)
        if isinstance(owner, type) and name in vars(owner):
            return vars(owner)[name]
        return getattr(owner, name, MISSING)
    except Exception:  # any code may stand behind an attribute
        return MISSING


def _is_own(anchor: str, value: Any) -> bool:
    return isinstance(value, types.FunctionType) and anchor == f"{value.__module__}:{value.__qualname__}"


def _write(anchor: str, value: Any) -> None:
    with contextlib.suppress(Exception):  # a library of another version: what misses the attribute says so
        owner, name = _owner(anchor)
        if value is MISSING:
            delattr(owner, name)
        else:
            setattr(owner, name, value)


def _globals(value: Any) -> Iterator[str]:
    match value:
        case types.FunctionType():
            if value.__globals__.get("__name__") == "__main__":
                yield from names_of(value.__code__).globals
        case property():
            yield from (name for each in (value.fget, value.fset, value.fdel) for name in _globals(each))
        case staticmethod() | classmethod() | types.MethodType():
            yield from _globals(value.__func__)
        case type() if value.__module__ == "__main__":
            yield from (name for each in vars(value).values() for name in _globals(each))


def _same(one: Any, two: Any) -> bool:
    if one is two:
        return True
    return isinstance(one, int | float | str | bytes | types.MethodType) and type(one) is type(two) and one == two
