"""Work on much data, shared by threads: numpy, BLAKE3 and the disk let go of the interpreter meanwhile."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

T = TypeVar("T")

WORTHWHILE_BYTES: Final = 1 << 23
"""Data of up to this size is done with before a thread is there."""
_HELPERS: Final = min(3, (os.cpu_count() or 1) - 1)


def shared(work: Callable[[int], T], number: int, size_bytes: int) -> list[T]:
    """What ``work`` makes of 0, 1, … in order. Threads take turns, so one that gets no core holds nothing up."""
    if size_bytes <= WORTHWHILE_BYTES or not _HELPERS:
        return list(map(work, range(number)))
    made: dict[int, T] = {}
    waiting = deque(range(number))

    def go_on() -> None:
        while waiting:
            try:
                turn = waiting.popleft()
            except IndexError:  # another thread took the last
                return
            made[turn] = work(turn)

    with ThreadPoolExecutor(_HELPERS) as helpers:
        helping = [helpers.submit(go_on) for _ in range(_HELPERS)]
        try:
            go_on()
            for each in helping:
                if not each.cancel():
                    each.result()
        finally:
            waiting.clear()  # an interrupt ends all of them
    return [made[k] for k in range(number)]
