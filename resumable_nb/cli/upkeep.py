"""``resumable recover``, ``gc`` and ``doctor``: what tasks need when nobody looks at them."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Final

import click

from resumable_nb import session
from resumable_nb.cli.place import TaskPlace, task_at, tasks_at
from resumable_nb.errors import ResumableError, StoreUnavailable, UsageError
from resumable_nb.events import Bus
from resumable_nb.garbage import Garbage
from resumable_nb.lease import Lease
from resumable_nb.model import FINGERPRINTS, MISSING, SCHEMA
from resumable_nb.store.disk import DiskStore
from resumable_nb.store.seal import key_path
from resumable_nb.task import Task
from resumable_nb.wording import plain, plural

PATH = click.argument("path", type=click.Path(path_type=Path, exists=True), default=Path())
DEPENDENCIES: Final = ("ipython", "ipykernel", "diskcache", "cloudpickle", "numpy", "pandas")


@click.command()
@PATH
@click.option("--restarts", default=10, show_default=True, type=click.IntRange(min=0), help="Kernel deaths to survive.")
def recover(path: Path, restarts: int) -> int:
    """Run the notebooks of the dead tasks at PATH: those whose kernel died in the middle of a step.

    Exit status: 0 when all of them ran to their end, 1 when one did not.
    """
    from resumable_nb import supervisor
    from resumable_nb.cli import tables

    failed = False
    for place in tasks_at(path):
        with session.opened(place.name, place.store, live={}) as found:
            task = Task(found)
            if task.status != "dead":
                click.echo(f"{plain(place.name)}: {task.status}, nothing to do")
                continue
            told = found.journal.task_or_fail().notebook
        notebook = place.store.parent / Path(told).name
        if not told or not notebook.is_file():
            failed = True
            click.echo(
                f"{plain(place.name)}: dead, and there is no notebook {notebook}: run it where it is now", err=True
            )
            continue
        report = supervisor.run_notebook(notebook, max_restarts=restarts, output=notebook)
        failed = failed or report.status != "completed"
        click.echo(f"{plain(place.name)}: {tables.run_report(report)}", err=report.status != "completed")
    return 1 if failed else 0


@click.command()
@PATH
@click.option("--keep", type=click.IntRange(min=1), help="Finished versions to keep of each step [all].")
def gc(path: Path, keep: int | None) -> None:
    """Free what nothing needs any more in the tasks at PATH: what forgotten steps and killed kernels have left.

    Needs the task for itself: a kernel that has it is shut down first.
    """
    from resumable_nb.cli import tables

    for place in tasks_at(path):
        bus = Bus()
        store = DiskStore(place.path, bus=bus)
        lease = Lease(store, run="gc", bus=bus)
        try:
            freed = Garbage(store, lease, bus).collect(keep)
        finally:
            lease.release()
            store.close()
        counts = [(freed.versions, "version"), (freed.blobs, "blob"), (freed.packs, "pack"), (freed.files, "file")]
        told = ", ".join(plural(count, noun) for count, noun in counts if count) or "nothing to remove"
        click.echo(
            f"{plain(place.name)}: {told}{f', {tables.size(freed.size_bytes)} freed' if freed.size_bytes else ''}"
        )


@click.command()
@PATH
def doctor(path: Path) -> int:
    """Check the task at PATH and what it stands on, and say what to do. Exit status: 1 when something is wrong."""
    place = task_at(path)
    checks: dict[str, Callable[[TaskPlace], Iterator[str]]] = {
        "versions": _versions,
        "key": _key,
        "permissions": _permissions,
        "disk": _disk,
        "records": _records,
        "owner": _owner,
    }
    wrong = False
    for name, check in checks.items():
        try:
            for line in check(place):
                click.echo(f"✓ {name}: {line}")
        except (ResumableError, OSError) as error:
            wrong = True
            click.echo(f"✗ {name}: {plain(str(error), 2000)}")
    return 1 if wrong else 0


def _versions(_: TaskPlace) -> Iterator[str]:
    libraries = ", ".join(f"{name} {version(name)}" for name in DEPENDENCIES)
    yield f"resumable-nb {version('resumable-nb')} (records {SCHEMA}, fingerprints {FINGERPRINTS}), Python " + (
        f"{sys.version.split()[0]}, {libraries}"
    )


def _key(_: TaskPlace) -> Iterator[str]:
    key = key_path()
    if not key.is_file():
        raise UsageError(f"{key} is missing: rows that it signed cannot be read; put it back, or `resumable trust`")
    if key.stat().st_mode & 0o077:
        raise UsageError(f"others can read {key}, and sign rows with it: chmod 600 {key}")
    yield f"{key}, for this user alone"


def _permissions(place: TaskPlace) -> Iterator[str]:
    if place.path.stat().st_mode & 0o077:
        raise UsageError(f"others can look into {place.path}: chmod 700 {place.path}")
    if not os.access(place.path, os.W_OK | os.X_OK):
        raise UsageError(f"{place.path} cannot be written by this user: a kernel could read the task, and not run it")
    yield f"{place.path}, for this user alone"


def _disk(place: TaskPlace) -> Iterator[str]:
    try:
        with tempfile.TemporaryFile(dir=place.path) as file:
            file.write(bytes(1 << 20))
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise StoreUnavailable(f"{place.path}: 1 MB could not be written and synced: {error}") from error
    yield "1 MB written and synced"


def _records(place: TaskPlace) -> Iterator[str]:
    """Reads every row, so that each one's seal is checked."""
    with session.opened(place.name, place.store, live={}) as found:
        rows = sum(1 for _ in found.store.scan(""))
        calls = [call for call in found.journal.calls() if Task(found).in_doubt(call)]
        yield f"{rows} rows, each as it was written"
        if calls:
            raise UsageError(
                f"calls in doubt: {', '.join(call.id for call in calls)}; `resumable resolve` settles them"
            )


def _owner(place: TaskPlace) -> Iterator[str]:
    with session.opened(place.name, place.store, live={}) as found:
        task = Task(found)
        owner = task.owner
        if task.status == "dead":
            raise UsageError("its kernel died in the middle of a step: Run All, or `resumable recover`, goes on")
        yield f"{task.status}; " + (
            "no kernel has it" if owner is MISSING else f"pid {owner.pid} on {owner.host} has it"
        )


COMMANDS: Final = (recover, gc, doctor)
