"""Names inside texts that pandas takes for code: ``frame.query("age > @limit")``, ``pd.eval("x + y")``."""

from __future__ import annotations

import ast
import re
import types
from typing import Final

METHODS: Final = frozenset({"query", "eval"})
_WORD: Final = re.compile(r"[^\W\d]\w*")
_MARKED: Final = re.compile(r"@([^\W\d]\w*)")


def in_call(node: ast.Call) -> frozenset[str]:
    """Words in the texts of a call that may be a query; a column's name is taken for a variable's too."""
    if not isinstance(node.func, ast.Attribute) or node.func.attr not in METHODS:
        return frozenset()
    parts = [part for argument in (*node.args, *node.keywords) for part in ast.walk(argument)]
    texts = [part.value for part in parts if isinstance(part, ast.Constant) and isinstance(part.value, str)]
    return frozenset(word for text in texts for word in _WORD.findall(text))


def in_code(code: types.CodeType) -> frozenset[str]:
    """Marked names in the texts of a code object that calls a method so named."""
    if METHODS.isdisjoint(code.co_names):
        return frozenset()
    return frozenset(name for each in code.co_consts if isinstance(each, str) for name in _MARKED.findall(each))
