"""A notebook in this process: steps and plain cells over a session, in one kernel after another."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

from resumable_nb import block, scope, session, step
from resumable_nb.execution import StepSpec
from resumable_nb.magics.blocks import BlockRewriter
from resumable_nb.model import StepOptions
from resumable_nb.session import Session
from resumable_nb.source import analyse
from resumable_nb.store.memory import MemoryStore
from tests.notebook import body

Cell = tuple[str, str]
"""A step's name, or ``""`` for a plain cell, and the text."""


PAY = """
import sys
def pay(n):
    sys.modules["tests.lives"].ran.append(n)
"""
ran: list[Any] = []


class Lives:
    """Kernels, one after another, on one store; each is gone without a farewell when the next one starts."""

    def __init__(self, base: Path) -> None:
        self.store, self.base = MemoryStore(), base
        self.restart()

    def restart(self) -> None:
        if hasattr(self, "session"):
            self.session.lease.release()
        self.variables: dict[str, Any] = {"__name__": "__main__", "step": step}
        exec(PAY, self.variables)
        self.session = Session("t", self.store, live=self.variables, base=self.base, lazy=True)
        session._open[:] = [self.session]

    def run(self, *cells: Cell) -> list[Any]:
        """The steps that ran, and what was paid."""
        ran.clear()
        for name, text in cells:
            scope.reset()
            if name:
                spec = StepSpec(name, name, "cell", body(text), text, StepOptions(), self.base)
                self.session.runner.run(spec, self.session.space, lambda name=name, text=text: self._step(name, text))
            else:
                self.session.runner.settle(body(text), self.session.space)
                self.session.load(body(text))
                self._execute(text)
        return list(ran)

    def _step(self, name: str, text: str) -> None:
        ran.append(name)
        self._execute(text)

    def _execute(self, text: str) -> None:
        exec(compile(BlockRewriter(block.register).rewrite(ast.parse(text)), "<cell>", "exec"), self.variables)

    def value(self, name: str) -> Any:
        self.session.load(analyse(ast.parse(name)))
        return self.variables[name]

    def close(self) -> None:
        self.session.close()
        session._open.clear()
