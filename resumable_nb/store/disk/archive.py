"""A store as one file: a zip of the database as of one instant, and of the value files and packs that go with it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import secrets
import shutil
import sqlite3
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Final

from resumable_nb.errors import Corrupt, StoreUnavailable, UsageError
from resumable_nb.model import MISSING
from resumable_nb.store.disk.database import VALUES
from resumable_nb.store.disk.fault import fault
from resumable_nb.store.disk.marker import MARKER, make_directories, write_new
from resumable_nb.store.disk.reader import DATABASE, Reader
from resumable_nb.store.seal import sync_directory

_MEMBER: Final = re.compile(r"task\.json|cache\.db|values/[0-9a-f]{32}\.val|packs/[0-9a-f]{32}\.pack")
_DRAFT: Final = ".import-"
_ATTEMPTS: Final = 10
_PIECE_BYTES: Final = 1 << 20


def export(store: Path, file: Path) -> int:
    """Write the store to a new file, whole or not at all; returns its bytes. A kernel may go on working meanwhile."""
    if file.exists():
        raise UsageError(f"{file} exists, and is not written over; name another file")
    draft = file.with_name(f".{file.name}.{secrets.token_hex(8)}")
    try:
        with tempfile.TemporaryDirectory(dir=file.parent, prefix=".resumable-export-") as temporary:
            _snapshot(store, Path(temporary))
            fd = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(fd, "w+b") as out:
                _pack(store, Path(temporary), out)
                out.flush()
                os.fsync(out.fileno())
        os.link(draft, file)  # fails where another one has come meanwhile
        sync_directory(file.parent)
        return file.stat().st_size
    except FileExistsError:
        raise UsageError(f"{file} exists, and is not written over; name another file") from None
    except OSError as error:
        raise fault(error, str(file), doing="written") from error
    finally:
        draft.unlink(missing_ok=True)


@contextlib.contextmanager
def arrivals(folder: Path) -> Iterator[Path]:
    """A directory to unpack a store into, which goes in the end unless it was moved away.

    One at a time: what else lies there was left by imports that were killed, and goes too.
    """
    there = next(each for each in (folder, *folder.absolute().parents) if each.is_dir())
    fd = os.open(there, os.O_RDONLY)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)  # the system gives it back when we are killed
        for left in folder.glob(f"{_DRAFT}*"):
            shutil.rmtree(left, ignore_errors=True)
        draft = folder / f"{_DRAFT}{secrets.token_hex(8)}"
        try:
            yield draft
        finally:
            shutil.rmtree(draft, ignore_errors=True)
    finally:
        os.close(fd)


def unpack(file: Path, directory: Path) -> None:
    """Put the archive's files into a new directory, durably. Nothing in them is believed yet."""
    try:
        with zipfile.ZipFile(file) as archive:
            members = archive.infolist()
            _check(file, members)
            make_directories(directory)
            for member in members:
                target = directory / member.filename
                target.parent.mkdir(mode=0o700, exist_ok=True)
                with archive.open(member) as source, _new(target) as out:
                    shutil.copyfileobj(source, out, _PIECE_BYTES)
        for folder in (directory / VALUES, directory / "packs", directory):
            if folder.is_dir():
                sync_directory(folder)
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError) as error:
        raise Corrupt(f"{file} is no whole archive of `resumable export` ({error}); nothing was imported") from error
    except OSError as error:
        raise fault(error, str(directory), doing="written") from error


def _check(file: Path, members: list[zipfile.ZipInfo]) -> None:
    """Only the files of a store, each once, each no larger than it is here."""
    names = [member.filename for member in members]
    strange = [name for name in names if not _MEMBER.fullmatch(name)]
    twice = len(set(names)) != len(names)
    if strange or twice or any(member.compress_type != zipfile.ZIP_STORED for member in members):
        what = f"it holds {strange[0][:80]!r}" if strange else "its parts are not as `resumable export` writes them"
        raise Corrupt(f"{file} is no archive of a task: {what}; nothing was imported")
    if missing := {MARKER, DATABASE} - set(names):
        raise Corrupt(f"{file} is no archive of a task: it has no {min(missing)}; nothing was imported")


def _snapshot(store: Path, temporary: Path) -> None:
    """The database, and the value files that it names. A writer may replace one meanwhile: then once more."""
    for _ in range(_ATTEMPTS):
        reader = Reader(store)
        try:
            if reader.state() is MISSING:
                raise UsageError(f"there is no store at {store}; name a task that ran")
            reader.copy(temporary / DATABASE)
        finally:
            reader.close()
        try:
            for name in _named(temporary / DATABASE):
                (temporary / name).parent.mkdir(exist_ok=True)
                shutil.copyfile(store / name, temporary / name)
            return
        except FileNotFoundError:
            shutil.rmtree(temporary / VALUES)
            (temporary / DATABASE).unlink()
    raise StoreUnavailable(
        f"store {store} could not be copied: a value file is gone, or it changes too fast; try again"
    )


def _named(database: Path) -> list[str]:
    with contextlib.closing(sqlite3.connect(database)) as connection:
        found = connection.execute("SELECT filename FROM Cache WHERE filename IS NOT NULL").fetchall()
    return [str(name) for (name,) in found]


def _pack(store: Path, temporary: Path, out: IO[bytes]) -> None:
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
        archive.write(store / MARKER, MARKER)
        archive.write(temporary / DATABASE, DATABASE)
        for name in _named(temporary / DATABASE):
            archive.write(temporary / name, name)
        # Sealed before the rows that name them, so all are here; one that is being written may go again.
        for path in sorted((store / "packs").glob("*.pack")):
            with contextlib.suppress(FileNotFoundError):
                archive.write(path, f"packs/{path.name}")


@contextlib.contextmanager
def _new(path: Path) -> Iterator[IO[bytes]]:
    write_new(path, b"")
    with path.open("r+b") as out:
        yield out
        out.flush()
        os.fsync(out.fileno())
