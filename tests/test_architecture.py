"""The floors, the doors and the house rules that a machine can check."""

from __future__ import annotations

import contextlib
import io
import re
import subprocess
import sys
from pathlib import Path

import grimp
import pytest
from importlinter import configuration
from importlinter.application import use_cases

import resumable_nb

ROOT = Path(__file__).parent.parent
PACKAGE = Path(resumable_nb.__file__).parent
HEAVY = ("pandas", "ipywidgets", "nbclient", "nbformat", "rich", "matplotlib", "pyarrow")


@pytest.mark.parametrize("contract", ["floors", "stores", "doors"])
def test_import_contract_is_kept(contract: str) -> None:
    """The contracts stand in pyproject.toml; lazy imports and those for typing count."""
    configuration.configure()
    report = io.StringIO()
    with contextlib.redirect_stdout(report), contextlib.chdir(ROOT):
        kept = use_cases.lint_imports(
            config_filename=str(ROOT / "pyproject.toml"), limit_to_contracts=(contract,), cache_dir=None
        )
    assert kept, report.getvalue()


def test_no_module_imports_the_whole_package() -> None:
    """``import resumable_nb`` from inside would go up through the roof, where no contract looks."""
    graph = grimp.build_graph("resumable_nb", cache_dir=None)
    assert graph.find_modules_that_directly_import("resumable_nb") == set()


def test_importing_the_package_imports_nothing_heavy() -> None:
    code = f"import sys, resumable_nb; print(*[name for name in {HEAVY!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.split() == []


def test_all_is_sorted_and_whole() -> None:
    """Every public name that the package binds is in ``__all__``, and nothing else."""
    code = (
        "import types, resumable_nb as r\n"
        "print(*sorted(n for n, v in vars(r).items() if n[0] != '_' and not isinstance(v, types.ModuleType)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    bound = [name for name in done.stdout.split() if name != "annotations"]
    assert list(resumable_nb.__all__) == sorted(resumable_nb.__all__)
    assert set(bound) <= set(resumable_nb.__all__)
    for name in resumable_nb.__all__:
        assert getattr(resumable_nb, name) is not None


def test_files_are_short() -> None:
    """House rule: about 300 lines; 400 is the end."""
    lengths = {str(path.relative_to(ROOT)): len(path.read_text().splitlines()) for path in PACKAGE.rglob("*.py")}
    assert {name: lines for name, lines in lengths.items() if lines > 400} == {}


def test_every_module_stands_in_the_table_of_floors() -> None:
    table = (ROOT / "CONTRIBUTING.md").read_text()
    modules = {path.stem + "/" * path.is_dir() for path in PACKAGE.iterdir() if path.suffix == ".py" or path.is_dir()}
    assert {name for name in modules if f"`{name}`" not in table} - {"__pycache__/"} == set()


def test_package_init_only_hands_out_names() -> None:
    assert len((PACKAGE / "__init__.py").read_text().splitlines()) <= 40


def test_no_file_is_named_for_nothing() -> None:
    """A file is named for the noun that it owns."""
    vague = {"utils", "util", "helpers", "common", "misc"}
    assert [str(path) for path in PACKAGE.rglob("*.py") if path.stem.strip("_") in vague] == []


def test_no_place_of_a_machine_is_written_down() -> None:
    """Neither a folder of the machine that it was written on, nor a package index."""
    place = re.compile(r"/(?:home|root|Users|work|tmp)/\w+|-index-url\b|find-links\b")
    folders = ("resumable_nb", "examples", "binder", "docs", ".ci")
    paths = [
        path for folder in folders for path in (ROOT / folder).rglob("*") if path.suffix in (".py", ".md", ".txt", "")
    ]
    paths += [path for path in ROOT.iterdir() if path.suffix in (".md", ".toml", ".txt") or path.name == "Makefile"]
    assert len(paths) > 40
    assert {
        str(path): place.findall(path.read_text())
        for path in paths
        if path.is_file() and place.search(path.read_text())
    } == {}
