"""Functions of libraries that look up the notebook's names by themselves: all that is there counts for who calls them.

``doctest.testmod()`` and ``unittest.main()`` run what they find in ``__main__``, ``cProfile.run("work()")`` and
``timeit.timeit("work()", "from __main__ import work")`` a text.
"""

from __future__ import annotations

import ast
import re
from typing import Final

_ANYWHERE: Final = frozenset({"testmod", "loadTestsFromModule", "loadTestsFromName", "loadTestsFromNames"})
_OF_MODULES: Final = frozenset(
    {("unittest", "main"), ("unittest", "TestProgram"), ("ipytest", "run"), ("cProfile", "run"), ("profile", "run")}
)
_IMPORT: Final = re.compile(r"\b(?:from|import)\s+__main__\b")


def is_looker(owner: object, name: object) -> bool:
    """Whether ``owner.name`` is such a function; ``owner`` may be any other expression than a name."""
    return name in _ANYWHERE or (owner, name) in _OF_MODULES


def looks_up(call: ast.Call) -> bool:
    """Whether what is called is such a function."""
    match call.func:
        case ast.Name(id=name):
            return is_looker(None, name)
        case ast.Attribute(value=ast.Name(id=owner), attr=name):
            return is_looker(owner, name)
        case ast.Attribute(attr=name):
            return is_looker(None, name)
    return False


def imports_notebook(constant: object) -> bool:
    """Whether a text is code that imports from the notebook."""
    return isinstance(constant, str) and "__main__" in constant and _IMPORT.search(constant) is not None
