"""Headless runs: a notebook in a real kernel, begun again when the kernel dies."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import os
import tempfile
import time
import uuid
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from queue import Empty
from typing import IO, Any, Final, Literal

import nbformat
from jupyter_client.asynchronous.client import AsyncKernelClient
from jupyter_client.channels import AsyncZMQSocketChannel
from jupyter_client.kernelspec import NoSuchKernel
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, DeadKernelError

from resumable_nb.control import TERMINATED
from resumable_nb.errors import Stopped, UsageError

STARTUP_TIMEOUT_S: Final = 120
IOPUB_TIMEOUT_S: Final = 60
LIFE_SIGN_S: Final = 0.05
LOOK_S: Final = 0.5


@dataclass(frozen=True, slots=True)
class CellError:
    """The error that ended a run: in which cell (counted from 1, all kinds), and what it said."""

    cell: int
    name: str
    value: str
    traceback: str


@dataclass(frozen=True, slots=True)
class Report:
    """How a headless run ended."""

    status: Literal["completed", "failed", "dead"]
    pids: tuple[int, ...]
    """Every kernel that was started, in order; all but the last one died."""
    notebooks: tuple[Any, ...]
    """For each kernel the notebook with its outputs, as far as it came."""
    duration_s: float
    error: CellError | None = None
    last_words: str = ""
    """What a dead kernel had written to its process's standard error."""

    @property
    def notebook(self) -> Any:
        """The notebook as the last kernel left it."""
        return self.notebooks[-1]

    @property
    def restarts(self) -> int:
        return len(self.pids) - 1


class ReplyChannel(AsyncZMQSocketChannel):
    """Looks for replies by itself: what nbclient sends to ``Output`` widgets on their socket may eat the wake-up."""

    async def get_msg(self, timeout: float | None = None) -> dict[str, Any]:  # type: ignore[override]  # as the base has it
        until_s = None if timeout is None else time.monotonic() + timeout
        while True:
            left_s = LOOK_S if until_s is None else until_s - time.monotonic()
            try:
                return await super().get_msg(max(0.0, min(LOOK_S, left_s)))
            except Empty:
                if until_s is not None and time.monotonic() >= until_s:
                    raise


class KernelClient(AsyncKernelClient):
    """A client of a kernel that misses no reply."""

    shell_channel_class = ReplyChannel


@dataclass(frozen=True, slots=True)
class _Kernel:
    """How to start one."""

    folder: Path
    environment: dict[str, str]
    started: Callable[[int], None]
    errors: IO[bytes]
    """Where its process's own output goes: ours is for the report."""


def run_notebook(
    path: str | os.PathLike[str],
    *,
    cwd: str | os.PathLike[str] | None = None,
    env: Mapping[str, str] | None = None,
    on_kernel: Callable[[int], None] | None = None,
    max_restarts: int = 10,
    output: str | os.PathLike[str] | None = None,
) -> Report:
    """Run all cells; when the kernel dies, start another one and run all cells again.

    The kernel works in ``cwd`` (default: the notebook's folder), with ``env`` on top of this process's environment.
    ``on_kernel`` is told each new kernel's process id before its first cell. The executed notebook replaces
    ``output``, whatever the end was. Returns a ``failed`` report for a cell that raised, a ``dead`` one when the
    kernel died more than ``max_restarts`` times; raises ``UsageError`` when there is nothing to run.
    """
    source = Path(path).resolve()
    original = _read(source)
    # Headless clients do not say which notebook the kernel belongs to; the task is named after it.
    environment = {**os.environ, "JPY_SESSION_NAME": str(source), **(env or {})}
    folder = source.parent if cwd is None else Path(cwd).resolve()
    began_s = time.monotonic()
    pids: list[int] = []
    notebooks: list[Any] = []

    def started(pid: int) -> None:
        pids.append(pid)
        if on_kernel is not None:
            on_kernel(pid)

    while True:
        notebooks.append(_cleared(original))
        with tempfile.TemporaryFile() as errors:
            end = _run_once(notebooks[-1], _Kernel(folder, environment, started, errors))
            words = _last_words(errors) if end == "dead" else ""
        if end != "dead" or len(pids) > max_restarts:
            break
    if output is not None:
        _write(notebooks[-1], Path(output))
    return Report(
        status=end if isinstance(end, str) else "failed",
        pids=tuple(pids),
        notebooks=tuple(notebooks),
        duration_s=time.monotonic() - began_s,
        error=end if isinstance(end, CellError) else None,
        last_words=words,
    )


