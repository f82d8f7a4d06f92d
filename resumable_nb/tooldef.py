"""``Tool``: what a user said about a function with effects, checked when it is said."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import gc
import inspect
import types
import weakref
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from resumable_nb import tooloptions, undo
from resumable_nb.canonical import fingerprint, qualified
from resumable_nb.errors import NoContent, UsageError
from resumable_nb.model import CallRecord, digest
from resumable_nb.preview import is_secret
from resumable_nb.retry import Errors, Retry
from resumable_nb.signatures import held_by, misfit, signature_of
from resumable_nb.source import code_form

IDEMPOTENCY_KEY: Final = "idempotency_key"


@dataclass(frozen=True, kw_only=True)
class Tool:
    """A function with effects outside the kernel, and how its calls are made durable."""

    name: str
    function: Callable[..., Any]
    module: str = ""
    """Where it is from; empty where the user chose the name."""
    version: str = ""
    repeatable: bool = False
    reconcile: Callable[..., Any] | None = None
    compensate: Callable[..., Any] | None = None
    each_call: bool = False
    shared: bool = False
    """Identical calls in one step are meant to have one result: nobody is warned."""
    key: Callable[..., Any] | None = None
    """Its value for the bound arguments is what identifies a call, instead of all of them."""
    counted: frozenset[str] | None = None
    """The parameters that count for the identity; ``None``: all but ``ignore``."""
    ignore: frozenset[str] = frozenset()
    secret: frozenset[str] = frozenset()
    terminal: Errors = ()
    retry: Retry = field(default_factory=Retry)
    unsure: Errors = ()
    timeout_s: float | None = None
    held: Mapping[str, Any] = field(default_factory=dict)
    """What the callable itself brings along, by name: a bound method's ``self``, a partial's arguments."""

    @functools.cached_property
    def signature(self) -> inspect.Signature:
        return signature_of(self.function)

    @functools.cached_property
    def is_async(self) -> bool:
        called = getattr(type(self.function), "__call__", None)  # noqa: B004  # of an object: its method is what is async
        return any(map(inspect.iscoroutinefunction, (self.function, called)))

    @functools.cached_property
    def _class_parameter(self) -> str:
        """The parameter that takes the class, if it is a class method's; its code counts as little as the tool's."""
        own = getattr(self.function, "__qualname__", "").rpartition("<locals>.")[2]
        return next(iter(self.signature.parameters), "") if "." in own else ""

    @functools.cached_property
    def source(self) -> str:
        """Digest of the function's code, for showing drift."""
        return _source(self.function)

    @functools.cached_property
    def keyed(self) -> bool:
        """Whether calls are handed an idempotency key."""
        return IDEMPOTENCY_KEY in self.signature.parameters

    @functools.cached_property
    def rule(self) -> str:
        """Which parameters identify a call, in a fixed spelling."""
        names = self.identifying(self._asked.parameters)
        return "key()" if self.key is not None else ",".join(sorted(names))

    @property
    def is_asked_later(self) -> bool:
        """Whether something of it is called when nothing of the call is left but its record."""
        return self.compensate is not None or self.reconcile is not None

    @property
    def compensation(self) -> str:
        """The name under which the undoing function is recorded."""
        if self.compensate is None:
            return ""
        tool = getattr(self.compensate, "tool", None)
        return tool.name if isinstance(tool, Tool) else getattr(self.compensate, "__name__", "compensate")

    @functools.cached_property
    def _asked(self) -> inspect.Signature:
        """What callers have to give: everything but the idempotency key."""
        kept = [each for each in self.signature.parameters.values() if each.name != IDEMPOTENCY_KEY]
        return self.signature.replace(parameters=kept)

    def twins(self) -> list[str]:
        """How the closures of other living functions of one factory under this name differ from this one's."""
        code = getattr(self.function, "__code__", None)

        def others() -> list[str]:
            alike = [f for f in list(_DEFINED.get(self.name, ())) if f is not self.function and f.__code__ == code]
            mine = _closure(self.function) if alike else {}  # it may hold large data
            differing = [[name for name in mine if mine[name] != _closure(f).get(name)] for f in alike]
            return [", ".join(names) for names in differing if names]

        if not others():
            return []
        gc.collect()  # one that was replaced may live on in a cycle
        return others()

    def bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> inspect.BoundArguments:
        """The arguments as given, without the idempotency key. Raises the ``TypeError`` of any function."""
        __tracebackhide__ = True
        try:
            return self._asked.bind(*args, **kwargs)
        except TypeError as error:
            own = getattr(self.function, "__qualname__", self.name)
            raise misfit(own, self._asked, args, kwargs) or error from None

    def with_key(self, bound: inspect.BoundArguments, key: str) -> inspect.BoundArguments:
        """What the function is called with."""
        if not self.keyed:
            return bound
        return inspect.BoundArguments(self.signature, {**bound.arguments, IDEMPOTENCY_KEY: key})

    def flat(self, bound: inspect.BoundArguments) -> dict[str, Any]:
        """Arguments by name; ``**kwargs`` by their own: naming such a parameter later changes no identity."""
        flat: dict[str, Any] = dict(self.held)
        for name, value in bound.arguments.items():
            if name == self._class_parameter and isinstance(value, type):
                flat[name] = qualified(value)
            elif self.signature.parameters[name].kind is inspect.Parameter.VAR_KEYWORD:
                # A positional-only parameter may have the same name.
                flat |= {key if key not in flat else f"**{key}": each for key, each in value.items()}
            else:
                flat[name] = value
        return flat

    def identifying(self, flat: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments that count for the identity."""
        return {
            name: value
            for name, value in flat.items()
            if name not in self.ignore and (self.counted is None or name in self.counted)
        }

    def is_secret(self, parameter: str) -> bool:
        return parameter in self.secret or is_secret(parameter)

    @functools.cached_property
    def has_secrets(self) -> bool:
        return any(map(self.is_secret, self.signature.parameters))

    def __getstate__(self) -> dict[str, Any]:
        return {each.name: getattr(self, each.name) for each in dataclasses.fields(self)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if self.is_asked_later:
            # It came back with its cell's variables, and was not defined again.
            _ASKED_LATER.setdefault(self.name, self)


_ASKED_LATER: Final[dict[str, Tool]] = {}
"""The tools with ``compensate=`` or ``reconcile=`` of this process as they were defined last, by name."""


def asked_later(name: str) -> Tool | None:
    """The tool of that name, if this process has one that can say or undo what an earlier call did."""
    return _ASKED_LATER.get(name)


_DEFINED: Final[defaultdict[str, weakref.WeakSet[types.FunctionType]]] = defaultdict(weakref.WeakSet)
"""The functions that are tools in this process, by the tool's name."""

_NEWEST: Final[dict[str, weakref.ref[types.FunctionType]]] = {}
"""Of these, the one that was defined last."""


def _code_now(name: str) -> str:
    """Digest of the code of the tool that has this name in this process; empty where there is none."""
    found = _NEWEST.get(name)
    function = found() if found is not None else None
    return "" if function is None else _source(function)


def drifted(calls: Iterable[CallRecord]) -> frozenset[str]:
    """Ids of the calls whose tool has other code now: they still answer."""
    calls = list(calls)
    code = {name: _code_now(name) for name in {call.tool for call in calls}}
    return frozenset(call.id for call in calls if call.source and code[call.tool] not in ("", call.source))


def _source(function: Callable[..., Any]) -> str:
    code = getattr(inspect.unwrap(function), "__code__", None)
    return digest(code_form(code)) if code is not None else ""


def _closure(function: Callable[..., Any]) -> dict[str, str]:
    """Digests of what a function's closure holds; what has no content is left out."""
    found = {}
    names = function.__code__.co_freevars if isinstance(function, types.FunctionType) else ()
    for name, cell in zip(names, getattr(function, "__closure__", None) or (), strict=False):
        with contextlib.suppress(NoContent, ValueError):  # an empty cell; a connection
            found[name] = fingerprint(cell.cell_contents)
    return found


def define(function: Callable[..., Any], options: Mapping[str, Any]) -> Tool:
    """Check everything that can be checked before the first call. Raises ``UsageError``."""
    name = tooloptions.name_of(function, options)
    tooloptions.check_options(options, f"tool {name!r}")
    tooloptions.check_kind(name, function)
    held = held_by(function)
    get = functools.partial(tooloptions.parameters, name, options, {**signature_of(function).parameters, **held})
    key, ignore = options.get("key"), get("ignore")
    if key is not None and ignore:
        raise UsageError(f"tool {name!r}: key= says already which arguments count; leave out ignore=")
    made = Tool(
        name=name,
        function=function,
        module="" if "name" in options else getattr(function, "__module__", None) or "",
        version=str(options.get("version", "")),
        repeatable=bool(options.get("repeatable", False)),
        reconcile=tooloptions.function(name, "reconcile", options),
        compensate=tooloptions.function(name, "compensate", options),
        each_call=bool(options.get("each_call", False)),
        key=key if callable(key) else None,
        counted=None if key is None or callable(key) else get("key"),
        ignore=ignore,
        secret=get("secret"),
        terminal=tooloptions.errors(name, "terminal", options),
        retry=tooloptions.retry(name, options),
        unsure=tooloptions.errors(name, "unsure", options),
        timeout_s=tooloptions.timeout_s(name, options),
        held=held,
    )
    if made.reconcile is not None and inspect.iscoroutinefunction(made.reconcile) and not made.is_async:
        raise UsageError(f"tool {name!r} is not async, so its reconcile= cannot be")
    if made.compensate is not None:
        undo.check(name, made.signature.parameters, made.is_secret, made.compensate)
    _register(made)
    return made


def _register(tool: Tool) -> None:
    """Be found by name from now on."""
    if isinstance(tool.function, types.FunctionType):
        _DEFINED[tool.name].add(tool.function)
        _NEWEST[tool.name] = weakref.ref(tool.function)
    if tool.is_asked_later:
        _ASKED_LATER[tool.name] = tool
    else:
        _ASKED_LATER.pop(tool.name, None)
