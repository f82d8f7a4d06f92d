"""What code reaches: from names to values, and from functions among them to the names that those look up."""

from __future__ import annotations

import dataclasses
import functools
import importlib
import importlib.util
import os
import sys
import types
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Final, Protocol

from blake3 import blake3

from resumable_nb.canonical import (
    Content,
    carries_code,
    content,
    fingerprint,
    home,
    is_enrolled,
    is_plain,
    module_named,
    wrapper_of,
)
from resumable_nb.errors import NoContent
from resumable_nb.model import MISSING, Missing, digest
from resumable_nb.preview import is_secret
from resumable_nb.source import Body, Import, Names, formula_words, names_of

NOTEBOOK: Final = "__main__"
IMPORTED: Final = "import "
"""Before a name that stands for a library's module, function or class: which one counts, its content does not."""
ENVIRONMENT: Final = "environment "
"""Before the name of a variable of the environment."""
_DYNAMIC: Final = frozenset({"globals", "eval", "exec"})
_NAMESPACES: Final = frozenset({"f_globals", "user_ns", "user_global_ns"})
"""Attributes that may be the notebook's namespace."""
_SHELL: Final = frozenset({"get_ipython", "In", "Out", "_oh", "_dh", "_ih"})
"""Names that IPython puts beside the user's, and that hold its history. The last results (``_``) are values as any."""


class Lookup(Protocol):
    """The variables that a step's code sees."""

    def value(self, name: str) -> object | Missing:
        """The value; a pending variable is loaded."""

    def known(self, name: str) -> str | Missing:
        """The value's digest, if it is known without loading the value."""

    def as_saved(self, name: str) -> str | Missing:
        """The digest that the variable, unchanged since, was saved with; empty where it had no canonical content.

        ``MISSING`` where that is not known, or no other than its content's.
        """

    def provenance(self, name: str) -> str:
        """Digest of the source that made the variable, or ""."""


class Known:
    """A ``Lookup`` with digests of some variables beforehand: of plain content they are believed."""

    def __init__(self, lookup: Lookup, digests: Mapping[str, str]) -> None:
        self._lookup, self._digests = lookup, digests

    def value(self, name: str) -> object | Missing:
        return self._lookup.value(name)

    def known(self, name: str) -> str | Missing:
        mark = self._digests.get(name, "")
        return mark if is_plain(mark) else self._lookup.known(name)

    def as_saved(self, name: str) -> str | Missing:
        return self._lookup.as_saved(name)

    def provenance(self, name: str) -> str:
        return self._lookup.provenance(name)