def _last_words(errors: IO[bytes]) -> str:
    """What a kernel that died had written, without what Jupyter says of itself."""
    errors.seek(0)
    lines = errors.read().decode(errors="replace").strip().splitlines()
    return "\n".join(line for line in lines if not line.startswith("[IPKernelApp]"))


def _run_once(notebook: Any, kernel: _Kernel) -> Literal["completed", "dead"] | CellError:
    """One kernel's life."""
    current = 0

    def on_cell(*, cell_index: int, **_: Any) -> None:
        nonlocal current
        current = cell_index + 1

    try:
        asyncio.run(_execute(notebook, kernel, on_cell))
    except DeadKernelError:
        return "dead"
    except CellExecutionError as error:
        if error.ename == Stopped.__name__ and TERMINATED in error.evalue:
            return "dead"  # a preempted kernel says so, and ends
        return CellError(current, error.ename, error.evalue, error.traceback)
    except NoSuchKernel as error:
        raise UsageError(f"there is no kernel {error.name!r} here: choose another in the notebook") from error
    return "completed"


async def _execute(notebook: Any, kernel: _Kernel, on_cell: Callable[..., None]) -> None:
    """Execute all cells, and hear of the kernel's death at once: nbclient asks each second, and only inside a cell."""
    async with _started(notebook, kernel) as manager:
        client = NotebookClient(
            notebook,
            km=manager,
            timeout=None,
            startup_timeout=STARTUP_TIMEOUT_S,
            iopub_timeout=IOPUB_TIMEOUT_S,
            coalesce_streams=True,
            on_cell_start=on_cell,
        )
        client.log.disabled = True  # what it would say is in the report
        work = asyncio.ensure_future(_run_all(client))
        death = asyncio.ensure_future(_death(manager))
        try:
            await asyncio.wait({work, death}, return_when=asyncio.FIRST_COMPLETED)
            if not work.done():
                raise DeadKernelError("the kernel died")
            await work
        except RuntimeError as error:
            if await manager.is_alive():
                raise
            raise DeadKernelError("the kernel died") from error
        finally:
            for each in (work, death):
                each.cancel()
            await asyncio.gather(work, death, return_exceptions=True)
            if client.kc is not None:
                client.kc.stop_channels()


@contextlib.asynccontextmanager
async def _started(notebook: Any, kernel: _Kernel) -> AsyncIterator[Any]:
    """A kernel for the block; no process, port or file of it is left behind."""
    name = notebook.metadata.get("kernelspec", {}).get("name", "python3")
    manager = AsyncKernelManager(kernel_name=name, client_factory=KernelClient)
    try:
        await manager.start_kernel(
            env=kernel.environment, cwd=str(kernel.folder), stdout=kernel.errors, stderr=kernel.errors
        )
        kernel.started(getattr(manager.provisioner, "pid", 0))
        yield manager
    except asyncio.CancelledError:  # Ctrl-C here is a Ctrl-C there: the running step stops, and gives its lease back
        await manager.interrupt_kernel()
        raise
    finally:
        if manager.has_kernel:
            await manager.shutdown_kernel(now=not await manager.is_alive())
        await manager.cleanup_resources()


async def _run_all(client: NotebookClient) -> None:
    await client.async_start_new_kernel_client()
    for index, cell in enumerate(client.nb.cells):
        await client.async_execute_cell(cell, index)
    client.set_widgets_metadata()


async def _death(manager: Any) -> None:
    """Return when the kernel's process is gone."""
    while await manager.is_alive():
        await asyncio.sleep(LIFE_SIGN_S)


def _read(path: Path) -> Any:
    try:
        notebook = nbformat.read(path, as_version=4)
    except FileNotFoundError:
        raise UsageError(f"{path}: there is no such notebook") from None
    except (OSError, nbformat.reader.NotJSONError, nbformat.ValidationError, AttributeError) as error:
        raise UsageError(f"{path}: is not a notebook that can be read ({type(error).__name__})") from error
    return notebook


def _cleared(notebook: Any) -> Any:
    """A copy without outputs."""
    notebook = copy.deepcopy(notebook)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = []
            cell.execution_count = None
    return notebook


def _write(notebook: Any, path: Path) -> None:
    """Replace the file whole: a reader, or a crash, sees the old notebook or the new one."""
    draft = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}")
    try:
        nbformat.write(notebook, draft)
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
