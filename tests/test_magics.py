"""``%%resumable`` in IPython shells: what a cell does when it runs, when it is skipped, and when it fails."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kernels import Kernel, Kernels, Shown

COUNT = """
def count(name):
    with open(f"{name}.count", "a") as file:
        file.write(".")
"""


def counted(folder: Path, name: str = "ran") -> int:
    path = folder / f"{name}.count"
    return len(path.read_text()) if path.exists() else 0


def step(text: str, head: str = "a") -> str:
    """A step's cell whose first act is counted."""
    return f"%%resumable {head}\ncount('ran')\n{text}"


def run_twice(kernels: Kernels, text: str, *, head: str = "a") -> tuple[Shown, Shown, Kernel]:
    """The cell in one kernel, and skipped in the next."""
    first = kernels(COUNT)(step(text, head))
    kernel = kernels.again(COUNT)
    second = kernel(step(text, head))
    assert counted(kernel.folder) == 1
    return first, second, kernel


# --- skipping


def test_skipped_cell_runs_nothing_and_shows_the_same_in_order(kernels: Kernels) -> None:
    text = """
import sys
from IPython.display import display, HTML
print("one")
print("two", file=sys.stderr)
display(HTML("<b>three</b>"))
print("four")
{"five": 5}
"""
    first, second, kernel = run_twice(kernels, text)
    assert [kind for kind, _ in first.items] == ["stdout", "stderr", "display", "stdout"]
    assert "Out[3]: {'five': 5}" in first.text
    (kind, message), *rest = second.items
    assert kind == "message"
    assert message["text/plain"].startswith("✓ a: restored ")
    assert message["text/plain"].endswith(" saved; why? %resumable why a")
    assert rest == first.items
    assert kernel("_, Out[3], _3").value == "({'five': 5}, {'five': 5}, {'five': 5})"


def test_quiet_silences_our_lines(kernels: Kernels) -> None:
    kernel = kernels(COUNT)
    kernel(step("x = open('a.txt', 'w')", "a --quiet"))
    for text, ran in (("x = 1\nx", 2), ("x = 1\nx", 2), ("x = 2\nx", 3)):
        assert kernel(step(text, "a --quiet")).messages == []  # run again, restored, run again
        assert counted(kernel.folder) == ran
    assert kernel(step("x = 3\nx")).messages != []


def test_skip_in_the_same_kernel(kernels: Kernels) -> None:
    kernel = kernels(f"{COUNT}\nimport warnings\nwarnings.simplefilter('default')")
    first = kernel(step("x = [1]\nassert (x, 'always true')\nx"))
    shown = kernel(step("# a comment\nx  =  [1]\n\nassert (x, 'always true')\nx"))
    assert counted(kernel.folder) == 1
    assert "Out[4]: [1]" in shown.text
    assert shown.text.count("SyntaxWarning") == first.text.count("SyntaxWarning") > 0
    assert kernel("Out[4] == Out[3] == x, __ == x").value == "(True, True)"


def test_result_is_loaded_when_a_cell_mentions_it(kernels: Kernels, tmp_path: Path) -> None:
    (tmp_path / "heavy.py").write_text(
        f"{COUNT}\ndef make():\n    count('loaded')\n    return Heavy()\n"
        "class Heavy:\n    def __reduce__(self):\n        return make, ()\n    __repr__ = lambda self: 'heavy'\n"
    )
    cells = ["import heavy", "%%resumable a\nx = heavy.Heavy()\nx", "%%resumable b\n[2]", "1"]
    kernels(*cells)
    before = counted(tmp_path, "loaded")
    kernel = kernels.again(*cells)
    assert counted(tmp_path, "loaded") == before
    assert kernel("_, __, _4").value == "(1, [2], [2])"
    assert counted(tmp_path, "loaded") == before
    assert kernel("_3 is Out[3] is x").value == "True"
    assert counted(tmp_path, "loaded") == before + 1


@pytest.mark.parametrize("leave", ["%resumable task other", "%unload_ext resumable_nb", "%reload_ext resumable_nb"])
def test_result_outlives_its_session(kernels: Kernels, leave: str) -> None:
    kernels("%%resumable a\n[1]")
    assert kernels.again("%%resumable a\n[1]", leave)("Out[2]").value == "[1]"


