"""Random programs of calls, errors, crashes, edits and re-runs keep the promises."""

from __future__ import annotations

import ast
import contextlib
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from resumable_nb.errors import InDoubt, UsageError
from resumable_nb.events import COMMIT_POINTS
from resumable_nb.task import Task
from tests.machine import receiver
from tests.machine.kernel import Death, Kernel, Plain, plain_run
from tests.machine.programs import Cell, Setup, bodies, setups
from tests.machine.receiver import FAULTS, Died, Down, Effect, Refused

pytestmark = pytest.mark.sweep

EXAMPLES = 300
"""In each of the parts, which run beside each other."""

SEED = int(os.environ.get("MACHINE_SEED", "0"))
"""The same programs each time; other ones are looked through with another number."""

ONCE = {"pay", "apay", "ship", "vote", "stamp"}
"""Tools whose identical calls are one call in the whole task."""

PASSING = (Died, InDoubt, UsageError, Down, ConnectionResetError)
"""What ends a Run All, and no later one need meet."""

TRIES = 40

CALL_POINTS = [point for point in COMMIT_POINTS if point.startswith("call.")]
points = st.sampled_from([*COMMIT_POINTS, *CALL_POINTS, *CALL_POINTS])
deaths = st.builds(Death, points, st.integers(1, 4), st.booleans())
faults = st.tuples(st.sampled_from(FAULTS), st.integers(1, 4))
troubles = (
    st.tuples(st.none(), st.none()) | st.tuples(deaths, st.none() | faults) | st.tuples(deaths | st.none(), faults)
)
places = st.integers(0, 2)


Trouble = tuple[Death | None, tuple[str, int] | None]


