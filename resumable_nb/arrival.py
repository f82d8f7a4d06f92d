"""A task that comes from an archive: checked, made nobody's, and made a copy with calls of its own."""

from __future__ import annotations

import uuid
from collections import defaultdict

import msgspec

from resumable_nb.errors import Corrupt, UsageError
from resumable_nb.journal import Journal
from resumable_nb.lease import ROW as LEASE
from resumable_nb.lease import Lease
from resumable_nb.model import MISSING, Extent, TaskRecord
from resumable_nb.pack import ROW as CHUNK
from resumable_nb.pack import digest
from resumable_nb.store.base import Store


def arrive(store: Store, lease: Lease, journal: Journal, *, original: bool) -> TaskRecord:
    """Check all of it, and say whose it is now; returns the task's record.

    A copy: what is recorded answers as it did, and calls that are yet to be made get other idempotency keys than the
    original's. ``original``: it goes on in the original's place, with its keys.
    """
    record = check(store, journal)
    branch = record.branch if original else uuid.uuid4().hex
    record = msgspec.structs.replace(record, branch=branch)
    rows = {"meta": msgspec.json.encode(record)}
    if (owner := lease.owner()) is not MISSING:  # whoever had the original has nothing of this one
        rows[LEASE] = msgspec.json.encode(msgspec.structs.replace(owner, token=""))
    store.commit(rows)
    return record


def check(store: Store, journal: Journal) -> TaskRecord:
    """Read every row, whose seal is checked so, and every chunk of every pack. Raises ``Corrupt``, ``Untrusted``."""
    chunks = defaultdict[str, list[Extent]](list)
    for row, data in store.scan(""):
        if row.startswith(CHUNK):
            extent = msgspec.json.decode(data, type=Extent)
            chunks[extent.pack].append(extent)
    for pack, extents in chunks.items():
        for extent in extents:
            piece = memoryview(bytearray(extent.size_bytes))
            store.read_pack(pack, extent.offset, piece)
            if digest(piece) != extent.digest:
                raise Corrupt(f"pack {pack} does not hold at {extent.offset} what was written", pack=pack)
    record = journal.task()
    if record is MISSING:
        raise UsageError("there is no task in this archive; nothing was imported")
    return record
