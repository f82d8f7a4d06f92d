"""Objects that cannot be pickled, and are made again from what they stand for: no step runs for them."""

from __future__ import annotations

import pytest

from tests.rows import Row, Seeds, prove, row

pytestmark = pytest.mark.kernel

RECIPES: dict[str, Row] = {
    "file that is read goes on at its line": row("from pathlib import Path\n_ = Path('in.txt').write_text('a\\nb\\nc\\n')\nf = open('in.txt')\nfirst = f.readline()", "second = f.readline()", check="assert (first, second, f.readline(), f.name, f.mode) == ('a\\n', 'b\\n', 'c\\n', 'in.txt', 'r')\nf.close()"),
    "file that is written keeps what it has": row("f = open('out.txt', 'w')\nn = f.write('one\\n')", "n += f.write('two\\n')", check="assert open('out.txt').read() == 'one\\ntwo\\n' and (f.tell(), f.mode, n) == (8, 'w', 8)"),
    "two names for one file": row("f = open('out.bin', 'wb')\nlog = {'to': f}", "n = log['to'].write(b'ab')", check="assert log['to'] is f and f.tell() == 2"),
    "synchronisation": row(
        "import threading, queue\nevent, gate, room = threading.Event(), threading.Condition(), threading.Semaphore(3)\nevent.set()\nagain = threading.RLock()\nq = queue.Queue(); q.put([1])",
        "room.acquire(); q.put([2])",
        check="assert event.is_set() and q.get(timeout=0) == [1] and q.get(timeout=0) == [2] and room.acquire(blocking=False) and room.acquire(blocking=False) and not room.acquire(blocking=False)\nwith gate, again: gate.notify()",
    ),
    "one lock in two objects": row("import threading\nlock = threading.Lock()\na, b = {'lock': lock}, [lock]", "a['n'] = 1", check="assert a['lock'] is b[0] is lock\nwith lock: assert b[0].locked()"),
    "pool of processes": row("from concurrent.futures import ProcessPoolExecutor\npool = ProcessPoolExecutor(2)\nn = [1]", "n.append(2)", check="assert pool._max_workers == 2 and n == [1, 2]\npool.shutdown()"),
    "finished future": row("from concurrent.futures import ThreadPoolExecutor\nwith ThreadPoolExecutor(1) as pool:\n    f = pool.submit(sum, [1, 2])", "n = [f.result()]", check="assert n == [3] and f.result() == 3"),
    "context variable with a value": row("import contextvars\nv = contextvars.ContextVar('v', default=0)\nt = [1]\n_ = v.set(t)", "t.append(2)", check="assert v.get() is t and t == [1, 2] and contextvars.Context().run(v.get) == 0"),
    "matches of all kinds": row("import re\nms = list(re.finditer('a(.)', 'abacad'))\nm = re.compile('b+').search('aabb', 1)", "n = [each[1] for each in ms]", check="assert [each.span(1) for each in ms] == [(1, 2), (3, 4), (5, 6)] and (m.span(), m.pos, m.string) == ((2, 4), 1, 'aabb') and n == ['b', 'c', 'd']"),
    "logger by its name": row("import logging\nlog = logging.getLogger('shop')\nowner = {'log': log}", "owner['n'] = 1", check="assert owner['log'] is log is logging.getLogger('shop')"),
    "connection to a database file": row(
        "import sqlite3\ndb = sqlite3.connect('my.db')\ndb.row_factory = sqlite3.Row\n_ = db.execute('pragma foreign_keys = 1')\nwith db:\n    _ = db.execute('create table t (n integer)')",
        "with db:\n    _ = db.execute('insert into t values (1)')",
        check="assert [tuple(each) for each in db.execute('select n from t')] == [(1,)] and db.row_factory is sqlite3.Row and db.execute('pragma foreign_keys').fetchone()[0] == 1\ndb.close()",
    ),
    "mapped file": row("import numpy as np\nm = np.memmap('m.bin', 'u1', 'w+', shape=(8,))\nhalf = m[4:]", "half[0] = 7", check="assert m.filename and m[4] == 7\nhalf[1] = 8; m.flush()\nassert open('m.bin', 'rb').read()[4:6] == b'\\x07\\x08'"),
}  # fmt: skip


@pytest.mark.parametrize("name", RECIPES)
def test_made_again_without_running_the_step(seeds: Seeds, name: str) -> None:
    prove(seeds, RECIPES[name])


def test_a_file_that_changed_is_an_error_and_not_another_content(seeds: Seeds) -> None:
    cell = "%%resumable read\nf = open('in.txt')\nhead = f.readline()"
    (seeds.folder / "in.txt").write_text("one\ntwo\n")
    seeds()(cell)
    (seeds.folder / "in.txt").write_text("ONE\nTWO\n")
    kernel = seeds()
    kernel(cell, "assert head == 'one\\n'")
    shown = kernel.attempt("f.readline()")
    assert shown.error == "NotSaved"
    assert "in.txt has changed since" in shown.said


def test_an_unsaved_object_of_a_plain_cell_is_no_matter_of_a_step(seeds: Seeds) -> None:
    """A pool grows threads while a step uses it, and a generator shares the list that a step reads."""
    plain = "from concurrent.futures import ThreadPoolExecutor\npool = ThreadPoolExecutor(2)\ndata = [1, 2]\ngen = (n for n in data)"
    steps = ("%%resumable a\nfirst = list(pool.map(str, data))", "%%resumable b\ntotal = sum(data)")
    for seen in ("●", "✓"):
        kernel = seeds()
        kernel(plain)
        shown = [kernel(step) for step in steps]
        assert all(each.messages[:1] == [] or each.messages[0].startswith(seen) for each in shown), shown
    kernel("assert (first, total, data, list(gen)) == (['1', '2'], 3, [1, 2], [1, 2])\npool.shutdown()")


def test_a_live_file_stays_open_when_its_step_is_skipped(seeds: Seeds) -> None:
    (seeds.folder / "in.txt").write_text("one\ntwo\n")
    kernel = seeds()
    kernel(
        "%%resumable read\nf = open('in.txt')",
        "same = f",
        "%%resumable read\nf = open('in.txt')",
        "assert same is f\nf.close()",
    )
