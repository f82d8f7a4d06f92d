"""A notebook that uses everything: its cells, and a process that runs them all and may die on the way.

``python notebook.py FOLDER [POINT N exit|kill]``: Run All in a real IPython shell; the N-th time that POINT is passed
the process dies. The variables at the end go to ``final.json``, effects to ``ledger.jsonl``, counts of commit points
to ``points.json``. The ledger is written with fsync by the tools themselves, and read by the tests alone.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections import Counter
from pathlib import Path
from typing import Any

CELLS = [
    "%load_ext resumable_nb",
    """
import json, os, random
import numpy as np
from resumable_nb import tool, track, step, Happened, NotHappened

def record(kind, n):
    line = json.dumps([kind, n]) + "\\n"
    fd = os.open("ledger.jsonl", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(fd, line.encode()); os.fsync(fd); os.close(fd)

def lookup(kind):
    def ask(n):
        with open("ledger.jsonl", "a+") as ledger:
            ledger.seek(0)
            known = [json.loads(line) for line in ledger]
        return Happened(n * 10) if [kind, n] in known else NotHappened()
    return ask

@tool(repeatable=True)
def fetch(n):
    record("fetch", n)
    return {"page": n, "rows": [n, n + 1]}

@tool(reconcile=lookup("pay"))
def pay(n):
    record("pay", n)
    return n * 10

@tool(reconcile=lookup("ship"))
async def ship(n):
    record("ship", n)
    return n * 10
""",
    """%%resumable fetched
random.seed(7)
pages = [fetch(n) for n in track(range(3), "pages")]
rows = [row for page in pages for row in page["rows"]]
same = rows
scratch = "gone in a moment"
""",
    """%%resumable mutated
rows.append(random.randrange(1000))
del scratch
big = np.arange(200_000, dtype="float64") * rows[1] + 1
view = big[10:20]
""",
    """%%resumable paid
receipts = []
noise = []
for n in track(range(6), "payments", keep=["receipts", "noise"], every=2):
    receipts.append(pay(n))
    noise.append(random.random())
""",
    """%%resumable shipped
shipped = [await ship(n) for n in (1, 2)]
for part in "ab":
    with step(f"part {part}") as s:
        done = globals().get("done", []) + [pay(100 + ord(part))]
""",
    """
assert view.base is not None and np.shares_memory(view, big), "a view is a view of its base"
assert same is rows, "two names, one list"
""",
]

FINAL = """
import json
values = {name: globals()[name] for name in ["pages", "rows", "same", "receipts", "noise", "shipped", "done"]}
values |= {"big": [float(big.sum()), str(big.dtype)], "view": view.tolist(), "scratch": "scratch" in globals()}
with open("final.json", "w") as file:
    json.dump(values, file)
"""


def main(folder: str, point: str = "", n: str = "0", how: str = "exit") -> int:
    os.chdir(folder)
    os.environ["JPY_SESSION_NAME"] = str(Path(folder) / "everything.ipynb")
    from IPython.core.interactiveshell import InteractiveShell

    shell = InteractiveShell.instance()
    seen: Counter[str] = Counter()

    def watch(event: Any) -> None:
        seen[event.kind] += 1
        if event.kind == point and seen[point] == int(n):
            if how == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            os._exit(9)

    for index, cell in enumerate([*CELLS, FINAL]):
        result = shell.run_cell(cell, store_history=True)
        if not result.success:
            print(f"cell {index} failed: {result.error_before_exec or result.error_in_exec!r}", file=sys.stderr)
            return 1
        if index == 0:
            from resumable_nb import session

            session.current().bus.listen(watch)
    Path("points.json").write_text(json.dumps(seen))
    session.close()
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
