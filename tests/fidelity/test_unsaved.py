"""What cannot be saved: its step is skipped, and its body runs again when the name is first used in a new kernel."""

from __future__ import annotations

import pytest

from tests.kernels import Shown
from tests.rows import Seeds, restored

pytestmark = pytest.mark.kernel

TOOL = (
    "from resumable_nb import tool\n"
    "@tool\n"
    "def pay(n):\n"
    "    with open('ledger.txt', 'a') as ledger: ledger.write(f'{n}\\n')\n"
    "    return n * 10"
)


def ledger(seeds: Seeds) -> str:
    return (seeds.folder / "ledger.txt").read_text()


def replays(shown: Shown) -> list[str]:
    return [each for each in shown.messages if each.startswith("↻")]


def twice(seeds: Seeds, *cells: str) -> list[Shown]:
    """Run the cells, and in a new kernel again: the last one holds in both, and no step runs by itself in the second."""
    seeds().run_all(list(cells))
    kernel = seeds()
    shown = [kernel(cell) for cell in cells]
    assert all(restored(each) for cell, each in zip(cells, shown, strict=True) if cell.startswith("%%resumable"))
    return shown


def test_nothing_is_replayed_while_nobody_uses_the_name(seeds: Seeds) -> None:
    shown = twice(
        seeds,
        TOOL,
        "%%resumable a\nprint('loud')\npaid = pay(1)\ng = (n for n in [paid])",
        "assert paid == 10",
        "dir()",
        "%whos",
    )
    assert not any(map(replays, shown))
    assert ledger(seeds) == "1\n"


def test_the_first_use_replays_the_step_once_with_its_calls_answered(seeds: Seeds) -> None:
    shown = twice(
        seeds,
        TOOL,
        "%%resumable a\nprint('loud')\ng = (n for n in [pay(1), pay(2)])",
        "first = next(g)",
        "assert (first, list(g)) == (10, [20])",
    )
    assert replays(shown[2]) == ["↻ a: replayed for g"]
    assert not replays(shown[3])
    assert shown[2].stdout == ""
    assert ledger(seeds) == "1\n2\n"


def test_later_values_of_other_names_are_kept(seeds: Seeds) -> None:
    """A replay of the first step must not turn back what the second one changed."""
    twice(
        seeds,
        "%%resumable a\nimport random\nx, box, n = 1, [1], 0\ng = (k for k in range(3))",
        "%%resumable b\nx = 2\nbox.append(2)\nn = random.random()\nnew = 'kept'",
        "seen = random.random()\nassert list(g) == [0, 1, 2]",
        "assert (x, box, new) == (2, [1, 2], 'kept') and n != seen",
    )


def test_the_random_state_is_as_if_nothing_had_been_replayed(seeds: Seeds) -> None:
    cells = [
        "import random",
        "%%resumable a\nrandom.seed(1)\nr = random.random()\ng = (random.random() for _ in [r])",
        "s = random.random(); print(s, list(g))",
    ]
    first = seeds().run_all(cells)[-1].stdout
    assert first
    assert seeds().run_all(cells)[-1].stdout == first


def test_the_body_finds_what_it_had_found(seeds: Seeds) -> None:
    """Not what later steps and cells made of it, and it may change that."""
    twice(
        seeds,
        "%%resumable a\nx = [1]",
        "%%resumable b\nx.append(2)\ng = (n for n in tuple(x))",
        "%%resumable c\nx.append(3)\nx = [*x, 4]",
        "assert list(g) == [1, 2] and x == [1, 2, 3, 4]",
    )


def test_a_plain_cells_value_is_copied_for_the_body(seeds: Seeds) -> None:
    twice(
        seeds,
        "x = [1]",
        "%%resumable b\nx.append(2)\ng = (n for n in tuple(x))",
        "x.append(3)",
        "assert list(g) == [1, 2] and x == [1, 2, 3]",
    )


def test_what_shares_with_it_comes_back_together(seeds: Seeds) -> None:
    twice(
        seeds,
        "%%resumable a\nx = [1]\ng = (n for n in x)",
        "y = x",
        "x.append(2)",
        "assert y is x and list(g) == [1, 2]",
    )


