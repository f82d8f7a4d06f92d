"""The files of code that a step's code names (``%run``, ``!python``, ``subprocess``), as parts of its key."""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path

from blake3 import blake3

from resumable_nb.change import SCRIPT
from resumable_nb.model import MISSING, Missing


def contents(named: Collection[str], base: Path) -> dict[str, str]:
    """Label to content of those that are there; of a notebook only its code counts."""
    found = {}
    for name in sorted(named):
        mark = _content(base, name)
        if mark is not MISSING:
            found[SCRIPT + name] = mark
    return found


def _content(base: Path, name: str) -> str | Missing:
    try:
        path = base / Path(name).expanduser()
        if not path.is_file():
            return MISSING
        data = path.read_bytes()
    except (OSError, ValueError, RuntimeError):  # no file name, nobody's home, not for us to read: the code will say so
        return MISSING
    if path.suffix == ".ipynb":
        data = _code(data)
    return blake3(data).hexdigest(length=16)


def _code(data: bytes) -> bytes:
    try:
        cells = json.loads(data)["cells"]
        return json.dumps([each["source"] for each in cells if each["cell_type"] == "code"]).encode()
    except (ValueError, KeyError, TypeError):
        return data
