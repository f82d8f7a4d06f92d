"""``Message``: one message of a task's memory, as it is recorded."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NoReturn

from resumable_nb.errors import UsageError


class Message(dict[str, Any]):
    """A message as it is recorded: to be read, not to be changed, because a change would be lost."""

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise UsageError("a message of the memory is not changed in place: memory[i] = {**memory[i], …} replaces it")

    __setitem__ = __delitem__ = __ior__ = clear = pop = popitem = setdefault = update = _refuse

    def __reduce__(self) -> tuple[Any, ...]:
        return json.loads, (json.dumps(self),)


class _Part(list[Any]):
    """A list in a message."""

    _refuse = Message._refuse
    __setitem__ = __delitem__ = __iadd__ = __imul__ = append = clear = extend = insert = pop = remove = _refuse
    reverse = sort = _refuse

    def __reduce__(self) -> tuple[Any, ...]:
        return json.loads, (json.dumps(self),)


def text_of(message: Mapping[str, Any]) -> str:
    """A message as JSON text. Raises ``UsageError`` for what would not come back as it is."""
    if not isinstance(message, Mapping):
        raise UsageError(f"a message is a dict, not {type(message).__name__}: {str(message)[:60]!r}")
    try:
        text = json.dumps(dict(message), allow_nan=False)
        same = json.loads(text) == message
    except (TypeError, ValueError):
        same = False
    if not same:
        raise UsageError(
            "a message holds JSON data only (dicts with text keys, lists, texts, numbers, None), and this has "
            f"something else in it: {str(dict(message))[:100]}"
        )
    return text


def frozen(text: str) -> Message:
    """The message of that text."""
    message = _freeze(json.loads(text))
    assert isinstance(message, Message)
    return message


def _freeze(value: Any) -> Any:
    if isinstance(value, dict):
        return Message({key: _freeze(each) for key, each in value.items()})
    return _Part(map(_freeze, value)) if isinstance(value, list) else value
