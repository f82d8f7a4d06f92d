"""What must never change by accident: recorded calls are known by these digests.

When one of them has to change, raise ``model.FINGERPRINTS``: a task made under another version is refused, because its
payments would not be recognised, and would be made again.
"""

from __future__ import annotations

import datetime as dt
import decimal
import enum
import pathlib
import uuid
from typing import Any

import msgspec
import numpy as np
import pandas as pd
import pytest

from resumable_nb.errors import NewerSchema
from resumable_nb.events import Bus
from resumable_nb.fingerprint import call_identity, fingerprint
from resumable_nb.journal import Journal
from resumable_nb.lease import Lease
from resumable_nb.model import FINGERPRINTS, TaskRecord
from resumable_nb.store.memory import MemoryStore


class Colour(enum.Enum):
    RED = 1


VALUES: list[tuple[Any, str]] = [
    (None, "?"),
    (True, "?"),
    (1, "?"),
    (10**30, "?"),
    (1.5, "?"),
    (float("nan"), "?"),
    (2 + 1j, "?"),
    ("text ü", "?"),
    (b"bytes", "?"),
    ([1, "a", [2.0, None]], "?"),
    ((1, 2), "?"),
    ({"b": 1, "a": [1, 2], 3: "c"}, "?"),
    ([{"id": 1, "x": 0.5}, {"id": 2, "x": 1.5}], "?"),
    ({3, 1, 2}, "?"),
    (frozenset({"a", "b"}), "?"),
    (dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=dt.UTC), "?"),
    (dt.date(2026, 1, 2), "?"),
    (decimal.Decimal("1.10"), "?"),
    (uuid.UUID(int=7), "?"),
    (pathlib.PurePosixPath("a/b"), "?"),
    (range(3), "?"),
    (np.arange(6, dtype="int32").reshape(2, 3), "?"),
    (np.float64(1.5), "?"),
    (pd.DataFrame({"a": [1, 2], "b": [0.5, float("nan")]}), "?"),
    (pd.Series([1, 2], name="s", dtype="int64"), "?"),
]


@pytest.mark.parametrize(
    ("value", "digest"), VALUES, ids=[f"{i}-{type(value).__name__}" for i, (value, _) in enumerate(VALUES)]
)
def test_digest_of_a_value_is_what_it_always_was(value: Any, digest: str) -> None:
    assert fingerprint(value) == digest


def test_identity_of_a_call_is_what_it_always_was() -> None:
    arguments = {"order_id": "A-1", "amount": 250, "options": {"gift": True, "tags": ["x", "y"]}}
    identity = call_identity(
        "incarnation", "charge", "", arguments, secrets={"token": "s3cret"}, key=bytes(range(32)), step=""
    )
    assert identity == "?"


def test_task_with_other_fingerprints_is_refused_untouched() -> None:
    store = MemoryStore()
    journal = Journal(store, Lease(store, run="r", bus=Bus()), Bus())
    old = TaskRecord(name="t", incarnation="i", created_at=0.0, fingerprints=FINGERPRINTS + 1)
    store.commit({"meta": msgspec.json.encode(old)})
    with pytest.raises(NewerSchema, match="begin anew"):
        journal.ensure_task("t")
    assert store.get("meta") == msgspec.json.encode(old)
