"""What the streams call to make files, locks, pools and connections again. The names are part of the format."""

from __future__ import annotations

import contextlib
import contextvars
import hashlib
import importlib
import os
import re
import stat
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from resumable_nb.errors import NotSaved
from resumable_nb.model import MISSING

EDGE_BYTES: Final = 64 << 10


_trials: Final[list[list[Any]]] = []
_apart: Final[list[bool]] = []


@contextlib.contextmanager
def trial() -> Iterator[None]:
    """What is opened in the block is closed at its end."""
    opened: list[Any] = []
    _trials.append(opened)
    try:
        yield
    finally:
        _trials.remove(opened)
        for each in opened:
            each.close()


@contextlib.contextmanager
def apart() -> Iterator[None]:
    """What is read in the block lives beside the originals, and does not take their place."""
    _apart.append(True)
    try:
        yield
    finally:
        _apart.pop()


def _opened(handle: Any) -> Any:
    for each in _trials[-1:]:
        each.append(handle)
    return handle


def mark_of(path: str) -> tuple[int, int, str]:
    """Size, modification time in ns, and a digest of the first and last bytes of a file."""
    found = Path(path).stat()
    with Path(path).open("rb", buffering=0) as file:
        head = file.read(EDGE_BYTES)
        file.seek(max(len(head), found.st_size - EDGE_BYTES))
        tail = file.read(EDGE_BYTES)
    return found.st_size, found.st_mtime_ns, hashlib.blake2b(head + tail, digest_size=16).hexdigest()


def open_file(path: str, how: Mapping[str, Any], position: int, mark: tuple[int, int, str]) -> Any:
    """The file as it was left: nothing is truncated or created. Raises ``NotSaved`` where it is not what it was."""
    try:
        regular = stat.S_ISREG(Path(path).stat().st_mode)  # a pipe in its place would block
        now = mark_of(path) if regular else None
    except OSError as error:
        raise NotSaved(f"the file {path} cannot be opened again: {error.strerror or error}", path="") from error
    if now is None or not _same(now, mark):
        raise NotSaved(
            f"the file {path} has changed since, so it cannot be opened again as it was",
            path="",
            replay=not {"w", "a", "x", "+"}.isdisjoint(how["mode"]),  # one that is read would have another content
        )
    file = open(path, opener=_untouched, **how)  # noqa: SIM115  # it stays open, as it was
    file.seek(position)
    return _opened(file)


def _same(now: tuple[int, int, str], then: tuple[int, int, str]) -> bool:
    """A touched or copied file has another time: then the content counts, where the digest covers all of it."""
    return now[2] == then[2] and now[0] == then[0] and (now[1] == then[1] or now[0] <= 2 * EDGE_BYTES)


def _untouched(path: str, flags: int) -> int:
    return os.open(path, flags & ~(os.O_TRUNC | os.O_CREAT | os.O_EXCL))


def make_lock() -> Any:
    return threading.Lock()


def make_rlock() -> Any:
    return threading.RLock()


def make_threads(workers: int, prefix: str, initializer: Any, arguments: tuple[Any, ...]) -> Any:
    """An idle pool of threads: none is started before there is work."""
    from concurrent.futures import ThreadPoolExecutor

    return ThreadPoolExecutor(workers, prefix, initializer, arguments)


def make_processes(workers: int, method: str, initializer: Any, arguments: tuple[Any, ...]) -> Any:
    """An idle pool of processes: none is started before there is work."""
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor

    return ProcessPoolExecutor(workers, multiprocessing.get_context(method), initializer, arguments)


def make_context_variable(name: str, default: tuple[Any, ...]) -> Any:
    """``default``: empty for none, else of one element."""
    if not default:
        return contextvars.ContextVar(name)
    return contextvars.ContextVar(name, default=default[0])


def set_context_variable(variable: contextvars.ContextVar[Any], value: tuple[Any]) -> None:
    variable.set(value[0])


def make_match(pattern: re.Pattern[Any], text: Any, pos: int, endpos: int, method: str, k: int) -> Any:
    if method == "finditer":
        return next(each for i, each in enumerate(pattern.finditer(text, pos, endpos)) if i == k)
    return getattr(pattern, method)(text, pos, endpos)


def connect(path: str, attributes: Mapping[str, Any], pragmas: Mapping[str, int]) -> Any:
    """A connection to a database file, which has to be there still."""
    import sqlite3

    if not Path(path).is_file():
        raise NotSaved(f"the database {path} is gone, so its connection cannot be opened again", path="")
    connection = _opened(sqlite3.connect(path))
    for name, value in attributes.items():
        setattr(connection, name, value)
    for name, number in pragmas.items():
        connection.execute(f"pragma {name} = {number:d}")
    return connection


def get_shell() -> Any:
    return importlib.import_module("IPython").get_ipython()


def set_figure(figure: Any, content: tuple[dict[str, Any], int]) -> None:
    """A figure that pyplot had open, under this number. It was shown when it was made, and is not shown again."""
    state, number = content
    figure.__setstate__(state)
    if _trials or _apart:
        return
    pyplot: Any = importlib.import_module("matplotlib.pyplot")
    opened: Any = importlib.import_module("matplotlib._pylab_helpers").Gcf
    with pyplot.rc_context({"interactive": False}):
        free = number if number not in opened.figs else max(opened.figs) + 1
        opened._set_new_active_manager(pyplot._get_backend_mod().new_figure_manager_given_figure(free, figure))


def matching(match: re.Match[Any]) -> tuple[str, int]:
    """Which method of its pattern gives this very match; ("", 0) where none does."""

    def same(other: re.Match[Any] | None) -> bool:
        return other is not None and (other.regs, other.lastindex) == (match.regs, match.lastindex)

    span = (match.string, match.pos, match.endpos)
    methods: dict[str, Callable[..., re.Match[Any] | None]] = {
        "match": match.re.match,
        "fullmatch": match.re.fullmatch,
        "search": match.re.search,
    }
    for name, method in methods.items():
        if same(method(*span)):
            return name, 0
    found = (k for k, each in enumerate(match.re.finditer(*span)) if same(each))
    k = next(found, None)
    return ("", 0) if k is None else ("finditer", k)


def value_of(variable: contextvars.ContextVar[Any]) -> Any:
    """The value that is set in this context; ``MISSING`` for none."""
    return contextvars.copy_context().get(variable, MISSING)


def default_of(variable: contextvars.ContextVar[Any]) -> tuple[Any, ...]:
    """Empty for none, else of one element."""
    try:
        return (contextvars.Context().run(variable.get),)
    except LookupError:
        return ()
