"""The life of a cell: marked as text, rewritten as a tree, entered by its first statement, left after its last."""

from __future__ import annotations

import ast
import asyncio
import linecache
import shlex
import sys
import threading
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

from resumable_nb import block, origins, plan, scope, session
from resumable_nb.errors import ResumableError, UsageError
from resumable_nb.events import Event
from resumable_nb.execution import Execution, StepSpec
from resumable_nb.magics import blocks, complete, configuration, rewrite
from resumable_nb.magics.late import Outside, Results, bring_back, bring_back_results
from resumable_nb.magics.notice import Waiting, say
from resumable_nb.magics.options import cell_options
from resumable_nb.magics.progress import Progress
from resumable_nb.magics.rehearsal import Rehearsal
from resumable_nb.magics.signals import Signals
from resumable_nb.magics.traces import unmarked
from resumable_nb.model import MISSING, step_path
from resumable_nb.output import Recorder, replay
from resumable_nb.source import Body, analyse
from resumable_nb.wording import clock_time, duration, few, plural


@dataclass(slots=True)
class Cell:
    """One execution of a cell."""

    info: Any
    """What the shell calls this execution."""
    text: str
    before: dict[str, int]
    """Names and identities when it started."""
    body: Body | None = None
    """Of a ``%%resumable`` cell, once it was parsed."""
    set_up: tuple[configuration.Line, ...] = ()
    """The magics of a ``%%resumable`` cell that run even when it is skipped."""
    plain: Body | None = None
    """Of a plain cell, once it was parsed."""
    execution: Execution | None = None
    recorder: Recorder | None = None
    unmute: Callable[[], None] | None = None


