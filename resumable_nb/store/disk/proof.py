"""Is the store in this directory this user's, and the one that was here before?"""

from __future__ import annotations

from pathlib import Path

import msgspec

from resumable_nb.errors import Corrupt, StoreLost
from resumable_nb.model import MISSING, Missing
from resumable_nb.store.base import IDENTITY
from resumable_nb.store.disk import counter
from resumable_nb.store.disk.fault import fault
from resumable_nb.store.disk.marker import Identity, decode_identity, foreign, lost, read_marker
from resumable_nb.store.disk.reader import DATABASE, Reader, State
from resumable_nb.store.seal import TAG_BYTES, Seal, user_key


class Proof:
    """Known once it was checked, for the file that was there then."""

    def __init__(self, path: Path, reader: Reader, seal: Seal | None) -> None:
        self._path, self._uri, self._reader, self._seal = path, str(path), reader, seal
        self.identity: Identity | None = None
        """Who this store is, once that is known and its seal was checked; of the file in ``inode``."""
        self.inode: tuple[int, int] | None = None

    @property
    def seal(self) -> Seal:
        if self._seal is None:
            self._seal = Seal(user_key(create=True))
        return self._seal

    def forget(self) -> None:
        self.inode = self.identity = None

    def verify(self) -> bool:
        """Whether there is a store. Raises ``StoreError`` for one that is another's, or not the one that was here."""
        try:
            # The marker first: it is written after the database, so it can't be there without one.
            marker = read_marker(self._path) if self.identity is None else self.identity
        except OSError as error:
            raise fault(error, self._uri, doing="read") from error
        state = self._reader.state()
        if state is not MISSING and self.inode == (state.device, state.inode):
            return True
        # The note first: it is written after the commit that it counts.
        then = counter.noted(self._path)
        rows = self._reader.row(IDENTITY)
        if not rows or state is MISSING:
            if marker is not MISSING:
                raise self.lost()
            return False
        self._adopt(rows[0][3], state, marker, then)
        return True

    def _adopt(self, data: bytes, state: State, marker: Identity | Missing, then: int | None) -> None:
        try:
            identity = decode_identity(bytes(data)[TAG_BYTES:])
        except msgspec.MsgspecError as error:
            raise Corrupt(
                f"store {self._uri} has a damaged identity; restore it from a backup", uri=self._uri
            ) from error
        if marker is not MISSING and marker.store not in ("", identity.store):
            raise self.lost()
        if self._seal is None:
            self._seal = Seal(user_key(create=False))
        if identity.key != self._seal.id:
            raise foreign(self._uri)
        self._seal.unseal(IDENTITY, bytes(data))
        if behind := counter.missing(self._reader.commits(), then):
            raise counter.went_back(self._uri, behind)
        self.identity, self.inode = identity, (state.device, state.inode)

    def lost(self) -> StoreLost:
        return lost(self._uri, DATABASE)
