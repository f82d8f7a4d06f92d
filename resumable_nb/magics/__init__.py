"""``%%resumable`` and ``%resumable`` for IPython shells."""

from __future__ import annotations

import atexit
from typing import Any

from resumable_nb import session
from resumable_nb.errors import UsageError
from resumable_nb.magics.hooks import Hooks
from resumable_nb.magics.line import resumable
from resumable_nb.magics.options import CELL_USAGE

_hooks: list[Hooks] = []


def load_ipython_extension(shell: Any) -> None:
    """``%load_ext resumable_nb``: opens the notebook's task for reading and registers the magics."""
    if _hooks:
        return
    hooks = Hooks(shell)
    session.open_session(live=shell.user_ns, lazy=True, hidden=hidden_names(shell))
    hooks.install()
    _hooks.append(hooks)
    shell.register_magic_function(hooks.enter, "line", "_resumable_enter")
    shell.register_magic_function(resumable, "line", "resumable")
    shell.register_magic_function(_cell_magic, "cell", "resumable")
    atexit.register(session.close)


def unload_ipython_extension(shell: Any) -> None:
    """``%unload_ext resumable_nb``: gives the lease back."""
    while _hooks:
        _hooks.pop().uninstall()
    session.close()
    atexit.unregister(session.close)


def hidden_names(shell: Any) -> Any:
    """A test for names in the user's namespace that are not the user's: IPython's own, and its history."""
    own = set(shell.user_ns_hidden) | {"In", "Out", "get_ipython", "exit", "quit", "open", "_dh", "_ih", "_oh"}

    def hidden(name: str) -> bool:
        if name in own or (name.startswith("__") and name.endswith("__")):
            return True
        return name.startswith("_") and (name.strip("_i") == "" or name[1:].lstrip("i").isdigit())

    return hidden


def _cell_magic(line: str, cell: str) -> None:
    """Make the cell a step that survives: finished, it is restored and not run again.

    Its first line is rewritten before IPython looks for magics, so this is reached only from inside another magic.
    """
    raise UsageError(f"%%resumable has to be the first line of the cell, above other magics: {CELL_USAGE}")
