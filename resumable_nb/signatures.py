"""What a callable can be called with, and what it brings along itself."""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable, Mapping
from typing import Any, Final

from resumable_nb.canonical import qualified

_ANYTHING: Final = inspect.signature(lambda *args, **kwargs: (args, kwargs))


def signature_of(function: Callable[..., Any]) -> inspect.Signature:
    """That of some functions written in C cannot be told: they take anything."""
    try:
        return inspect.signature(function)
    except ValueError:
        return _ANYTHING


def held_by(function: Callable[..., Any]) -> dict[str, Any]:
    """What is inside a callable that is no plain function, and what calls of it are told apart by."""
    if isinstance(function, functools.partial):
        # Its keywords are defaults of its signature.
        return {**held_by(function.func), **{f"partial_{i}": value for i, value in enumerate(function.args)}}
    if isinstance(function, types.FunctionType) or hasattr(function, "__wrapped__"):
        return {}
    if not isinstance(function, (types.MethodType, types.BuiltinFunctionType, types.MethodWrapperType)):
        # A method of a type, as ``str.upper``, is called with its object; any other object is called itself.
        return {} if inspect.isroutine(function) else {"self": function}
    owner = function.__self__
    if owner is None or isinstance(owner, types.ModuleType):
        return {}
    return {"self": qualified(owner) if isinstance(owner, type) else owner}


def misfit(
    name: str, signature: inspect.Signature, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> TypeError | None:
    """What Python itself says of a function of that name when it is called so; nothing, where it says nothing."""
    kinds = inspect.Parameter
    bare = [
        each.replace(annotation=kinds.empty, default=kinds.empty if each.default is kinds.empty else None)
        for each in signature.parameters.values()
    ]
    made: dict[str, Any] = {}
    try:
        exec(f"def function{inspect.Signature(bare)}: pass", made)  # noqa: S102  # names and nothing else
        made["function"].__qualname__ = name
        made["function"](*args, **kwargs)
    except TypeError as error:
        return error.with_traceback(None)
    except SyntaxError:  # a function in C may call its parameters anything
        return None
    return None
