"""Runs the body of a step once more, without an audience: nothing that it shows is shown."""

from __future__ import annotations

import ast
import contextlib
import inspect
import sys
from collections.abc import Iterator
from typing import Any

from resumable_nb.magics import rewrite


class Rehearsal:
    """In one shell."""

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self._depth = 0

    @property
    def on(self) -> bool:
        """Whether a body is running."""
        return self._depth > 0

    def can_run(self, text: str) -> bool:
        """Whether the cell is plain code: one that awaits needs the event loop, which waits for the cell in hand."""
        try:
            code = compile(rewrite.code_of(self._parsed(text)), "<cell>", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        except SyntaxError:
            return False
        return not code.co_flags & inspect.CO_COROUTINE

    def run(self, text: str) -> None:
        from IPython.utils.capture import capture_output

        shell = self._shell
        self._depth += 1
        try:
            with capture_output(), _figures_closed():
                shell.display_pub.set_parent = lambda _parent: None  # a widget that captures output asks for it
                tree = shell.transform_ast(rewrite.code_of(self._parsed(text)))
                name = shell.compile.cache(shell.transform_cell(text), shell.execution_count, text)
                exec(shell.compile(tree, name, "exec"), shell.user_global_ns, shell.user_ns)  # noqa: S102  # the user's own cell
        finally:
            self._depth -= 1

    def _parsed(self, text: str) -> ast.Module:
        text = self._shell.transform_cell(text)
        return ast.parse(text)


@contextlib.contextmanager
def _figures_closed() -> Iterator[None]:
    """As the inline backend closes the figures of a cell when it has shown them."""
    pyplot = sys.modules.get("matplotlib.pyplot")
    before = set(pyplot.get_fignums()) if pyplot is not None else set()
    try:
        yield
    finally:
        pyplot = sys.modules.get("matplotlib.pyplot")
        if pyplot is not None and "inline" in str(pyplot.get_backend()):
            for number in set(pyplot.get_fignums()) - before:
                pyplot.close(number)
