"""Restored values that are not loaded yet, and the ways past a cell's text on which they are asked for."""

from __future__ import annotations

import ast
import contextlib
import re
import sys
from collections.abc import Callable, Collection, Iterable
from typing import Any, Final

from resumable_nb import session
from resumable_nb.errors import ResumableError
from resumable_nb.source import Body, analyse

_ALL_RESULTS: Final = frozenset(("Out", "_oh"))
_WORD: Final = re.compile(r"[^\W\d]\w*")


class Later:
    """Stands for a skipped cell's result in ``Out`` and ``_``, until a cell mentions them."""

    __slots__ = ("load",)

    def __init__(self, load: Callable[[], Any]) -> None:
        self.load = load

    def __repr__(self) -> str:
        return "<restored result>"


class Results:
    """``Out[n]``, ``_n``, ``_``, ``__`` and ``___`` of skipped cells."""

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self._open: list[Later] = []

    def __bool__(self) -> bool:
        return bool(self._open)

    def remember(self, load: Callable[[], Any]) -> None:
        """The running cell's result is what ``load()`` gives."""
        later = Later(load)
        self._open.append(later)
        self._shell.displayhook.update_user_ns(later)

    def load(self, names: Collection[str], *, everything: bool = False) -> None:
        """Put real values in place of those that these names reach. Raises ``Corrupt``."""
        if everything or not _ALL_RESULTS.isdisjoint(names):
            wanted = list(self._open)
        else:
            found = [self._shell.user_ns.get(name) for name in names if name.startswith("_")]
            wanted = [each for each in self._open if any(each is value for value in found)]
        for later in wanted:
            self._replace(later, later.load())
            self._open.remove(later)

    def _replace(self, later: Later, value: Any) -> None:
        shell, hook = self._shell, self._shell.displayhook
        own = {name: value for name, bound in shell.user_ns.items() if bound is later}
        shell.push(own, interactive=False)
        out = shell.user_ns["_oh"]
        out.update({count: value for count, bound in out.items() if bound is later})
        for name in ("_", "__", "___"):
            if getattr(hook, name, None) is later:
                setattr(hook, name, value)


def bring_back(body: Body, results: Results) -> bool:
    """Load what code can reach, before it runs. Returns whether some of it has to be replayed.

    Raises ``Corrupt``, ``NotSaved``.
    """
    if not session.is_open():
        return False
    current = session.current()
    current.runner.settle(body, current.space)
    if not results and not current.snapshots.pending() and not current.snapshots.presence.watching:
        return False
    names = current.load(body)
    results.load(names, everything=body.dynamic)
    return bool(current.snapshots.owing.due(current.space, names))


def bring_back_results(body: Body, results: Results) -> None:
    """The same for the results alone that a step's own text mentions: the runner loads its variables."""
    results.load(body.reads, everything=body.dynamic)


class Shadows:
    """A checker of IPython's prefilter: a name that is not loaded yet is a variable, and no magic without its sign.

    ``history`` alone in a cell is what ``model.fit`` returned, and ``%history`` where there is none; ``again`` may
    be a macro, which the next checker looks for.
    """

    enabled = True
    priority = 249
    """Before those that look for macros and magics."""

    def __init__(self, shell: Any) -> None:
        self._shell = shell

    def check(self, line: Any) -> Any:
        name = line.ifun.partition(".")[0]
        if not session.is_open() or name not in session.current().snapshots.pending():
            return None
        if line.line.strip() == name:
            with contextlib.suppress(ResumableError):  # the cell itself asks for it again
                session.current().snapshots.materialise(session.current().space, [name])
            if name in self._shell.user_ns:
                return None
        return self._shell.prefilter_manager.get_handler_by_name("normal")


class Outside:
    """Where a front end or a widget reads variables and no cell runs: completion, inspection, expressions, comms."""

    def __init__(self, shell: Any, results: Results) -> None:
        self._shell = shell
        self._results = results
        self._undo: list[Callable[[], None]] = []

    def install(self) -> None:
        shell = self._shell
        self._before(shell, "object_inspect", lambda name, *_, **__: self._words(name))
        self._before(shell, "object_inspect_mime", lambda name, *_, **__: self._words(name))
        self._before(shell, "user_expressions", lambda expressions, *_, **__: self._expressions(expressions.values()))
        shell.events.register("pre_execute", self._pre_execute)
        self._undo.append(lambda: shell.events.unregister("pre_execute", self._pre_execute))
        shadows = Shadows(shell)
        shell.prefilter_manager.register_checker(shadows)
        self._undo.append(lambda: shell.prefilter_manager.unregister_checker(shadows))
        shell.Completer.custom_matchers.append(self._match)
        self._undo.append(lambda: shell.Completer.custom_matchers.remove(self._match))

    def uninstall(self) -> None:
        while self._undo:
            self._undo.pop()()

    def _before(self, owner: Any, name: str, act: Callable[..., None]) -> None:
        original = getattr(owner, name)

        def wrapper(*args: Any, **options: Any) -> Any:
            with contextlib.suppress(ResumableError):  # the value is missed, and the next cell says why
                act(*args, **options)
            return original(*args, **options)

        setattr(owner, name, wrapper)
        self._undo.append(lambda: delattr(owner, name))

    def _words(self, text: str) -> None:
        if session.is_open():
            current = session.current()
            current.snapshots.materialise(current.space, _WORD.findall(text))

    def _expressions(self, texts: Iterable[str]) -> None:
        for text in texts:
            with contextlib.suppress(SyntaxError):
                bring_back(analyse(ast.parse(text)), self._results)

    def _match(self, text: str) -> list[str]:
        """A completion matcher: knows pending names, and loads those whose attributes or keys are asked for."""
        if not session.is_open():
            return []
        pending = session.current().snapshots.pending()
        words = _WORD.findall(text)
        if not words or not pending:
            return []
        if text == words[0]:
            return sorted(name for name in pending if name.startswith(text))
        with contextlib.suppress(ResumableError):
            self._words(text)
        return []

    def _pre_execute(self) -> None:
        """A widget's message runs callbacks that no cell mentions: they may reach any variable."""
        # This method, IPython's trigger, then who triggered: a comm, or the shell that is about to run a cell.
        if session.is_open() and sys._getframe(2).f_globals.get("__name__", "").startswith("comm."):
            with contextlib.suppress(ResumableError):
                session.current().load_all()
                self._results.load((), everything=True)
