"""A notebook without Jupyter: cells as text, run as steps or as plain cells, and restored in another process."""

from __future__ import annotations

import ast
import json
import linecache
import pickle
import re
import subprocess
import sys
import traceback
from pathlib import Path
from typing import Any

from resumable_nb.events import Bus
from resumable_nb.model import MISSING
from resumable_nb.snapshot import Capture, Namespace, Restored, Snapshots
from resumable_nb.source import Body, analyse
from resumable_nb.store.memory import MemoryStore


def body(text: str) -> Body:
    return analyse(ast.parse(text))


class Notebook:
    """One kernel on a store. ``step`` runs a cell and saves, ``plain`` only runs it, ``skip`` restores."""

    def __init__(self, store: MemoryStore | None = None, *, lazy: bool = True) -> None:
        self.store = MemoryStore() if store is None else store
        self.live: dict[str, Any] = {"__name__": "__main__"}
        self.space = Namespace(self.live, self.live, lambda name: name.startswith("__"), lazy)
        self.bus = Bus()
        self.snapshots = Snapshots(self.store, self.bus, self.live)
        self.cells = 0

    def __getitem__(self, name: str) -> Any:
        self.snapshots.materialise(self.space, [name])
        return self.live[name]

    def plain(self, text: str) -> None:
        self.snapshots.materialise(self.space, self.snapshots.reach(self.space, body(text)))
        self._run(text)

    def _run(self, text: str) -> None:
        self.cells += 1
        name = f"<cell {self.cells}>"
        linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
        exec(compile(text, name, "exec"), self.live)

    def step(self, text: str, *, result: Any = MISSING, **options: Any) -> Capture:
        analysed = body(text)
        self.snapshots.materialise(self.space, self.snapshots.reach(self.space, analysed))
        before = self.snapshots.begin(self.space, analysed)
        self._run(text)
        value = eval(result, self.live) if isinstance(result, str) else result
        capture = self.snapshots.capture(self.space, before, result=value, **options)
        self.store.commit(capture.rows)
        return capture

    def skip(self, capture: Capture) -> Restored:
        return self.snapshots.restore(self.space, capture.manifest_digest)

    def again(self, *captures: Capture) -> Notebook:
        """A new kernel on the same store, with these steps skipped."""
        other = Notebook(self.store)
        for capture in captures:
            other.skip(capture)
        return other


def dump(store: MemoryStore) -> bytes:
    return pickle.dumps((store._rows, store._packs))


def load(data: bytes) -> MemoryStore:
    store = MemoryStore()
    store._rows, store._packs = pickle.loads(data)
    return store


Cells = list[tuple[str, str]]


def cells_of(case: str) -> Cells:
    """A case's text, parted at its lines ``# step``, ``# plain`` and ``# check``."""
    parts = re.split(r"^# (step|plain|check)\n", case, flags=re.MULTILINE)
    return list(zip(parts[1::2], parts[2::2], strict=True))


def replay(cells: Cells, store: MemoryStore, manifests: list[str]) -> str:
    """What a new kernel does: steps are restored, the other cells run. Returns the traceback of what went wrong."""
    notebook = Notebook(store)
    digests = iter(manifests)
    try:
        for kind, text in cells:
            if kind == "step":
                notebook.snapshots.restore(notebook.space, next(digests))
            else:
                notebook.plain(text)
    except Exception:
        return traceback.format_exc()
    return ""


def in_new_process(cases: dict[str, str], folder: Path) -> dict[str, str]:
    """Run each case's cells here, and restore all of them in one other process: case to error, "" for none."""
    jobs = {}
    for name, case in cases.items():
        notebook = Notebook()
        manifests = []
        for kind, text in cells_of(case):
            if kind == "plain":
                notebook.plain(text)
            elif kind == "step":
                manifests.append(notebook.step(text).manifest_digest)
        jobs[name] = (cells_of(case), dump(notebook.store), manifests)
    (folder / "jobs").write_bytes(pickle.dumps(jobs))
    done = subprocess.run(
        [sys.executable, "-W", "error", __file__, str(folder / "jobs")],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, str] = json.loads(done.stdout.splitlines()[-1])
    return found


if __name__ == "__main__":
    work = pickle.loads(Path(sys.argv[1]).read_bytes())
    print(json.dumps({name: replay(cells, load(data), *rest) for name, (cells, data, *rest) in work.items()}))