def test_step_reads_the_result_before_it(kernels: Kernels) -> None:
    cells = ["%%resumable a\n[1]", "%%resumable b\nx = _ + [2]"]
    kernels(*cells)
    kernel = kernels.again(*cells)
    assert kernel("x").value == "[1, 2]"
    assert kernel(cells[1]).messages[0].startswith("● b: runs again: input _ changed")


def test_figure_is_shown_again(kernels: Kernels) -> None:
    text = """
from IPython.display import display
class Picture:
    def _repr_png_(self):
        return b"png"
display(Picture())
"""
    first, second, _ = run_twice(kernels, text)
    assert first.items[0][1]["image/png"] == "cG5n" or first.items[0][1]["image/png"] == "b'png'"
    assert "image/png" in second.items[1][1]


def test_quiet_says_nothing_and_no_output_replays_nothing(kernels: Kernels) -> None:
    _, second, _ = run_twice(kernels, "print('shown')\n7", head="a --quiet --no-output")
    assert second.items == []


@pytest.mark.parametrize(
    ("text", "check", "value"),
    [
        ("import asyncio\nawait asyncio.sleep(0)\nx = 1", "x", "1"),
        ("import asyncio\nawait asyncio.sleep(0, 'last')", "_", "'last'"),
        ("files = !echo hello", "files", "['hello']"),
        ("!echo hello\nx = 1", "x", "1"),
        ("%precision 3\nx = %pwd", "x.startswith('/')", "True"),
        ("x = 5;\nx;", "_", "''"),
        ("x = '''a\n  b\n'''\nx", "x", "'a\\n  b\\n'"),
        ("_private = 3", "_private", "3"),
        ("from __future__ import annotations\nx = 1", "x", "1"),
        ("a = 1\nif a:\n    b = 2\nelse:\n    c = 3", "(a, b, 'c' in globals())", "(1, 2, False)"),
    ],
)
def test_forms_of_cells(kernels: Kernels, text: str, check: str, value: str) -> None:
    first, second, kernel = run_twice(kernels, text)
    assert second.stdout.splitlines() == first.stdout.splitlines()
    assert kernel(check).value == value


def test_magic_without_its_sign(kernels: Kernels) -> None:
    """IPython takes ``pwd`` for ``%pwd`` in a cell of one line, and in no other."""
    cell = "%%resumable a\npwd"
    assert kernels()(cell).value.startswith("'/")
    kernel = kernels.again()
    kernel(cell)
    assert kernel("_").value == repr(str(kernel.folder))
    assert kernel.attempt("%%resumable b\nx = 1\npwd").error == "NameError"


def test_magic_below(kernels: Kernels) -> None:
    kernel = kernels(COUNT)
    cell = "%%resumable a\n%%time\ncount('ran')\nx = 1\nx + 1"
    first = kernel(cell)
    assert "Wall time" in first.stdout
    kernel = kernels.again(COUNT)
    kernel(cell)
    assert counted(kernel.folder) == 1
    assert kernel("x").value == "1"


def test_magic_below_that_runs_a_cell(kernels: Kernels) -> None:
    """``%%capture`` runs its body as a cell of its own; calls in it are still the step's."""
    prelude = f"{COUNT}\nfrom resumable_nb import task, tool\n@tool\ndef pay(n):\n    return n"
    cell = "%%resumable a\n%%capture out\ncount('ran')\nprint('shown')\nx = pay(1)"
    kernel = kernels(prelude, cell)
    assert kernel("out.stdout, x, list(task().history().step)").value == "('shown\\n', 1, ['a'])"
    assert kernel(cell).messages[0].startswith("✓ a")
    kernel = kernels.again(prelude)
    assert kernel(cell).messages[0].startswith("✓ a")
    assert kernel("out.stdout, x").value == "('shown\\n', 1)"
    assert counted(kernel.folder) == 1


def test_cell_that_runs_cells(kernels: Kernels) -> None:
    kernel = kernels(COUNT)
    kernel(step("get_ipython().run_cell('y = 2')\nget_ipython().run_cell('')\nx = y\nx"))
    kernel = kernels.again(COUNT)
    kernel(step("get_ipython().run_cell('y = 2')\nget_ipython().run_cell('')\nx = y\nx"))
    assert kernel("x, y").value == "(2, 2)"
    assert counted(kernel.folder) == 1


