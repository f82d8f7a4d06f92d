"""Line magics that set up the shell: they run in a skipped cell too, since nothing in the store can do that."""

from __future__ import annotations

import ast
from typing import Any, Final

from IPython.utils.capture import capture_output

from resumable_nb.output import Recorder

_SET_UP: Final = frozenset(
    {
        "alias", "alias_magic", "autoawait", "autocall", "automagic", "autoreload", "code_wrap", "colors", "config",
        "doctest_mode", "gui", "load_ext", "matplotlib", "pdb", "pprint", "precision", "pylab", "rehashx", "reload_ext",
        "unalias", "unload_ext", "xmode",
    }
)  # fmt: skip

Line = tuple[str, str]
"""A magic's name and its text."""


def set_up(statements: list[ast.stmt]) -> tuple[Line, ...]:
    """The set-up magics among the top statements of a cell that IPython has transformed."""
    found = []
    for statement in statements:
        match statement:
            case ast.Expr(
                value=ast.Call(
                    func=ast.Attribute(value=ast.Call(func=ast.Name(id="get_ipython")), attr="run_line_magic"),
                    args=[ast.Constant(value=str(name)), ast.Constant(value=str(text))],
                )
            ) if name in _SET_UP:
                found.append((name, text))
    return tuple(found)


def run(shell: Any, lines: tuple[Line, ...]) -> None:
    """Run them; what they say is among the outputs that are replayed."""
    if not lines:
        return
    with Recorder.paused(), capture_output():
        for name, text in lines:
            shell.run_line_magic(name, text)
