"""What a tool call is known by: its bound arguments, and their digest together with task and tool."""

from __future__ import annotations

import functools
import inspect
import io
import types
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from typing import Any

from blake3 import blake3

from resumable_nb.canonical import fingerprint, qualified
from resumable_nb.errors import BadArgument, NoContent


def bind(fn: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, object]:
    """Arguments by parameter name, in the parameters' order, with defaults; ``*args`` as ``args[0]``…, ``**kwargs``
    under their own names, sorted.

    A bound method's object comes first, as ``self``: the same call on another object is another call. A function
    without a signature has its arguments by position. Raises ``TypeError`` as the call would.
    """
    bound: dict[str, object] = {}
    owner = getattr(fn, "__self__", None)
    if owner is not None and not isinstance(owner, types.ModuleType):
        bound["self"] = qualified(owner) if isinstance(owner, type) else owner
    try:
        signature = inspect.signature(fn)
    except (TypeError, ValueError):
        bound |= {f"arg{i}": value for i, value in enumerate(args)}
        _add_keywords(bound, kwargs)
        return bound
    try:
        given = signature.bind(*args, **kwargs)
    except TypeError as error:
        raise TypeError(f"{getattr(fn, '__qualname__', fn)}() {error}") from None
    given.apply_defaults()
    keywords: Mapping[str, Any] = {}
    for name, value in given.arguments.items():
        match signature.parameters[name].kind:
            case inspect.Parameter.VAR_POSITIONAL:
                bound |= {f"{name}[{i}]": each for i, each in enumerate(value)}
            case inspect.Parameter.VAR_KEYWORD:
                keywords = value
            case _:
                bound[name] = value
    _add_keywords(bound, keywords)
    return bound


def _add_keywords(bound: dict[str, object], keywords: Mapping[str, Any]) -> None:
    taken = frozenset(bound)
    for name in sorted(keywords):
        shown = name
        while shown in taken or (shown != name and shown in keywords):  # a positional-only parameter has that name
            shown = f"*{shown}"
        bound[shown] = keywords[name]


def call_identity(
    incarnation: str,
    tool: str,
    version: str,
    arguments: Mapping[str, object],
    *,
    secrets: Mapping[str, object],
    key: bytes,
    step: str = "",
    prints: dict[str, str] | None = None,
) -> str:
    """The identity of a call: 32 hexadecimal characters. The order of the arguments does not count.

    Secrets enter through a digest keyed with ``key`` only, so that nobody can try values against an identity. Raises
    ``BadArgument``, naming the argument, for one that has no lasting identity. ``prints`` is given each
    argument's digest.
    """
    plain = {name: _argument(tool, name, value) for name, value in arguments.items()}
    bare = {name: _argument(tool, name, value) for name, value in secrets.items()}
    hidden = {name: _keyed(name, found, _derived(key, "secret arguments")) for name, found in bare.items()}
    if prints is not None:
        prints |= plain | bare
    return fingerprint(["call", incarnation, tool, version, step, plain, hidden])


def argument_prints(arguments: Mapping[str, object]) -> dict[str, str]:
    """The digest of each argument; empty for one without a lasting content."""
    prints = {}
    for name, value in arguments.items():
        try:
            prints[name] = fingerprint(value)
        except NoContent:
            prints[name] = ""
    return prints


def argument_marks(prints: Mapping[str, str], key: bytes) -> dict[str, str]:
    """The digests as they may be stored: keyed, so that nobody can try values against one."""
    mark_key = _derived(key, "argument marks")
    return {name: found and _keyed(name, found, mark_key)[:16] for name, found in prints.items()}


@functools.lru_cache(maxsize=8)
def _derived(key: bytes, purpose: str) -> bytes:
    return blake3(key, derive_key_context=f"resumable_nb 2026 {purpose}").digest()


def _keyed(name: str, content: str, key: bytes) -> str:
    return blake3(f"{name}\0{content}".encode(), key=key).hexdigest(length=16)


def _argument(tool: str, name: str, value: object) -> str:
    if isinstance(value, io.IOBase):
        raise _bad(tool, name, value, "is an open file; pass its path, or what it contains")
    if isinstance(value, Iterator | AsyncIterator):
        raise _bad(tool, name, value, "can be gone through only once; pass a list")
    try:
        return fingerprint(value)
    except NoContent as error:
        path: str = error.facts.get("path", "")
        holds = f"holds, at {name}{path}, what" if path else "is what"
        advice = "pass plain data and open it inside the tool, or leave the argument out with ignore="
        raise _bad(tool, name, value, f"{holds} lives in this process only; {advice}", path=path) from None


def _bad(tool: str, name: str, value: object, why: str, path: str = "") -> BadArgument:
    kind = type(value)
    return BadArgument(
        f"{tool}: argument {name!r} ({kind.__module__}.{kind.__qualname__}) {why}",
        tool=tool,
        argument=name,
        path=path,
    )
