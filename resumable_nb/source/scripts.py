"""Which files of code does code name? Those that it runs: by a magic, a shell, another process, or their text."""

from __future__ import annotations

import ast
import re
import types
from collections.abc import Iterator, Sequence
from typing import Final

_ENDINGS: Final = (
    "py|ipy|pyx|sh|bash|zsh|bat|ps1|R|r|jl|pl|rb|lua|js|mjs|ts|sql|stan|c|cc|cpp|cu|h|hpp|f|f90|rs|go|java"
)
_PATH: Final = re.compile(rf"(?<![\w./~-])[\w./~-]*\w\.(?:{_ENDINGS})(?![\w.])")
_EXTENSIONS: Final = ("load_ext", "reload_ext")
_MODULE: Final = re.compile(r"(?:^|\s)-m\s+([^\W\d][\w.]*)")
_RUN: Final = re.compile(r"^\s*%run\s+(.+)$", re.MULTILINE)


def in_tree(statements: Sequence[ast.stmt]) -> frozenset[str]:
    """Of all the code in these statements, nested functions included. Paths as they are written."""
    found: set[str] = set()
    for node in (node for statement in statements for node in ast.walk(statement)):
        match node:
            case ast.Constant(value=str(text)):
                found.update(_in_text(text))
            case ast.Call(
                func=ast.Attribute(attr="run_line_magic"), args=[ast.Constant(name), ast.Constant(str(line))]
            ):
                found.update(_run(line) if name == "run" else _module(line.strip()) if name in _EXTENSIONS else ())
    return frozenset(found)


def in_code(code: types.CodeType) -> Iterator[str]:
    """The same for a code object, without the code in it."""
    texts = [each for each in code.co_consts if isinstance(each, str)]
    texts += [text for each in code.co_consts if isinstance(each, tuple) for text in each if isinstance(text, str)]
    runs = "run_line_magic" in code.co_names and "run" in texts
    for text in texts:
        yield from _in_text(text)
        if runs and text != "run":
            yield from _run(text)


def _in_text(text: str) -> Iterator[str]:
    if "." in text:
        yield from _PATH.findall(text)
    if "-m" in text:
        for name in _MODULE.findall(text):
            yield from _module(name)
    if "%run" in text:
        for line in _RUN.findall(text):
            yield from _run(line)


def _run(line: str) -> Iterator[str]:
    """What ``%run`` is given: a file, with or without its ending, or a module."""
    if found := _MODULE.search(line):
        yield from _module(found[1])
        return
    words = (word.strip("'\"") for word in line.split() if not word.startswith("-"))
    if name := next(words, ""):
        yield name if name.endswith((".py", ".ipy", ".ipynb")) else f"{name}.py"


def _module(name: str) -> Iterator[str]:
    path = name.replace(".", "/")
    yield from (f"{path}.py", f"{path}/__main__.py")
