"""One kernel's life: a notebook's cells from the first to the last, or to a SIGKILL."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import json
import os
import signal
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError

from resumable_nb.supervisor import KernelClient

CELL_TIMEOUT_S = 120
PROBE = Path(__file__).parent / "probe.py"
LOAD = "%load_ext resumable_nb"


@dataclass(frozen=True, slots=True)
class Kill:
    """Where a kernel is to die: in or after the code cell at this index of the notebook."""

    cell: int
    how: Literal["after", "during", "at"]
    delay_s: float = 0.0
    """``during``: how long after its start."""
    point: str = ""
    """``at``: the commit point. A cell that does not pass it is followed by the kill."""

    def __str__(self) -> str:
        where = f" {self.point}" if self.point else f" +{self.delay_s * 1000:.0f} ms" if self.how == "during" else ""
        return f"{self.how} [{self.cell}]{where}"


@dataclass(slots=True)
class Life:
    """What became of a kernel."""

    notebook: Any
    """With the outputs, as far as it came."""
    died: bool = False
    error: str = ""
    failed: int | None = None
    """Index of the cell that raised."""
    variables: dict[str, str] = field(default_factory=dict)
    """Digests at the end, by name."""
    durations_s: dict[int, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Place:
    """Where kernels of one notebook live: ``folder`` is theirs, ``private`` ours."""

    folder: Path
    private: Path
    name: str

    def environment(self) -> dict[str, str]:
        return {
            **os.environ,
            "JPY_SESSION_NAME": str(self.folder / self.name),
            "RESUMABLE_KEY_FILE": str(self.private / "key"),
            "IPYTHONDIR": str(self.private / "ipython"),
            "OPENBLAS_NUM_THREADS": "1",
            "PYTHONHASHSEED": "random",
        }

    @property
    def log(self) -> Path:
        return self.private / "events.jsonl"


async def live(notebook: Any, place: Place, *, load: bool, kill: Kill | None = None) -> Life:
    """Start a kernel and run all cells. ``load``: with the extension loaded first, where no cell does it."""
    life = Life(copy.deepcopy(notebook))
    with (place.private / "kernel.log").open("ab") as words:
        async with _started(place, words) as manager:
            work = asyncio.ensure_future(_run(life, place, manager, load, kill))
            death = asyncio.ensure_future(_death(manager))
            try:
                await asyncio.wait({work, death}, return_when=asyncio.FIRST_COMPLETED)
                if work.done():
                    await work
                else:
                    life.died = True
            except (DeadKernelError, RuntimeError) as error:
                if await manager.is_alive():
                    life.error = f"{type(error).__name__}: {error}"
                life.died = True
            finally:
                for each in (work, death):
                    each.cancel()
                await asyncio.gather(work, death, return_exceptions=True)
    return life


@contextlib.asynccontextmanager
async def _started(place: Place, words: Any) -> AsyncIterator[Any]:
    manager = AsyncKernelManager(kernel_name="python3", client_factory=KernelClient)
    try:
        await manager.start_kernel(env=place.environment(), cwd=str(place.folder), stdout=words, stderr=words)
        yield manager
    finally:
        if manager.has_kernel:
            await manager.shutdown_kernel(now=True)
        await manager.cleanup_resources()


async def _death(manager: Any) -> None:
    while await manager.is_alive():
        await asyncio.sleep(0.05)


async def _run(life: Life, place: Place, manager: Any, load: bool, kill: Kill | None) -> None:
    client = NotebookClient(life.notebook, km=manager, timeout=CELL_TIMEOUT_S, coalesce_streams=True)
    client.log.disabled = True  # what it would say is in the result
    await client.async_start_new_kernel_client()
    try:
        point = (kill.point, f"cell_{kill.cell}") if kill is not None and kill.how == "at" else ("", "")
        if load:
            await _ask(client, LOAD, silent=False)
            await _ask(client, _call("watch", str(place.log), *point))
        index = 0
        for index, cell in enumerate(life.notebook.cells):
            if cell.cell_type != "code" or not cell.source.strip():
                continue
            here = kill if kill is not None and kill.cell == index else None
            if here is not None and here.how == "during":
                asyncio.get_running_loop().call_later(here.delay_s, _kill, manager)
            began_s = time.monotonic()
            await client.async_execute_cell(cell, index)
            life.durations_s[index] = time.monotonic() - began_s
            if cell.source == LOAD:
                await _ask(client, _call("watch", str(place.log), *point))
            if here is not None:
                _kill(manager)
                await asyncio.sleep(CELL_TIMEOUT_S)  # until the death is seen
        path = place.private / "variables.json"
        await _ask(client, _call("report", path=str(path)))
        life.variables = json.loads(path.read_text())
    except CellExecutionError as error:
        life.failed = index
        life.error = f"cell [{index}] raised {error.ename}: {error.evalue}"
    except CellTimeoutError:
        life.failed = index
        life.error = f"cell [{index}] ran for {CELL_TIMEOUT_S} s"
    finally:
        client.kc.stop_channels()


def _kill(manager: Any) -> None:
    with contextlib.suppress(ProcessLookupError):
        if manager.has_kernel:
            os.kill(manager.provisioner.pid, signal.SIGKILL)


def _call(function: str, *arguments: str, path: str = "") -> str:
    """Code that calls a function of the probe and leaves no name behind."""
    given = ", ".join(map(repr, arguments)) or f"get_ipython(), {path!r}"
    return (
        "(lambda names: (exec(compile(open({0!r}).read(), {0!r}, 'exec'), names), names[{1!r}]({2})))"
        "({{'__name__': 'probe'}}) and None"
    ).format(str(PROBE), function, given)


async def _ask(client: NotebookClient, code: str, *, silent: bool = True) -> None:
    """Execute code that is not counted. Raises ``RuntimeError`` with its traceback."""
    reply = await client.kc.execute_interactive(
        code, silent=silent, store_history=False, timeout=CELL_TIMEOUT_S, output_hook=lambda _: None
    )
    if reply["content"]["status"] != "ok":
        raise RuntimeError("\n".join(reply["content"]["traceback"]))
