"""What a step or a call is known by: the parts of its key, and the digest of its arguments."""

from __future__ import annotations

import functools
import inspect
import io
import reprlib
import types
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

from blake3 import blake3

from resumable_nb.canonical import fingerprint, user_module
from resumable_nb.errors import BadArgument, NoContent
from resumable_nb.model import MISSING, Missing, StepKey, StepOptions, digest
from resumable_nb.source import Body, code_names

__all__ = ["Lookup", "bind", "call_identity", "describe", "fingerprint", "step_key", "user_module"]


class Lookup(Protocol):
    """The variables of a namespace."""

    def value(self, name: str) -> object | Missing:
        """The variable's value; a pending one is loaded."""

    def known(self, name: str) -> str | Missing:
        """Its canonical digest, where that is known without the value."""

    def provenance(self, name: str) -> str:
        """Digest of the source that made it; empty where unknown."""


def step_key(
    body: Body,
    lookup: Lookup,
    options: StepOptions,
    base: Path,
    *,
    is_user_module: Callable[[types.ModuleType | str | None], bool] = user_module,
) -> StepKey:
    """Everything that the step's result depends on, in named parts. Files are relative to ``base``."""
    reach = _Reach(lookup, is_user_module)
    for name in sorted(body.reads):
        reach.name(name, body.attributes)
    return StepKey(
        source=digest(body.normal.encode("utf-8", "surrogatepass")),
        functions=reach.functions,
        inputs=reach.inputs,
        files={pattern: _file_digest(base, pattern) for pattern in options.files},
        options=options.in_key(),
    )


class _Reach:
    """Follows names to functions, and functions to the names that they read."""

    def __init__(self, lookup: Lookup, is_user_module: Callable[[types.ModuleType | str | None], bool]) -> None:
        self._lookup = lookup
        self._is_user = is_user_module
        self._seen: set[object] = set()
        self.functions: dict[str, str] = {}
        self.inputs: dict[str, str] = {}

    def name(self, name: str, attributes: frozenset[str]) -> None:
        """A name of the notebook's namespace."""
        if name in self._seen:
            return
        self._seen.add(name)
        known = self._lookup.known(name)
        if known is not MISSING:
            self.inputs[name] = known
            return
        value = self._lookup.value(name)
        if value is not MISSING:
            self.value(name, value, attributes)

    def value(self, label: str, value: Any, attributes: frozenset[str]) -> None:
        if isinstance(value, types.ModuleType):
            if self._is_user(value):
                self._module(value, attributes)
            return
        definition = _definition(value)
        if definition is not None:
            if self._is_user(getattr(definition, "__module__", None)):
                self._function(label, value, definition)
            return
        if isinstance(value, types.BuiltinFunctionType | types.BuiltinMethodType):
            return
        try:
            self.inputs[label] = fingerprint(value)
        except NoContent:
            self.inputs[label] = f"by:{self._lookup.provenance(label)}"
        self._carried(value)

    def _function(self, label: str, value: Any, definition: Any) -> None:
        if id(definition) in self._seen:
            return
        self._seen.add(id(definition))
        try:
            self.functions[label] = fingerprint(value if isinstance(value, type | types.FunctionType) else definition)
        except NoContent:
            self.functions[label] = f"by:{self._lookup.provenance(label)}"
        for function in _functions(definition):
            self._globals(function)

    def _globals(self, function: types.FunctionType) -> None:
        """The names that a function looks up in its own globals."""
        names, attributes = code_names(function.__code__)
        module = function.__globals__.get("__name__", "")
        for name in sorted(names):
            if module == "__main__":
                self.name(name, attributes)
            elif name in function.__globals__ and (module, name) not in self._seen:
                self._seen.add((module, name))
                self.value(f"{module}.{name}", function.__globals__[name], attributes)

    def _module(self, module: types.ModuleType, attributes: frozenset[str]) -> None:
        for name in sorted(attributes & vars(module).keys()):
            if (module.__name__, name) not in self._seen:
                self._seen.add((module.__name__, name))
                self.value(f"{module.__name__}.{name}", vars(module)[name], attributes)

    def _carried(self, value: Any) -> None:
        """Functions in plain containers, and the class of an object of the user's."""
        cls = type(value)
        if self._is_user(cls.__module__) and cls.__module__ != "builtins":
            self._function(cls.__qualname__, cls, cls)
        for each in _members(value):
            definition = _definition(each)
            if definition is not None and self._is_user(getattr(definition, "__module__", None)):
                for function in _functions(definition):
                    if id(function) not in self._seen:
                        self._seen.add(id(function))
                        self._globals(function)
            elif self._is_user(type(each).__module__) and type(each).__module__ != "builtins":
                self._function(type(each).__qualname__, type(each), type(each))


def _members(value: Any, limit: int = 1000) -> Iterator[Any]:
    """What a plain container holds, two levels deep."""
    todo = [(value, 0)]
    count = 0
    while todo and count < limit:
        each, depth = todo.pop()
        held = each.values() if type(each) is dict else each if type(each) in (list, tuple, set, frozenset) else ()
        for member in held:
            count += 1
            if count > limit:
                break
            yield member
            if depth < 3:
                todo.append((member, depth + 1))