def test_a_later_step_changes_what_it_holds(seeds: Seeds) -> None:
    twice(
        seeds,
        "x = [1]",
        "%%resumable b\nx.append(2)\ng = (n for n in x)",
        "%%resumable c\nx.append(3)",
        "assert list(g) == [1, 2, 3]",
    )


def test_a_step_that_needs_that_of_another_step(seeds: Seeds) -> None:
    """It may have assigned to ``last`` or not, which is after it what it was before."""
    shown = twice(
        seeds, TOOL, "%%resumable a\nsource = iter(k for k in (pay(1), pay(2), pay(3)))\nlast = 3", "%%resumable b\nhead = next(source)\nfor last in range(4): pass\nrest = (k + 1 for k in source)", "assert head == 10 and list(rest) == [21, 31] and last == 3"
    )  # fmt: skip
    assert replays(shown[-1]) == ["↻ b: replayed for rest, source"]
    assert ledger(seeds) == "1\n2\n3\n"


def test_a_step_that_runs_replays_what_it_reaches(seeds: Seeds) -> None:
    steps = ("%%resumable a\ng = (k for k in range(3))", "def use(): return list(g)")
    seeds()(*steps)
    kernel = seeds()
    kernel(*steps, "%%resumable b\ngot = use()", "assert got == [0, 1, 2]")


def test_code_that_may_look_up_any_value_finds_it(seeds: Seeds) -> None:
    twice(seeds, "%%resumable a\ng = (k for k in range(3))", "name = 'g'", "assert list(globals()[name]) == [0, 1, 2]")


def test_in_the_live_kernel_the_objects_stay(seeds: Seeds) -> None:
    cell = "%%resumable a\nimport sqlite3\nprint('ran')\ndb = sqlite3.connect(':memory:')\n_ = db.execute('create table t (n)')"
    kernel = seeds()
    kernel(cell, "same = db", "_ = db.execute('insert into t values (1)')")
    shown = kernel(cell)
    assert restored(shown)
    kernel("assert db is same and db.execute('select n from t').fetchall() == [(1,)]")


def test_in_the_live_kernel_a_generator_that_was_used_is_made_anew(seeds: Seeds) -> None:
    kernel = seeds()
    for _ in range(2):
        kernel("%%resumable a\ng = (n for n in range(3))", "assert list(g) == [0, 1, 2]")


def test_magics_shell_lines_and_figures_in_the_body_show_nothing(seeds: Seeds) -> None:
    shown = twice(
        seeds,
        "%%resumable a\n%time n = 1\nout = !echo hi\n!echo loud\ndisplay('shown')\ng = (k for k in out)\n'value'",
        "assert list(g) == ['hi']",
    )
    assert [kind for kind, _ in shown[-1].items] == ["message"]


def test_a_cell_magic_below_is_replayed_too(seeds: Seeds) -> None:
    twice(seeds, "%%resumable a\n%%time\ng = (k for k in [1])", "assert list(g) == [1]")


def test_a_body_that_awaits_is_replayed_at_its_step(seeds: Seeds) -> None:
    cells = ("%%resumable a\nimport asyncio\nawait asyncio.sleep(0)\ng = (k for k in [1])", "assert list(g) == [1]")
    seeds()(*cells)
    kernel = seeds()
    assert replays(kernel(cells[0])) == ["↻ a: replayed: g could not be saved"]
    kernel(cells[1])


def test_what_cannot_be_replayed_faithfully_is_an_error(seeds: Seeds) -> None:
    """The body calls what was never called, or raises: no effect, and the namespace as it was."""
    cells = (TOOL, "import os", "%%resumable a\npaid = pay(os.getpid())\ng = (k for k in [paid])", "kept = 'kept'")
    seeds()(*cells)
    before = ledger(seeds)
    kernel = seeds()
    kernel(*cells)
    for _ in range(2):
        shown = kernel.attempt("next(g)")
        assert shown.error == "NotSaved"
        assert "g of step a was not saved" in shown.said
        assert "%resumable rerun a" in shown.said
    kernel("assert kept == 'kept' and paid > 0 and 'g' not in dir()")
    assert ledger(seeds) == before


