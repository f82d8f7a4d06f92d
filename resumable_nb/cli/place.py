"""Which task a path on the command line means."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

from resumable_nb.errors import UsageError
from resumable_nb.session import STORE_FOLDER, slug
from resumable_nb.store.disk.marker import MARKER


@dataclass(frozen=True, slots=True)
class TaskPlace:
    """A task's name, and the store folder that it lies in."""

    name: str
    store: Path

    @property
    def path(self) -> Path:
        return self.store / slug(self.name)


def tasks_at(path: Path) -> list[TaskPlace]:
    """The tasks that a path means: a notebook, a task's folder, a store, or a folder with a store in it.

    Raises ``UsageError`` when there is none.
    """
    path = path.absolute()
    if path.suffix == ".ipynb":
        found = _tasks([path.parent / STORE_FOLDER / slug(path.stem)])
    elif (path / MARKER).is_file():
        found = _tasks([path])
    else:
        found = [task for store in (path, path / STORE_FOLDER) if store.is_dir() for task in _tasks(store.iterdir())]
    if not found:
        raise UsageError(f"{path}: there is no task here; name a notebook that ran, its folder, or a store")
    return sorted(found, key=lambda each: each.path)


def task_at(path: Path) -> TaskPlace:
    """The one task that a path means; ``UsageError`` names the choices when there are several."""
    found = tasks_at(path)
    if len(found) > 1:
        choices = ", ".join(repr(str(each.path)) for each in found)
        raise UsageError(f"{path}: there are {len(found)} tasks here; name one: {choices}")
    return found[0]


def _tasks(folders: Iterable[Path]) -> list[TaskPlace]:
    """No task's folder begins with a dot; what an import was putting together when it was killed does."""
    there = [each for each in folders if not each.name.startswith(".") and (each / MARKER).is_file()]
    return [TaskPlace(unquote(each.name), each.parent) for each in there]
