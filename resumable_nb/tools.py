"""``@tool``: a function with effects outside the kernel becomes one whose calls are journalled."""

from __future__ import annotations

import functools
import inspect
import os
import sys
import weakref
from abc import ABCMeta
from collections.abc import Callable, Mapping
from typing import Any, Final, ParamSpec, Protocol, TypeVar, Unpack, overload

from resumable_nb import codec
from resumable_nb.calls import CollapseWarning, course, course_when_due, resolve_call
from resumable_nb.construction import Construction
from resumable_nb.desk import Desk
from resumable_nb.doubt import Happened, NotHappened
from resumable_nb.drive import drive, drive_async, value_of
from resumable_nb.errors import UsageError
from resumable_nb.model import MISSING
from resumable_nb.tooldef import IDEMPOTENCY_KEY, Tool, define
from resumable_nb.tooloptions import ToolOptions, check_options

__all__ = ["CollapseWarning", "Desk", "Happened", "NotHappened", "Tool", "resolve_call", "tool", "use"]

P = ParamSpec("P")
R = TypeVar("R")


class _Provider:
    """Who gives a call its desk, and in which process."""

    def __init__(self) -> None:
        self._get: Callable[[], Desk] | None = None
        self._pid = 0

    def use(self, get: Callable[[], Desk]) -> None:
        self._get, self._pid = get, os.getpid()

    def desk(self) -> Desk:
        if self._get is None:
            raise UsageError("no task is open for this tool call: run `%load_ext resumable_nb` first")
        if self._pid != os.getpid():
            # A fork shares the lease's token, so the store could not tell it from the owner.
            raise UsageError("tools cannot be called in a forked process: call them in the kernel, or in threads")
        return self._get()


_provider: Final = _Provider()


def use(provider: Callable[[], Desk]) -> None:
    """Set who is asked for the desk, at each call."""
    _provider.use(provider)


def _desk() -> Desk:
    """For the wrappers, which are pickled with what they name: a function goes by its name, the provider would not."""
    return _provider.desk()


class Marker(Protocol):
    """``@tool(...)``, before it is told of what."""

    @overload
    def __call__(self, function: type[R], /) -> type[R]: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> Callable[P, R]: ...


