"""Kernels in processes of their own, without Jupyter: an IPython shell each, forked from one that imported everything.

``python kernels.py SOCKET`` is the process that forks: each connection gets a kernel, which runs the cells that come
as lines of JSON, and dies with the connection.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

LOAD = "%load_ext resumable_nb"


@dataclass(frozen=True, slots=True)
class Shown:
    """What a cell showed, in order: ``(stdout | stderr, text)`` and ``(display | update, data)``; and its error."""

    items: list[tuple[str, Any]]
    error: str = ""
    """The error's class, empty for none."""
    said: str = ""
    """Its text."""
    value: str = ""
    """The repr of the result."""

    @property
    def text(self) -> str:
        """All of it as plain text, a traceback included."""
        return "".join(text if isinstance(text, str) else text["text/plain"] + "\n" for _, text in self.items)

    @property
    def stdout(self) -> str:
        return "".join(text for kind, text in self.items if kind == "stdout")

    @property
    def messages(self) -> list[str]:
        """Our own lines."""
        return [data["text/plain"] for kind, data in self.items if kind == "message"]


class Died(Exception):
    """The kernel's process is gone, and its task is free."""


class Kernel:
    """One kernel, in ``folder``. Closed, it ends in good order; killed, it does not."""

    def __init__(self, address: str, folder: Path, notebook: str = "book.ipynb") -> None:
        self.folder = folder
        self.pid = 0
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(address)
        self._file = self._socket.makefile("rw", encoding="utf-8")
        told = {"folder": str(folder), "notebook": notebook, "key": os.environ["RESUMABLE_KEY_FILE"]}
        self.pid = self._ask(told)["pid"]

    def __call__(self, *cells: str) -> Shown:
        """Run the cells, which must succeed; what the last one showed."""
        for cell in cells:
            shown = self.attempt(cell)
            assert not shown.error, f"{cell}\n{shown.text}"
        return shown

    def attempt(self, cell: str) -> Shown:
        """Run one cell, whatever becomes of it. Raises ``Died``."""
        return self._shown(self._ask({"cell": cell}))

    def run_all(self, cells: list[str]) -> list[Shown]:
        """Run the cells as a front end does: the first error stops."""
        shown = []
        for cell in cells:
            shown.append(self.attempt(cell))
            if shown[-1].error:
                break
        return shown

    def start(self, cell: str) -> None:
        """Begin a cell; ``finish`` waits for its end."""
        self._send({"cell": cell})

    def finish(self) -> Shown:
        return self._shown(self._receive())

    def interrupt(self) -> None:
        os.kill(self.pid, signal.SIGINT)

    def kill(self) -> None:
        """Returns when the process is gone: it holds its task that long."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        self._wait()
        self.close()

    def close(self) -> None:
        """End the kernel, if it lives; returns when it is gone."""
        with contextlib.suppress(OSError, ValueError):
            self._socket.shutdown(socket.SHUT_WR)
            while self._socket.recv(1 << 16):
                pass
        with contextlib.suppress(OSError, ValueError):
            self._file.close()
        self._socket.close()

    def end(self) -> None:
        """Close the kernel, and wait until its process is gone: it holds its task that long."""
        self.close()
        self._wait()

    def _wait(self) -> None:
        """Until the process is gone: its end of the socket closes before it lets its task go."""
        with contextlib.suppress(psutil.NoSuchProcess):
            psutil.Process(self.pid).wait(timeout=120)

    def _ask(self, message: dict[str, Any]) -> dict[str, Any]:
        self._send(message)
        return self._receive()

    def _send(self, message: dict[str, Any]) -> None:
        self._file.write(json.dumps(message) + "\n")
        self._file.flush()

    def _receive(self) -> dict[str, Any]:
        try:
            line = self._file.readline()
        except ConnectionResetError:
            line = ""
        if not line:
            self._wait()
            raise Died
        answer: dict[str, Any] = json.loads(line)
        return answer

    @staticmethod
    def _shown(answer: dict[str, Any]) -> Shown:
        return Shown([(kind, data) for kind, data in answer.pop("items")], **answer)


class Kernels:
    """Starts kernels, and ends all that are left at the end."""

    def __init__(self, address: str, folder: Path) -> None:
        self._address, self._folder = address, folder
        self._all: list[Kernel] = []

    def __call__(
        self, *cells: str, load: bool = True, folder: Path | None = None, notebook: str = "book.ipynb"
    ) -> Kernel:
        """A new kernel, in which the extension is loaded and these cells have run."""
        kernel = Kernel(self._address, folder or self._folder, notebook)
        self._all.append(kernel)
        kernel(*([LOAD] if load else []), *cells)
        return kernel

    def again(self, *cells: str) -> Kernel:
        """Kill all kernels, and start a new one."""
        self.close()
        return self(*cells)

    def close(self) -> None:
        while self._all:
            self._all.pop().kill()


@contextlib.contextmanager
def forking() -> Iterator[str]:
    """The process that forks, for the block; its address."""
    with tempfile.TemporaryDirectory(prefix="kernels") as folder:
        address = f"{folder}/socket"
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "IPYTHONDIR": f"{folder}/ipython"}
        process = subprocess.Popen(
            [sys.executable, "-W", "error", __file__, address],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            cwd=Path(__file__).parent.parent,
        )
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == b"ready\n"
            yield address
        finally:
            process.stdin.close()
            process.stdout.close()
            process.wait()


# --- the other side


def serve(address: str) -> None:
    """Fork a kernel for each connection, until standard input ends."""
    import IPython.core.interactiveshell
    import numpy
    import pandas

    import resumable_nb.history  # noqa: F401  # its pandas is to be loaded before the fork

    del IPython, numpy, pandas
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        listener.listen()
        print("ready", flush=True)
        while sys.stdin not in select.select([listener, sys.stdin], [], [])[0]:
            connection, _ = listener.accept()
            with connection:
                if os.fork() == 0:
                    listener.close()
                    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                        be_kernel(connection)
                    sys.exit()


class Stream:
    """A text stream that keeps what is written, in one list for all streams."""

    encoding = "utf-8"

    def __init__(self, kind: str, items: list[tuple[str, Any]]) -> None:
        self._kind, self._items = kind, items

    def write(self, text: str) -> int:
        if self._items and self._items[-1][0] == self._kind:
            self._items[-1] = (self._kind, self._items[-1][1] + text)
        else:
            self._items.append((self._kind, text))
        return len(text)

    def flush(self) -> None:
        pass

    def isatty(self) -> bool:
        return False


def make_shell(items: list[tuple[str, Any]]) -> Any:
    from IPython.core.displaypub import DisplayPublisher
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    class Publisher(DisplayPublisher):  # type: ignore[misc]  # untyped
        def publish(self, data: Any, metadata: Any = None, *, update: bool = False, **_: Any) -> None:
            kind = "message" if "resumable_nb" in (metadata or {}) else "update" if update else "display"
            items.append((kind, {mime: str(value) for mime, value in data.items()}))

        def clear_output(self, wait: bool = False) -> None:
            items.append(("clear", ""))

    config = Config()
    config.HistoryManager.enabled = False
    config.InteractiveShell.display_pub_class = Publisher
    shell = InteractiveShell.instance(config=config, colors="nocolor")
    shell.display_pub = Publisher(parent=shell)
    return shell


def be_kernel(connection: socket.socket) -> None:
    file = connection.makefile("rw", encoding="utf-8")
    told = json.loads(file.readline())
    os.chdir(told["folder"])
    os.environ["RESUMABLE_KEY_FILE"] = told["key"]
    if told["notebook"]:
        os.environ["JPY_SESSION_NAME"] = str(Path(told["folder"], told["notebook"]))
    items: list[tuple[str, Any]] = []
    sys.stdout, sys.stderr = Stream("stdout", items), Stream("stderr", items)  # type: ignore[assignment]  # as a kernel's: no files
    shell = make_shell(items)
    sys.path.insert(0, "")
    file.write(json.dumps({"pid": os.getpid()}) + "\n")
    file.flush()
    for line in file:
        items.clear()
        result = None
        with contextlib.suppress(KeyboardInterrupt):  # one that comes after the cell's end
            result = shell.run_cell(json.loads(line)["cell"], store_history=True)
        error = None if result is None else result.error_before_exec or result.error_in_exec
        answer = {
            "items": list(items),
            "error": type(error).__name__ if error is not None else "",
            "said": str(error) if error is not None else "",
            "value": repr(result.result) if result is not None and result.result is not None else "",
        }
        file.write(json.dumps(answer) + "\n")
        file.flush()
    assert threading.current_thread() is threading.main_thread()
    shell.atexit_operations()


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent.parent))
    serve(sys.argv[1])
