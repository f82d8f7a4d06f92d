"""``task().once``: a value that is decided once, and the same for ever after."""

from __future__ import annotations

import inspect
from typing import Any, Final

from resumable_nb.calls import course
from resumable_nb.desk import Desk
from resumable_nb.drive import Returned, drive, drive_async
from resumable_nb.errors import UsageError
from resumable_nb.tooldef import Tool

TOOL: Final = "task.once"
"""A decision is a call of this tool, which may be repeated until its result is recorded."""


def once(name: str, decide: Any, desk: Desk) -> Any:
    """The recorded value, a fresh copy; the first time, what ``decide`` returns, when that is on disk."""
    if not isinstance(name, str) or not name:
        raise UsageError(f"once({name!r}): give the decision a name")

    def take(name: str) -> Any:  # noqa: ARG001  # the call is known by it
        return decide() if callable(decide) else decide

    async def take_async(name: str) -> Any:  # noqa: ARG001  # ditto
        return await decide()

    if inspect.iscoroutinefunction(decide):
        return _once_async(name, Tool(name=TOOL, function=take_async, repeatable=True, shared=True), desk)
    tool = Tool(name=TOOL, function=take, repeatable=True, shared=True)
    return _value(drive(course(tool, desk, (name,), {}), desk.sleep))


async def _once_async(name: str, tool: Tool, desk: Desk) -> Any:
    return _value(await drive_async(course(tool, desk, (name,), {}), desk.sleep_async))


def _value(outcome: Any) -> Any:
    if isinstance(outcome, Returned):
        return outcome.value
    raise outcome.error
