"""How far the database had come, in a file beside it: that tells a database that went back in time."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Final

from resumable_nb.errors import StoreLost

COMMITS: Final = "commits"
TURN: Final = 2**31
"""Where the count begins anew: it has 31 bits in the database's header."""
_DIGITS: Final = 10


def note(directory: Path, commits: int) -> None:
    """Say that this commit is on disk. Never synced: a power cut leaves an older count, which accuses nobody."""
    with contextlib.suppress(OSError):
        fd = os.open(f"{directory}/{COMMITS}", os.O_WRONLY | os.O_CREAT, 0o600)
        try:
            os.pwrite(fd, f"{commits:0{_DIGITS}}\n".encode(), 0)
        finally:
            os.close(fd)


def noted(directory: Path) -> int | None:
    """What was noted last; ``None`` where that is not known."""
    try:
        text = (directory / COMMITS).read_bytes()
    except OSError:
        return None
    return int(text) if len(text) == _DIGITS + 1 and text.strip().isdigit() else None


def missing(now: int, then: int | None) -> int:
    """How many commits a database has lost that counts ``now`` and was known to have counted ``then``."""
    behind = 0 if then is None else (then - now) % TURN
    # In a count that begins anew, the larger half of the circle is the future.
    return behind if behind < TURN // 2 else 0


def went_back(uri: str, behind: int) -> StoreLost:
    return StoreLost(
        f"store {uri} went back in time: its database lacks the last {behind} of the commits that were made (an older "
        "copy, or a log that was cut), so calls made since then would be made again. Restore the whole directory as it "
        f"was last; to go on from the older state all the same, run `resumable trust {uri}`",
        uri=uri,
        behind=behind,
    )