def test_magic_above_is_refused_in_one_line(kernels: Kernels) -> None:
    kernel = kernels(COUNT)
    shown = kernel.attempt("%%time\n%%resumable a\ncount('ran')")
    assert shown.error == "UsageError"
    assert shown.text == "UsageError: %%resumable must be the first line of the cell: put it above %%time\n"
    assert counted(kernel.folder) == 0


def test_source_of_functions(kernels: Kernels) -> None:
    text = "def area(r):\n    # round\n    return 3 * r * r\n\nclass Box:\n    def side(self):\n        return 1"
    look = "import inspect\n(inspect.getsource(area), inspect.getsource(Box.side))"
    kernel = kernels(COUNT, step(text))
    before = kernel(look).value
    assert "# round" in before
    assert kernels.again(COUNT, step(text))(look).value == before


# --- failing


def test_failing_step_shows_the_users_lines_alone(kernels: Kernels) -> None:
    kernel = kernels(COUNT)
    shown = kernel.attempt(step("\ndef f(x):\n    return 1 / x\nif True:\n    f(0)"))
    assert shown.error == "ZeroDivisionError"
    assert "----> 7     f(0)" in shown.text
    assert "----> 5     return 1 / x" in shown.text
    assert "resumable_nb" not in shown.text


def test_failing_step_stops_and_is_continued(kernels: Kernels) -> None:
    kernel = kernels(COUNT)
    cells = [step("assert flag, 'no flag'\nx = 1"), "after = 1"]
    kernel("flag = False")
    assert [shown.error for shown in kernel.run_all(cells)] == ["AssertionError"]
    kernel("flag = True")
    shown = kernel.run_all(cells)
    assert shown[0].messages == ["↻ a: continued after AssertionError: no flag"]
    assert counted(kernel.folder) == 2
    kernel.run_all(cells)
    assert counted(kernel.folder) == 2


def test_interrupted_step_is_continued(kernels: Kernels) -> None:
    kernel = kernels(COUNT)
    cell = step("import os, signal\nx = 1\nif not os.path.exists('go'): os.kill(os.getpid(), signal.SIGINT)\ny = 2")
    shown = kernel.attempt(cell)
    assert shown.error == "Stopped"
    assert len(shown.text.splitlines()) == 1
    Path(kernel.folder, "go").touch()
    assert kernel(cell).messages == ["↻ a: continued after it was stopped"]
    assert kernel("y").value == "2"


def test_syntax_error_names_the_users_line(kernels: Kernels) -> None:
    kernel = kernels(COUNT)
    shown = kernel.attempt("%%resumable a\nx = 1\ny = = 2")
    assert shown.error == "SyntaxError"
    assert "line 3" in shown.text
    assert kernel("%%resumable a\nx = 1").messages == []


# --- what makes a step run again


def test_upstream_that_gives_the_same_leaves_downstream_alone(kernels: Kernels) -> None:
    kernel = kernels(COUNT)
    kernel("%%resumable up\nx = [1, 2]", step("y = sum(x)"))
    kernel("%%resumable up\nx = [1] + [2]", step("y = sum(x)"))
    assert counted(kernel.folder) == 1
    shown = kernel("%%resumable up\nx = [1, 5]")
    assert shown.messages == ["● up: runs again: its source changed"]
    assert kernel(step("y = sum(x)")).messages == ["● a: runs again: input x changed"]
    assert kernel("y").value == "6"


@pytest.mark.parametrize(
    ("edited", "counts", "value"),
    [({}, 4, "b"), ({0: "letters = ['x', 'y', 'z']"}, 8, "y"), ({2: "first = [next(it), next(it)]"}, 6, "c")],
)
def test_value_without_content_counts_by_what_changed_it(
    kernels: Kernels, edited: dict[int, str], counts: int, value: str
) -> None:
    """An iterator is known by the step that went on with it last, and by what that step depended on."""
    texts = ["letters = ['a', 'b', 'c']", "it = iter(letters)", "first = next(it)", "second = next(it)"]
    cells = [step(text, f"s{n}") for n, text in enumerate(texts)]
    kernels(COUNT, *cells)
    kernel = kernels.again(COUNT, *[step(edited.get(n, text), f"s{n}") for n, text in enumerate(texts)])
    assert kernel("second").value == repr(value)
    assert counted(kernel.folder) == counts