def _definition(value: Any) -> Any:
    """The function or class behind a value, if it is one: through partials, methods and wrappers."""
    while True:
        if isinstance(value, functools.partial):
            value = value.func
        elif isinstance(value, types.MethodType):
            value = value.__func__
        elif isinstance(value, types.FunctionType | type):
            return value
        elif callable(value) and hasattr(value, "__wrapped__"):
            value = value.__wrapped__
        else:
            return None


def _functions(definition: Any) -> Iterator[types.FunctionType]:
    """The plain functions in a function (its closure and what it wraps) or class."""
    todo, seen = [definition], set()
    while todo:
        each = todo.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        if isinstance(each, types.FunctionType):
            yield each
            for cell in each.__closure__ or ():
                try:
                    todo.append(cell.cell_contents)
                except ValueError:
                    continue
            if hasattr(each, "__wrapped__"):
                todo.append(each.__wrapped__)
        elif isinstance(each, type) and user_module(each.__module__):
            todo += [*vars(each).values(), *each.__bases__]
        elif isinstance(each, staticmethod | classmethod | types.MethodType):
            todo.append(each.__func__)
        elif isinstance(each, property):
            todo += [each.fget, each.fset, each.fdel]
        elif isinstance(each, functools.partial):
            todo.append(each.func)
        elif isinstance(each, functools.cached_property):
            todo.append(each.func)
        elif callable(each) and hasattr(each, "__wrapped__"):
            todo.append(each.__wrapped__)


def _file_digest(base: Path, pattern: str) -> str:
    """Content of a file, of all files that a glob matches, or of all files in a folder."""
    path = base / Path(pattern).expanduser()
    if path.is_file():
        return _content(path)
    if path.is_dir():
        found = sorted(p for p in path.rglob("*") if p.is_file())
    else:
        found = sorted(p for p in base.glob(pattern) if p.is_file()) if not Path(pattern).is_absolute() else []
    if not found and not path.is_dir():
        return "absent"
    lines = [f"{p.relative_to(base) if p.is_relative_to(base) else p}\0{_content(p)}" for p in found]
    return digest("\n".join(lines).encode("utf-8", "surrogateescape"))


def _content(path: Path) -> str:
    hasher = blake3()
    with path.open("rb") as file:
        while data := file.read(1 << 20):
            hasher.update(data)
    return hasher.hexdigest(16)


def bind(fn: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, object]:
    """Arguments by parameter name, defaults filled in, ``*args`` and ``**kwargs`` flattened."""
    try:
        signature = inspect.signature(fn)
    except (TypeError, ValueError):
        return {**{f"arg{i}": value for i, value in enumerate(args)}, **kwargs}
    bound = signature.bind(*args, **kwargs)
    bound.apply_defaults()
    flat: dict[str, object] = {}
    for name, value in bound.arguments.items():
        match signature.parameters[name].kind:
            case inspect.Parameter.VAR_POSITIONAL:
                flat |= {f"{name}[{i}]": each for i, each in enumerate(value)}
            case inspect.Parameter.VAR_KEYWORD:
                flat |= {f"{name}.{key}": each for key, each in value.items()}
            case _:
                flat[name] = value
    return flat


def call_identity(
    incarnation: str,
    tool: str,
    version: str,
    arguments: Mapping[str, object],
    *,
    secrets: Mapping[str, object],
    key: bytes,
    step: str = "",
) -> str:
    """What a call is known by; secrets enter through a digest keyed with ``key``.

    Raises ``BadArgument`` for iterators and open handles, ``NoContent`` for what has no content.
    """
    parts: dict[str, str] = {}
    for name, value in arguments.items():
        parts[name] = _argument(tool, name, value)
    for name, value in secrets.items():
        parts[name] = blake3(_argument(tool, name, value).encode(), key=blake3(key).digest()).hexdigest(16)
    return fingerprint([incarnation, tool, version, step, parts])


def _argument(tool: str, name: str, value: object) -> str:
    if isinstance(value, Iterator | io.IOBase):
        what = "an open file" if isinstance(value, io.IOBase) else f"an iterator ({type(value).__name__})"
        raise BadArgument(
            f"{tool}({name}=…): {what} can be read only once, so a call cannot be known by it; pass a list or its content",
            tool=tool,
            argument=name,
        )
    try:
        return fingerprint(value)
    except NoContent as error:
        raise NoContent(f"argument {name}: {error.message}", path=f"{name}{error.facts.get('path', '')}") from None


_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = 40


def describe(name: str, lookup: Lookup) -> str:
    """A variable in a few words, for people: its type and size, or a small value."""
    if lookup.known(name) is not MISSING:
        return ""
    value = lookup.value(name)
    kind = type(value).__name__
    secret = any(word in name.lower() for word in ("password", "token", "secret", "key", "auth", "cred"))
    shape = getattr(value, "shape", None)
    if isinstance(shape, tuple) and type(value).__module__.partition(".")[0] in ("numpy", "pandas", "polars"):
        return f"{kind} {' × '.join(map(str, shape))}"
    if isinstance(value, bool | int | float | str | None) and not secret:
        return _SHORT.repr(value)
    if isinstance(value, list | tuple | dict | set | frozenset | bytes):
        return f"{kind} of {len(value)}"
    return kind