class Reach:
    """Collects ``functions`` and ``inputs`` of a step key."""

    def __init__(
        self,
        lookup: Lookup,
        is_user: Callable[[types.ModuleType | str], bool],
        body: Body,
        names: Collection[str] = (),
    ) -> None:
        self.functions: dict[str, str] = {}
        self.inputs: dict[str, str] = {}
        self.scripts: set[str] = set()
        self._lookup = lookup
        self._is_user = is_user
        self._body = body
        self._names = names
        self._done: set[object] = set()
        self._codes: list[types.FunctionType] = []

    def follow_body(self) -> None:
        """Everything that the step's own code reaches."""
        body = self._body
        self._environment(body.environment)
        self.scripts |= body.scripts
        use = Names(body.reads, body.attributes, body.bare, body.imports)
        for each in sorted(body.imports, key=repr):
            self._imported(each, use, "")
        for name in sorted(body.reads - body.only_deferred):
            self._notebook(name, use)
        if body.dynamic:
            self._everything()
        while self._codes:
            self._code(self._codes.pop())

    # --- names

    def _notebook(self, name: str, use: Names) -> None:
        """A name of the notebook's namespace, looked up by code with the given names."""
        for later in self._body.deferred.get(name, ()):  # the step defines it: what its code looks up counts now
            if self._first("deferred", name, later):
                self._notebook(later, use)
        if name in _SHELL or ("value", name) in self._done:
            return
        known = self._lookup.known(name)
        if known is not MISSING and not carries_code(known):
            self.inputs[name] = known
            return
        value = self._lookup.value(name)
        if isinstance(value, types.ModuleType):
            self._module_named(name, value, use)
        elif value is not MISSING:
            self._done.add(("value", name))
            self._value(name, name, value)
            for word in sorted(formula_words(value)):
                self._notebook(word, use)

    def _environment(self, names: Iterable[str]) -> None:
        """Variables of the environment. Another password is no other result."""
        for name in sorted(names):
            if not is_secret(name):
                self.inputs[ENVIRONMENT + name] = fingerprint(os.environ.get(name))

    def _first(self, *what: object) -> bool:
        """Whether this was not looked at yet."""
        if what in self._done:
            return False
        self._done.add(what)
        return True

    def _everything(self) -> None:
        """Code that may look up any name."""
        if self._first("everything"):
            names = frozenset(self._names)
            for name in sorted(names):
                self._notebook(name, Names(names, frozenset(), frozenset(), frozenset()))

    def _module_named(self, label: str, module: types.ModuleType, use: Names) -> None:
        if not self._is_user(module):
            self.inputs[IMPORTED + label] = digest(module.__name__.encode())
            return
        self._module(module, use, whole=label.rpartition(".")[2] in use.bare)

    def _module(self, module: types.ModuleType, use: Names, *, whole: bool) -> None:
        """The attributes of a user's module that the code mentions; all of them if it uses the module otherwise."""
        members = vars(module)
        names: Iterable[str] = use.attributes & members.keys()
        if whole or "__dict__" in use.attributes:
            names = members.keys()
        for name in sorted(names):
            if not name.startswith("__"):
                self._member(module.__name__, members, name, use)

    def _member(self, module: str, members: Mapping[str, Any], name: str, use: Names) -> None:
        value = members.get(name, MISSING)
        label = f"{module}.{name}"
        if isinstance(value, types.ModuleType):
            if self._first("member", label, use.attributes, name in use.bare):
                self._module_named(label, value, use)
        elif value is not MISSING and self._first("member", label):
            self._value(label, name, value)

    # --- values

    def _value(self, label: str, name: str, value: Any) -> None:
        if value is os.environ and name == "environ":
            self.inputs[IMPORTED + label] = digest(b"os.environ")  # those of its variables count that code names
            return
        definition = _definition(value)
        if isinstance(definition, types.FunctionType | type):
            where = home(definition) if isinstance(definition, types.FunctionType) else definition.__module__
            if self._is_user(where):
                self._function(label, where, value, definition)
                return
        if definition is not None and getattr(definition, "__name__", "") == name and _is_members(definition):
            label = IMPORTED + label
        try:
            found = content(value, is_user=self._is_user)
            saved = self._lookup.as_saved(label)
            self.inputs[label] = found.digest if saved is MISSING else saved or by_provenance(self._provenance(label))
        except NoContent:
            found = content(value, is_user=self._is_user, lenient=True)
            self.inputs[label] = by_provenance(self._provenance(label))
        self._take(found)

    def _function(self, label: str, where: str, value: Any, definition: Any) -> None:
        """A function or class of the user's, or what wraps one."""
        if where != NOTEBOOK and value is definition:
            label = qualified_in(where, definition)
        found = content(value, is_user=self._is_user, lenient=True)
        if isinstance(value, type) and is_enrolled(value):  # its members say less of it than what has made it
            mark = self._provenance(label)
            found = dataclasses.replace(found, digest=digest(f"{found.digest} {mark}".encode()))
        known = self.functions.setdefault(label, found.digest)
        if known != found.digest:  # two of one name: a definition was replaced, and the old one is still in use
            self.functions[f"{label} {found.digest[:8]}"] = found.digest
        self._take(found)

    def _take(self, found: Content) -> None:
        """Follow the code that a value holds, and the classes of its objects."""
        for definition in found.definitions:
            if isinstance(definition, types.FunctionType):
                if self._first("code", id(definition)):
                    self._codes.append(definition)
            elif isinstance(definition, types.ModuleType) and self._first("whole", id(definition)):
                self._module(definition, _NO_NAMES, whole=True)
        for kind in found.types:
            if self._first("type", id(kind)):
                where = kind.__module__
                label = kind.__qualname__ if where == NOTEBOOK else qualified_in(where, kind)
                if where == NOTEBOOK:  # what steps have set in it since comes with the variable
                    self._lookup.value(kind.__qualname__.partition(".")[0])
                self._function(label, where, kind, kind)

    def _provenance(self, label: str) -> str:
        """What made a value: the code of its cell, or the file of its module."""
        module, _, name = label.rpartition(".")
        if not module:
            return self._lookup.provenance(name)
        file = getattr(sys.modules.get(module), "__file__", None)
        try:
            with open(file or "", "rb") as source:  # noqa: PTH123  # a file name or nothing
                return blake3(source.read()).hexdigest(length=16)
        except OSError:
            return ""

    # --- code

    def _code(self, function: types.FunctionType) -> None:
        """The globals that a function's code looks up, in the namespace that it stands in."""
        use = names_of(function.__code__)
        members, module = function.__globals__, home(function)
        self._environment(use.environment)
        self.scripts |= use.scripts
        for each in sorted(use.imports, key=repr):
            self._imported(each, use, str(members.get("__package__") or ""))
        for name in sorted(use.globals):
            if module == NOTEBOOK:
                self._notebook(name, use)
            else:
                self._member(module, members, name, use)
        if _NAMESPACES & use.attributes or any(each.module == NOTEBOOK for each in use.imports):
            self._everything()
        if use.globals & _DYNAMIC - members.keys():
            if module == NOTEBOOK:
                self._everything()
            elif self._first("all of", module):
                for name in sorted(members):
                    if not name.startswith("__"):
                        self._member(module, members, name, use)

    def _imported(self, what: Import, use: Names, package: str) -> None:
        """What an import statement of the code binds, where the module is the user's."""
        name = _absolute(what, package)
        if not name or not self._is_user(name) or name == NOTEBOOK:
            return
        parts = name.split(".")
        modules = [_load(".".join(parts[: k + 1])) for k in range(len(parts))]
        module = modules[-1]
        if module is None:
            return
        if not what.names:
            for each in modules:
                if each is not None:
                    self._module(each, use, whole=what.bound in use.bare)
            return
        names: Iterable[str] = what.names
        if "*" in what.names:  # it leaves all of them behind, for the cells that follow
            names = frozenset(getattr(module, "__all__", [each for each in vars(module) if not each.startswith("_")]))
        for each_name in sorted(names):
            if each_name not in vars(module):
                _load(f"{name}.{each_name}")
            self._member(name, vars(module), each_name, use)


