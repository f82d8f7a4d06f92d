"""What is installed is what the demonstration and type checkers need."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_wheel_holds_every_module_the_demo_files_and_the_typing_marker(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "-q",
        "--no-deps",
        "--no-build-isolation",
        "-w",
        str(tmp_path),
        ".",
    ]
    subprocess.run(command, cwd=ROOT, capture_output=True, check=True, timeout=120)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    assert {str(path.relative_to(ROOT)) for path in (ROOT / "resumable_nb").rglob("*.py")} <= names
    assert "resumable_nb/py.typed" in names
    demo = {name for name in names if name.startswith("resumable_nb/cli/examples/")}
    assert {Path(name).name for name in demo} == {"orders.ipynb", "purchases.txt", "shop.py"}
    assert not [name for name in names if "test" in name]
