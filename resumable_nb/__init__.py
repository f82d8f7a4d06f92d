"""Notebooks that survive: kill the kernel at any instant, Run All again, and go on without repeating a side effect."""

from resumable_nb.block import step
from resumable_nb.divergence import DivergenceWarning
from resumable_nb.errors import (
    BadArgument,
    Corrupt,
    Diverged,
    InDoubt,
    LeaseLost,
    NotSaved,
    ResumableError,
    Stopped,
    StoreUnavailable,
    TaskBusy,
    UsageError,
    ValueUnavailable,
)
from resumable_nb.magics import load_ipython_extension, unload_ipython_extension
from resumable_nb.mutation import MutationWarning
from resumable_nb.session import task
from resumable_nb.tools import CollapseWarning, Happened, NotHappened, tool
from resumable_nb.track import track
from resumable_nb.workflow import SavePolicy, Task

__all__ = [
    "BadArgument", "CollapseWarning", "Corrupt", "Diverged", "DivergenceWarning", "Happened", "InDoubt", "LeaseLost",
    "MutationWarning", "NotHappened", "NotSaved", "ResumableError", "SavePolicy", "Stopped", "StoreUnavailable", "Task",
    "TaskBusy",
    "UsageError", "ValueUnavailable", "load_ipython_extension", "step", "task", "tool", "track",
    "unload_ipython_extension",
]  # fmt: skip
