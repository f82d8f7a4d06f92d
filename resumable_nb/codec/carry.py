"""A call in another process: the plain function travels by value, and its outcome comes back as bytes."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from typing import Any, Final

import cloudpickle
import psutil

from resumable_nb.errors import NotSaved

Reply = tuple[str, bytes, str]
"""``returned`` or ``raised``, the pickled value or error (empty where that cannot be pickled), and it as text."""

WATCH_S: Final = 0.05


class Unsent:
    """Stands for a result that could not be sent back: the call did happen. Saving it says why."""

    def __init__(self, why: str) -> None:
        self.why = why

    def __repr__(self) -> str:
        return f"<a result that could not be sent back: {self.why}>"

    def __reduce__(self) -> tuple[Any, ...]:
        raise NotSaved(f"it could not be sent back from the worker ({self.why})", path="")


def packed(function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bytes:
    """The call as bytes. By value: under the function's name its module has the tool. Raises whatever is wrong."""
    data: bytes = cloudpickle.dumps((function, args, dict(kwargs)))
    return data


def run(data: bytes) -> Reply:
    """Make the call. Runs in the worker; raises only where the function was not called."""
    return _called(*pickle.loads(data))


def run_permitted(data: bytes, permitted: Callable[[], bool]) -> Reply | None:
    """The same, if that says so when nothing but the call is left to do; else ``None``."""
    call = pickle.loads(data)
    return _called(*call) if permitted() else None


def _called(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Reply:
    try:
        value = function(*args, **kwargs)
    except BaseException as error:
        text = "".join(
            traceback.format_exception(error.with_traceback(error.__traceback__ and error.__traceback__.tb_next))
        )
        return "raised", _sent(error)[0], text
    return "returned", *_sent(value)


def run_attached(data: bytes) -> Reply:
    """The same in a process that must not outlive its parent: the next kernel would not know that it is at work."""
    _Attached.begin()
    return run(data)


def _sent(value: Any) -> tuple[bytes, str]:
    try:
        data: bytes = cloudpickle.dumps(value)
        pickle.loads(data)
    except Exception as error:
        return b"", f"{type(error).__name__}: {error}"
    return data, ""


def opened(reply: Reply) -> Any:
    """What came back: the value, or ``Unsent``; of an error, the error or None."""
    kind, data, text = reply
    try:
        if data:
            return pickle.loads(data)
    except Exception as error:
        text = f"{type(error).__name__}: {error}"
    return Unsent(text) if kind == "returned" else None


class _Attached:
    """Watches, once in a process, that the parent lives."""

    _lock = threading.Lock()
    _watching = 0

    @classmethod
    def begin(cls) -> None:
        with cls._lock:
            if cls._watching != os.getpid():
                cls._watching = os.getpid()
                threading.Thread(target=cls._watch, name="resumable_nb parent", daemon=True).start()
        # A call that waited in the queue, or for this process to start, while the parent died: nobody expects it.
        # By its number too: forked siblings keep the parent's pipe open, so that it seems to live.
        parent = multiprocessing.parent_process()
        if parent is not None and not (parent.is_alive() and psutil.pid_exists(parent.pid)):
            os._exit(1)

    @staticmethod
    def _watch() -> None:
        parent, pid = multiprocessing.parent_process(), os.getppid()
        while parent is not None and parent.is_alive() and os.getppid() == pid:
            time.sleep(WATCH_S)
        if parent is not None:
            os._exit(1)
