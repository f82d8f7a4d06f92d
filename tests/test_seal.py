"""Sealed rows are told from everything else."""

from __future__ import annotations

import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from blake3 import blake3
from hypothesis import given
from hypothesis import strategies as st

from resumable_nb.errors import Corrupt, StoreUnavailable, Untrusted
from resumable_nb.store.seal import KEY_BYTES, TAG_BYTES, Seal, digest, key_id, key_path, user_key

KEY = b"k" * KEY_BYTES


@given(row=st.text(st.characters(exclude_categories=["Cs"])), payload=st.binary())
def test_sealed_bytes_come_back(row: str, payload: bytes) -> None:
    sealed = Seal(KEY).seal(row, payload)
    assert sealed[TAG_BYTES:] == payload, "rows can be read without this package"
    assert Seal(KEY).unseal(row, sealed) == payload


@given(payload=st.binary(max_size=40), data=st.data())
def test_any_flipped_bit_is_corrupt(payload: bytes, data: st.DataObject) -> None:
    sealed = bytearray(Seal(KEY).seal("row", payload))
    bit = data.draw(st.integers(0, len(sealed) * 8 - 1))
    sealed[bit // 8] ^= 1 << bit % 8
    with pytest.raises(Corrupt) as error:
        Seal(KEY).unseal("row", bytes(sealed))
    assert error.value.row == "row"


@pytest.mark.parametrize("size_bytes", range(TAG_BYTES + 5))
def test_truncated_bytes_are_corrupt(size_bytes: int) -> None:
    with pytest.raises(Corrupt):
        Seal(KEY).unseal("row", Seal(KEY).seal("row", b"value")[:size_bytes])


def test_bytes_under_another_name_are_corrupt() -> None:
    """Also where name and payload run together to the same text."""
    sealed = Seal(KEY).seal("ab", b"c")
    with pytest.raises(Corrupt):
        Seal(KEY).unseal("b", sealed)
    with pytest.raises(Corrupt):
        Seal(KEY).unseal("a", sealed[:TAG_BYTES] + b"bc")


def test_bytes_of_another_key_are_corrupt() -> None:
    with pytest.raises(Corrupt):
        Seal(b"o" * KEY_BYTES).unseal("row", Seal(KEY).seal("row", b"value"))


def test_names_of_keys_and_content() -> None:
    assert key_id(KEY) == Seal(KEY).id
    assert key_id(KEY) != key_id(b"o" * KEY_BYTES)
    assert KEY.hex() not in key_id(KEY)
    assert len(key_id(KEY)) == 32
    assert digest(b"data") == digest(memoryview(b"data")) == blake3(b"data").hexdigest()
    assert "kkk" not in repr(Seal(KEY))


# -- the user's key


def test_key_is_made_once_and_private(key_file: Path) -> None:
    key = user_key()
    assert len(key) == KEY_BYTES
    assert user_key() == user_key(create=False) == key == key_file.read_bytes()
    assert stat.S_IMODE(key_file.stat().st_mode) == 0o600
    assert [each.name for each in key_file.parent.iterdir()] == [key_file.name]


def test_key_lies_in_the_data_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RESUMABLE_KEY_FILE")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    assert key_path() == tmp_path / "data" / "resumable_nb" / "key"
    user_key()
    assert stat.S_IMODE(key_path().parent.stat().st_mode) == 0o700
    monkeypatch.delenv("XDG_DATA_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert key_path() == tmp_path / ".local" / "share" / "resumable_nb" / "key"


def test_key_is_not_made_for_reading(key_file: Path) -> None:
    with pytest.raises(Untrusted, match=str(key_file)):
        user_key(create=False)
    assert not key_file.exists()


@pytest.mark.parametrize("data", [b"", b"short", b"l" * (KEY_BYTES + 1)])
def test_file_that_is_no_key_is_refused(key_file: Path, data: bytes) -> None:
    key_file.write_bytes(data)
    key_file.chmod(0o600)
    with pytest.raises(Untrusted, match="not a signing key"):
        user_key()
    assert key_file.read_bytes() == data


def test_key_that_others_can_read_is_refused(key_file: Path) -> None:
    user_key()
    key_file.chmod(0o640)
    with pytest.raises(Untrusted, match="chmod 600"):
        user_key()


def test_key_without_a_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "file"
    file.touch()
    monkeypatch.setenv("RESUMABLE_KEY_FILE", str(file / "key"))
    with pytest.raises(StoreUnavailable, match="RESUMABLE_KEY_FILE") as error:
        user_key()
    assert isinstance(error.value.__cause__, OSError)


def test_keys_made_at_once_are_one(key_file: Path) -> None:
    start = threading.Barrier(8)
    keys: list[bytes] = []

    def make() -> None:
        start.wait()
        keys.append(user_key())

    threads = [threading.Thread(target=make) for _ in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert len(keys) == 8
    assert set(keys) == {key_file.read_bytes()}


def test_seal_is_the_same_in_another_process() -> None:
    script = f"from resumable_nb.store.seal import Seal; print(Seal({KEY!r}).seal('row', b'value').hex())"
    output = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert bytes.fromhex(output) == Seal(KEY).seal("row", b"value")
