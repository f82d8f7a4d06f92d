"""The example notebooks show what they show when they are run."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest

from tests.notebooks.refresh import EXAMPLES, close_servers

HERE = Path(__file__).parent
NAMES = sorted(path.name for path in EXAMPLES.glob("*.ipynb"))


def read(name: str) -> Any:
    return nbformat.read(EXAMPLES / name, as_version=4)


def test_all_are_there() -> None:
    assert NAMES == ["agent.ipynb", "orders.ipynb", "quickstart.ipynb"]


@pytest.mark.parametrize("name", NAMES)
def test_notebook_is_valid_executed_and_has_stable_ids(name: str) -> None:
    notebook = read(name)
    nbformat.validate(notebook)
    assert (notebook.nbformat, notebook.nbformat_minor) == (4, 5)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    assert [output for cell in code for output in cell.outputs if output.output_type == "error"] == []
    assert all(len(cell.id) < 20 and cell.id.replace("-", "").isalpha() for cell in notebook.cells)
    assert max(len(line) for cell in notebook.cells for line in cell.source.splitlines()) <= 120


@pytest.mark.parametrize("name", NAMES)
def test_saved_outputs_name_no_place_of_this_machine(name: str) -> None:
    text = json.dumps(read(name))
    assert str(Path.home()) not in text
    assert "/tmp/" not in text


@pytest.mark.kernel
@pytest.mark.parametrize("name", NAMES)
def test_notebook_shows_the_same_again(name: str, tmp_path: Path) -> None:
    """Each output is compared with the saved one, but for times and pictures."""
    for each in EXAMPLES.iterdir():
        if each.is_file():
            shutil.copy(each, tmp_path)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-c",
        os.devnull,
        "--rootdir",
        str(tmp_path),
    ]
    command += ["--nbval", "--nbval-sanitize-with", str(HERE / "sanitize.cfg"), "--nbval-kernel-name", "python3", name]
    environment = {**os.environ, "JPY_SESSION_NAME": str(tmp_path / name)}
    try:
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=240, check=False
        )
    finally:
        close_servers(tmp_path)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
