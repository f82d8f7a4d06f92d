"""What IPython makes of magics and shell lines: calls with the text as an argument."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

_IDENTIFIER: Final = re.compile(r"[^\W\d]\w*")
_METHODS: Final = frozenset({"run_line_magic", "run_cell_magic", "magic", "system", "getoutput"})
_DYNAMIC: Final = frozenset(
    {
        "debug", "load", "loadpy", "macro", "notebook", "pastebin", "pdb", "psearch", "pylab", "recall", "rerun",
        "reset", "reset_selective", "run", "save", "store", "who", "who_ls", "whos", "xdel",
    }
)  # fmt: skip
"""Magics that may touch every variable."""
_TEXTS: Final = frozenset(
    {
        "!", "HTML", "SVG", "alias", "autoreload", "bash", "cat", "cd", "conda", "cp", "env", "html",
        "javascript", "js", "latex", "ldir", "less", "lf", "lk", "ll", "load_ext", "ls", "lx", "mamba", "man",
        "markdown", "matplotlib", "micromamba", "mkdir", "more", "mv", "perl", "pip", "reload_ext", "rm", "rmdir",
        "ruby", "script", "set_env", "sh", "svg", "sx", "system", "unload_ext", "uv", "writefile",
    }
)  # fmt: skip
"""Magics that take a text, in whose first line IPython puts the values of ``$name`` and ``{expression}`` alone."""
_ALL_OF_IT: Final = frozenset({"!", "sx", "system"})
"""Those of them in whose other lines it does so, too."""
_PUT_IN: Final = re.compile(r"\$+([^\W\d]\w*)")


@dataclass(frozen=True, slots=True)
class Magic:
    """``code`` surely runs, each part of ``maybe_code`` perhaps; ``names`` occur in text that is no Python."""

    code: Sequence[ast.stmt] = ()
    maybe_code: tuple[Sequence[ast.stmt], ...] = ()
    names: frozenset[str] = frozenset()
    dynamic: bool = False


def magic_call(node: ast.Call, transform: Callable[[str], str] | None) -> Magic | None:
    """What a call of ``get_ipython().run_line_magic`` and its like runs; ``None`` for any other call."""
    match node.func:
        case ast.Attribute(value=ast.Call(func=ast.Name(id="get_ipython")), attr=method) if method in _METHODS:
            pass
        case _:
            return None
    texts = [each.value for each in node.args if isinstance(each, ast.Constant) and isinstance(each.value, str)]
    name, parts = "", texts
    if method.startswith("run_") and texts:
        name, parts = texts[0], texts[1:]
    elif method == "magic" and texts:
        name, _, line = texts[0].partition(" ")
        parts = [line]
    if name == "resumable":  # its words are names of steps and calls
        return Magic()
    dynamic = name in _DYNAMIC or len(texts) < len(node.args) - (method == "run_line_magic")
    if method in ("system", "getoutput") or name in _TEXTS:
        text = "\n".join(parts) if method in ("system", "getoutput") or name in _ALL_OF_IT else "".join(parts[:1])
        return Magic(names=_put_in(text), dynamic=dynamic)
    parsed = [(text, _parse(text, transform)) for text in parts if text.strip()]
    names = {word for text, code in parsed if code is None for word in _IDENTIFIER.findall(text)}
    blocks = tuple(code for _, code in parsed if code is not None)
    if name == "time" and len(blocks) == 1:
        return Magic(code=blocks[0], names=frozenset(names), dynamic=dynamic)
    return Magic(maybe_code=blocks, names=frozenset(names), dynamic=dynamic)


def named(statements: Sequence[ast.stmt]) -> frozenset[str]:
    """The magics that these statements call by their names, nested functions included."""
    found: set[str] = set()
    for node in (node for statement in statements for node in ast.walk(statement)):
        match node:
            case ast.Call(
                func=ast.Attribute(attr="run_line_magic" | "run_cell_magic"), args=[ast.Constant(str(name)), *_]
            ):
                found.add(name)
            case ast.Call(func=ast.Attribute(attr="magic"), args=[ast.Constant(str(line))]) if line.strip():
                found.add(line.split()[0].lstrip("%"))
    return frozenset(found)


def _put_in(text: str) -> frozenset[str]:
    """Names whose values become part of the text: a file ``x.py`` is none, be there a module ``x``."""
    return frozenset([*_PUT_IN.findall(text), *_IDENTIFIER.findall(text.partition("{")[2])])


def _parse(text: str, transform: Callable[[str], str] | None) -> Sequence[ast.stmt] | None:
    try:
        return ast.parse(transform(text) if transform is not None else text).body
    except (SyntaxError, ValueError):
        return None