def test_value_that_a_plain_cell_loads_is_not_made_by_it(kernels: Kernels) -> None:
    cells = [step("it = iter([1, 2])", "a"), "str(it)[:0]", step("first = next(it)", "b")]
    kernels(COUNT, *cells)
    kernel = kernels.again(COUNT, *cells)
    assert counted(kernel.folder) == 2


def test_generator_goes_on_where_it_was(kernels: Kernels) -> None:
    """It cannot be saved: the steps that used it run again, and no other."""
    cells = [step("g = (n for n in range(5))", "a"), step("first = next(g)", "b"), step("other = 1", "c")]
    kernels(COUNT, *cells)
    kernel = kernels.again(COUNT, *cells)
    assert kernel("first, next(g)").value == "(0, 1)"
    assert counted(kernel.folder) == 5


def test_helper_edited(kernels: Kernels) -> None:
    kernel = kernels(COUNT)
    kernel("def helper(n):\n    return n + RATE\nRATE = 1", step("y = helper(1)"))
    kernel("def helper(n):\n    # a comment\n    return n + RATE", step("y = helper(1)"))
    assert counted(kernel.folder) == 1
    kernel("def helper(n):\n    return n + 2 * RATE")
    assert kernel(step("y = helper(1)")).messages == ["● a: runs again: function helper changed"]
    kernel("RATE = 5")
    assert kernel(step("y = helper(1)")).messages == ["● a: runs again: input RATE changed"]
    assert kernel("y").value == "11"


def test_helper_module_edited(kernels: Kernels, tmp_path: Path) -> None:
    (tmp_path / "helpers_of_mine.py").write_text("RATE = 2\ndef clean(n):\n    return n * RATE\n")
    cells = ["import helpers_of_mine", step("y = helpers_of_mine.clean(4)")]
    kernels(COUNT, *cells)
    (tmp_path / "helpers_of_mine.py").write_text("RATE = 30\ndef clean(n):\n    return n * RATE  # comment\n")
    kernel = kernels.again(COUNT, cells[0])
    assert kernel(cells[1]).messages == ["● a: runs again: input helpers_of_mine.RATE changed"]
    assert kernel("y").value == "120"


def test_step_that_changes_its_input(kernels: Kernels) -> None:
    cells = ["%%resumable start\nx = 1", step("x += 1")]
    kernel = kernels(COUNT, *cells)
    kernel(cells[1])
    assert kernel("x").value == "2"
    kernel = kernels.again(COUNT, *cells)
    kernel(cells[1])
    assert kernel("x").value == "2"
    assert counted(kernel.folder) == 1


def test_files(kernels: Kernels, tmp_path: Path) -> None:
    path = tmp_path / "in put.txt"
    path.write_text("1")
    cell = step("x = open('in put.txt').read()", head="a --files 'in put.txt'")
    kernel = kernels(COUNT, cell)
    path.write_text("1")
    kernel(cell)
    assert counted(tmp_path) == 1
    path.write_text("2")
    assert kernel(cell).messages == ["● a: runs again: file in put.txt changed"]
    path.unlink()
    assert kernel.attempt(cell).error == "FileNotFoundError"
    path.write_text("2")
    kernel(cell)
    assert kernel("x").value == "'2'"


def test_makes(kernels: Kernels, tmp_path: Path) -> None:
    cell = step("open('made.txt', 'w').close()", head="a --makes made.txt")
    kernel = kernels(COUNT, cell, cell)
    assert counted(tmp_path) == 1
    (tmp_path / "made.txt").unlink()
    assert kernel(cell).messages == ["● a: runs again: missing: made.txt"]
    assert (tmp_path / "made.txt").exists()


def test_always_and_rerun(kernels: Kernels) -> None:
    kernel = kernels(COUNT)
    for _ in range(3):
        kernel(step("x = 1", head="a --always"))
    assert counted(kernel.folder) == 3
    kernel(step("x = 1"))
    assert counted(kernel.folder) == 3
    kernel(step("x = 1", head="a --rerun"))
    assert counted(kernel.folder) == 4


def test_keep_and_drop(kernels: Kernels) -> None:
    cells = [step("x = y = 1\nz = 2", head="a --keep x"), "%%resumable b --drop q\np = q = 3"]
    kernels(COUNT, *cells)
    kernel = kernels.again(COUNT, *cells)
    assert kernel("x, p").value == "(1, 3)"
    assert kernel("[name for name in 'yzq' if name in globals()]").value == "[]"


# --- variables


