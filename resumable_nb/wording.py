"""How moments, durations and counts are worded."""

from __future__ import annotations

import time


def clock_time(at: float) -> str:
    """``10:42`` today, ``28 Nov 10:42`` otherwise; local time."""
    then, today = time.localtime(at), time.localtime()
    same_day = then[:3] == today[:3]
    return time.strftime("%H:%M" if same_day else "%d %b %H:%M", then)


def duration(seconds: float) -> str:
    """``3 min 20 s``, ``4.2 s``, ``35 ms``."""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"


def plural(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"
