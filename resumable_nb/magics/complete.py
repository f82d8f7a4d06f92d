"""Tab completion of ``%resumable`` and ``%%resumable``: verbs, options, and the task's own steps and calls."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Callable
from typing import Any

from resumable_nb import session
from resumable_nb.errors import ResumableError
from resumable_nb.magics.line import COMMANDS
from resumable_nb.magics.options import CELL_OPTIONS
from resumable_nb.task import Task

MAGICS = ("%resumable", "%%resumable")


def install(shell: Any) -> Callable[[], None]:
    """Complete in this shell; the returned function ends that."""
    for magic in MAGICS:
        shell.set_hook("complete_command", complete, str_key=magic)

    def remove() -> None:
        for magic in MAGICS:
            shell.strdispatchers["complete_command"].strs.pop(magic, None)

    return remove


def complete(_shell: Any, event: Any) -> list[str]:
    """What may stand where the cursor is, whatever its first characters are: IPython leaves the others out."""
    before = event.text_until_cursor.split()
    given = before[1:] if event.text_until_cursor[-1:].isspace() else before[1:-1]
    with contextlib.suppress(ResumableError):  # a store that cannot be read completes nothing
        if event.line.startswith("%%"):
            return _of_cell(given)
        return _of_line(given)
    return []


def _of_cell(given: list[str]) -> list[str]:
    options = [each for each in CELL_OPTIONS if each not in given]
    return options if given else [*_steps(top=True), *options]


def _of_line(given: list[str]) -> list[str]:
    if not given:
        return sorted(COMMANDS)
    arguments = COMMANDS.get(given[0], [])
    options = [names[0] for names, _ in arguments if names[0].startswith("-") and names[0] not in given]
    plain = [(names[0], how) for names, how in arguments if not names[0].startswith("-")]
    if len(given) > len(plain):
        return options
    name, how = plain[len(given) - 1]
    match name:
        case "step":
            values = _steps()
        case "call":
            values = _doubtful()
        case _:
            values = list(how.get("choices", ()))
    return [*values, *options]


def _steps(*, top: bool = False) -> list[str]:
    if not session.is_open():
        return []
    return [shlex.quote(each.name if top else each.id) for each in session.current().journal.steps()
            if not top or each.kind == "cell"]  # fmt: skip


def _doubtful() -> list[str]:
    if not session.is_open():
        return []
    task = Task(session.current())
    return [call.id for call in session.current().journal.calls() if task.in_doubt(call)]
