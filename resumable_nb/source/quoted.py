"""Names in texts that are taken for code: ``frame.query("a > @limit")``, ``polars.sql("select * from frame")``; and in
formulas, wherever they stand (``ols("y ~ scaled(x)", data)``): their functions are looked up in the notebook."""

from __future__ import annotations

import ast
import dis
import re
import weakref
from collections.abc import Sequence
from typing import Final

METHODS: Final = frozenset({"query", "eval", "exec", "sql", "execute"})
_OFTEN_NOT: Final = frozenset({"execute"})
"""DuckDB's finds frames by name, those of most others know no variables: an unknown text is taken for theirs."""
_FORMULA: Final = re.compile(r"[\w\s.()\[\]*+^:,'\"|&=<>/%-]{0,1000}~\s*[\w(+-][\w\s.()\[\]*+^:,'\"|&=<>/%-]{0,5000}")
_FEW: Final = 100
"""Texts in a container that are looked at."""
_WORD: Final = re.compile(r"[^\W\d]\w*")
_PARAMETERS: Final = frozenset({"expr", "source"})
"""What the text is called where it is given by name."""
_NO_TEXT: Final = (
    ast.List, ast.Tuple, ast.Dict, ast.Set, ast.ListComp, ast.DictComp, ast.SetComp, ast.GeneratorExp, ast.Lambda,
)  # fmt: skip
_CALLS: Final = frozenset({"CALL", "CALL_KW", "CALL_FUNCTION_EX"})
_COMPOSED: Final = frozenset({"FORMAT_VALUE", "FORMAT_SIMPLE", "FORMAT_WITH_SPEC", "BUILD_STRING", "BINARY_OP"})

Words = frozenset[str] | None
"""Words of a text that is code; None where the text is not known before it runs."""


def in_formula(text: object) -> frozenset[str]:
    """Words of a text that is a formula; a column's name is taken for a variable's too."""
    if type(text) in weakref.ProxyTypes:  # to ask what it leads to is an error where that is gone
        return frozenset()
    if not isinstance(text, str) or "~" not in text or _FORMULA.fullmatch(text) is None:
        return frozenset()
    return frozenset(_WORD.findall(text))


def in_value(value: object) -> frozenset[str]:
    """The words of formulas in a variable: a text, or a short container of texts."""
    if type(value) in weakref.ProxyTypes:
        return frozenset()
    match value:
        case str():
            return in_formula(value)
        case list() | tuple() | dict() if len(value) <= _FEW:
            texts = value.values() if isinstance(value, dict) else value
            return frozenset(word for text in texts for word in in_formula(text))
    return frozenset()


def in_call(node: ast.Call) -> Words:
    """Words in the text of a call that may take it for code; a column's name is taken for a variable's too."""
    formulas = [each.value for each in node.keywords if each.arg == "formula"]
    method = node.func.attr if isinstance(node.func, ast.Attribute) else ""
    if method not in METHODS and not formulas:
        return frozenset()
    given = [*node.args[:1], *(each.value for each in node.keywords if each.arg in _PARAMETERS or each.arg is None)]
    given = formulas or given
    if all(isinstance(each, _NO_TEXT) for each in given):  # a point that a tree of points is asked about
        return frozenset()
    parts = [part for argument in given for part in ast.walk(argument) if isinstance(part, ast.expr)]
    if not all(isinstance(part, ast.Constant | ast.BinOp | ast.JoinedStr) for part in parts):
        return frozenset() if method in _OFTEN_NOT else None
    texts = [part.value for part in parts if isinstance(part, ast.Constant) and isinstance(part.value, str)]
    return frozenset(word for text in texts for word in _WORD.findall(text))


def in_code(steps: Sequence[dis.Instruction], k: int) -> Words:
    """The same for the k-th of these instructions; nothing where it does not look up such a method to call it."""
    found = steps[k]
    method = found.opname == "LOAD_METHOD" or (found.opname == "LOAD_ATTR" and "NULL" in found.argrepr)
    if found.argval not in METHODS or not method:
        return frozenset()
    end = next((n for n in range(k + 1, len(steps)) if steps[n].opname in _CALLS), len(steps))
    given = steps[k + 1 : end]
    if not given:
        return frozenset()
    text = given[0].argval if given[0].opname == "LOAD_CONST" else None
    if text is None or any(each.opname in _COMPOSED for each in given):
        return frozenset() if found.argval in _OFTEN_NOT else None
    return frozenset(_WORD.findall(text)) if isinstance(text, str) else frozenset()