def test_variables_come_back_when_a_cell_needs_them(kernels: Kernels) -> None:
    cells = [
        "%%resumable a\nbig = [1, 2]\nsame = big\nname = 'world'\ngone = 1",
        "%%resumable b\ndef use():\n    return len(big)\ndel gone",
    ]
    kernels(*cells)
    for cell, value in [
        ("big", "[1, 2]"),
        ("use()", "2"),
        ("sorted(n for n in globals() if n in ('big', 'same', 'gone'))", "['big', 'same']"),
        ("f'{name} {len(big)}'", "'world 2'"),
        ("[x for x in !echo {name}]", None),
        ("same is big", "True"),
        ("eval('big')", "[1, 2]"),
        ("'gone' in dir()", "False"),
        ("(lambda: big)()", "[1, 2]"),
        ("get_ipython().user_ns['big']", "[1, 2]"),
        ("get_ipython().ev('big')", "[1, 2]"),
        ("vars()['big'] + locals()['big']", "[1, 2, 1, 2]"),
        ("exec('kept = big') or globals()['kept']", "[1, 2]"),
        ("getattr(__import__('sys').modules['__main__'], 'big')", "[1, 2]"),
    ]:
        kernel = kernels.again(*cells)
        if value is not None:
            assert kernel(cell).value == value, cell


def test_variables_come_back_for_functions_that_may_look_up_any_name(kernels: Kernels) -> None:
    cells = [
        "%%resumable a\nbig = [1, 2]",
        "%%resumable b\ndef find(name): return globals()[name]\ndef count(text): return eval(text)",
        "def inner(name): return find(name)",
    ]
    kernels(*cells)
    for cell, value in [("find('big')", "[1, 2]"), ("count('len(big)')", "2"), ("inner('big')", "[1, 2]")]:
        assert kernels.again(*cells)(cell).value == value, cell


def test_pending_names_in_magics(kernels: Kernels) -> None:
    cells = ["%%resumable a\nbig = [1, 2]\nname = 'world'\ndef use():\n    'The doc.'"]
    kernels(*cells)
    assert "world" in kernels.again(*cells)("out = !echo {name}\nprint(out)").stdout
    assert "name" in kernels.again(*cells)("%whos").stdout
    assert "The doc." in kernels.again(*cells)("use?").text
    assert "2" in kernels.again(*cells)("%time len(big)").text
    assert "2" in kernels.again(*cells)("%%time\nprint(len(big))").text


def test_pending_name_is_bound_anew_or_deleted(kernels: Kernels) -> None:
    cells = ["%%resumable a\nx = [1]\ny = x\nz = 5"]
    kernels(*cells)
    kernel = kernels.again(*cells)
    kernel("x = 'mine'")
    assert kernel("x, y").value == "('mine', [1])"
    kernel("del z")
    assert kernel("'z' in globals()").value == "False"
    kernel(*cells)
    assert kernel("x, y, z").value == "([1], [1], 5)"


@pytest.mark.parametrize(
    "name", ["open", "exit", "quit", "copyright", "_private", "__x", "_oh_my", "_ix", "In_", "credits"]
)
def test_names_that_users_may_bind(kernels: Kernels, name: str) -> None:
    cells = [f"%%resumable a\n{name} = 'mine'"]
    kernels(*cells)
    assert kernels.again(*cells)(f"({name})").value == "'mine'"


def test_ipythons_own_names_are_not_saved(kernels: Kernels) -> None:
    cells = ["1 + 1", "%%resumable a\nx = 1\n'last'", "%resumable steps"]
    kernel = kernels(*cells)
    assert kernel("%resumable steps\n_.variables.tolist()").value == "[1]"


