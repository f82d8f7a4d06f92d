"""What the function behind ``compensate=`` is given: checked when the tool is defined, kept when it is called; and what
is kept for ``reconcile=``, so that it can be asked when nothing of the call is left but its record.

The undo gets, by name, those of the call's arguments that it takes; ``result``, the recorded result, if it takes that;
and an ``idempotency_key`` of its own, if it takes that. Secrets are never stored, so it cannot have them.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

from resumable_nb import codec
from resumable_nb.errors import BadArgument, ResumableError, UsageError
from resumable_nb.preview import gives_away

RESULT: Final = "result"

KEPT_BYTES: Final = 256 * 1024
"""The most that a call writes for ``reconcile=``."""

Parameters = Mapping[str, inspect.Parameter]
_ANY: Final = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def check(tool: str, parameters: Parameters, secret: Callable[[str], bool], undo: Callable[..., Any]) -> None:
    """Raises ``UsageError`` where ``undo`` needs what a call of the tool with these parameters cannot give it."""
    try:
        needed = inspect.signature(undo).parameters
    except (TypeError, ValueError):
        raise UsageError(
            f"tool {tool!r}: the parameters of compensate= cannot be told; wrap it in a function of your own"
        ) from None
    name = getattr(undo, "__name__", "compensate=")
    if RESULT in needed and RESULT in parameters:
        raise UsageError(
            f"tool {tool!r} has a parameter 'result', and so has {name}, which means what the call returned"
        )
    open_ended = any(each.kind is inspect.Parameter.VAR_KEYWORD for each in parameters.values())
    given = {each for each in parameters if not secret(each)} | {RESULT, "idempotency_key"}
    for each in needed.values():
        if each.kind in _ANY or each.default is not each.empty or each.name in given:
            continue
        if secret(each.name):
            raise UsageError(
                f"tool {tool!r}: {name} needs the secret {each.name!r}, which is not kept; let it ask elsewhere"
            )
        if not open_ended:
            have = ", ".join(sorted(given - {"idempotency_key"}))
            raise UsageError(f"tool {tool!r}: {name} needs {each.name!r}, which a call does not have; there is: {have}")


def keep(
    tool: str,
    parameters: Parameters,
    arguments: Mapping[str, Any],
    *,
    undo: Callable[..., Any],
    secret: Callable[[str], bool],
    secrets: Collection[str],
    all_of_them: bool,
) -> bytes:
    """The arguments that the undo will need, as bytes; with ``all_of_them`` also the others, where they can be saved.

    Raises ``BadArgument`` before anything has happened: an effect that could not be undone must not begin.
    """
    kept: dict[str, Any] = {}
    for name, value in arguments.items():
        if secret(name):
            continue
        if parameters[name].kind is inspect.Parameter.VAR_KEYWORD:
            value = {key: each for key, each in value.items() if not secret(key)}
        needed = takes(undo, name) or parameters[name].kind in _ANY
        if not (needed or all_of_them):
            continue
        why = _unsavable(value, secrets)
        if why and needed:
            raise BadArgument(
                f"{tool}: its compensate= takes {name!r}, which {why}: so the call could not be undone later, and is "
                "not made; pass plain data, or let the undo get it elsewhere",
                tool=tool,
                path=name,
            )
        if not why:
            kept[name] = value
    return codec.dumps_value(kept)


def keep_all(
    parameters: Parameters, arguments: Mapping[str, Any], *, secret: Callable[[str], bool], secrets: Collection[str]
) -> bytes:
    """The arguments as bytes, for ``reconcile=``; empty where one of them is a secret, cannot be saved, or is large."""
    names = set(arguments)
    for name, value in arguments.items():
        if parameters[name].kind is inspect.Parameter.VAR_KEYWORD:
            names |= value.keys()
    if any(map(secret, names)):
        return b""
    try:
        data = codec.dumps_value(dict(arguments))
    except ResumableError:
        return b""
    return b"" if len(data) > KEPT_BYTES or gives_away(data, secrets) else data


def _unsavable(value: Any, secrets: Collection[str]) -> str:
    try:
        data = codec.dumps_value(value)
    except ResumableError as error:
        return f"cannot be saved ({error.message})"
    return "holds a secret, and is not stored" if any(each.encode() in data for each in secrets) else ""


def given(
    undo: Callable[..., Any], name: str, parameters: Parameters, arguments: Mapping[str, Any], result: Any
) -> inspect.BoundArguments:
    """What to call ``undo`` with, from what was kept. Raises ``UsageError`` where it needs more."""
    flat: dict[str, Any] = {}
    for key, value in arguments.items():
        if key in parameters and parameters[key].kind is inspect.Parameter.VAR_KEYWORD:
            flat = {**value, **flat}
        else:
            flat[key] = value
    flat[RESULT] = result
    signature = inspect.signature(undo)
    chosen: dict[str, Any] = {}
    for each in signature.parameters.values():
        if each.kind is inspect.Parameter.VAR_KEYWORD:
            chosen[each.name] = {key: value for key, value in flat.items() if key not in signature.parameters}
        elif each.name in flat:
            chosen[each.name] = flat[each.name]
        elif each.default is each.empty and each.kind not in _ANY and each.name != "idempotency_key":
            raise UsageError(
                f"{name} needs {each.name!r}, which was not kept when the call was made; give it a default"
            )
    return inspect.BoundArguments(signature, chosen)


def takes(function: Callable[..., Any], parameter: str) -> bool:
    """Whether it can be given that parameter by name."""
    parameters = inspect.signature(function).parameters
    return parameter in parameters or any(each.kind is inspect.Parameter.VAR_KEYWORD for each in parameters.values())