@dataclass(slots=True)
class Hooks:
    """What is hung into one IPython shell. All of it acts in the main thread alone: subshells fire the events too."""

    shell: Any
    _cells: list[Cell] = field(default_factory=list)
    """The running cell, behind those whose magics run it (``%%capture``)."""
    _owners: dict[str, str | None] = field(default_factory=dict)
    """Step id to the cell that it was last entered from, where the front end tells."""
    _main: threading.Thread = field(default_factory=threading.main_thread)
    _results: Results = field(init=False)
    _outside: Outside = field(init=False)
    _signals: Signals = field(init=False)
    _progress: Progress = field(init=False)
    _settle: Callable[[], None] = lambda: None
    _uncomplete: Callable[[], None] = field(init=False)
    _filter: Callable[[list[str]], list[str]] = field(init=False)
    _rehearsal: Rehearsal = field(init=False)

    def __post_init__(self) -> None:
        self._results = Results(self.shell)
        self._outside = Outside(self.shell, self._results)
        self._signals = Signals(self.shell)
        self._progress = Progress(self.shell)
        self._rehearsal = Rehearsal(self.shell)

    @property
    def cell(self) -> Cell | None:
        return self._cells[-1] if self._cells else None

    def install(self) -> None:
        self.shell.input_transformers_cleanup.append(rewrite.mark)
        self._filter = rewrite.filtered(self._prefilter)
        self.shell.input_transformers_post.append(self._filter)
        self.shell.ast_transformers.append(self)
        self.shell.events.register("pre_run_cell", self.pre_run_cell)
        self.shell.events.register("post_run_cell", self.post_run_cell)
        self._outside.install()
        self._uncomplete = complete.install(self.shell)
        session.set_shell(self, self._progress, self.tell, self._on_event, Waiting(self.shell))

    def uninstall(self) -> None:
        if session.is_open():
            session.current().load_all()
            self._results.load((), everything=True)
        self.shell.input_transformers_cleanup.remove(rewrite.mark)
        self.shell.input_transformers_post.remove(self._filter)
        self.shell.ast_transformers.remove(self)
        self.shell.events.unregister("pre_run_cell", self.pre_run_cell)
        self.shell.events.unregister("post_run_cell", self.post_run_cell)
        self._outside.uninstall()
        self._uncomplete()
        session.set_shell(None)

    def _prefilter(self, line: str) -> str:
        with self.shell.builtin_trap:
            return str(self.shell.prefilter_manager.prefilter_lines(line))

    def pre_run_cell(self, info: Any) -> None:
        if threading.current_thread() is not self._main:
            return
        del self._cells[_outer_cells() :]  # an execution that was cancelled may never have been left
        if not self._cells:
            scope.reset()
        text = info.raw_cell or ""
        self._cells.append(Cell(info, text, {name: id(value) for name, value in self.shell.user_ns.items()}))
        message = rewrite.misplaced(text)
        session.set_problem(UsageError(message) if message else None)
        if len(self._cells) == 1:
            self._settle = self._progress.since()
        if len(self._cells) == 1 and session.is_open():
            session.current().control.begin()
            self._signals.install()

    def visit(self, tree: ast.Module) -> ast.Module:
        """IPython's hook for syntax trees, of silent executions too.

        A transformer that raises is thrown out for good: so it is the cell that raises, as its first act.
        """
        if session.has_problem():
            return rewrite.raising(tree, f"{_SESSION}.raise_problem()")
        if self.cell is not None and threading.current_thread() is self._main and rewrite.is_entered(tree):
            statements = rewrite.body_of(tree)
            _tell_history(self.shell)
            self.cell.set_up = configuration.set_up(statements)
            self.cell.body = analyse(statements, transform=self.shell.transform_cell)
            tree = rewrite.CellRewriter(f"{_SESSION}.cell_pending()", self.shell.ast_node_interactivity).rewrite(tree)
        else:
            pending = session.current().snapshots.pending() if session.is_open() else frozenset()
            try:
                body = analyse(tree, transform=self.shell.transform_cell)
                if bring_back(body, self._results) and not self._rehearsal.on:
                    session.set_due(body)
                    tree = rewrite.preceded(tree, f"{_SESSION}.settle_due()")
                if self.cell is not None and not self._rehearsal.on:  # what is loaded for a cell is not made by it
                    self.cell.plain = self.cell.plain or body
                    names = pending & self.shell.user_ns.keys()
                    self.cell.before |= {name: id(self.shell.user_ns[name]) for name in names}
            except ResumableError as error:
                session.set_problem(error)
                return rewrite.raising(tree, f"{_SESSION}.raise_problem()")
        return blocks.BlockRewriter(block.register).rewrite(tree)

    def enter(self, line: str) -> None:
        """Begin the step of the running cell: its first line was turned into this call."""
        with unmarked(self.shell.user_ns):
            self._enter(line)

    def _enter(self, line: str) -> None:
        cell = self.cell
        if cell is None or cell.body is None:
            raise UsageError("%%resumable has to be the first line of a cell")
        _show_head(line, self.shell.user_ns)
        name, options = cell_options(line)
        bring_back_results(cell.body, self._results)
        current = session.current()
        spec = StepSpec(step_path("", name, 0), name, "cell", cell.body, cell.text, options, current.base)
        current.specs[spec.id] = spec
        self._warn_of_twin(spec, cell)
        execution = current.runner.enter(spec, current.space)
        cell.execution = execution
        session.set_cell(execution)
        if current.unnamed and not options.quiet:
            current.unnamed = False
            self.say(f"task {current.name}: named after the folder; %resumable task NAME gives it another name")
        self.announce(execution)
        if execution.pending:
            cell.recorder = self.record()
        else:
            cell.unmute = _mute_compiler()
            configuration.run(self.shell, cell.set_up)
            self.replay(execution.outputs)
            if execution.restored is not None and (result := execution.restored.result):
                self._results.remember(lambda: current.snapshots.result(current.space, result))

    def _warn_of_twin(self, spec: StepSpec, cell: Cell) -> None:
        """Two cells under one name would run again for ever, each because the other one is not what it was."""
        cell_id = getattr(cell.info, "cell_id", None)
        earlier = self._owners.setdefault(spec.id, cell_id)
        if cell_id and earlier and earlier != cell_id and not spec.options.quiet:
            self.say(f"! {spec.name}: another cell is called so too; give one of them another name")
        self._owners[spec.id] = cell_id

    def post_run_cell(self, result: Any) -> None:
        with unmarked(self.shell.user_ns):
            self._end_cell(result)

    def _end_cell(self, result: Any) -> None:
        cell = self.cell
        if threading.current_thread() is not self._main or cell is None:
            return
        if result is not None and result.info is not cell.info:  # an empty cell: it ends, and never began
            return
        self._cells.pop()
        if cell.unmute is not None:
            cell.unmute()
        if result is not None:
            result.error_in_exec = self._signals.translated(result.error_in_exec)
        outputs = cell.recorder.stop() if cell.recorder is not None else []
        session.set_cell(self.cell.execution if self.cell is not None else None)
        if cell.execution is None or result is None or not result.success:  # a step that is done says what it made
            self._trace_origins(cell)
        if cell.execution is not None:
            try:
                self._leave(cell.execution, result, outputs)
            except (Exception, KeyboardInterrupt) as error:  # a step that is not committed must stop Run All
                self._fail(result, error)
        if not self._cells:
            self._end(result)

    def _end(self, result: Any) -> None:
        """The outermost cell has ended."""
        self._settle()
        if session.is_open():
            late = session.current().control.end()
            if late is not None and result is not None and result.success:
                self._fail(result, late)
        self._signals.restore()

    def _fail(self, result: Any, error: BaseException) -> None:
        """Make it the cell's error after all, so that Run All stops."""
        if result is not None:
            result.error_in_exec = error
        self.shell.showtraceback((type(error), error, error.__traceback__))

    def _leave(self, execution: Execution, result: Any, outputs: list[dict[str, Any]]) -> None:
        # ipykernel gives no result for a cell that was cancelled.
        cancelled = self._signals.translated(asyncio.CancelledError()) if result is None else None
        error = cancelled if result is None else result.error_before_exec or result.error_in_exec
        current = session.current()
        value = MISSING if result is None or result.result is None else result.result
        record = current.runner.leave(execution, current.space, error=error, result=value, outputs=outputs)
        if record.unsaved and execution.pending and not execution.spec.options.quiet and error is None:
            names = "; ".join(
                why if why.startswith(name) else f"{name}: {why}" for name, why in sorted(record.unsaved.items())
            )
            self.say(f"! {record.name}: not saved: {names[:400]}. A new kernel replays the step when that is used.")

    def _trace_origins(self, cell: Cell) -> None:
        """Remember which code made a variable: what has no content of its own counts by its origin."""
        if not session.is_open():
            return
        current, own = session.current(), self.shell.user_ns
        made = [name for name, value in own.items() if cell.before.get(name) != id(value)]
        body = cell.body or cell.plain or Body(cell.text)
        origins.trace(current.provenance, body, made, own, current.lookup(current.space))

    def announce(self, execution: Execution) -> None:
        """One quiet line about what becomes of the step; none for a first run."""
        spec, decision = execution.spec, execution.decision
        if spec.options.quiet:
            return
        match decision:
            case plan.Skip(record):
                self.say(
                    f"✓ {spec.name}: restored {plural(len(record.saved_names), 'variable')} from "
                    f"{clock_time(record.ended_at or record.started_at)}, {duration(record.duration_s)} saved; "
                    f"why? %resumable why {shlex.quote(spec.id)}"
                )
            case plan.Continue(why=why):
                calls = session.current().journal.calls(spec.id)
                done = sum(call.status == "done" for call in calls)
                known = f"; {plural(done, 'tool call')} recorded" if done else ""
                self.say(f"↻ {spec.name}: {why}{known}")
            case plan.Run(version=version, why=why) if version > 1:
                self.say(f"● {spec.name}: runs again: {why}")

    def record(self) -> Recorder:
        recorder = Recorder(self.shell, self._progress.since())
        recorder.start()
        return recorder

    def replay(self, outputs: list[dict[str, Any]]) -> None:
        replay(self.shell, outputs)

    def tell(self, event: Event) -> None:
        """Listens for rollbacks, whoever began them."""
        if event.kind == "rollback.ended":
            self.say(f"↶ {event.step or 'the whole task'}: {plural(len(event.facts['undone']), 'tool call')} undone")

    def execute(self, text: str) -> None:
        """Run the body of a marked cell once more, and show nothing."""
        self._rehearsal.run(text)

    def can_execute(self, text: str) -> bool:
        return self._rehearsal.can_run(text)

    def _on_event(self, event: Event) -> None:
        if event.kind == "step.replayed":
            names, own = event.facts["names"], self.shell.user_ns
            if self.cell is not None:  # they are not made by the cell that runs
                self.cell.before |= {name: id(own[name]) for name in names if name in own}
            self.say(f"↻ {event.step}: replayed for {few(names, 6)}")
            if other := event.facts["other"]:
                self.say(
                    f"! {event.step}: the replay made another {few(other, 6)} than was recorded, which stays; "
                    f"%resumable rerun {event.step} makes both anew"
                )
        elif event.kind == "step.put_back":
            self.say(f"! {event.step}: {', '.join(event.facts['lost'])} was not saved; run the cell that makes it")

    def say(self, text: str) -> None:
        say(self.shell, text)


