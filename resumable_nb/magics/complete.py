"""Tab completion of ``%resumable`` and ``%%resumable``: verbs, options, and the task's own steps and calls."""

from __future__ import annotations

import contextlib
import re
import shlex
from collections.abc import Callable
from typing import Any, Final

from IPython.core.completer import CompletionContext, SimpleCompletion, SimpleMatcherResult, context_matcher

from resumable_nb import session
from resumable_nb.errors import ResumableError
from resumable_nb.magics.line import COMMANDS
from resumable_nb.magics.options import CELL_OPTIONS
from resumable_nb.task import Task

_OURS: Final = re.compile(r"\s*(%%?resumable)\s+(.*)", re.DOTALL)
_LAST: Final = re.compile(r"""(?:^|\s)('[^']*|"[^"]*|\S*)$""")


def install(shell: Any) -> Callable[[], None]:
    """Complete in this shell; the returned function ends that."""
    matchers = shell.Completer.custom_matchers
    matchers.append(match)
    return lambda: matchers.remove(match)


@context_matcher()  # type: ignore[untyped-decorator]  # IPython's is not typed
def match(context: CompletionContext) -> SimpleMatcherResult:
    """What may stand where the cursor is. Nothing else can: other matchers are not asked, which takes a second."""
    ours = _OURS.fullmatch(context.text_until_cursor)
    if ours is None or (ours[1] == "%%resumable" and context.cursor_line > 0):
        return {"completions": [], "suppress": False}
    last = _LAST.search(ours[2])
    begun = last[1] if last is not None else ""
    offered = _offered(ours[1], ours[2][: len(ours[2]) - len(begun)].split(), begun)
    found = [each for each in offered if each.startswith((begun, f"'{begun}"))]
    return {
        "completions": [SimpleCompletion(each, type="magic") for each in found],
        "suppress": bool(found),
        "matched_fragment": begun,
    }


def _offered(magic: str, given: list[str], begun: str) -> list[str]:
    with contextlib.suppress(ResumableError):  # a store that cannot be read completes nothing
        return _of_cell(given, begun) if magic == "%%resumable" else _of_line(given)
    return []


def _of_cell(given: list[str], begun: str) -> list[str]:
    options = [each for each in CELL_OPTIONS if each not in given]
    last = next((each for each in reversed(given) if each.startswith("--")), "")
    if last == "--on-error" and given[-1] == last:
        return ["keep", "compensate"]
    if last in ("--files", "--makes") and not begun.startswith("-"):
        return []  # IPython completes files
    if last in ("--keep", "--drop") and not begun.startswith("-"):
        space = session.current().space
        return sorted(name for name in space.live if not space.hidden(name))
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
