"""Recipes for objects that stand for something else: files, locks, pools, connections. What has none is refused."""

from __future__ import annotations

import contextvars
import io
import os
import pickle
import re
import stat
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from resumable_nb.attributes import own_dict
from resumable_nb.canonical import user_module
from resumable_nb.codec import reopen
from resumable_nb.model import MISSING

Reduce = Callable[[Any], Any]

LINE_BYTES: Final = 16 << 20
"""How much of a text file is searched for carriage returns."""

IDLE_S: Final = 0.05
"""How long a pool may take to note that its work is done."""

_LOCK: Final = type(threading.Lock())
_RLOCK: Final = type(threading.RLock())
_HELD: Final = (_LOCK, _RLOCK, threading.Condition, threading.Event, threading.Semaphore, threading.Barrier)
_MAY_HOLD: Final = frozenset({"threading", "queue", "logging", "functools", "sched", "collections", "asyncio"})
"""Modules of the standard library whose objects are no more than their attributes, locks included."""


def refuse(thing: Any, why: str = "") -> Any:
    kind = type(thing)
    raise pickle.PicklingError(f"cannot pickle {kind.__qualname__!r} object{why}")


# --- files


def open_file(file: Any) -> Any:
    """By path and position; the content stays where it is. Not where it could come back as something else."""
    path, position = _path(file), _position(file)
    how: dict[str, Any] = {"mode": file.mode}
    if isinstance(file, io.TextIOWrapper):
        how |= {"encoding": file.encoding, "errors": file.errors, "newline": _newline(file, path)}
        how["buffering"] = 1 if file.line_buffering else -1
    elif isinstance(file, io.FileIO):
        how["buffering"] = 0
    return reopen.open_file, (path, how, position, reopen.mark_of(path))


def _path(file: Any) -> str:
    name = getattr(file, "name", None)
    if not isinstance(name, str) or not isinstance(getattr(file, "mode", None), str):
        return str(refuse(file, ", which has no path"))
    try:
        here, there = os.fstat(file.fileno()), Path(name).stat()
    except OSError:
        return str(refuse(file, f", whose path {name!r} is gone"))
    if not stat.S_ISREG(here.st_mode) or (here.st_dev, here.st_ino) != (there.st_dev, there.st_ino):
        refuse(file, f": {name!r} is not the regular file that it has open")
    return name


def _position(file: Any) -> int:
    try:
        if file.writable():
            file.flush()
        return int(file.tell())
    except (OSError, ValueError) as error:
        return int(refuse(file, f": {error}"))


def _newline(file: Any, path: str) -> str | None:
    """Which line ends it was told to use shows nowhere: a file without carriage returns means the same in all ways."""
    if Path(path).stat().st_size > LINE_BYTES:
        refuse(file, f": {path!r} is too long to look for its line ends")
    if b"\r" in Path(path).read_bytes():
        refuse(file, f": its line ends are not known, and {path!r} has carriage returns")
    return None


# --- threads


def _lock(lock: Any) -> Any:
    return refuse(lock, ", which is held") if lock.locked() else (reopen.make_lock, ())


def _rlock(lock: Any) -> Any:
    return (reopen.make_rlock, ()) if repr(lock).startswith("<unlocked") else refuse(lock, ", which is held")


def _guarded(thing: Any) -> Any:
    """A library's object with a lock among its attributes is at work, or tied to something that is."""
    held = (name for name, value in own_dict(thing).items() if isinstance(value, _HELD))
    name = next(held, None)
    return NotImplemented if name is None else refuse(thing, f", whose {name} is a lock")


def threads(executor: Any) -> Any:
    workers, prefix = executor._max_workers, executor._thread_name_prefix
    _wait_until(lambda: executor._work_queue.empty() and executor._idle_semaphore._value >= len(executor._threads))
    if not executor._work_queue.empty() or executor._idle_semaphore._value < len(executor._threads):
        return refuse(executor, ", which is at work")
    return reopen.make_threads, (workers, prefix, executor._initializer, executor._initargs)


def _processes(executor: Any) -> Any:
    _wait_until(lambda: not executor._pending_work_items)
    if executor._pending_work_items or executor._shutdown_thread or executor._broken:
        return refuse(executor, ", which is at work or shut down")
    method = executor._mp_context.get_start_method()
    return reopen.make_processes, (executor._max_workers, method, executor._initializer, executor._initargs)


def _wait_until(idle: Callable[[], bool]) -> None:
    end = time.monotonic() + IDLE_S
    while not idle() and time.monotonic() < end:
        time.sleep(0.001)


