"""The world outside the kernels: who receives the effects of tool calls, and keeps the ledger that judges."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

REFUSED = 4
"""The argument that every receiver says no to, whoever asks and whenever."""

Effect = tuple[Any, ...]
"""Tool and arguments."""


class Died(BaseException):
    """The kernel is gone: nothing in it may catch this and go on."""


class Refused(Exception):
    """The receiver said no, and did nothing. Programs handle it."""


class Down(Exception):
    """Not now: nothing has happened, and the next try may succeed. Programs do not handle it."""


FAULTS = ("down", "lost request", "lost answer")
"""``Down``; or the connection breaks before, or after, the effect."""


@dataclass
class Receiver:
    """Answers by the arguments alone. ``plain``: a run without the package asks, and nothing really happens."""

    ledger: list[Effect] = field(default_factory=list)
    asked: Counter[Effect] = field(default_factory=Counter)
    needed: Counter[Effect] = field(default_factory=Counter)
    plain: bool = False
    dead: bool = False
    fault: tuple[str, int] | None = None
    """What goes wrong at the n-th request from now on, once."""
    ticks: int = 0

    def receive(self, *what: Any) -> int:
        if self.dead:  # a thread or task of a kernel that is gone
            raise Died
        if self.plain:
            if what[-1] != REFUSED:
                self.needed[what] += 1
            return self.answer(what)
        self.asked[what] += 1
        fault = self._fault()
        if fault == "down":
            raise Down(what)
        if fault == "lost request":
            raise ConnectionResetError(what)
        answer = self.answer(what)
        self.ledger.append(what)
        if fault == "lost answer":
            raise ConnectionResetError(what)
        return answer

    def answer(self, what: Effect) -> int:
        if what[-1] == REFUSED:
            raise Refused(what)
        return (sum(map(ord, what[0])) + 3 * what[-1]) % 10

    def happened(self, *what: Any) -> bool:
        return what in self.ledger

    def tick(self) -> int:
        """Never the same twice."""
        self.ticks += 1
        return self.ticks

    def _fault(self) -> str:
        if self.fault is None:
            return ""
        kind, left = self.fault
        self.fault = (kind, left - 1) if left > 1 else None
        return "" if left > 1 else kind


now = Receiver()
"""Whom the tools of the running example call."""


def begin() -> Receiver:
    global now
    now = Receiver()
    return now


def receive(*what: Any) -> int:
    return now.receive(*what)


def happened(*what: Any) -> bool:
    return now.happened(*what)


def tick() -> int:
    return now.tick()
