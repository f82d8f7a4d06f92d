"""What becomes of the running cell: asked by the code that is generated for it."""

from __future__ import annotations

from resumable_nb.errors import ResumableError
from resumable_nb.execution import Execution

_cell: list[Execution] = []
_problem: list[ResumableError] = []


def set_cell(execution: Execution | None) -> None:
    """Say which execution the running cell is; None: it is no step."""
    _cell[:] = [] if execution is None else [execution]


def set_problem(problem: ResumableError | None) -> None:
    """Say what was met before the running cell began, where nothing could be raised."""
    _problem[:] = [] if problem is None else [problem]


def has_problem() -> bool:
    return bool(_problem)


def raise_problem() -> None:
    """Raise it now. Generated code calls this first."""
    if _problem:
        raise _problem.pop()


def cell_pending() -> bool:
    """Whether the body of the running cell has to run. Generated code asks."""
    return not _cell or _cell[-1].pending
