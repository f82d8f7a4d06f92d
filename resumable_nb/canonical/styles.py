"""``matplotlib.rcParams``: what a user sets there, not what the front end and the first drawing do."""

from __future__ import annotations

import sys
from typing import Any

from resumable_nb.canonical.writer import Canonical, Expander, Node
from resumable_nb.facets import BACKEND


def style_expander(kind: type) -> Expander | None:
    """How the parameters are taken apart, if it is their type. Never imports matplotlib."""
    matplotlib = sys.modules.get("matplotlib")
    return _styles if matplotlib is not None and kind is getattr(matplotlib, "RcParams", None) else None


def _styles(value: Any, _canon: Canonical) -> Node:
    """Past the mapping's own look-up, which would choose a backend."""
    own = value is sys.modules["matplotlib"].rcParams
    return Node(b"Tr", [{key: each for key, each in dict.items(value) if not own or key not in BACKEND}])
