"""Kernels that run cells, die at a commit point, and leave to the next one what was on disk: all in this process."""

from __future__ import annotations

import ast
import asyncio
import contextlib
import contextvars
import inspect
import warnings
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from resumable_nb import Happened, NotHappened, block, scope, session, step, tool, track
from resumable_nb.events import Bus, Event
from resumable_nb.execution import StepSpec
from resumable_nb.lease import ROW
from resumable_nb.magics.blocks import BlockRewriter
from resumable_nb.model import MISSING, CallRecord, Owner, StepOptions
from resumable_nb.session import Session
from resumable_nb.source import analyse
from resumable_nb.store.base import Guard
from resumable_nb.store.memory import MemoryStore
from resumable_nb.tools import CollapseWarning
from tests.machine import receiver
from tests.machine.programs import VARIABLES, Cell, Setup
from tests.machine.receiver import Died, Refused


@dataclass(frozen=True)
class Death:
    """At the n-th time that this point is passed. ``power``: what was not fsynced is gone as well."""

    point: str
    n: int
    power: bool = False


class Disk(MemoryStore):
    """What one kernel sees of the rows that all share. A kernel that is dead writes nothing any more."""

    def __init__(self, bus: Bus, last: Disk | None = None) -> None:
        super().__init__(bus=bus)
        self.dead = False
        self._synced: dict[str, bytes] = {}
        if last is not None:
            self._rows, self._packs, self._synced = last._rows, last._packs, last._synced

    def commit(
        self,
        puts: Mapping[str, bytes],
        deletes: Collection[str] = (),
        *,
        guard: Guard | None = None,
        durable: bool = True,
    ) -> None:
        with self._lock:
            if self.dead:
                raise Died
            super().commit(puts, deletes, guard=guard, durable=durable)
            if durable:
                self._synced = dict(self._rows)

    def lose_power(self) -> None:
        self._rows = dict(self._synced)

    def free(self) -> None:
        """The owner's process is one that lives no more."""
        if ROW in self._rows:
            owner = msgspec.json.decode(self._rows[ROW], type=Owner)
            self._rows[ROW] = msgspec.json.encode(msgspec.structs.replace(owner, pid_started="long ago"))