LOST_FILE = (
    TOOL,
    "import os\nwith open('in.txt', 'w') as file: file.write('abc')",
    "%%resumable a\nwith open('in.txt') as file: size = len(file.read())\npaid = pay(1)\ng = (n for n in [paid, size])",
    "%%resumable b\ntwice = paid * 2",
    "os.remove('in.txt')",
    "first = next(g)",
    "assert (first, list(g), twice) == (10, [3], 20)",
)
"""A replay of its step does not find the file any more; at its place it does."""


@pytest.mark.parametrize("killed", [False, True])
def test_what_a_replay_cannot_make_is_made_at_its_place_by_the_next_run(seeds: Seeds, killed: bool) -> None:
    """The cell that uses it says so once; no payment repeats, and steps below are not run again for it."""
    seeds().run_all(list(LOST_FILE))
    kernel = seeds()
    kernel(*LOST_FILE[:5])
    for _ in range(2):
        shown = kernel.attempt(LOST_FILE[5])
        assert shown.error == "NotSaved"
        assert "FileNotFoundError" in shown.said
        assert shown.said.endswith("; Run All runs step a again")
    if killed:
        kernel = seeds()
    again = [kernel(cell) for cell in LOST_FILE]
    told = "\n".join(again[2].messages)
    assert "a: replayed: g could not be made again: its body raised FileNotFoundError" in told
    assert restored(again[3])
    assert all(restored(kernel(cell)) for cell in LOST_FILE[2:4])
    assert ledger(seeds) == "1\n"


def test_a_generator_that_was_used_up_and_cannot_be_replayed_is_made_by_the_next_run(seeds: Seeds) -> None:
    """In the kernel that has made it itself."""
    kernel = seeds()
    kernel(*LOST_FILE)
    kernel(*LOST_FILE[:5])
    assert kernel.attempt(LOST_FILE[5]).said.endswith("; Run All runs step a again")
    kernel(*LOST_FILE)
    assert ledger(seeds) == "1\n"


def test_a_step_that_another_one_needs_is_made_at_its_place_with_it(seeds: Seeds) -> None:
    cells = [*LOST_FILE[:3], "%%resumable c\nh = (n + 1 for n in g)", LOST_FILE[4], "assert list(h) == [11, 4]"]
    seeds().run_all(cells)
    kernel = seeds()
    kernel(*cells[:5])
    assert "Run All runs steps a, c again" in kernel.attempt(cells[5]).said
    seeds()(*cells)
    assert ledger(seeds) == "1\n"


def test_a_call_that_a_replay_refused_is_made_by_no_run_even_where_the_body_handles_that(seeds: Seeds) -> None:
    body = "try:\n    paid = pay(os.getpid())\nexcept Exception:\n    paid = 0\ng = (k for k in [paid])"
    cells = (TOOL, "import os", f"%%resumable a\n{body}")
    seeds()(*cells)
    before = ledger(seeds)
    for _ in range(2):
        kernel = seeds()
        kernel(*cells)
        shown = kernel.attempt("next(g)")
        assert shown.error == "NotSaved"
        assert "is not recorded as done" in shown.said
        assert "`%resumable rerun a`" in shown.said
    assert ledger(seeds) == before


def test_a_body_with_a_block_is_made_at_its_place(seeds: Seeds) -> None:
    block = "from resumable_nb import step\nwith step('x'):\n    paid = pay(1)\ng = (n for n in [paid, 2])"
    cells = [TOOL, f"%%resumable a\n{block}", "assert list(g) == [10, 2]"]
    seeds().run_all(cells)
    kernel = seeds()
    kernel(*cells[:2])
    kernel.attempt(cells[2])
    seeds()(*cells)
    assert ledger(seeds) == "1\n"


def test_another_value_than_the_recorded_one_is_told(seeds: Seeds) -> None:
    """A raw side effect in the body: the line is written twice."""
    cell = "%%resumable a\nfrom pathlib import Path\nlog = Path('log')\nwith log.open('a') as file: _ = file.write('x')\nrows = [*log.read_text()]\ng = (r for r in rows)"
    shown = twice(seeds, cell, "assert len(list(g)) == 2 and len(rows) == 1")
    assert "the replay made another rows than was recorded" in shown[-1].text


