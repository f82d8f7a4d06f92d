"""``resumable export`` and ``import``: a task as one file, and back."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click

from resumable_nb.arrival import arrive
from resumable_nb.cli.place import task_at
from resumable_nb.errors import Untrusted, UsageError
from resumable_nb.events import Bus
from resumable_nb.journal import Journal
from resumable_nb.lease import Lease
from resumable_nb.place import root, slug
from resumable_nb.store.disk import DiskStore, archive
from resumable_nb.store.seal import sync_directory
from resumable_nb.wording import plain


@click.command(short_help="Write the task at PATH to one FILE.")
@click.argument("path", type=click.Path(path_type=Path, exists=True))
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
def export(path: Path, file: Path) -> None:
    """Write the task at PATH, as it is now, to one new FILE (a zip). A kernel that has it goes on meanwhile."""
    from resumable_nb.cli import tables

    place = task_at(path)
    store = DiskStore(place.path)
    try:
        store.exists()  # this user's, and whole
    finally:
        store.close()
    size_bytes = archive.export(place.path, file.absolute())
    click.echo(f"{plain(place.name)}: {tables.size(size_bytes)} in {plain(str(file))}")


@click.command("import", short_help="Take the task in FILE into a store.")
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option(
    "--store", type=click.Path(path_type=Path, file_okay=False), help="The store [.resumable in this folder]."
)
@click.option(
    "--move", is_flag=True, help="The original goes no further: go on in its place, with its idempotency keys."
)
@click.option("--trust", is_flag=True, help="Accept what was written under another key, as `resumable trust` does.")
def import_command(file: Path, store: Path | None, move: bool, trust: bool) -> None:
    """Take the task in FILE into a store that has no task of its name. Nothing is unpickled.

    It is a copy: recorded steps and calls answer as they did, and calls yet to be made are calls of its own, with other
    idempotency keys than the original's. With --move it goes on in the original's place.
    """
    folder = root(store, Path.cwd())
    with archive.arrivals(folder) as draft:
        archive.unpack(file, draft)
        name = _settle(draft, file, move=move, trust=trust)
        target = folder / slug(name)
        try:
            if target.exists():
                raise FileExistsError
            draft.rename(target)
        except OSError:
            raise UsageError(f"{target} exists, and is not written over; import into another --store") from None
        sync_directory(folder)
    click.echo(f"{plain(name)}: imported as {plain(str(target))}, {'in place of the original' if move else 'a copy'}")


def _settle(draft: Path, file: Path, *, move: bool, trust: bool) -> str:
    """The name of the task that was unpacked, when all of it is found to be as it was written."""
    bus = Bus()
    store = DiskStore(draft, bus=bus)
    lease = Lease(store, run="import", bus=bus)
    try:
        if trust:
            store.trust()
        return arrive(store, lease, Journal(store, lease, bus), original=move).name
    except Untrusted:
        raise Untrusted(
            f"{file} was written under another key, by somebody else or on another machine; nothing was read from it. "
            f"Its pickles can run any code: if you know where it comes from, `resumable import {file} --trust`"
        ) from None
    finally:
        store.close()


COMMANDS: Final = (export, import_command)
