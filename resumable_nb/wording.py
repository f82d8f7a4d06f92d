"""How moments, durations and counts are worded."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from typing import Final

_UNSEEN: Final = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff\U000e0000-\U000e007f]"
)
"""Characters that move the cursor, colour, turn the writing direction, or take no room."""


def plain(text: str, limit: int = 300) -> str:
    """One line of text that looks like what it is: at most ``limit`` characters of it, what is unseen as an escape."""
    if len(text) > limit:
        text = f"{text[: limit - 1]}…"
    return _UNSEEN.sub(_escape, " ".join(re.split(r"[ \t\r\n]+", text)))


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"


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
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def few(names: Sequence[str], most: int = 3) -> str:
    """``a, b, c and 4 more``."""
    rest = len(names) - most
    return f"{', '.join(names[:most])} and {rest} more" if rest > 0 else ", ".join(names)
