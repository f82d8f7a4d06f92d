"""``%resumable``: one subcommand, one Session call, one rendering."""

from __future__ import annotations

import argparse
import json
import re
from typing import Any

from IPython.display import display

from resumable_nb import session
from resumable_nb.errors import UsageError
from resumable_nb.magics.options import line_parser, words
from resumable_nb.magics.views import has_widgets
from resumable_nb.task import Task

_STEP: list[tuple[tuple[str, ...], dict[str, Any]]] = [(("step",), {})]
COMMANDS: dict[str, list[tuple[tuple[str, ...], dict[str, Any]]]] = {
    "status": [],
    "task": [(("name",), {}), (("--store",), {})],
    "panel": [],
    "history": [],
    "steps": [],
    "runs": [],
    "why": _STEP,
    "rerun": _STEP,
    "restore": [*_STEP, (("--version",), {"type": int})],
    "resolve": [
        (("call",), {}),
        (("outcome",), {"choices": ["happened", "not-happened", "ask"]}),
        (("value",), {"nargs": "*", "default": ()}),
    ],
    "compensate": [(("step",), {"nargs": "?"})],
    "pause": [],
    "resume": [],
    "stop": [],
    "complete": [],
    "forget": [(("--yes",), {"action": "store_true"})],
}
_PARSER = line_parser(COMMANDS)


def resumable(line: str) -> Any:
    """Look at the task and steer it: ``%resumable`` alone is the panel, and a summary where there are no widgets.

    task NAME [--store FOLDER]   go on with another task, or keep this one elsewhere
    panel, status                the task as a widget; as a few lines
    history, steps, runs         tool calls, steps and kernels as tables
    why STEP                     why it ran the last time, and what would make it run now
    rerun STEP                   run it again the next time its cell is executed
    restore STEP [--version N]   put the variables back as they were after it
    resolve CALL happened|not-happened|ask [[--value] JSON]
                                 say what became of a call in doubt, or ask its tool
    compensate [STEP]            undo the finished tool calls, newest first
    pause, resume, stop          at the next safe point, also of another kernel
    complete                     say that the task is finished
    forget --yes                 delete all steps and calls, and begin anew
    """
    # JSON is not split into words: it has quotes of its own.
    settling = re.match(r"\s*(resolve\s+\S+\s+\S+)\s*(.*)", line, re.DOTALL)
    raw = words(line if settling is None else settling[1], "%resumable")
    parsed = _PARSER.parse_args(raw)
    if parsed.command == "task":
        opened = session.task(parsed.name, store=parsed.store)
        opened.status  # noqa: B018  # a store that cannot be read is told here, and not at the first step
        return opened
    task = session.task()
    match parsed.command:
        case None if has_widgets():
            _show(task.panel())
        case None | "status":
            print(task.summary())
        case "panel":
            _show(task.panel())
        case "history":
            return task.history()
        case "steps":
            return task.steps()
        case "runs":
            return task.runs()
        case "why":
            print(task.why(parsed.step))
        case "resolve":
            _resolve(task, parsed.call, parsed.outcome, settling[2].strip() if settling else "")
        case _:
            _steer(task, parsed)
    return None


def _show(panel: Any) -> None:
    """At once: it need not be the cell's last line."""
    display(panel)  # type: ignore[no-untyped-call]  # IPython's has no types


def _steer(task: Task, asked: argparse.Namespace) -> None:
    """Change something, and say what."""
    match asked.command:
        case "rerun":
            task.rerun(asked.step)
            print(f"{asked.step}: runs again the next time its cell is executed")
        case "restore":
            names = task.restore(asked.step, asked.version)
            here = f"nothing to bring back: what was saved is here, as it was after {asked.step}"
            print(f"{asked.step}: {'restored ' + ', '.join(names) if names else here}")
        case "compensate":
            task.compensate(asked.step)  # the shell says what was undone, as it does when a step fails
        case "pause":
            task.pause("%resumable pause")
            print(f"{task.name}: pauses at its next safe point; %resumable resume goes on")
        case "resume":
            task.resume("%resumable resume")
            print(f"{task.name}: goes on")
        case "stop":
            task.stop("%resumable stop")
            print(f"{task.name}: stops at its next safe point; the next Run All goes on from there")
        case "complete":
            task.complete()
            print(task)
        case "forget":
            if not asked.yes:
                raise UsageError(f"forget deletes all steps and calls of task {task.name!r}: %resumable forget --yes")
            session.current().forget()
            print(f"{task.name}: forgotten; the next run starts anew")


def _resolve(task: Task, call: str, outcome: str, text: str) -> None:
    # As in a shell, it may stand in quotes, and behind --value.
    text = re.sub(r"^--value(?:=|\s+|$)", "", text)
    if text[:1] == text[-1:] == "'":
        text = text[1:-1]
    if outcome != "happened" and text:
        raise UsageError(f"%resumable resolve {call} {outcome}: takes no value")
    if outcome == "ask":
        record = task.ask(call)
        became = "happened" if record.status == "done" else "did not happen, and may be called again"
        print(f"{record.tool} {record.id}: its reconcile= says that it {became}")
        return
    try:
        value = json.loads(text) if text else None
    except json.JSONDecodeError as error:
        raise UsageError(f"%resumable resolve {call} happened {text}: the value is not JSON: {error}") from None
    record = task.resolve(call, outcome == "happened", value)
    print(f"{record.tool} {record.id}: {'recorded as happened' if outcome == 'happened' else 'may be called again'}")