def test_rebound_or_deleted_before_its_use_it_is_owed_no_more(seeds: Seeds) -> None:
    shown = twice(
        seeds,
        TOOL,
        "%%resumable a\nd = e = (k for k in [pay(1)])",
        "d = 5",
        "assert d == 5",
        "%%resumable b\ne = 6",
        "assert e == 6",
    )
    assert not any(map(replays, shown))


def test_a_file_that_a_crashed_step_wrote_to_is_made_again(seeds: Seeds) -> None:
    """It is longer than it was: the step that had opened it does so once more, and nothing is written twice."""
    cells = [
        "%%resumable a\nf = open('out.txt', 'w')\n_ = f.write('a\\n')",
        "import os",
        "%%resumable b\n_ = f.write('b\\n')\nf.flush()\nif not os.path.exists('seen'): os.mkdir('seen'); 1 / 0\ndone = True",
        "from pathlib import Path\nassert Path('out.txt').read_text() == 'a\\nb\\n' and done",
    ]
    assert seeds().run_all(cells)[-1].error == "ZeroDivisionError"
    shown = seeds().run_all(cells)
    assert [each.error for each in shown] == ["", "", "", ""]
    assert "↻ a: replayed for f" in shown[2].messages
    assert [each.error for each in seeds().run_all(cells)] == ["", "", "", ""]


def test_classes_of_the_body_stay_one_class(seeds: Seeds) -> None:
    """The replay defines them anew, and does not count its objects twice."""
    twice(
        seeds,
        "class Counted:\n    made = 0",
        "%%resumable a\nclass Own:\n    def __init__(self, g): self.g = g\nCounted.made += 1\no, p = Own(k for k in [1]), Own(2)",
        "%%resumable b\nCounted.made += 5",
        "assert type(o) is type(p) is Own and list(o.g) == [1] and Counted.made == 6",
    )


def test_weak_references_lead_to_the_variables(seeds: Seeds) -> None:
    twice(
        seeds,
        "%%resumable a\nimport weakref, numpy as np\nclass A: pass\na, arr = A(), np.zeros(3)\nd, w = {'r': weakref.ref(a)}, weakref.ref(arr)",
        "arr[0] = 1",
        "assert d['r']() is a and w() is arr and arr[0] == 1",
    )


def test_why_and_steps_say_what_needs_a_replay(seeds: Seeds) -> None:
    kernel = seeds()
    kernel("%%resumable a\ng = (k for k in [1])")
    assert (
        "g: cannot pickle 'generator' object: not saved, a new kernel replays the step when it is used"
        in kernel("%resumable why a").stdout
    )
    kernel("from resumable_nb import task", "assert list(task().steps().loc['a', 'unsaved']) == ['g']")


def test_a_database_in_memory_has_what_later_steps_put_in(seeds: Seeds) -> None:
    """The connection shows no change: a step that can get at it has to make it again, too."""
    shown = twice(
        seeds,
        "%%resumable a\nimport sqlite3\ndb = sqlite3.connect(':memory:')\n_ = db.execute('create table t (n)')",
        "%%resumable b\n_ = db.execute('insert into t values (1)')",
        "%%resumable c\nrest = 'of no database'",
        "%%resumable d\n_ = db.execute('insert into t values (2)')",
        "assert db.execute('select n from t').fetchall() == [(1,), (2,)]",
    )
    assert replays(shown[-1]) == ["↻ d: replayed for db"]


def test_a_file_that_a_step_reads_on_is_at_its_place(seeds: Seeds) -> None:
    (seeds.folder / "in.txt").write_text("a\nb\nc\n")
    twice(
        seeds,
        "%%resumable a\nf = open('in.txt')",
        "%%resumable b\nfirst = next(f)",
        "assert (first, next(f)) == ('a\\n', 'b\\n')",
    )