@overload
def tool(function: type[R], /, **options: Unpack[ToolOptions]) -> type[R]: ...
@overload
def tool(function: Callable[P, R], /, **options: Unpack[ToolOptions]) -> Callable[P, R]: ...
@overload
def tool(**options: Unpack[ToolOptions]) -> Marker: ...
def tool(function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Mark a function with effects outside the kernel: each of its calls happens once, and is recorded.

    An identical call returns the recorded result, in this kernel and in the next one. A call that was cut off raises
    ``InDoubt``, unless one of these says what to do:

    - ``repeatable=True``: it may be made again (reads, LLM calls, receivers that take an idempotency key).
    - ``reconcile=f``: ``f`` gets the same arguments and returns ``Happened(value)``, ``NotHappened()`` or ``None``.

    What makes two calls identical: all arguments, with defaults; else ``key=`` (parameter names, or a function of the
    arguments), without ``ignore=``; and ``version=``. ``each_call=True``: identical calls are distinct.

    Errors: ``retries`` more tries after an error of ``retry_on=`` (for a tool that is not repeatable: those after
    which nothing has happened), ``backoff`` seconds apart (the first pause, or first and longest). ``terminal=``
    errors are recorded as results are. ``unsure=``: errors after which it may have happened. ``timeout_s``: no longer
    than that; a sync tool then runs in a thread, which goes on.

    Further: ``name=`` (default: the function's), ``secret=`` (parameters never shown or stored). ``compensate=f``:
    ``f`` undoes a call when its step is rolled back; it gets, by name, those of the arguments that it takes, and the
    result as ``result`` if it takes that. A parameter called ``idempotency_key`` is filled in, with the same key
    whenever the same call is made again.

    A class stays one: making an object of it, or of a subclass, is the call, and the object its result. Its methods are
    tools only where they are marked themselves.
    """
    if function is None:
        check_options(options)
        return functools.partial(tool, **options)
    if isinstance(function, type):
        return _marked(function, options)
    definition = define(function, options)
    return _async_wrapper(definition) if definition.is_async else _sync_wrapper(definition)


def _sync_wrapper(definition: Tool) -> Callable[..., Any]:
    @functools.wraps(definition.function)
    def call(*args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True  # IPython leaves the frame out: the traceback is the user's
        desk = _desk()
        desk.checkpoint(definition.name)
        try:
            due = course(definition, desk, args, kwargs)
        except TypeError:
            _check_fit(definition, args, kwargs)
            raise
        return value_of(drive(due, desk.sleep))

    call.tool = definition  # type: ignore[attr-defined]  # functions take attributes
    return call


def _async_wrapper(definition: Tool) -> Callable[..., Any]:
    @functools.wraps(definition.function)
    async def call(*args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True  # IPython leaves the frame out: the traceback is the user's
        desk = _desk()
        try:
            due = await course_when_due(definition, desk, args, kwargs)
        except TypeError:
            _check_fit(definition, args, kwargs)
            raise
        return value_of(await drive_async(due, desk.sleep_async))

    call.tool = definition  # type: ignore[attr-defined]  # functions take attributes
    return call


def _check_fit(definition: Tool, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
    """Raise the error of a wrong call from here, where no frame of ours shows."""
    __tracebackhide__ = True
    keyed = definition.keyed
    definition.bind(args, {name: each for name, each in kwargs.items() if not (keyed and name == IDEMPOTENCY_KEY)})


_OPTIONS: Final = "__resumable_tool__"
"""Where a marked class keeps its options, so that they come back with it."""

_REBUILDERS: Final = ("pickle", "copy", "copyreg", "cloudpickle", "resumable_nb")
"""Packages that make objects as they were: they call a class, and mean no call of the tool."""


class ToolClass(type):
    """The type of a class that is a tool: a subclass of the class that was marked, under the same name.

    It makes objects of its own where its name leads to it (``@tool class``), so that they are pickled by it; else
    (``tool(library.Client)``) plain ones of the class that was marked, which count as its own.
    """

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        caller = sys._getframe(1)
        package = str(caller.f_globals.get("__name__")).partition(".")[0]
        if package in _REBUILDERS or codec.is_reading(caller.f_code):
            return super().__call__(*args, **kwargs)
        return cls.__tool__(*args, **kwargs)

    @property
    def __tool__(cls) -> Callable[..., Any]:
        """What is called."""
        found = _constructors.get(cls)
        if found is None:
            options = getattr(cls, _OPTIONS)
            if _OPTIONS not in vars(cls):  # a subclass, which is known by its own name
                options = {option: each for option, each in options.items() if option != "name"}
            found = _constructors[cls] = _sync_wrapper(define(Construction(cls, _make), options))
        return found

    @property
    def __signature__(cls) -> inspect.Signature:
        return inspect.signature(cls.__tool__)

    @property
    def __wrapped__(cls) -> type:
        if _OPTIONS in vars(cls):
            return cls.__bases__[0]
        raise AttributeError("__wrapped__")

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, cls.__wrapped__) if _OPTIONS in vars(cls) else super().__instancecheck__(instance)

    def __subclasscheck__(cls, subclass: type) -> bool:
        return issubclass(subclass, cls.__wrapped__) if _OPTIONS in vars(cls) else super().__subclasscheck__(subclass)


class ToolABC(ToolClass, ABCMeta):
    """The same of an abstract class."""


_constructors: Final[weakref.WeakKeyDictionary[type, Callable[..., Any]]] = weakref.WeakKeyDictionary()


@functools.cache
def _meta(kind: type) -> type:
    """The type for a class of that type."""
    if issubclass(kind, ToolClass):
        return kind
    return {type: ToolClass, ABCMeta: ToolABC}.get(kind) or type("ToolClass", (ToolClass, kind), {})


def _marked(kind: type, options: Mapping[str, Any]) -> type:
    if isinstance(kind, ToolClass) and _OPTIONS in vars(kind):
        raise UsageError(f"{kind.__qualname__} is a tool already")
    own = {"__module__": kind.__module__, "__qualname__": kind.__qualname__, "__doc__": kind.__doc__, "__slots__": ()}
    check_options(options, f"tool {kind.__qualname__!r}")
    try:
        made: type = _meta(type(kind))(kind.__name__, (kind,), {**own, _OPTIONS: dict(options)})
    except TypeError as error:
        raise UsageError(
            f"@tool cannot go on the class {kind.__qualname__} ({error}): put it on a function that makes the object"
        ) from None
    made.__tool__  # type: ignore[attr-defined]  # noqa: B018  # told now, not at the first call
    return made


def _make(kind: type, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """An object of a marked class, or of a subclass of one."""
    if _OPTIONS in vars(kind) and not _goes_by_its_name(kind):
        return kind.__bases__[0](*args, **kwargs)
    return super(ToolClass, kind).__call__(*args, **kwargs)  # type: ignore[misc]  # a ToolClass is a type


def _goes_by_its_name(kind: type) -> bool:
    found: Any = sys.modules.get(kind.__module__, MISSING)
    for part in kind.__qualname__.split("."):
        found = getattr(found, part, MISSING)
    return found is kind
