"""``%%resumable`` and ``%resumable`` for IPython shells."""

from __future__ import annotations

import atexit
import functools
import re
from collections.abc import Callable
from typing import Any, Final

from resumable_nb import session
from resumable_nb.errors import UsageError
from resumable_nb.magics.hooks import Hooks
from resumable_nb.magics.line import resumable
from resumable_nb.magics.options import CELL_USAGE
from resumable_nb.magics.views import make_panel
from resumable_nb.model import MISSING
from resumable_nb.task import show_with

_HISTORY: Final = re.compile(r"_{1,3}|_i{1,3}|_i?\d+|In|Out|_[dio]h|get_ipython")
"""What IPython binds anew all the time: inputs, results. A loop over ``_`` leaves nothing that is worth to be saved."""
_SPECIAL: Final = re.compile(r"__\w+__")

_hooks: list[Hooks] = []

show_with(make_panel)


def load_ipython_extension(shell: Any) -> None:
    """``%load_ext resumable_nb``: opens the notebook's task for reading and registers the magics."""
    if _hooks:
        return
    hooks = Hooks(shell)
    session.open_session(live=shell.user_ns, lazy=True, hidden=hidden_names(shell))
    hooks.install()
    _hooks.append(hooks)
    shell.register_magic_function(resumable, "line", "resumable")
    shell.register_magic_function(_cell_magic, "cell", "resumable")
    atexit.register(session.close)


def unload_ipython_extension(shell: Any) -> None:
    """``%unload_ext resumable_nb``: gives the lease back."""
    while _hooks:
        _hooks.pop().uninstall()
    session.close()
    for kind, name in (("line", "resumable"), ("cell", "resumable")):
        shell.magics_manager.magics[kind].pop(name, None)
    atexit.unregister(session.close)


@functools.lru_cache(maxsize=100_000)
def _is_shells(name: str) -> bool:
    return bool(_HISTORY.fullmatch(name) or _SPECIAL.fullmatch(name))


def hidden_names(shell: Any) -> Callable[[str], bool]:
    """A test for names in the user's namespace that are not the user's: IPython's own, and its history.

    Names such as ``open`` and ``exit`` are IPython's only until the user binds them to something else.
    """
    own, variables = shell.user_ns_hidden, shell.user_ns

    def hidden(name: str) -> bool:
        if _is_shells(name):
            return True
        return name in own and variables.get(name, MISSING) is own[name]

    return hidden


def _cell_magic(line: str, cell: str | None) -> None:
    """Make the cell a step that survives: finished, it is restored and not run again.

    %%resumable NAME [options], as the first line of the cell, above other magics.

    --files PATH…               inputs that are watched: the step runs again when their content changes
    --makes PATH…               artefacts that must still exist: the step runs again when one is gone
    --keep NAME…                save these variables only
    --drop NAME…                save all but these
    --always                    never skip
    --rerun                     run again this time
    --on-error keep|compensate  what becomes of the tool calls when the step fails for good: kept, or undone
    --no-output                 do not record what the cell shows
    --quiet                     no message
    """
    if cell is None:  # the first line was rewritten before IPython looked for magics
        _hooks[-1].enter(line)
        return
    # With its text, it is called from inside another magic.
    raise UsageError(f"%%resumable has to be the first line of the cell, above other magics: {CELL_USAGE}")
