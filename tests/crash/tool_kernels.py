"""Processes that call one tool, and may die on the way.

Reads one JSON order a line; forks for each, so that only the first process pays for the imports; prints how the fork
ended. A fork tells what it saw in files of the order's folder: ``ledger`` (one fsynced line an effect), ``trace`` (one
line an event), ``outcome`` (JSON, when it lived).
"""

from __future__ import annotations

import ast
import asyncio
import json
import os
import signal
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from resumable_nb import scope, tools
from resumable_nb.errors import InDoubt
from resumable_nb.events import Bus, Event
from resumable_nb.journal import Journal
from resumable_nb.lease import Lease
from resumable_nb.scope import StepScope
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
    return (lambda order: asyncio.run(call(order))) if is_async else call  # type: ignore[arg-type]  # a coroutine where it is async


class Refused(Exception):
    """The receiver said no, and did nothing."""


def make_row(folder: Path, kind: str, *, is_async: bool) -> Callable[[], Any]:
    """A body of a step for a row of the table of what may become of a call; ``asked`` has a line a try."""

    def effect(order: str, idempotency_key: str = "") -> list[str]:
        append(folder / "asked", order, sync=False)
        if order == "bad" or (kind in ("failed", "retries") and lines(folder / "asked").count(order) == 1):
            raise Refused(order)
        append(folder / "ledger", f"{order} {idempotency_key}".strip() if kind == "keyed" else order, sync=True)
        return [order, "paid"]

    async def effect_async(order: str, idempotency_key: str = "") -> list[str]:
        await asyncio.sleep(0)
        return effect(order, idempotency_key)

    options: dict[str, Any] = {
        "each_call": {"each_call": True},
        "keyed": {"repeatable": True},
        "retries": {"retries": 2, "retry_on": Refused, "backoff": 0},
        "terminal": {"terminal": Refused},
    }.get(kind, {})
    pay = tools.tool(effect_async if is_async else effect, name="pay", **options)

    def call(order: str) -> Any:
        return asyncio.run(pay(order)) if is_async else pay(order)  # type: ignore[arg-type]  # a coroutine where it is async

    def handled() -> Any:
        try:
            call("bad")
        except Refused:
            call("instead")
        return call("o1")

    async def gathered() -> Any:
        return await asyncio.gather(*[pay(order) for order in MANY])  # type: ignore[arg-type]  # a coroutine where it is async

    def together() -> Any:
        if is_async:
            return asyncio.run(gathered())
        with ThreadPoolExecutor(8) as pool:
            return list(pool.map(pay, MANY))

    rows: dict[str, Callable[[], Any]] = {
        "handled": handled,
        "terminal": handled,
        "each_call": lambda: [call("o1") for _ in range(3)],
        "together": together,
    }
    return rows.get(kind, lambda: call("o1"))


MANY = [f"o{n}" for n in range(50)]


def settle(folder: Path, journal: Journal) -> None:
    """Somebody looks into the ledger, and says of each call that is in doubt what became of it."""
    ledger = lines(folder / "ledger")
    records = journal.calls()
    for record in records:
        name = ast.literal_eval(record.arguments["order"])
        if record.status == "intent" and not record.repeatable:
            others = sum(each.status == "done" and each.arguments == record.arguments for each in records)
            tools.resolve_call(journal, record.id, ledger.count(name) > others, [name, "paid"])


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
    if order.get("settle"):
        settle(folder, journal)
    try:
        if "row" in order:
            with scope.entered(StepScope("s", continuing=order["again"], unchanged=order["again"])):
                outcome: Any = make_row(folder, order["row"], is_async=order["is_async"])()
        else:
            outcome = make_tool(folder, order["kind"], is_async=order["is_async"])("o1")
    except InDoubt:
        outcome = "in doubt"
    except Refused:
        outcome = "refused"
    (folder / "outcome").write_text(json.dumps(outcome))
    lease.release()
    store.close()


def serve(run: Callable[[dict[str, Any]], None]) -> None:
    """Fork for each order that comes in."""
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            run(json.loads(line))
            os._exit(0)
        _, status = os.waitpid(pid, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    serve(run)
