"""IPython shells inside the test process."""

from __future__ import annotations

import atexit
import contextlib
from collections.abc import Iterator
from typing import Any

from IPython.core.interactiveshell import InteractiveShell
from IPython.terminal.interactiveshell import TerminalInteractiveShell
from traitlets.config import Config


@contextlib.contextmanager
def shell(kind: type[InteractiveShell] = TerminalInteractiveShell, **traits: Any) -> Iterator[Any]:
    """The one shell of this process, for the block: no colours, no history on disk, ``sys`` as it was afterwards."""
    config = Config()
    config.HistoryManager.enabled = False
    config.TerminalInteractiveShell.simple_prompt = True
    for other in (InteractiveShell, TerminalInteractiveShell):
        other.clear_instance()
    made = kind.instance(config=config, colors="nocolor", **traits)
    try:
        yield made
    finally:
        made.restore_sys_module_state()
        atexit.unregister(made.atexit_operations)
        kind.clear_instance()


def cell(shell: Any, text: str) -> Any:
    """Run a cell as a front end does; what went wrong is raised."""
    result = shell.run_cell(text, store_history=True)
    result.raise_error()
    return result.result
