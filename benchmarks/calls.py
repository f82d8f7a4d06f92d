"""Tool calls and steps against what they cannot do without: 4 KB appended with fsync, one commit of SQLite."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from benchmarks.race import Race, Seconds, main, timed
from benchmarks.shell import shell

TOOLS = """
from resumable_nb import tool
@tool
def pay(n): return n
@tool(repeatable=True)
def fetch(n): return n
"""


def races(small: bool) -> Iterator[Race]:
    times, rounds = (3, 1) if small else (100, 7)
    with appended(times) as append, committed(times) as commit:
        cell = shell()
        cell(TOOLS)
        cell("pay(-1)")

        def calls(call: str) -> Seconds:
            """Seconds of one call out of a cell with many."""
            many = cell.timed(f"for n in range({times}): {call}")
            return lambda: many() / times

        for against, theirs in (("4 KB + fsync", append), ("SQLite", commit)):
            for what, call in (
                ("recorded call", "pay(-1)"),
                ("call", "pay((#, n))"),
                ("repeatable call", "fetch((#, n))"),
            ):
                yield Race(what, calls(call.replace("#", f"'{against}', #")), against, theirs, None, rounds)
            step, plain = cell.timed(f"%%resumable '{against[0]} #'\nx = #"), cell.timed("x = #")
            yield Race("step", lambda step=step, plain=plain: step() - plain(), against, theirs, None, rounds)


@contextlib.contextmanager
def appended(times: int) -> Iterator[Seconds]:
    """One append of 4 KB with fsync."""
    path = Path("appended")
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    data = bytes(4096)

    def append() -> None:
        os.write(fd, data)
        os.fsync(fd)

    try:
        yield timed(append, times)
    finally:
        os.close(fd)
        path.unlink()


@contextlib.contextmanager
def committed(times: int) -> Iterator[Seconds]:
    """One row of 1 KB in a database of its own, as safe as ours: WAL, synchronous FULL."""
    with contextlib.closing(sqlite3.connect("raw.db", isolation_level=None)) as database:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = FULL")
        database.execute("CREATE TABLE rows (value BLOB)")
        data = bytes(1024)
        yield timed(lambda: database.execute("INSERT INTO rows VALUES (?)", (data,)), times)


if __name__ == "__main__":
    main([races], __doc__)
