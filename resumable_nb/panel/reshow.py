"""A page that was loaded after the panel was shown: it has the widget again, but knows no display by its id.

So the static copy in that page's notebook stays as it was when it was loaded, until the panel's cell is run again. No
message of a kernel can do that; a button can, by a command of JupyterLab's and Notebook's own.
"""

from __future__ import annotations

import re
from typing import Final

_OURS: Final = re.compile(
    r"|#.*|%(re)?load_ext resumable_nb|%resumable( panel| task .*)?"
    r"|(from resumable_nb import [\w, ]+|import resumable_nb)|(resumable_nb\.)?task\(\)\.panel\(\);?"
)


def shows_only(code: str) -> bool:
    """Whether a cell does nothing but show the panel, so that it can be run again at a click."""
    return all(_OURS.fullmatch(line.strip()) for line in code.splitlines())


# The command runs the selected cells: where that is not this one alone, the click must not reach it.
_GUARD: Final = (
    "const cell = this.closest('.jp-Notebook .jp-Cell.jp-mod-active');"
    "if (!cell || cell.parentElement.querySelector('.jp-Cell.jp-mod-selected:not(.jp-mod-active)'))"
    "{ event.stopPropagation(); this.textContent = 'Select this cell alone first' }"
)
_BUTTON: Final = (
    '<button type="button" class="rnb-act" data-commandlinker-command="notebook:run-cell" '
    f'data-commandlinker-args="{{}}" onclick="{_GUARD}">Bring it up to date</button>'
)


def note(*, busy: bool, alone: bool) -> str:
    """What to do, as HTML. ``busy``: a run goes on; ``alone``: the panel's cell shows the panel and does no more."""
    if not alone:
        then = "Run <code>%resumable</code> again before you save: that brings it up to date."
    elif busy:
        then = "When the run has ended, a button here will bring it up to date."
    else:
        then = f"{_BUTTON} (runs this cell again)"
    told = "The saved notebook has the panel as it was when a page was loaded."
    return f'<div class="rnb-note rnb-quiet">{told} {then}</div>'
