"""Which store is this? Its identity lies in the database and, as a marker, outside: that tells lost from new."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from pathlib import Path
from typing import Final

import msgspec

from resumable_nb.errors import StoreLost, Untrusted
from resumable_nb.model import MISSING, Missing
from resumable_nb.store.seal import sync_directory

MARKER: Final = "task.json"
ROOT: Final = ".resumable"


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """A store's own random id, and the id of the key that signs its rows."""

    store: str
    key: str

    def encode(self) -> bytes:
        return msgspec.json.encode(self)


UNREADABLE: Final = Identity(store="", key="")
"""What a damaged marker says: there was a store."""


def new_identity(key: str) -> Identity:
    return Identity(store=secrets.token_hex(16), key=key)


def decode_identity(data: bytes) -> Identity:
    """Raises ``msgspec.MsgspecError`` for anything else."""
    return msgspec.json.decode(data, type=Identity)


def lost(uri: str, database: str) -> StoreLost:
    return StoreLost(
        f"store {uri} has lost its database {database}, and with it what was done; nothing is repeated on a "
        "guess. Restore the directory from a backup; to begin anew, delete it and restart the kernel",
        uri=uri,
    )


def foreign(uri: str) -> Untrusted:
    return Untrusted(
        f"store {uri} was written under another key, by somebody else or on another machine; nothing was "
        f"read from it. If you know where it comes from, run `resumable trust {uri}`",
        uri=uri,
    )


def read_marker(directory: Path) -> Identity | Missing:
    """The marker's identity; ``UNREADABLE`` where it is damaged."""
    try:
        return decode_identity((directory / MARKER).read_bytes())
    except FileNotFoundError:
        return MISSING
    except msgspec.MsgspecError:
        return UNREADABLE


def write_marker(directory: Path, identity: Identity) -> None:
    """Whole and durable, or not at all."""
    draft = directory / f"{MARKER}.{secrets.token_hex(8)}"
    try:
        write_new(draft, identity.encode())
        draft.replace(directory / MARKER)
    except OSError:
        with contextlib.suppress(OSError):
            draft.unlink()
        raise
    sync_directory(directory)


def write_new(path: Path, data: bytes) -> None:
    """A new, durable file for this user only; no part of it is left behind after an error."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        try:
            view = memoryview(data)
            while view.nbytes:
                view = view[os.write(fd, view) :]
            os.fsync(fd)
        finally:
            os.close(fd)
    except BaseException:
        with contextlib.suppress(OSError):
            path.unlink()
        raise


def make_directories(directory: Path) -> None:
    """Create a store's directory for this user only, kept out of version control."""
    missing = [each for each in (directory, *directory.parents) if not each.exists()]
    for each in reversed(missing):
        each.mkdir(mode=0o700, exist_ok=True)
        sync_directory(each.parent)
    if not directory.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(directory))
    mode = stat.S_IMODE(directory.stat().st_mode)
    if mode & 0o077:
        # Taken from others, never given to oneself: a directory made read-only stays that.
        directory.chmod(mode & 0o700)
    root = directory.parent
    # A directory that neither we made nor bears our name may hold a project: "*" would hide all of it.
    ignore = (root if root in missing or root.name == ROOT else directory) / ".gitignore"
    with contextlib.suppress(FileExistsError):
        write_new(ignore, b"*\n")
