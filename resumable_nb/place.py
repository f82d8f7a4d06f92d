"""Where code runs, and where its tasks lie."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from resumable_nb.errors import UsageError

STORE_FOLDER: Final = ".resumable"


@dataclass(frozen=True, slots=True)
class Place:
    """A notebook, else a folder; ``notebook`` is empty where nobody says which one it is."""

    folder: Path
    name: str
    notebook: str


def here(variables: Mapping[str, Any] | None = None) -> Place:
    """The notebook as its front end tells it (Jupyter, VS Code, papermill), else the working folder."""
    told = (
        os.environ.get("JPY_SESSION_NAME")
        or (variables or {}).get("__vsc_ipynb_file__")
        or os.environ.get("PAPERMILL_INPUT_PATH")
    )
    if told and Path(told).suffix:
        path = Path(told)
        folder = path.parent if path.is_absolute() and path.parent.is_dir() else Path.cwd()
        return Place(folder, path.stem, str(told))
    return Place(Path.cwd(), Path.cwd().name or "task", "")


def slug(name: str) -> str:
    """A task's folder: its name, with what a file system could stumble over percent-encoded."""
    if not name.strip() or len(name) > 120:
        raise UsageError(f"a task's name has 1 to 120 characters, this has {len(name)}: {name[:40]!r}")
    return quote(name, safe=" ()[]{}=,+-_!'&$~^@").replace(".", "%2E", 1 if name.startswith(".") else 0)


def root(store: str | os.PathLike[str] | None, folder: Path) -> Path:
    """The folder of all tasks that ``store`` names; by default the one beside the notebook."""
    if store is None:
        return folder / STORE_FOLDER
    text = os.fspath(store)
    if "://" in text and not text.startswith("file://"):
        raise UsageError(f"--store {text.split('://')[0]}://…: there is no such store yet; name a folder")
    return folder / Path(text.removeprefix("file://")).expanduser()
