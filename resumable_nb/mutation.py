"""A tool that changes its own arguments: an answer from the record does not change them again."""

from __future__ import annotations

import warnings
from collections.abc import Collection
from typing import Final

from resumable_nb.frame import user_level

_warned: Final[set[tuple[str, bool]]] = set()
"""Tools that were warned about: when called, and when answered."""


class MutationWarning(UserWarning):
    """A tool has changed an argument, which its recorded answer will not do."""


def warn_of_call(tool: str, text: str, changed: Collection[str]) -> None:
    """The tool was called, and these arguments are not what they were. Once a tool."""
    _warn(
        tool,
        f"{text} changed {_named(changed)} while it was called: when this call is answered from the record, that is "
        "not done again; return what is new instead of changing an argument",
        answered=False,
    )


def warn_of_answer(tool: str, text: str, changed: Collection[str]) -> None:
    """The call is answered from the record, and had changed these arguments when it was made. Once a tool."""
    _warn(
        tool,
        f"{text} was answered from the record: the change that it made to {_named(changed)} was not made again, and "
        "code that counts on it goes wrong; return what is new instead of changing an argument",
        answered=True,
    )


def _named(changed: Collection[str]) -> str:
    return f"argument{'s' if len(changed) > 1 else ''} {', '.join(map(repr, changed))}"


def _warn(tool: str, message: str, *, answered: bool) -> None:
    if (tool, answered) not in _warned:
        _warned.add((tool, answered))
        warnings.warn(message, MutationWarning, stacklevel=user_level())
