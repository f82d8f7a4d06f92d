"""Processes that call one tool, and may die on the way.

Reads one JSON order a line; forks for each, so that only the first process pays for the imports; prints how the fork
ended. A fork tells what it saw in files of the order's folder: ``ledger`` (one fsynced line an effect), ``trace`` (one
line an event), ``outcome`` (JSON, when it lived).
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from resumable_nb import tools
from resumable_nb.errors import InDoubt
from resumable_nb.events import Bus, Event
from resumable_nb.journal import Journal
from resumable_nb.lease import Lease
from resumable_nb.store.disk import DiskStore
from resumable_nb.store.seal import user_key
from resumable_nb.tools import Desk, Happened, NotHappened


def append(path: Path, line: str, *, sync: bool) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(fd, f"{line}\n".encode())
    if sync:
        os.fsync(fd)
    os.close(fd)


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def watcher(folder: Path, point: str, nth: int, how: str) -> Callable[[Event], None]:
    passed = 0

    def watch(event: Event) -> None:
        nonlocal passed
        append(folder / "trace", event.kind, sync=False)
        passed += event.kind == point
        if event.kind == point and passed == nth:
            if how == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            os._exit(9)

    return watch


def make_tool(folder: Path, kind: str, *, is_async: bool) -> Callable[[str], Any]:
    def effect(order: str) -> list[str]:
        append(folder / "ledger", order, sync=True)
        return [order, "paid"]

    async def effect_async(order: str) -> list[str]:
        await asyncio.sleep(0)
        return effect(order)

    def look(order: str) -> Happened | NotHappened:
        return Happened([order, "paid"]) if order in lines(folder / "ledger") else NotHappened()

    options: dict[str, Any] = {"repeatable": {"repeatable": True}, "reconcile": {"reconcile": look}}.get(kind, {})
    call = tools.tool(effect_async if is_async else effect, name="pay", **options)
    return (lambda order: asyncio.run(call(order))) if is_async else call  # type: ignore[arg-type]


def run(order: dict[str, Any]) -> None:
    folder = Path(order["folder"])
    bus = Bus()
    bus.listen(watcher(folder, order.get("point", ""), order.get("nth", 1), order.get("how", "exit")))
    store = DiskStore(folder / "store", bus=bus)
    lease = Lease(store, run=f"run-{os.getpid()}", bus=bus, beat_s=3600)
    journal = Journal(store, lease, bus)

    def desk() -> Desk:
        journal.own()
        incarnation = journal.ensure_task("crash").incarnation
        return Desk(journal=journal, incarnation=incarnation, run=f"run-{os.getpid()}", key=user_key(), bus=bus)

    tools.use(desk)
    if "resolve" in order:
        (record,) = journal.calls()
        tools.resolve_call(journal, record.id, order["resolve"], ["o1", "resolved"])
    try:
        outcome: Any = make_tool(folder, order["kind"], is_async=order["is_async"])("o1")
    except InDoubt:
        outcome = "in doubt"
    (folder / "outcome").write_text(json.dumps(outcome))
    lease.release()
    store.close()


def main() -> None:
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            run(json.loads(line))
            os._exit(0)
        _, status = os.waitpid(pid, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    main()
