"""``@tool``: a function with effects outside the kernel becomes one whose calls are journalled."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import Any, Final, ParamSpec, TypeVar, Unpack, overload

from resumable_nb.calls import CollapseWarning, course, course_when_due, resolve_call
from resumable_nb.desk import Desk
from resumable_nb.doubt import Happened, NotHappened
from resumable_nb.drive import Outcome, Raised, drive, drive_async
from resumable_nb.errors import UsageError
from resumable_nb.tooldef import Tool, ToolOptions, check_options, define

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


@overload
def tool(function: Callable[P, R], /, **options: Unpack[ToolOptions]) -> Callable[P, R]: ...
@overload
def tool(**options: Unpack[ToolOptions]) -> Callable[[Callable[P, R]], Callable[P, R]]: ...
def tool(function: Callable[..., Any] | None = None, /, **options: Any) -> Callable[..., Any]:
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
    """
    if function is None:
        check_options(options)
        return functools.partial(tool, **options)
    definition = define(function, options)
    return _async_wrapper(definition) if definition.is_async else _sync_wrapper(definition)


def _sync_wrapper(definition: Tool) -> Callable[..., Any]:
    @functools.wraps(definition.function)
    def call(*args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True  # IPython leaves the frame out: the traceback is the user's
        desk = _desk()
        desk.checkpoint(definition.name)
        return _end(drive(course(definition, desk, args, kwargs), desk.sleep))

    call.tool = definition  # type: ignore[attr-defined]
    return call


def _async_wrapper(definition: Tool) -> Callable[..., Any]:
    @functools.wraps(definition.function)
    async def call(*args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True  # IPython leaves the frame out: the traceback is the user's
        desk = _desk()
        due = await course_when_due(definition, desk, args, kwargs)
        return _end(await drive_async(due, desk.sleep_async))

    call.tool = definition  # type: ignore[attr-defined]
    return call


def _end(outcome: Outcome) -> Any:
    __tracebackhide__ = True
    if isinstance(outcome, Raised):
        error = outcome.error
        del outcome
        try:
            raise error
        finally:
            del error  # else the traceback holds this frame, and this frame the error
    return outcome.value
