"""What ``@tool(...)`` takes, read and checked. All of these raise ``UsageError``, and say what to write instead."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypedDict

from resumable_nb.errors import UsageError
from resumable_nb.retry import Errors, Retry


class ToolOptions(TypedDict, total=False):
    """What ``@tool(...)`` takes."""

    name: str
    version: str | int
    repeatable: bool
    reconcile: Callable[..., Any] | None
    compensate: Callable[..., Any] | None
    each_call: bool
    key: Callable[..., Any] | str | Iterable[str] | None
    ignore: str | Iterable[str]
    secret: str | Iterable[str]
    terminal: type[Exception] | Iterable[type[Exception]]
    retries: int
    retry_on: type[Exception] | Iterable[type[Exception]]
    backoff: float | tuple[float, float]
    unsure: type[Exception] | Iterable[type[Exception]]
    timeout_s: float | None


def check_options(options: Mapping[str, Any], whose: str = "@tool") -> None:
    """Raises ``UsageError`` for an option that there is not, naming the nearest."""
    known = ToolOptions.__annotations__
    for option in options:
        if option not in known:
            near = difflib.get_close_matches(option, known, n=1, cutoff=0.4)
            hint = f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(known)}"
            raise UsageError(f"{whose} has no option {option!r}; {hint}")


def name_of(function: Callable[..., Any], options: Mapping[str, Any]) -> str:
    """What the tool is called, in this kernel and in the next one."""
    if isinstance(function, (staticmethod, classmethod, property)):
        raise UsageError(f"put @tool below @{type(function).__name__}, next to the function")
    if not callable(function):
        raise UsageError(f"@tool goes on a function, not on {function!r}; options are given by name: @tool(name=…)")
    # Without the module and enclosing functions: a tool that moves from the notebook to a module stays the same tool.
    own = getattr(function, "__qualname__", "").rpartition("<locals>.")[2]
    name = options.get("name", own)
    if not isinstance(name, str) or not name or name == "<lambda>":
        raise UsageError(f"a tool needs a name to be known by in the next kernel: tool({function!r}, name=…)")
    return name


def check_kind(name: str, function: Callable[..., Any]) -> None:
    """Raises ``UsageError`` for a function whose result cannot be recorded."""
    plain = inspect.unwrap(function)
    if inspect.isgeneratorfunction(plain) or inspect.isasyncgenfunction(plain):
        raise UsageError(f"tool {name!r} yields: an iterator cannot be recorded; return a list")


def parameters(tool: str, options: Mapping[str, Any], known: Mapping[str, Any], option: str) -> frozenset[str]:
    """Parameter names that an option lists; anything goes where the function takes ``**kwargs``."""
    given = options.get(option, ())
    names = frozenset([given] if isinstance(given, str) else given)
    if not any(getattr(each, "kind", None) is inspect.Parameter.VAR_KEYWORD for each in known.values()):
        for unknown in sorted(names - known.keys()):
            near = difflib.get_close_matches(unknown, known, n=1, cutoff=0.4)
            hint = f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(known) or 'none'}"
            raise UsageError(f"tool {tool!r} has no parameter {unknown!r} for {option}=; {hint}")
    return names


def function(tool: str, option: str, options: Mapping[str, Any]) -> Callable[..., Any] | None:
    """The function that an option names."""
    found = options.get(option)
    if found is None or callable(found):
        return found
    raise UsageError(f"tool {tool!r}: {option}={found!r} is not a function")


def timeout_s(tool: str, options: Mapping[str, Any]) -> float | None:
    """How long a call may take."""
    found = options.get("timeout_s")
    if found is None or (isinstance(found, (int, float)) and found > 0):
        return found
    raise UsageError(f"tool {tool!r}: timeout_s={found!r} is not a number of seconds")


def errors(name: str, option: str, options: Mapping[str, Any]) -> Errors:
    """The exception classes that an option lists."""
    given = options.get(option, ())
    found = (given,) if isinstance(given, type) else tuple(given)
    for each in found:
        if not (isinstance(each, type) and issubclass(each, Exception)):
            raise UsageError(f"tool {name!r}: {option}= takes exception classes, not {each!r}")
    return found


def retry(name: str, options: Mapping[str, Any]) -> Retry:
    """After which errors a call is tried again, how often, and when."""
    retries = options.get("retries", 0)
    if not isinstance(retries, int) or isinstance(retries, bool) or retries < 0:
        raise UsageError(f"tool {name!r}: retries={retries!r} is not a count")
    retry_on = errors(name, "retry_on", options)
    if retries and not retry_on:
        if not options.get("repeatable", False):
            raise UsageError(
                f"tool {name!r}: retries= needs retry_on=, the errors after which the effect is known not to have "
                "happened (or repeatable=True)"
            )
        retry_on = (Exception,)
    backoff = options.get("backoff", (0.5, 60.0))
    first_s, longest_s = backoff if isinstance(backoff, tuple) else (backoff, max(60.0, backoff))
    if not 0 <= first_s <= longest_s:
        raise UsageError(f"tool {name!r}: backoff={backoff!r} is not seconds, or (first, longest) seconds")
    return Retry(retries=retries, retry_on=retry_on, first_s=first_s, longest_s=longest_s)
