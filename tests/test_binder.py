"""Binder's steps, in a clean virtual environment: install, postBuild, open the quickstart, run it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGE = "lab/tree/examples/quickstart.ipynb"


def test_the_address_that_is_told_is_one_that_exists() -> None:
    assert f"?urlpath={PAGE}" in (ROOT / "CONTRIBUTING.md").read_text()
    assert (ROOT / PAGE.removeprefix("lab/tree/")).is_file()


def test_binder_has_a_python_that_we_support() -> None:
    version = (ROOT / "binder" / "runtime.txt").read_text().strip().removeprefix("python-")
    assert f'"Programming Language :: Python :: {version}"' in (ROOT / "pyproject.toml").read_text()


@pytest.mark.sweep
@pytest.mark.timeout(900)
def test_binder_builds_opens_and_runs(tmp_path: Path) -> None:
    repository = tmp_path / "repository"
    skipped = shutil.ignore_patterns(".*", "__pycache__", "build", "dist")
    shutil.copytree(ROOT, repository, ignore=skipped)
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True, timeout=120)
    programs = tmp_path / "venv" / "bin"
    environment = {**os.environ, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}", "HOME": str(tmp_path)}
    environment.pop("PYTHONPATH", None)

    def run(*command: str) -> None:
        done = subprocess.run(
            command, cwd=repository, env=environment, capture_output=True, text=True, timeout=280, check=False
        )
        assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout[-3000:]}{done.stderr[-3000:]}"

    run(str(programs / "pip"), "install", "--quiet", "-r", "binder/requirements.txt")
    run("binder/postBuild")
    run(str(programs / "resumable"), "run", "examples/quickstart.ipynb", "--restarts", "0")
    assert "letters sent" in (repository / "examples" / "quickstart.ipynb").read_text()
    run(str(programs / "resumable"), "demo", "--kills", "1")  # from the installed wheel
    assert "JupyterLab" in served(programs / "jupyter-lab", repository, environment)


def served(lab: Path, folder: Path, environment: dict[str, str]) -> str:
    """The page that Binder would open."""
    log = folder / "lab.log"
    with log.open("w") as out:
        server = subprocess.Popen(
            [lab, "--no-browser", "--allow-root", "--port=0", "--ip=127.0.0.1", "--IdentityProvider.token=t"],
            cwd=folder,
            env=environment,
            stdout=out,
            stderr=out,
        )
    try:
        while not (found := re.search(r"http://127\.0\.0\.1:(\d+)/", log.read_text())):
            assert server.poll() is None, log.read_text()
            time.sleep(0.1)
        address = f"http://127.0.0.1:{found[1]}/{PAGE}?token=t"
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        while True:
            try:
                with opener.open(address, timeout=60) as page:
                    return str(page.read().decode())
            except urllib.error.URLError as error:  # it tells its address before it listens
                if server.poll() is not None or not isinstance(error.reason, ConnectionRefusedError):
                    raise AssertionError(log.read_text()) from error
                time.sleep(0.1)
    finally:
        server.terminate()
        server.wait(30)
