"""Processes that roll back, and may die on the way.

Reads one JSON order a line; forks for each; prints how the fork ended. In the order's folder ``ledger`` has one fsynced
line an effect; the test reads it. With ``fail`` the step makes its calls and fails for good, so that it is undone;
without, the process goes on with what is left to undo, and then makes the calls anew.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from resumable_nb import tools
from resumable_nb.errors import InDoubt
from resumable_nb.events import Bus
from resumable_nb.execution import StepSpec
from resumable_nb.model import StepOptions
from resumable_nb.session import Session
from resumable_nb.source import Body
from resumable_nb.store.disk import DiskStore
from resumable_nb.task import Task
from resumable_nb.tools import Happened, NotHappened, tool
from tests.crash.tool_kernels import append, lines, serve, watcher

ORDERS = ("a", "b", "c")


def define(folder: Path, *, is_async: bool, reconcile: bool) -> Any:
    """The tools, as the cell that defines them does in every kernel."""

    def look(kind: str) -> Any:
        return lambda order, result: Happened(order) if f"{kind} {order}" in lines(folder / "ledger") else NotHappened()

    def refund(order: str, result: str) -> str:
        assert result == f"receipt {order}"
        append(folder / "ledger", f"refund {order}", sync=True)
        return order

    async def refund_async(order: str, result: str) -> str:
        await asyncio.sleep(0)
        return refund(order, result)

    asks = {"reconcile": look("refund")} if reconcile else {}
    undo = tool(refund_async if is_async else refund, name="refund", **asks)

    @tool(compensate=undo)
    def charge(order: str) -> str:
        append(folder / "ledger", f"charge {order}", sync=True)
        return f"receipt {order}"

    return charge


def run(order: dict[str, Any]) -> None:
    folder = Path(order["folder"])
    bus = Bus()
    session = Session(
        "crash", DiskStore(folder / "store", bus=bus), live={"__name__": "__main__"}, base=folder, bus=bus
    )
    tools.use(session.desk)
    charge = define(folder, is_async=order["is_async"], reconcile=order["reconcile"])
    spec = StepSpec("buy", "buy", "cell", Body("buy"), "buy", StepOptions(on_error="compensate"), folder)

    def body() -> None:
        for each in ORDERS:
            charge(each)
        if order["fail"]:
            bus.listen(watcher(folder, order["point"], order["nth"], order["how"]))
            raise ValueError

    told: Any = "done"
    try:
        if "resolve" in order:
            Task(session).resolve(order["resolve"], order["happened"], order.get("value"))
        session.runner.run(spec, session.space, body)
    except ValueError:
        told = "undone"
    except InDoubt as error:
        told = [error.id, error.arguments["order"].strip("'")]
    (folder / "outcome").write_text(json.dumps(told))
    session.close()


if __name__ == "__main__":
    serve(run)