def test_what_a_new_version_of_a_library_can_neither_load_nor_make_is_an_error_that_says_what_to_do(
    seeds: Seeds,
) -> None:
    """What stands in the same stream waits with it; running the cell again makes all of it anew."""
    upgrade = (
        "import fractions\ndef none(*_): raise TypeError('of an older version')\nfractions.Fraction.__new__ = none"
    )
    cell = "import fractions\nx, y = {'of': fractions.Fraction(1, 2)}, 5"
    seeds()(f"%%resumable a\n{cell}")
    kernel = seeds()
    kernel("import fractions\nmade = fractions.Fraction.__new__", upgrade, f"%%resumable a\n{cell}")
    for _ in range(2):
        shown = kernel.attempt("x")
        assert shown.error == "NotSaved"
        assert shown.said.startswith("x, y of step a was not saved (x: cannot be read back: of an older version)")
        assert shown.said.endswith("Run All runs step a again")
    kernel("fractions.Fraction.__new__ = made", f"%%resumable a\n{cell}", "assert x['of'] * 2 == 1 and y == 5")


LIBRARY = """
class Frame:
    def __init__(self, rows): self.rows = rows
    def __getstate__(self): return {"rows": self.rows, "form": FORM}
    def __setstate__(self, state):
        if state["form"] != FORM: raise TypeError(f"form {state['form']} is not known any more")
        self.rows = state["rows"]
"""


def test_pickle_that_a_new_version_of_a_library_does_not_load(seeds: Seeds) -> None:
    """The step is replayed when the value is used, and its payment answers; what was saved beside comes back too."""
    library = seeds.folder / "site-packages" / "framery.py"
    library.parent.mkdir()
    library.write_text(f"FORM = 1\n{LIBRARY}")
    cells = [
        f"import sys; sys.path.insert(0, 'site-packages')\n{TOOL}",
        "%%resumable rows\nimport framery\nrows = [pay(1)]",
        "%%resumable a\nframe = framery.Frame([*rows, pay(2)])\nbeside = [3]\nrows.append(5)",
        "%%resumable b\nbeside.append(4)",
        "assert (frame.rows, beside, rows) == ([10, 20], [3, 4], [10, 5])",
    ]
    seeds().run_all(cells)
    library.write_text(f"FORM = 2\n{LIBRARY}")
    kernel = seeds()
    shown = [kernel(cell) for cell in cells]
    assert all(map(restored, shown[1:4]))
    assert len(replays(shown[-1])) == 1
    assert ledger(seeds) == "1\n2\n"
    kernel("frame.rows.append(6)")
    assert restored(kernel(cells[1])), "nothing else is lost"


def test_a_class_that_its_metaclass_does_not_let_be_made_again_is_replayed(seeds: Seeds) -> None:
    """Found when it is saved: a class is made first, and gets its attributes afterwards."""
    text = (
        "def lazy(text):\n"
        "    class Meta(type):\n"
        "        @property\n"
        "        def note(self): return text\n"
        "    class Lazy(metaclass=Meta):\n"
        "        note = 'own'\n"
        "    return Lazy()\n"
        "x = lazy('its')"
    )
    shown = twice(seeds, f"%%resumable a\n{text}", "assert (x.note, type(x).note) == ('own', 'its')")
    assert replays(shown[1]) == ["↻ a: replayed for lazy, x"]


def test_a_plain_cells_generator_goes_on_through_what_a_later_step_has_changed(seeds: Seeds) -> None:
    twice(
        seeds,
        "%%resumable a\nxs = [1]",
        "g = (x for x in xs)",
        "%%resumable b\nxs.append(2)\nfirst = next(g)",
        "xs.append(3)\nassert (first, list(g)) == (1, [2, 3])",
    )


def test_a_generator_takes_the_name_of_its_list_from_which_another_name_stays(seeds: Seeds) -> None:
    twice(
        seeds,
        "xs = g = [1]",
        "%%resumable a\ng = (x for x in g)",
        "%%resumable b\nxs.append(2)\nfirst = next(g)",
        "xs.append(3)\nassert (first, list(g)) == (1, [2, 3])",
    )