def by_provenance(mark: str) -> str:
    """What stands for a value without canonical content: what made it."""
    return f"by:{mark}"


_NO_NAMES: Final = Names(frozenset(), frozenset(), frozenset(), frozenset())


def _is_members(definition: Any) -> bool:
    """Whether its module has it under its name. What a library has made for the notebook is a variable."""
    if not isinstance(definition, types.FunctionType | type):
        return True
    found: Any = module_named(definition.__module__)
    for part in definition.__qualname__.split("."):
        found = getattr(found, part, None)
    return found is definition


def qualified_in(where: str, definition: Any) -> str:
    """A definition's name with the module that its code stands in."""
    return f"{where}.{definition.__qualname__}"


def _absolute(what: Import, package: str) -> str:
    try:
        return importlib.util.resolve_name("." * what.level + what.module, package or None)
    except (ImportError, ValueError):
        return ""


def _load(name: str) -> types.ModuleType | None:
    """A module of the user's: imported now if it was not yet, as running or skipping the step would."""
    try:
        return importlib.import_module(name)
    except Exception:  # the step will raise it, with its own traceback
        return sys.modules.get(name)


def _definition(value: Any) -> Any:
    """The function or class behind a value, if it is one: through partials, methods and wrappers."""
    seen: set[int] = set()
    while id(value) not in seen:
        seen.add(id(value))
        match value:
            case functools.partial():
                value = value.func
            case types.MethodType():
                value = value.__func__
            case type() | types.BuiltinFunctionType():
                return value
            case types.FunctionType():
                wrapped = wrapper_of(value)
                if wrapped is None:
                    return value
                value = wrapped
            case _:
                if (wrapped := wrapper_of(value)) is None:
                    return value if type(value).__name__ == "ufunc" else None
                value = wrapped
    return None
