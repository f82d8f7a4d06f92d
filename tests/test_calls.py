"""Promise 2 as a property: whatever happens on the way, an effect happens once."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from resumable_nb import tools
from resumable_nb.errors import InDoubt
from resumable_nb.events import Event
from resumable_nb.tools import Happened, NotHappened, resolve_call, tool
from tests.bench import Bench, Effect

POINTS = ("call.intent", "call.intent_committed", "call.returned", "call.result", "call.result_committed")


class Death(BaseException):
    """The process is gone: nothing that it does afterwards reaches the store."""


class Refused(Exception):
    """The receiver said no, and did nothing."""


class World:
    """One bench, one receiver, and a script of what befalls each attempt."""

    def __init__(self, kind: str) -> None:
        self.bench = Bench()
        self.effect = Effect()
        self.fate = ""
        self.bench.bus.listen(self._die)
        options = {"reconcile": {"reconcile": self._look}, "retries": {"retries": 2, "retry_on": Refused}}
        self.pay = tool(self._pay, name="pay", ignore="self", **options.get(kind, {}))  # type: ignore[call-overload]  # options as the test has them
        tools.use(self.bench.desk)

    def _die(self, event: Event) -> None:
        if event.kind == self.fate:
            self.bench.fence.lost = True
            raise Death

    def _look(self, order: str) -> Happened | NotHappened:
        return Happened("paid") if self.effect.calls else NotHappened()

    def _pay(self, order: str) -> str:
        if self.fate == "refused":
            raise Refused
        self.effect(order)
        match self.fate:
            case "lost":
                raise ConnectionError
            case "interrupt":
                raise KeyboardInterrupt
            case _:
                return "paid"

    def attempt(self, fate: str) -> str:
        """How one attempt in a new kernel ends; a doubt is settled by who can see the receiver."""
        self.bench.restart()
        self.fate = fate
        try:
            return str(self.pay("o1"))
        except InDoubt as doubt:
            self.fate = ""
            resolve_call(self.bench.journal, doubt.id, bool(self.effect.calls), "paid")
            return "in doubt"
        except (Death, Refused, ConnectionError, KeyboardInterrupt) as error:
            return type(error).__name__


@pytest.mark.parametrize("kind", ["plain", "reconcile", "retries"])
@settings(max_examples=60, deadline=None)
@given(fates=st.lists(st.sampled_from([*POINTS, "refused", "lost", "interrupt"]), max_size=5))
def test_an_effect_happens_once(kind: str, fates: list[str]) -> None:
    world = World(kind)
    for fate in fates:
        if world.attempt(fate) == "paid":
            assert len(world.effect) == 1
        assert len(world.effect) <= 1
    ends = [world.attempt("") for _ in range(2)]
    assert ends[-1] == "paid"
    assert (ends[0] == "in doubt") <= (kind != "reconcile")
    assert len(world.effect) == 1
    assert world.bench.only().n == 0
