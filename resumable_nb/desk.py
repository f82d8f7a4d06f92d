"""``Desk``: what a tool call needs of the session."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from resumable_nb.events import Bus
from resumable_nb.journal import Journal


def _no_pause(where: str) -> None:
    """Nobody pauses or stops."""


async def _no_pause_async(where: str) -> None:
    """Nobody pauses or stops."""


@dataclass(frozen=True, kw_only=True)
class Desk:
    """What a call needs. ``key``: this user's secret, under which secret arguments are digested.

    ``checkpoint``: called before a call, and never between its intent and its outcome; waits while the task is paused,
    and raises ``Stopped``.
    """

    journal: Journal
    incarnation: str
    branch: str = ""
    run: str
    key: bytes
    bus: Bus
    clock: Callable[[], float] = time.time
    sleep: Callable[[float], None] = time.sleep
    sleep_async: Callable[[float], Awaitable[None]] = asyncio.sleep
    checkpoint: Callable[[str], None] = _no_pause
    checkpoint_async: Callable[[str], Awaitable[None]] = _no_pause_async
