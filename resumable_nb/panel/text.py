"""Foreign text made harmless: whatever tools, names and errors contain is shown as text, and never long."""

from __future__ import annotations

import html
import re
from typing import Final

from resumable_nb.preview import cut, scrub

LINE: Final = 200
BLOCK: Final = 4000

_ANSI = re.compile(r"\x1b(?:\[[0-9;:?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e007f]"
)
"""What is not seen, or changes the order of what is: control characters, zero widths, directions, half characters."""


def plain(text: object, limit: int = BLOCK) -> str:
    """``text`` without escape sequences, with what cannot be seen spelled out, at most ``limit`` characters."""
    # Cut first: nobody waits for a search through ten megabytes.
    seen = _ANSI.sub("", cut(str(text), 8 * limit))
    return cut(_UNSEEN.sub(_spelled, cut(seen, limit)), limit)


def line(text: object, limit: int = LINE) -> str:
    """As ``plain``, in one line."""
    return plain(" ".join(cut(str(text), 8 * limit).split()), limit)


def safe(text: object, limit: int = LINE) -> str:
    """One line of foreign text as HTML: escaped, and its direction kept to itself."""
    return f"<bdi>{html.escape(line(text, limit))}</bdi>"


def block(text: object, limit: int = BLOCK) -> str:
    """Lines of foreign text as HTML that can be scrolled, also by keys."""
    shown = html.escape(plain(scrub(cut(str(text), 8 * limit)), limit))
    return f'<pre class="rnb-pre" tabindex="0" dir="ltr">{shown}</pre>'


def attribute(text: object, limit: int = LINE) -> str:
    """Foreign text inside the quotes of an attribute."""
    return html.escape(line(text, limit), quote=True)


def _spelled(match: re.Match[str]) -> str:
    return f"⟨U+{ord(match[0]):04X}⟩"


def size(size_bytes: int) -> str:
    """``0 B``, ``12 kB``, ``3.4 MB``."""
    if size_bytes < 1000:
        return f"{size_bytes} B"
    value, units = size_bytes / 1000, ["TB", "GB", "MB", "kB"]
    while value >= 999.5 and len(units) > 1:
        value /= 1000
        units.pop()
    return f"{value:.0f} {units[-1]}" if value >= 10 else f"{value:.1f} {units[-1]}"
