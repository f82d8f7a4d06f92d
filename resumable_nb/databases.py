"""Database files while a body runs once more: what it wrote to them is there, and must not be written twice."""

from __future__ import annotations

import contextlib
import gc
import sys
from collections.abc import Callable, Iterator
from typing import Any, Final

_ALLOWED, _LEFT_OUT = 0, 2
_TRANSACTION: Final = 22
"""sqlite's code for what begins and ends a transaction."""


@contextlib.contextmanager
def untouched() -> Iterator[set[str]]:
    """What sqlite writes to files within the block is taken back at its end. Yields these files, known afterwards.

    Databases in memory are written to as ever.
    """
    written: set[str] = set()
    module: Any = sys.modules.get("sqlite3.dbapi2")
    if module is None:
        yield written
        return
    # Their types alone: what stands for another object is not asked, and may do anything then.
    found = (_Guard.of(each) for each in gc.get_objects() if issubclass(type(each), module.Connection))
    guards = [each for each in found if each is not None]
    places: list[Any] = [module, sys.modules["sqlite3"]]
    former = [place.connect for place in places]
    try:
        for place, connect in zip(places, former, strict=True):
            place.connect = _guarding(connect, guards)
        yield written
    finally:
        for place, connect in zip(places, former, strict=True):
            place.connect = connect
        for each in guards:
            with contextlib.suppress(module.Error):  # closed by now: what it has not committed is gone
                written |= each.end()


def _guarding(connect: Callable[..., Any], guards: list[_Guard]) -> Callable[..., Any]:
    def guarding(*args: Any, **options: Any) -> Any:
        made = connect(*args, **options)
        if (guard := _Guard.of(made)) is not None:
            guards.append(guard)
        return made

    return guarding


class _Guard:
    """One transaction round all that a connection to a file does, in which it can neither commit nor roll back."""

    def __init__(self, connection: Any, path: str) -> None:
        self._connection, self._path = connection, path
        self._former = self._state()
        self._tell("savepoint resumable_nb")
        connection.set_authorizer(lambda action, *_: _LEFT_OUT if action == _TRANSACTION else _ALLOWED)

    @classmethod
    def of(cls, connection: Any) -> _Guard | None:
        """``None`` for a database in memory, and for what is closed or another thread's."""
        try:
            rows = connection.cursor().execute("pragma database_list").fetchall()
            path = next((str(path) for _, _, path in map(tuple, rows) if path), "")
            return cls(connection, path) if path else None
        except Exception:  # with a row factory of its own, too
            return None

    def end(self) -> set[str]:
        """Take back what was written; where it was."""
        changed = self._state() != self._former
        self._connection.set_authorizer(lambda *_: _ALLOWED)  # so that statements are prepared anew
        self._connection.set_authorizer(None)
        self._tell("rollback to resumable_nb")
        self._tell("release resumable_nb")
        return {self._path} if changed else set()

    def _state(self) -> tuple[int, Any]:
        row = self._connection.cursor().execute("pragma schema_version").fetchone()
        return self._connection.total_changes, next(iter(row))

    def _tell(self, text: str) -> None:
        self._connection.cursor().execute(text)
