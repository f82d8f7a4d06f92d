"""An IPython shell in this process with the extension loaded."""

from __future__ import annotations

import contextlib
import functools
import io

from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

from benchmarks.race import Seconds, timed


class Shell:
    """Runs cells; what they print is thrown away, and an error is raised."""

    def __init__(self) -> None:
        config = Config()
        config.HistoryManager.enabled = False  # it syncs a database of its own
        self._shell = InteractiveShell(config=config)
        self("%load_ext resumable_nb")

    def __call__(self, text: str) -> None:
        with contextlib.redirect_stdout(io.StringIO()):
            self._shell.run_cell(text, store_history=True).raise_error()

    def timed(self, text: str) -> Seconds:
        """Seconds of a cell; a ``#`` in it stands for a number that is never the same."""
        numbers = iter(range(1, 1 << 30))
        return lambda: timed(lambda: self(text.replace("#", str(next(numbers)))))()


@functools.cache
def shell() -> Shell:
    """The only one, in the folder that is the working one at its first use."""
    return Shell()