SHARED = {
    "a list that others hold": [
        "xs = [1, 2]",
        "ys = [xs]",
        "g = (x for x in xs)\nfirst = next(g)",
        "xs.append(3)\nrest = list(g)",
        "assert ys[0] is xs and (first, rest) == (1, [2, 3])",
    ],
    "a list that a later step puts elsewhere": [
        "xs = [1, 2]",
        "g = (x for x in xs)\nfirst = next(g)",
        "zs = [xs]",
        "zs[0].append(3)",
        "rest = list(g)",
        "assert zs[0] is xs and (first, rest) == (1, [2, 3])",
    ],
    "two generators of one list, that call themselves": [
        "def walk(it):\n    for x in it:\n        if isinstance(x, list): yield from walk(x)\n        else: yield x\n"
        "xs = [1, [2, 3]]\ng, h = walk(xs), walk(xs)\nfirst = next(g), next(h)",
        "xs[1].append(4)\nrest = list(g)",
        "other = list(h)",
        "assert (first, rest, other) == ((1, 1), [2, 3, 4], [2, 3, 4]) and not list(g)",
    ],
    "a list that its own step makes": [
        "xs = [1, 2, 3]; g = (x for x in xs)",
        "box = [xs]",
        "box[0].append(4)",
        "rest = [next(g)]; box[0].append(5)",
        "rest += g; assert box[0] is xs and rest == [1, 2, 3, 4, 5]",
    ],
    "an iterator that a later step takes from": [
        "xs = [1, 2, 3]; g = (x for x in xs); m = map(abs, xs)",
        "first = next(m)",
        "xs.append(4); rest = list(g), list(m); assert (first, rest) == (1, ([1, 2, 3, 4], [2, 3, 4]))",
    ],
    "a list that holds what has no content": [
        "xs = [1, 2]; m = filter(None, xs); xs.append(m)",
        "g = (x for x in xs); h = (x for x in xs)",
        "it = iter(xs); first = next(h)",
        "xs.append(3); rest = [*g]\n"
        "assert rest[2] is m is xs[2] and len(rest) == 4 and first == next(it) == 1 and [*h] == [*it] == rest[1:]",
    ],
    "parts of what its own step changes, in a function, a class and a closure": [
        "xs = [[1], [2]]",
        "xs.append([3]); g = (x for x in xs); box = {'xs': xs}",
        "def make(acc):\n    def add(n): acc.append(n)\n    return add\nadd = make(xs[1])",
        "def put(n, xs=xs[0]): xs.append(n)\nclass Held:\n    part = xs[2]",
        "held = Held()",
        "put(4); add(5); held.part.append(6)\nrest = list(g)\n"
        "assert rest == xs == [[1, 4], [2, 5], [3, 6]] and all(map(lambda a, b: a is b, rest, box['xs']))",
    ],
    "an array, of which a later step has a view": [
        "import numpy as np\nxs, ys = np.arange(4), np.array([[1], None], dtype=object)\ng, h = (x for x in xs), (y for y in ys)",
        "tail, first = xs[2:], ys[:1]",
        "tail[0] = 9; first[0] = 7; rest = list(g), list(h); xs[3] = 8\n"
        "assert rest == ([0, 1, 9, 3], [7, None]) and tail[1] == 8 and ys[0] == 7",
    ],
    "an object and its part": [
        "class Node:\n"
        "    def __init__(self): self.parts, self.me = [1, 2], self\n"
        "    def __iter__(self): yield from self.parts\n"
        "node = Node()",
        "parts = node.parts",
        "g = iter(node)\nfirst = next(g)",
        "node.parts.append(3)\nrest = list(g)",
        "assert parts is node.parts and (first, rest) == (1, [2, 3])",
    ],
}


@pytest.mark.parametrize("cells", SHARED.values(), ids=SHARED)
def test_what_was_not_saved_shares_what_it_shared(seeds: Seeds, cells: list[str]) -> None:
    """A kernel is killed after each step. That such a generator is to come yet is no reason to run again."""
    *cells, check = cells
    steps = [f"%%resumable s{number}\n{cell}" for number, cell in enumerate(cells)]
    for done in range(len(steps)):
        kernel = seeds()
        shown = [kernel(step) for step in steps[: done + 1]]
        assert all(map(restored, shown[:done])), done
    kernel(check)
    twice(seeds, *steps, check)