def test_a_damaged_pack_is_an_error_and_never_a_value(kernels: Kernels) -> None:
    """One flipped bit in a large array: whoever reads it is told, and a run of the step mends it."""
    step = "%%resumable big\nimport numpy as np\nbig = np.ones(200_000)"
    folder = kernels(step).folder
    (pack,) = folder.glob(".resumable/*/packs/*.pack")
    pack.chmod(0o600)
    data = bytearray(pack.read_bytes())
    data[len(data) // 2] ^= 1
    pack.write_bytes(data)
    kernel = kernels.again(step)
    shown = kernel.attempt("big.sum()")
    assert shown.error == "Corrupt"
    assert "Traceback" not in shown.text
    kernel("%resumable rerun big", step)
    assert kernel("float(big.sum())").value == "200000.0"


def test_texts_of_inputs_are_not_written_down(kernels: Kernels) -> None:
    """Any text may be a secret, whatever its name is."""
    kernel = kernels("from pathlib import Path\nwho = Path('word').read_text() if Path('word').exists() else ''")
    (kernel.folder / "word").write_text("hunter2-hunter2")
    kernel("who = Path('word').read_text()", "%%resumable greet\nlength = len(who)")
    kernel.kill()
    stored = b"".join(path.read_bytes() for path in kernel.folder.glob(".resumable/**/*") if path.is_file())
    assert b"length" in stored
    assert b"hunter2" not in stored


def test_two_cells_under_one_name_are_told(kernels: Kernels) -> None:
    """Each would run again for ever because the other is not what it was; the front end's cell ids tell."""
    kernel = kernels()
    kernel("get_ipython().run_cell('%%resumable same\\nx = 1', cell_id='one')")
    shown = kernel("get_ipython().run_cell('%%resumable same\\nx = 2', cell_id='two')")
    assert any("another cell is called so too" in message for message in shown.messages)


def test_a_traceback_shows_the_head_as_it_was_written(kernels: Kernels) -> None:
    kernel = kernels()
    for head in ("%%resumable fetch --quiet", "%%resumable 'two words'"):
        shown = kernel.attempt(f"{head}\n1 / 0")
        assert f"1 # {head}\n" in shown.text
        assert "run_cell_magic" not in shown.text


def test_only_the_magics_that_people_write_are_listed(kernels: Kernels) -> None:
    kernel = kernels("%%resumable a\nx = 1")
    listed = "[name for kind in get_ipython().magics_manager.magics.values() for name in kind if 'resumable' in name]"
    assert kernel(listed).value == "['resumable', 'resumable']"


def test_a_variable_that_is_not_loaded_is_no_magic_of_its_name(kernels: Kernels) -> None:
    made = "%%resumable a\nhistory = [1]\ndef reset(): return 5"
    macro = "%%resumable m\n%macro -q again 1-2"
    kernels("n = 7", made, macro)
    kernel = kernels.again("n = 7", made, macro, "n = 8")
    kernel("again")
    assert kernel("n").value == "7"
    assert kernel("%%resumable b\nreset()").value == "5"
    assert kernel("history").value == "[1]"


def test_what_a_step_lets_go_ends_within_it(kernels: Kernels) -> None:
    """And what that says is shown again by a step that is skipped."""
    made = """%%resumable a
import weakref
class A:
    def __del__(self): print('end')
class B: pass
a, held, b = A(), [A()], B()
ender, r = weakref.finalize(b, print, 'gone'), weakref.ref(b)
"""
    steps = [
        "%%resumable b\ndel a; print('b')",
        "%%resumable c\nheld = None; print('c')",
        "%%resumable d\nb = 1; print(r())",
    ]
    kernel = kernels(made)
    first = [kernel(step).stdout for step in steps]
    assert first == ["end\nb\n", "end\nc\n", "gone\nNone\n"]
    again = kernels.again(made)
    assert [again(step).stdout for step in steps] == first


def test_statements_of_a_step_are_compiled_one_by_one(kernels: Kernels) -> None:
    """As those of any cell: equal constants of two are two objects, and what stands above one that is no code runs."""
    kernel = kernels("%%resumable a\na = (1, 257)\nb = (1, 257)\nsame = a is b")
    assert kernel("same").value == "False"
    assert "SyntaxError" in kernel.attempt("%%resumable b\nc = 1\nreturn 5\nd = 2").error
    assert kernel("c, 'd' in globals()").value == "(1, False)"


def test_the_code_of_a_step_can_be_run_from_the_history(kernels: Kernels) -> None:
    kernel = kernels("n = 0")
    count = int(kernel("len(In)").value)
    kernel("%%resumable a\nn += 1\nm = n")
    assert kernel(f"In[{count}], _i{count}, _i").value == r"('n += 1\nm = n', 'n += 1\nm = n', 'n += 1\nm = n')"
    kernel(f"%%resumable b\nexec(In[{count}])\nexec(_i{count})", f"%macro -q again {count}", "again")
    assert kernel("n, m").value == "(4, 4)"
    assert kernel("sorted(get_ipython().run_line_magic('resumable', 'steps').index)").value == "['a', 'b']"
