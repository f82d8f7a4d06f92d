"""Who wrote this? Rows carry a keyed BLAKE3 tag under a per-user key, so that nothing foreign is ever unpickled."""

from __future__ import annotations

import contextlib
import hmac
import os
import secrets
import stat
from pathlib import Path
from typing import Final

from blake3 import blake3

from resumable_nb.errors import Corrupt, StoreUnavailable, Untrusted

KEY_BYTES: Final = 32
TAG_BYTES: Final = 32


def key_path() -> Path:
    """Where the user's key lies: ``RESUMABLE_KEY_FILE``, else the XDG data directory."""
    if named := os.environ.get("RESUMABLE_KEY_FILE"):
        return Path(named).expanduser()
    data_home = os.environ.get("XDG_DATA_HOME")
    return (Path(data_home) if data_home else Path("~/.local/share").expanduser()) / "resumable_nb" / "key"


def user_key(*, create: bool = True) -> bytes:
    """The user's key, made at its first use. Raises ``Untrusted`` where there is none and ``create`` is false."""
    path = key_path()
    try:
        try:
            return _read_key(path)
        except FileNotFoundError:
            if not create:
                raise Untrusted(
                    f"there is no signing key at {path}, so nothing here can be told from a stranger's data; "
                    "restore the key file, or accept the store with `resumable trust PATH`",
                    path=str(path),
                ) from None
            _make_key(path)
            return _read_key(path)
    except OSError as error:
        raise StoreUnavailable(
            f"the signing key {path} cannot be used ({error.strerror}); make the file readable and its directory "
            "writable, or set RESUMABLE_KEY_FILE to another place",
            path=str(path),
        ) from error


def _read_key(path: Path) -> bytes:
    fd = os.open(path, os.O_RDONLY)
    try:
        mode = stat.S_IMODE(os.fstat(fd).st_mode)
        data = os.read(fd, KEY_BYTES + 1)
    finally:
        os.close(fd)
    if os.name == "posix" and mode & 0o077:
        raise Untrusted(
            f"the signing key {path} is open to other users (mode {mode:04o}); run `chmod 600 {path}`, or delete it "
            "if somebody may have read it",
            path=str(path),
        )
    if len(data) != KEY_BYTES:
        raise Untrusted(
            f"{path} is not a signing key ({KEY_BYTES} bytes); restore it, or delete it to get a new one "
            "(stores signed with the old one then need `resumable trust PATH`)",
            path=str(path),
        )
    return data


def _make_key(path: Path) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        try:
            os.write(fd, secrets.token_bytes(KEY_BYTES))
            os.fsync(fd)
        finally:
            os.close(fd)
        # A link appears whole or not at all; where another process was first, its key is the one.
        with contextlib.suppress(FileExistsError):
            os.link(draft, path)
    finally:
        draft.unlink()
    sync_directory(path.parent)


def sync_directory(path: Path) -> None:
    """Make the names in a directory durable."""
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def key_id(key: bytes) -> str:
    """A public name for the key, which says nothing about it."""
    return blake3(key, derive_key_context="resumable_nb 2025 key id").hexdigest(length=16)


def digest(data: bytes | memoryview) -> str:
    """The name of a blob or chunk: BLAKE3, in hexadecimal."""
    return blake3(data).hexdigest()


class Seal:
    """Puts a tag before a row's bytes, and takes only bytes whose tag is right."""

    __slots__ = ("_key", "id")

    def __init__(self, key: bytes) -> None:
        self._key = key
        self.id = key_id(key)

    def __repr__(self) -> str:
        return f"<Seal {self.id[:8]}>"

    def seal(self, row_name: str, payload: bytes) -> bytes:
        return self._tag(row_name, payload) + payload

    def unseal(self, row_name: str, data: bytes) -> bytes:
        """The payload. Raises ``Corrupt`` where the bytes were not sealed under this key and this row's name."""
        payload = memoryview(data)[TAG_BYTES:]
        if len(data) < TAG_BYTES or not hmac.compare_digest(self._tag(row_name, payload), data[:TAG_BYTES]):
            raise Corrupt(
                f"row {row_name!r} does not hold the bytes that were written; nothing was read from it; "
                "restore the store from a backup, or forget the task",
                row=row_name,
            )
        return bytes(payload)

    def _tag(self, row_name: str, payload: bytes | memoryview) -> bytes:
        name = row_name.encode()
        # The length keeps a name's end apart from the payload's start.
        return blake3(len(name).to_bytes(8, "little") + name, key=self._key).update(payload).digest()