class Machine(RuleBasedStateMachine):
    """Somebody works on a notebook of three cells. The ledger judges, and a run without the package."""

    finished = 0

    def __init__(self) -> None:
        super().__init__()
        self.receiver = receiver.begin()
        self.base = Path(tempfile.gettempdir())
        self.setup = Setup()
        self.cells: list[Cell] = []
        self.allowed: Counter[Effect] = Counter()
        self.kernel = Kernel(self.base)
        self._plain: Plain | None = None

    @initialize(setup=setups, texts=st.tuples(bodies, bodies, bodies), undo=st.booleans())
    def write(self, setup: Setup, texts: tuple[str, str, str], undo: bool) -> None:
        self.setup = setup
        self.cells = [Cell(f"s{n}", text, undo and n == 1) for n, text in enumerate(texts)]
        for cell in self.cells:
            self._written(cell)

    # --- what the user does

    @rule(place=places, body=bodies, undo=st.booleans())
    def edit(self, place: int, body: str, undo: bool) -> None:
        self.cells[place] = Cell(self.cells[place].name, body, undo)
        self._written(self.cells[place])

    @rule(setup=setups)
    def change_inputs(self, setup: Setup) -> None:
        self.setup = setup
        self._plain = None

    @rule(place=places)
    def move_up(self, place: int) -> None:
        self.cells.insert(0, self.cells.pop(place))
        self._plain = None

    @rule(first=troubles, second=troubles)
    def run_all(self, first: Trouble, second: Trouble) -> None:
        for trouble in (first, second):
            with self._trouble(trouble):
                self._judge(*self._run_all())

    @rule(place=places, trouble=troubles)
    def run_one(self, place: int, trouble: Trouble) -> None:
        """As users do, in whatever state the kernel is."""
        with self._trouble(trouble):
            error = None if self.kernel.ready else self.kernel.set_up(self.setup)
            self._told(error or self.kernel.step(self.cells[place]), (Refused,))

    @rule(power=st.booleans())
    def kill(self, power: bool) -> None:
        self.kernel.kill(power=power)
        self._restarted()

    @rule()
    def restart(self) -> None:
        self._restarted()

    @rule(place=places)
    def run_again(self, place: int) -> None:
        name = self.cells[place].name
        if any(record.id == name for record in self.kernel.session.journal.steps()):
            self._told(self.kernel.do(lambda: Task(self.kernel.session).rerun(name)))

    @rule(trouble=troubles)
    def undo(self, trouble: Trouble) -> None:
        with self._trouble(trouble):
            self._told(self._compensate())

    # --- what holds always, and at the end

    @invariant()
    def no_effect_is_there_twice(self) -> None:
        for effect, count in Counter(self.receiver.ledger).items():
            if effect[0] in ONCE:
                assert count == 1, effect
            elif effect[0] == "note":
                assert count <= self.allowed[effect], effect
            elif effect[0] == "book":
                assert self._booked(effect) in (0, 1), effect

    def teardown(self) -> None:
        try:
            if sys.exception() is None:
                self._finish()
                Machine.finished += 1
        finally:
            self.kernel.end()

    def _finish(self) -> None:
        """Run All until it ends well, or as a plain run does; then nothing runs any more."""
        for _ in range(TRIES):
            stopped, error = self._run_all()
            if not isinstance(error, PASSING):
                break
            self._told(error)
        self._judge(stopped, error)
        self.no_effect_is_there_twice()
        if stopped is not None:
            return
        for restart in (False, True):
            if restart:
                self.kernel.kill(power=True)
                self._restarted()
            asked = self.receiver.asked.copy()
            self.kernel.arm(None)
            self._judge(*self._run_all())
            assert self.kernel.seen["step.begun"] == 0
            assert self.receiver.asked == asked

    # --- how

    @contextlib.contextmanager
    def _trouble(self, trouble: Trouble) -> Iterator[None]:
        death, fault = trouble
        self.kernel.arm(death)
        self.receiver.fault = fault
        yield
        self.kernel.arm(None)
        self.receiver.fault = None

    def _written(self, cell: Cell) -> None:
        """Each time that the cell asks for a note, by the most that any of its texts does."""
        self._plain = None
        needed = plain_run(self.setup, [cell]).needed
        self.allowed |= Counter({effect: count for effect, count in needed.items() if effect[0] == "note"})

    def _run_all(self) -> tuple[int | None, BaseException | None]:
        error = self.kernel.set_up(self.setup)
        assert error is None, error
        for n, cell in enumerate(self.cells):
            error = self.kernel.step(cell)
            if error is not None:
                return n, error
        return None, None

    def _judge(self, stopped: int | None, error: BaseException | None) -> None:
        """A Run All that nothing has disturbed is as one of a plain kernel, and each effect that it needs is there."""
        if isinstance(error, PASSING):
            self._told(error)
            return
        plain = self._plain = self._plain or plain_run(self.setup, self.cells)
        if (stopped, type(error)) != (plain.stopped, plain.error or type(None)):
            raise AssertionError(f"it stopped at {stopped}, a plain run at {plain.stopped}") from error
        if error is not None:
            return
        state = self.kernel.state()
        assert state == plain.state, (state, plain.state)
        ledger = Counter(self.receiver.ledger)
        for effect, count in plain.needed.items():
            if effect[0] == "book":
                assert self._booked(effect) == 1, effect
            else:
                assert ledger[effect] >= (count if effect[0] == "note" else 1), effect

    def _told(self, error: BaseException | None, expected: tuple[type[BaseException], ...] = ()) -> None:
        """The user reads the error, and does what it says."""
        self.receiver.fault = None
        match error:
            case Died():
                self._restarted()
            case InDoubt():
                self.kernel.arm(None)
                self._resolve(error)
            case UsageError() if "the rollback of" in error.message:
                self.kernel.arm(None)
                self._told(self._compensate())
            case None | Down() | ConnectionResetError():
                pass
            case _ if not isinstance(error, expected):
                raise AssertionError("nothing in the program raises this") from error

    def _resolve(self, error: InDoubt) -> None:
        """Look into the ledger, and say what became of the call."""
        record = self.kernel.session.journal.find_call(error.facts["id"])
        assert record.status == "intent"
        assert record.id in self.kernel.open, "its end was recorded"
        assert record.tool not in ("fetch", "ship"), "nobody has to be asked"
        arguments = [ast.literal_eval(text) for name, text in record.arguments.items() if name != "at"]
        effect = (record.tool, *arguments)
        if record.tool == "note":
            ends = [each.arguments for each in self.kernel.calls() if each.tool == "note" and each.status == "done"]
            happened = self.receiver.ledger.count(effect) > ends.count(record.arguments)
        elif record.tool in ("book", "unbook"):
            happened = self._booked(("book", *arguments)) == (record.tool == "book")
        else:
            happened = effect in self.receiver.ledger
        value = self.receiver.answer(effect) if happened else None
        assert self.kernel.do(lambda: Task(self.kernel.session).resolve(record.id, happened, value)) is None

    def _booked(self, effect: Effect) -> int:
        ledger = self.receiver.ledger
        return ledger.count(effect) - ledger.count(("unbook", *effect[1:]))

    def _compensate(self) -> BaseException | None:
        error = None if self.kernel.ready else self.kernel.set_up(self.setup)
        return error or self.kernel.do(lambda: Task(self.kernel.session).compensate())

    def _restarted(self) -> None:
        self.kernel.end()
        last, self.kernel = self.kernel, Kernel(self.base, self.kernel.disk)
        self.kernel.open = last.open


@pytest.mark.parametrize("part", range(4))
def test_random_programs_keep_the_promises(part: int) -> None:
    chosen = settings(
        max_examples=EXAMPLES,
        stateful_step_count=5,
        derandomize=False,
        database=None,
        deadline=None,
        print_blob=True,
        suppress_health_check=list(HealthCheck),
    )
    before = Machine.finished
    run_state_machine_as_test(seed(SEED + part)(Machine), settings=chosen)
    assert Machine.finished - before >= EXAMPLES
