"""``export`` and ``import``: one file of one instant, believed only when it is this user's; never over another task."""

from __future__ import annotations

import contextlib
import shutil
import signal
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from resumable_nb.claim import Claim
from resumable_nb.cli.command import run
from resumable_nb.scope import StepScope
from resumable_nb.tooldef import Tool
from tests.kernels import Kernels
from tests.test_history import call

SETUP = """
from resumable_nb import task, tool
@tool(repeatable=True)
def order(n, *, idempotency_key):
    with open("ledger", "a") as ledger:
        ledger.write(f"{n} {idempotency_key}\\n")
    return [n] * 800_000
"""
STEP = """%%resumable a
import numpy as np
big = np.arange(200_000.0)
first = order(1)"""
CHECK = "assert len(first) == 800_000 and big[-1] == 199_999"


@pytest.fixture
def archive(kernels: Kernels, tmp_path: Path) -> Path:
    """Of a task ``book`` with a pack and a value file, exported while its kernel lives; that goes on afterwards."""
    kernel = kernels(SETUP, STEP)
    file = tmp_path / "book.zip"
    assert run(["export", str(tmp_path), str(file)]) == 0
    kernel("order(2)")
    kernel.close()
    assert file.stat().st_mode & 0o777 == 0o600
    return file


def keys(folder: Path) -> list[list[str]]:
    return [line.split() for line in (folder / "ledger").read_text().splitlines()]


@pytest.mark.parametrize(("options", "same"), [([], False), (["--move"], True)])
def test_an_imported_task_goes_on_where_it_was(
    options: list[str], same: bool, archive: Path, kernels: Kernels, tmp_path: Path
) -> None:
    """A copy's new calls have keys of their own; a moved task's are those of the original."""
    there = tmp_path / "there"
    there.mkdir()
    assert run(["import", str(archive), "--store", str(there / ".resumable"), *options]) == 0
    kernel = kernels(SETUP, folder=there)
    assert kernel(STEP).messages[0].startswith("✓ a: ")
    kernel(CHECK, "order(2)", CHECK)
    kernel.close()
    ((n, key),) = keys(there)
    assert n == "2"
    assert (key == keys(tmp_path)[1][1]) is same
    assert run(["doctor", str(there)]) == 0


@pytest.mark.sweep
def test_what_a_killed_import_left_goes_with_the_next_one(archive: Path, tmp_path: Path) -> None:
    store = tmp_path / "there" / ".resumable"
    script = (
        "import os, signal, sys\n"
        "from resumable_nb.cli import transfer\n"
        "from resumable_nb.cli.command import run\n"
        "transfer._settle = lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL)\n"
        "run(sys.argv[1:])"
    )
    command = ["import", str(archive), "--store", str(store)]
    assert subprocess.run([sys.executable, "-c", script, *command], check=False).returncode == -signal.SIGKILL
    assert len([*store.glob(".import-*")]) == 1
    assert run(command) == 0
    assert sorted(each.name for each in store.iterdir()) == [".gitignore", "book"]


def test_no_task_and_no_file_is_written_over(archive: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = archive.read_bytes()
    assert run(["export", str(tmp_path), str(archive)]) == 2
    assert "is not written over" in capsys.readouterr().err
    assert archive.read_bytes() == before
    assert run(["import", str(archive), "--store", str(tmp_path / ".resumable")]) == 2
    assert "is not written over" in capsys.readouterr().err
    assert sorted(path.name for path in (tmp_path / ".resumable").iterdir()) == [".gitignore", "book"]


def test_another_users_archive_is_refused_until_it_is_trusted(
    archive: Path, kernels: Kernels, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RESUMABLE_KEY_FILE", str(tmp_path / "other" / "key"))
    there = tmp_path / "there"
    there.mkdir()
    command = ["import", str(archive), "--store", str(there / ".resumable")]
    assert run(["export", str(tmp_path), str(tmp_path / "stolen.zip")]) == 1
    assert run(command) == 1
    assert f"`resumable import {archive} --trust`" in capsys.readouterr().err
    assert not list((there / ".resumable").glob("*book*"))
    assert run([*command, "--trust"]) == 0
    kernel = kernels(SETUP, folder=there)
    assert kernel(STEP).messages[0].startswith("✓ a: ")
    kernel(CHECK)


def changed(archive: Path, change: Callable[[str, bytes], tuple[str, bytes]]) -> Path:
    made = archive.with_name("changed.zip")
    with zipfile.ZipFile(archive) as old, zipfile.ZipFile(made, "w") as new:
        for name in old.namelist():
            new.writestr(*change(name, old.read(name)))
    return made


def flip(data: bytes) -> bytes:
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]


CHANGES: dict[str, Callable[[str, bytes], tuple[str, bytes]]] = {
    "a record": lambda name, data: (name, data.replace(b'"first run"', b'"other run"') if name == "cache.db" else data),
    "a pack": lambda name, data: (name, flip(data) if name.startswith("packs/") else data),
    "a value": lambda name, data: (name, flip(data) if name.startswith("values/") else data),
    "a pack that is gone": lambda name, data: (f"packs/{'0' * 32}.pack" if name.startswith("packs/") else name, data),
    "a path that leads out": lambda name, data: ("../out" if name.startswith("packs/") else name, data),
    "a path from the root": lambda name, data: ("/tmp/out" if name.startswith("packs/") else name, data),
    "a file of another kind": lambda name, data: ("packs/x.py" if name.startswith("packs/") else name, data),
    "no database": lambda name, data: (f"values/{'0' * 32}.val" if name == "cache.db" else name, data),
}


def test_a_changed_archive_is_refused(archive: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    there = tmp_path / "there"
    for what, change in CHANGES.items():
        made = changed(archive, change)
        assert run(["import", str(made), "--store", str(there)]) == 1, what
        assert "Corrupt: " in capsys.readouterr().err, what
    cut = tmp_path / "cut.zip"
    cut.write_bytes(archive.read_bytes()[:-100])
    assert run(["import", str(cut), "--store", str(there)]) == 1
    assert "no whole archive" in capsys.readouterr().err
    assert not [path for path in there.rglob("*") if path.name != ".gitignore"]
    assert not (tmp_path / "out").exists()
    with contextlib.suppress(FileNotFoundError):
        shutil.rmtree(there)
    assert run(["import", str(changed(archive, lambda name, data: (name, data))), "--store", str(there)]) == 0


def test_an_undo_has_the_key_of_whoever_made_the_call() -> None:
    """What two copies share is undone once for the receiver; what each did by itself, by itself."""
    tool = Tool(name="refund", function=lambda n, *, idempotency_key: n)

    def key(branch: str, made_by: str) -> str:
        undone = call("c", 1.0, branch=made_by)
        return Claim(
            tool, StepScope(), (1,), {}, incarnation="i", key=bytes(32), branch=branch, undoes=undone
        ).idempotency_key

    assert key("", "") == key("copy", "")
    assert len({key("", ""), key("copy", "copy"), key("other", "other")}) == 3
