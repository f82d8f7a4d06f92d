"""``Desk``: what a tool call needs of the session."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from resumable_nb.events import Bus
from resumable_nb.journal import Journal


@dataclass(frozen=True, kw_only=True)
class Desk:
    """What a call needs. ``key``: this user's secret, under which secret arguments are digested."""

    journal: Journal
    incarnation: str
    run: str
    key: bytes
    bus: Bus
    clock: Callable[[], float] = time.time
    sleep: Callable[[float], None] = time.sleep
    sleep_async: Callable[[float], Awaitable[None]] = asyncio.sleep
