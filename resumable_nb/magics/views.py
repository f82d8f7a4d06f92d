"""Which view of the task fits where the code runs: the panel where there are widgets, text elsewhere."""

from __future__ import annotations

import importlib.util
from typing import Any

from IPython import get_ipython

from resumable_nb.errors import UsageError
from resumable_nb.session import Session


def has_widgets() -> bool:
    """Whether this is a kernel, which front ends with widgets talk to: a terminal has none."""
    shell = get_ipython()
    return getattr(shell, "kernel", None) is not None and importlib.util.find_spec("ipywidgets") is not None


def make_panel(of: Session) -> Any:
    """The session's panel. Imported late: widgets are nothing that a kernel should start with."""
    if importlib.util.find_spec("ipywidgets") is None:
        raise UsageError("a panel needs ipywidgets: pip install ipywidgets, or use %resumable status")
    from resumable_nb.panel import panel

    return panel(of)