def _mute_compiler() -> Callable[[], None] | None:
    """The body of a skipped cell is compiled all the same: what there was to warn of stands among its outputs.

    Returns what ends it, where there is something to end.
    """
    filters: list[Any] = warnings.filters  # type: ignore[assignment]  # it is one, whatever its stub says
    before = list(filters)
    warnings.simplefilter("ignore", SyntaxWarning)
    mute = filters[0]

    def unmute() -> None:
        if mute in filters:
            filters.remove(mute)

    return None if mute in before else unmute


def _tell_history(shell: Any) -> None:
    """``In[n]`` and ``_in`` are the cell's code: run once more by ``exec`` or as a macro, it is no step."""
    history = shell.history_manager
    inputs = history.input_hist_parsed
    first, _, code = inputs[-1].partition("\n") if inputs else ("", "", "")
    if not first.startswith(rewrite.ENTER):
        return
    inputs[-1] = code
    name, typed = f"_i{len(inputs) - 1}", history._i00
    if shell.user_ns.get(name) == typed:
        history._i00 = shell.user_ns[name] = rewrite.below(typed)


def _show_head(line: str, namespace: dict[str, Any]) -> None:
    """Let tracebacks show the cell's first line as the user wrote it, and as a comment, since it is no Python."""
    frame: FrameType | None = sys._getframe()
    while frame is not None and frame.f_globals is not namespace:
        frame = frame.f_back
    entry = linecache.cache.get(frame.f_code.co_filename) if frame is not None else None
    if entry is None or len(entry) == 1:
        return
    lines = entry[2]
    at = next((i for i, text in enumerate(lines) if rewrite.ENTER in text), None)
    if at is not None:
        lines[at] = f"# %%resumable {line}".rstrip() + "\n"


def _outer_cells() -> int:
    """How many cells are running around the one that is about to begin."""
    count, frame = -1, sys._getframe()
    while frame.f_back is not None:
        frame = frame.f_back
        count += frame.f_code.co_name == "run_cell_async"
    return max(0, count)


_SESSION = "__import__('resumable_nb.session', fromlist=['session'])"
