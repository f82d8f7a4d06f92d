"""What must never change by accident: recorded calls are known by these digests.

When one of them has to change, raise ``model.FINGERPRINTS``: a task made under another version is refused, because its
payments would not be recognised, and would be made again.
"""

from __future__ import annotations

import collections
import datetime as dt
import decimal
import fractions
import ipaddress
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

VALUES: list[tuple[Any, str]] = [
    (None, "34ab8b65c2622b75106dba567a23b032"),
    (True, "3d5ce082d3e6c13e406b078e5157bb6a"),
    (1, "10d5fb68e2e1ccf71dc966df448ea316"),
    (10**30, "543e8b27eb07f769d05417bc3607af8e"),
    (1.5, "2a3a3e13e9614bafba8bc18ffb041087"),
    (float("nan"), "d72207e75879ec9bb38825220ea5cfc8"),
    (2 + 1j, "d152ba6b199b8c55bffbd85f2b8e030c"),
    ("text ü", "1efb3806b1243bbc9398b3bf97bd066f"),
    (b"bytes", "6d3549e322ca6ec60d8f133d518d262d"),
    ([1, "a", [2.0, None]], "ee7cd1d7829ec1ebed1c259d71bfbcff"),
    ((1, 2), "2ac2026cd138f1b0ae9485dbddbe53ec"),
    ({"b": 1, "a": [1, 2], 3: "c"}, "e3729bfdcabd59f2f001c99297b310e9"),
    ([{"id": 1, "x": 0.5}, {"id": 2, "x": 1.5}], "bcf414271a2b24729709a96882872b50"),
    ({3, 1, 2}, "bc2107c06f5a6880b7f9f296a4fef838"),
    (frozenset({"a", "b"}), "67f421152e6664a02a2f47ea48697f26"),
    (dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=dt.UTC), "e86c62ecea3a3755c2e4a7c9cf132283"),
    (dt.date(2026, 1, 2), "a316edca173ef14b4aa879d8144dae60"),
    (decimal.Decimal("1.10"), "aa3fc75a1b7a8635a45dd36c628976a1"),
    (uuid.UUID(int=7), "b6c6226f54015af8f122d0867add4cca"),
    (pathlib.PurePosixPath("a/b"), "4cf5a2a16394f7297c14a91e13aca0a5"),
    (pathlib.PurePosixPath("a") / "b", "4cf5a2a16394f7297c14a91e13aca0a5"),
    (fractions.Fraction(1, 3), "04736f94294e25f99a4bff7978a94799"),
    (ipaddress.ip_address("10.0.0.1"), "d5358fc744adf5a3959575d19dd5dd98"),
    (collections.OrderedDict(a=1), "5f73f892624e1c21f3d1098cc727bbc8"),
    (pd.Timestamp("2026-01-01", tz="UTC"), "48be37d2a4712df066ff8d94b26e9b02"),
    (range(3), "d0323fc2c34d2011860d8e6f9d6493c6"),
    (np.arange(6, dtype="int32").reshape(2, 3), "6518ff4acb841f8decda26b79c544e56"),
    (np.float64(1.5), "4623b339634831c044a5f2f07de5b0f8"),
    (pd.DataFrame({"a": [1, 2], "b": [0.5, float("nan")]}), "3e8910594d226bea53474150e3671e9a"),
    (pd.Series([1, 2], name="s", dtype="int64"), "7ec37fb41ba1ab492e7b60b62b2895bf"),
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
    assert identity == "e5dd4c1be5f8fc98c5a7f1bb55b943d0"


def test_task_with_other_fingerprints_is_refused_untouched() -> None:
    store = MemoryStore()
    journal = Journal(store, Lease(store, run="r", bus=Bus()), Bus())
    old = TaskRecord(name="t", incarnation="i", created_at=0.0, fingerprints=FINGERPRINTS + 1)
    store.commit({"meta": msgspec.json.encode(old)})
    with pytest.raises(NewerSchema, match="begin anew"):
        journal.ensure_task("t")
    assert store.get("meta") == msgspec.json.encode(old)