class Kernel:
    """One process's life: its variables, its session, and the cells that it runs as the magics would."""

    def __init__(self, base: Path, last: Disk | None = None) -> None:
        self.bus = Bus()
        self.disk = Disk(self.bus, last)
        self.death: Death | None = None
        self.seen: Counter[str] = Counter()
        self.open: set[str] = set()
        """Calls whose intent is recorded, and no end."""
        self.variables: dict[str, Any] = {"__name__": "__main__", **names()}
        self.session = Session("machine", self.disk, live=self.variables, base=base, lazy=True, bus=self.bus)
        self.session.lease._beat_s = 3600  # a heart beats whenever it likes, and would be the n-th to pass a point
        self.ready = False
        self._context = contextvars.Context()
        self.bus.listen(self._watch)
        receiver.now.dead = False
        session._open[:] = [self.session]
        session._serve()

    def _watch(self, event: Event) -> None:
        if self.disk.dead:
            raise Died
        self.seen[event.kind] += 1
        match event.kind:
            case "call.intent_committed":
                self.open.add(event.facts["id"])
            case "call.result_committed":
                self.open.discard(event.facts["id"])
        death = self.death
        if death is not None and event.kind == death.point and self.seen[event.kind] == death.n:
            self.disk.dead = receiver.now.dead = True
            raise Died

    def arm(self, death: Death | None) -> None:
        self.seen.clear()
        self.death = death

    def do(self, act: Callable[[], Any]) -> BaseException | None:
        """What came of it; this kernel's own context variables are about it."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CollapseWarning)
            try:
                self._context.run(act)
            except (Exception, Died) as error:
                return error
        assert not self.disk.dead, "a death was swallowed"
        return None

    def set_up(self, setup: Setup) -> BaseException | None:
        self.ready = True
        return self.do(lambda: self._plain(setup.text))

    def step(self, cell: Cell) -> BaseException | None:
        return self.do(lambda: self._step(cell))

    def _plain(self, text: str) -> None:
        scope.reset()
        body = analyse(ast.parse(text))
        self.session.runner.settle(body, self.session.space)
        if self.session.snapshots.pending():
            self.session.load(body)
        execute(text, self.variables)

    def _step(self, cell: Cell) -> None:
        scope.reset()
        self.session.control.begin()
        body, options = analyse(ast.parse(cell.text)), StepOptions(**cell.options)
        spec = StepSpec(cell.name, cell.name, "cell", body, cell.text, options, self.session.base)
        self.session.specs[spec.id] = spec
        execution = self.session.runner.enter(spec, self.session.space)
        error: BaseException | None = None
        if execution.pending:
            try:
                execute(cell.text, self.variables)
            except BaseException as raised:
                error = raised
        self.session.runner.leave(execution, self.session.space, error=error, result=MISSING)
        if error is not None:
            raise error

    def state(self) -> dict[str, Any]:
        assert self.do(self.session.load_all) is None
        return state(self.variables)

    def calls(self) -> list[CallRecord]:
        return self.session.journal.calls()

    def end(self, *, power: bool = False) -> None:
        """The process ends, in good order only if it lives still."""
        power = power or (self.disk.dead and self.death is not None and self.death.power)
        with contextlib.suppress(Died):
            self.session.close()
        session._open.clear()
        if self.disk.dead:
            if power:
                self.disk.lose_power()
            self.disk.free()

    def kill(self, *, power: bool) -> None:
        self.death = Death("", 0, power)
        self.disk.dead = True
        self.end()


def names() -> dict[str, Any]:
    return {
        "tool": tool, "step": step, "track": track,
        "Happened": Happened, "NotHappened": NotHappened, "Refused": Refused,
    }  # fmt: skip


def execute(text: str, variables: dict[str, Any]) -> None:
    tree = BlockRewriter(block.register).rewrite(ast.parse(text))
    run(tree, variables)


def run(tree: ast.Module, variables: dict[str, Any]) -> None:
    code = compile(tree, "<cell>", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    result = eval(code, variables)
    if inspect.iscoroutine(result):
        asyncio.run(result)


def state(variables: Mapping[str, Any]) -> dict[str, Any]:
    """What a program has left, with which names are one object."""
    found = {name: variables[name] for name in VARIABLES if name in variables}
    if found.get("big") is not None:
        found["big"] = float(found["big"].sum())
    lists = [found[name] for name in ("ws", "xs", "ys", "zs") if name in found]
    lists += found["es"].values() if type(found.get("es")) is dict else found.get("es", [])
    return {**found, "one list": [[one is other for other in lists] for one in lists]}


@dataclass(frozen=True)
class Plain:
    """What a run without the package does: how it ends, and which effects it needs."""

    stopped: int | None
    """The cell that raises, with the type of its error."""
    error: type[BaseException] | None
    state: dict[str, Any]
    needed: Counter[receiver.Effect]


def plain_run(setup: Setup, cells: Collection[Cell]) -> Plain:
    real = receiver.now
    receiver.now = outside = receiver.Receiver(plain=True)
    variables: dict[str, Any] = {**names(), "__name__": "__main__", "step": lambda _: contextlib.nullcontext()}
    variables |= {"tool": _same, "track": lambda items, *_, **__: items}
    done, stopped, error = 0, None, None
    try:
        run(ast.parse(setup.text), variables)
        for cell in cells:
            run(ast.parse(cell.text), variables)
            done += 1
    except Exception as raised:
        stopped, error = done, type(raised)
    finally:
        receiver.now = real
    return Plain(stopped, error, state(variables), outside.needed)


def _same(function: Any = None, **_: Any) -> Any:
    return function or _same