def _future(future: Any) -> Any:
    return NotImplemented if future.done() else refuse(future, ", which is not done")


# --- others


def _match(match: re.Match[Any]) -> Any:
    method, k = reopen.matching(match)
    if not method:
        return refuse(match)
    return reopen.make_match, (match.re, match.string, match.pos, match.endpos, method, k)


def _context_variable(variable: contextvars.ContextVar[Any]) -> Any:
    value = reopen.value_of(variable)
    args = (variable.name, reopen.default_of(variable))
    if value is MISSING:
        return reopen.make_context_variable, args
    return reopen.make_context_variable, args, (value,), None, None, reopen.set_context_variable


_ATTRIBUTES: Final = ("row_factory", "text_factory", "isolation_level", "autocommit")
_PRAGMAS: Final = ("foreign_keys", "recursive_triggers", "query_only", "busy_timeout")


def _connection(connection: Any) -> Any:
    """To a file, with nothing of its own in it: no transaction, no temporary tables, no other database beside it."""
    if connection.in_transaction:
        return refuse(connection, ", which is in a transaction")
    try:
        bases = connection.execute("pragma database_list").fetchall()
        extra = connection.execute("select count(*) from sqlite_temp_master").fetchone()
        declared = _declared_types(connection)
        pragmas = {name: _first(connection.execute(f"pragma {name}").fetchone()) for name in _PRAGMAS}
        paths = [path for _, name, path in map(tuple, bases) if name != "temp"]
    except Exception:  # another thread's, closed, or with a row factory of its own that fails
        return refuse(connection)
    if len(paths) != 1 or not paths[0] or _first(extra):
        return refuse(connection, ", which has more in it than one database file")
    if declared & set(sys.modules["sqlite3"].converters):  # whether it converts them, it does not say
        return refuse(connection, ", whose columns may be converted")
    attributes = {name: getattr(connection, name) for name in _ATTRIBUTES if hasattr(connection, name)}
    return reopen.connect, (paths[0], attributes, pragmas)


def _first(row: Any) -> Any:
    return next(iter(row))


def _declared_types(connection: Any) -> set[str]:
    names = [_first(each) for each in connection.execute("select name from sqlite_master where type = 'table'")]
    found = [connection.execute("select type from pragma_table_info(?)", (name,)).fetchall() for name in names]
    words = (re.match(r"\w+", str(_first(each))) for columns in found for each in columns)
    return {word[0].upper() for word in words if word}


_EXACT: Final[dict[type, Reduce]] = {
    _LOCK: _lock,
    _RLOCK: _rlock,
    re.Match: _match,
    contextvars.ContextVar: _context_variable,
    subprocess.Popen: refuse,
    tempfile.TemporaryDirectory: refuse,
    tempfile._TemporaryFileWrapper: refuse,
}

_NAMED: Final[dict[tuple[str, str], Reduce]] = {
    ("concurrent.futures.process", "ProcessPoolExecutor"): _processes,
    ("sqlite3", "Connection"): _connection,
}


def stands_for_one(kind: type) -> bool:
    """Whether two copies of such an object would not do what one did: a result is copied at each answer."""
    own = (_LOCK, _RLOCK, contextvars.ContextVar, io.TextIOWrapper, io.BufferedIOBase, io.FileIO)
    if issubclass(kind, io.BytesIO):
        return False
    return issubclass(kind, own) or (kind.__module__, kind.__name__) in _NAMED or kind.__name__ == "ThreadPoolExecutor"


def handle(kind: type) -> Reduce | None:
    """How objects of this type are reduced; None: there is nothing special about them."""
    if kind in _EXACT:
        return _EXACT[kind]
    if (known := _NAMED.get((kind.__module__, kind.__name__))) is not None:
        return known
    if (kind.__module__, kind.__name__) == ("concurrent.futures._base", "Future"):
        return _future
    if issubclass(kind, threading.Thread):
        return refuse
    plain = kind.__reduce_ex__ is object.__reduce_ex__ and kind.__reduce__ is object.__reduce__
    top = str(kind.__module__).partition(".")[0]
    if not plain or not kind.__dictoffset__ or top in _MAY_HOLD or (hasattr(kind, "__getstate__") and _own_state(kind)):
        return None
    return None if user_module(kind.__module__) else _guarded


def _own_state(kind: type) -> bool:
    """Whether a class says itself what is saved of its objects (``object`` has the method from Python 3.11 on)."""
    return any("__getstate__" in vars(each) for each in kind.__mro__ if each is not object)
