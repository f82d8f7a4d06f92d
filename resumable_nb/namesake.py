"""Two tools of one name would answer for each other: the second one is refused."""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from resumable_nb.errors import UsageError
from resumable_nb.tooldef import Tool


def refuse_namesakes(tool: Tool, incarnation: str) -> None:
    """Raises ``UsageError`` when another tool in this process has the name."""
    _known_home(tool, incarnation)
    _known_twin(tool)


@dataclass(frozen=True, slots=True)
class _Home:
    module: str
    function: Callable[[], Any]
    """Gives the function, or None when it is gone."""

    def in_use(self) -> bool:
        """Whether it is a tool of the notebook, and its variable is still this one: not what it was moved to."""
        function = self.function()
        if function is None or self.module != "__main__":
            return False
        plain = inspect.unwrap(function)
        bound = getattr(plain, "__globals__", {}).get(getattr(plain, "__name__", ""))
        return getattr(getattr(bound, "tool", None), "function", None) is function


_homes: Final[dict[tuple[str, str], _Home]] = {}
"""Where the tools that were called come from, by incarnation and name."""


def _known_home(tool: Tool, incarnation: str) -> None:
    """Two modules' tools of one name would answer for each other. The notebook's may move to a module and back."""
    if not tool.module:
        return
    here = _Home(tool.module, _weak(tool.function))
    other = _homes.setdefault((incarnation, tool.name), here)
    if tool.module != other.module and ("__main__" not in (tool.module, other.module) or other.in_use()):
        raise UsageError(
            f"two tools are called {tool.name!r}, in {other.module} and in {tool.module}: a call of one would answer "
            "for the other; give one of them another name, @tool(name=…)"
        )
    _homes[incarnation, tool.name] = here


def _known_twin(tool: Tool) -> None:
    """Two tools from one factory, with other closures, are two tools: under one name they answer for each other."""
    for twin in tool.twins():
        raise UsageError(
            f"two tools made by the same code are called {tool.name!r} ({twin}): a call of one would answer for the "
            "other; give each its own name, @tool(name=…)"
        )


def _weak(function: Callable[..., Any]) -> Callable[[], Any]:
    try:
        return weakref.ref(function)
    except TypeError:
        return lambda: None
