"""Run the example notebooks in a fresh folder and save them with their outputs: ``make notebooks``."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
from pathlib import Path
from typing import Any

import nbformat
import psutil

from resumable_nb.supervisor import run_notebook

EXAMPLES = Path(__file__).parent.parent.parent / "examples"


def refresh(folder: Path, name: str) -> None:
    for each in EXAMPLES.iterdir():
        if each.is_file():
            shutil.copy(each, folder)
    report = run_notebook(folder / name, max_restarts=0)
    if report.error is not None:
        raise SystemExit(f"{name}: cell {report.error.cell}: {report.error.traceback}")
    nbformat.write(cleaned(report.notebook), EXAMPLES / name)
    print(f"{name}: saved after {report.duration_s:.1f} s")


def cleaned(notebook: Any) -> Any:
    """Without what changes from run to run, so that a refresh without a change leaves the file as it is."""
    notebook.metadata = {"kernelspec": notebook.metadata["kernelspec"], "language_info": {"name": "python"}}
    for cell in notebook.cells:
        cell.metadata = {}
    return notebook


SERVERS = ("shop.py", "model_server.py")


def close_servers(folder: Path) -> None:
    """The examples' servers outlive their kernels."""
    for process in psutil.process_iter(["cmdline"]):
        command = " ".join(process.info["cmdline"] or ())
        if any(server in command for server in SERVERS) and process.cwd() == str(folder):
            process.send_signal(signal.SIGTERM)


def main(names: list[str]) -> None:
    os.environ.pop("JPY_SESSION_NAME", None)
    for name in names or sorted(each.name for each in EXAMPLES.glob("*.ipynb")):
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place).resolve()
            try:
                refresh(folder, name)
            finally:
                close_servers(folder)


if __name__ == "__main__":
    main(sys.argv[1:])
