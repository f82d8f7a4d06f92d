"""``docs/trust.md`` names tests; each of them exists."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "trust.md"
HERE_ONLY = "[torch: "
"""Rows whose library the tests have on one Python alone."""


def named() -> list[tuple[str, list[str]]]:
    """Each row's case, and the ids of its tests."""
    rows: list[tuple[str, list[str]]] = []
    above = ""
    for line in PAGE.read_text().splitlines():
        if found := re.fullmatch(r"Tests: `(.+)`", line):
            above = found[1]
        elif line.startswith("## Known limits"):
            break
        elif line.startswith("| ") and not line.startswith("| case"):
            case, _, last = (cell.strip() for cell in line.strip("|").rsplit("|", 2))
            ids = [f"{above}{each}" if each.startswith("[") else each for each in re.findall(r"`([^`]+)`", last)]
            rows.append((case, ids))
    return rows


def test_every_row_names_tests_that_exist() -> None:
    rows = named()
    files = sorted({each.partition("::")[0] for _, ids in rows for each in ids})
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", *files]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    known = {*done.stdout.splitlines()} | {line.partition("[")[0] for line in done.stdout.splitlines()}
    whole = sys.version_info[:2] == (3, 11)
    missing = [
        (case, each) for case, ids in rows for each in ids if each not in known and (whole or HERE_ONLY not in each)
    ]
    assert not missing
    assert all(ids for _, ids in rows)
    assert len(rows) > 100
