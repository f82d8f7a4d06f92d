"""Keys of steps, identities of calls."""

from __future__ import annotations

import ast
import functools
import importlib
import io
import itertools
import os
import subprocess
import sys
import textwrap
import threading
import types
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from resumable_nb.errors import BadArgument, UsageError
from resumable_nb.fingerprint import bind, call_identity, describe, fingerprint, step_key, user_module
from resumable_nb.model import MISSING, Missing, StepKey, StepOptions, digest
from resumable_nb.plan import differences
from resumable_nb.source import analyse


class Variables:
    """A namespace as a step sees it; ``pending`` are names that must not be loaded."""

    def __init__(self, space: Mapping[str, Any], known: Mapping[str, str] | None = None) -> None:
        self.space, self.digests = space, dict(known or {})
        self.loaded: list[str] = []

    def value(self, name: str) -> object | Missing:
        self.loaded.append(name)
        return self.space.get(name, MISSING)

    def known(self, name: str) -> str | Missing:
        return self.digests.get(name, MISSING)

    def as_saved(self, _name: str) -> str | Missing:
        return MISSING

    def provenance(self, name: str) -> str:
        return f"cell of {name}" if name in self.space else ""


def notebook(text: str) -> dict[str, Any]:
    """The namespace after running cells."""
    space: dict[str, Any] = {"__name__": "__main__"}
    exec(textwrap.dedent(text), space)
    return space


def key(text: str, space: Mapping[str, Any], base: Path = Path(), **options: Any) -> StepKey:
    names = options.pop("names", ())
    body = analyse(ast.parse(textwrap.dedent(text)))
    return step_key(body, Variables(space), StepOptions(**options), base, names=names)


def changed(text: str, before: str, after: str) -> list[str]:
    """What makes the step stale, after another cell was edited."""
    return [str(each) for each in differences(key(text, notebook(before)), key(text, notebook(after)))]


# --- what a step depends on


def test_the_parts_of_a_key() -> None:
    found = key("y = f(x)", notebook("x = [1]\nRATE = 2\ndef f(v): return g(v) * RATE\ndef g(v): return v"))
    assert found.source == digest(analyse(ast.parse("y = f(x)")).normal.encode())
    assert set(found.functions) == {"f", "g"}
    assert found.inputs == {"x": fingerprint([1]), "RATE": fingerprint(2)}


CELLS = """
import functools, math, threading
RATE = 2
UNUSED = 1
def deep(x): return x * RATE
def f(x): return deep(x) if x else f(x)
class Base:
    def base(self): return RATE
class A(Base):
    factor = 3
    def run(self): return deep(1)
    @property
    def p(self): return RATE
    @staticmethod
    def s(): return RATE
    @classmethod
    def c(cls): return RATE
a = A()
inside = {"objects": [A()]}
table = {"double": lambda x: x * RATE}
part = functools.partial(deep, 1)
def wrap(fn):
    @functools.wraps(fn)
    def inner(*args): return fn(*args)
    return inner
@wrap
def wrapped(x): return x + RATE
@functools.lru_cache
def cached(x): return x + RATE
method = a.run
def closing(k):
    def inner(x): return x * k * RATE
    return inner
closed = closing(3)
def lazily():
    exec("pass")
lock = threading.Lock()
"""


@pytest.mark.parametrize(
    ("use", "old", "new", "expected"),
    [
        ("f(1)", "return x * RATE", "return x + RATE", "function deep changed"),
        ("f(1)", "RATE = 2", "RATE = 3", "input RATE changed"),
        ("a.run()", "return deep(1)", "return deep(2)", "function A changed"),
        ("a.run()", "factor = 3", "factor = 4", "function A changed"),
        ("a.base()", "def base(self): return RATE", "def base(self): return 1", "function Base changed"),
        ("a.p", "def p(self): return RATE", "def p(self): return 1", "function A changed"),
        ("A.s()", "def s(): return RATE", "def s(): return 1", "function A changed"),
        ("A.c()", "def c(cls): return RATE", "def c(cls): return 1", "function A changed"),
        ("a.p", "RATE = 2", "RATE = 3", "input RATE changed"),
        ("a.run()", "return x * RATE", "return x + RATE", "function deep changed"),
        ("inside['objects'][0].run()", "return x * RATE", "return x + RATE", "function deep changed"),
        ("table['double'](1)", "lambda x: x * RATE", "lambda x: x + RATE", "input table changed"),
        ("table['double'](1)", "RATE = 2", "RATE = 3", "input RATE changed"),
        ("part()", "return x * RATE", "return x + RATE", "function part changed"),
        ("part()", "RATE = 2", "RATE = 3", "input RATE changed"),
        ("wrapped(1)", "return x + RATE", "return x - RATE", "function wrapped changed"),
        ("wrapped(1)", "RATE = 2", "RATE = 3", "input RATE changed"),
        ("cached(1)", "return x + RATE", "return x - RATE", "function cached changed"),
        ("cached(1)", "RATE = 2", "RATE = 3", "input RATE changed"),
        ("method()", "return deep(1)", "return deep(2)", "function method changed"),
        ("method()", "RATE = 2", "RATE = 3", "input RATE changed"),
        ("closed(1)", "closing(3)", "closing(4)", "function closed changed"),
        ("closed(1)", "RATE = 2", "RATE = 3", "input RATE changed"),
        ("[f(i) for i in 'ab']", "return x * RATE", "return x + RATE", "function deep changed"),
        ("(lambda: f(1))()", "return x * RATE", "return x + RATE", "function deep changed"),
        ("sorted([1], key=f)", "RATE = 2", "RATE = 3", "input RATE changed"),
        ("class B(A): pass\nB().run()", "RATE = 2", "RATE = 3", "input RATE changed"),
        ("math.sqrt(2)", "import functools, math", "import functools, cmath as math", "input import math changed"),
    ],
)
def test_what_is_reached_makes_a_step_stale(use: str, old: str, new: str, expected: str) -> None:
    after = CELLS.replace(old, new)
    assert after != CELLS
    assert expected in changed(use, CELLS, after)


@pytest.mark.parametrize("use", ["f(1)", "a.run()", "table", "closed(1)", "wrapped(1)", "cached(1)", "inside", "A"])
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("UNUSED = 1", "UNUSED = 2"),
        ("def deep(x): return x * RATE", "# moved\n\ndef deep(x):\n    # so\n    return (x *\n        RATE)"),
        ("RATE = 2\n", "RATE = 1 + 1\n\n\n"),
        ("lock = threading.Lock()", "lock = threading.RLock()"),
    ],
    ids=["unused variable", "layout", "equal value", "unused object"],
)
def test_what_does_not_matter_does_not_make_a_step_stale(use: str, old: str, new: str) -> None:
    assert changed(use, CELLS, CELLS.replace(old, new)) == []


def test_imported_names_of_libraries_count_by_which_they_are() -> None:
    assert changed("sqrt(2)", "from math import sqrt", "from cmath import sqrt") == ["input import sqrt changed"]
    assert changed("f(2)", "from math import sin as f", "from math import cos as f") == ["input f changed"]


def test_a_value_without_content_counts_by_its_origin() -> None:
    found = key("lock.acquire()", notebook(CELLS))
    assert found.inputs == {"lock": "by:cell of lock"}


def test_the_class_of_a_value_without_content_is_followed() -> None:
    cells = "import threading\nclass A:\n lock = None\n def m(self): return {}\na = A()\na.lock = threading.Lock()"
    assert changed("a.m()", cells.format(1), cells.format(2)) == ["function A changed"]


def test_builtins_and_undefined_names_do_not_count() -> None:
    found = key("print(len([nowhere]))", notebook(""))
    assert (found.inputs, found.functions) == ({}, {})


def test_a_name_that_the_cell_binds_first_does_not_count() -> None:
    assert key("x = 1\nprint(x)", {"x": 5}).inputs == {}


def test_deferred_reads_do_not_count_until_somebody_can_call() -> None:
    """A cell of definitions stays fresh when later cells bind what its functions look up."""
    text = "def f(): return data\ndef g(): return f()"
    assert key(text, {"data": 1}).inputs == {}
    assert key(text + "\ng()", {"data": 1}).inputs == {"data": fingerprint(1)}


def test_a_deferred_function_counts_when_a_reached_function_calls_it() -> None:
    space = notebook("def run(): return hook()\ndata = 1")
    assert key("def hook(): return data\nrun()", space).inputs == {"data": fingerprint(1)}


def test_instances_of_replaced_classes_are_kept_apart() -> None:
    space = notebook("class A:\n def m(self): return 1\nold = A()\nclass A:\n def m(self): return 2")
    found = key("old.m(), A", space)
    assert len(found.functions) == 2


def test_a_class_counts_as_it_is_once_its_variable_is_loaded() -> None:
    """An object that is loaded brings its class as it was when the object was saved."""
    text = "class A:\n    n = {0}\n    def f(self): return A.n\nm = A()"

    class Pending(Variables):
        def value(self, name: str) -> object | Missing:
            if name == "A":
                self.space["A"].n = 7
            return super().value(name)

    body = analyse(ast.parse("m.f()"))
    found = step_key(body, Pending(notebook(text.format(1))), StepOptions(), Path())
    assert found == step_key(body, Variables(notebook(text.format(7))), StepOptions(), Path())


def test_recursion_between_functions_and_classes_ends() -> None:
    cells = """
    def f(x): return A(g)
    def g(x): return f(x)
    class A:
        def __init__(self, x): self.x = f
        def m(self): return g, A, a
    a = A(1)
    """
    found = key("f(1)", notebook(cells))
    assert set(found.functions) == {"f", "g", "A"}
    assert set(found.inputs) == {"a"}


def test_known_values_are_not_loaded() -> None:
    variables = Variables({"x": object(), "f": len}, {"x": "0" * 32})
    body = analyse(ast.parse("f(x)"))
    found = step_key(body, variables, StepOptions(), Path())
    assert found.inputs["x"] == "0" * 32
    assert variables.loaded == ["f"]


def test_known_values_that_hold_code_are_loaded_and_followed() -> None:
    space = notebook("RATE = 1\ntable = {'f': lambda: RATE}")
    variables = Variables(space, {"table": fingerprint(space["table"]), "RATE": fingerprint(space["RATE"])})
    found = step_key(analyse(ast.parse("table['f']()")), variables, StepOptions(), Path())
    assert found.inputs == {"table": fingerprint(space["table"]), "RATE": fingerprint(1)}


@pytest.mark.parametrize("text", ["globals()['x']", "eval('x')", "f()"])
def test_dynamic_code_depends_on_every_visible_name(text: str) -> None:
    space = notebook("x = 1\ny = 2\ndef f(): return eval('x')")
    found = key(text, space, names=["x", "y"])
    assert {"x", "y"} <= found.inputs.keys()


def test_options_that_change_the_result_count() -> None:
    assert key("x", {}).options != key("x", {}, keep=("x",)).options
    assert key("x", {}).options == key("x", {}, quiet=True, rerun=True).options


def test_keys_are_the_same_in_other_processes() -> None:
    program = (
        "import ast, pathlib, msgspec\nfrom resumable_nb.fingerprint import step_key\n"
        "from resumable_nb.model import MISSING, StepOptions\nfrom resumable_nb.source import analyse\n"
        f"space = {{'__name__': '__main__'}}\nexec({CELLS!r}, space)\n"
        "class L:\n value = lambda s, n: space.get(n, MISSING)\n known = lambda s, n: MISSING\n"
        " as_saved = lambda s, n: MISSING\n"
        " provenance = lambda s, n: ''\n"
        "uses = 'f(1), a, inside, table, part, wrapped, cached, method, closed, lazily, lock, {1, 2}'\n"
        "body = analyse(ast.parse(uses))\n"
        "print(msgspec.json.encode(step_key(body, L(), StepOptions(), pathlib.Path())))"
    )
    found = {
        subprocess.run([sys.executable, "-c", program], env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True,
                       text=True, check=True, timeout=60).stdout
        for seed in ("0", "1")
    }  # fmt: skip
    assert len(found) == 1


# --- modules of the user's


Write = Callable[..., None]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Write]:
    """Writes modules into a folder on the path, and forgets what was imported from it."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def forget() -> None:
        for name, module in list(sys.modules.items()):
            if str(getattr(module, "__file__", None) or "").startswith(str(tmp_path)):
                del sys.modules[name]
        importlib.invalidate_caches()

    def write(**texts: str) -> None:
        forget()
        for name, text in texts.items():
            path = tmp_path / f"{name}.py"
            path.parent.mkdir(exist_ok=True)
            path.write_text(textwrap.dedent(text))

    yield write
    forget()


CORE = "K = 3\ndef deep(x): return x * K\ndef unused(): return 1\n"
HELPERS = """
import json
import core
from core import deep as renamed
RATE = 2
OTHER = 5
state = []
def clean(x): return core.deep(x) * RATE
def also(x): return renamed(x)
def inside(x):
    import core as c
    return c.deep(x)
class T:
    def m(self): return RATE
instance = T()
"""


@pytest.mark.parametrize(
    ("cell", "use"),
    [
        ("import helpers", "helpers.clean(1)"),
        ("import helpers as h", "h.clean(1)"),
        ("from helpers import clean", "clean(1)"),
        ("from helpers import clean as c", "c(1)"),
        ("from helpers import *", "clean(1)"),
        ("", "import helpers\nhelpers.clean(1)"),
        ("", "import helpers as h\nh.clean(1)"),
        ("", "from helpers import clean as c\nc(1)"),
        ("", "from helpers import *\nclean(1)"),
        ("", "def f():\n    from helpers import clean\n    return clean(1)\nf()"),
        ("import helpers", "x = [helpers]"),
        ("import helpers", "getattr(helpers, 'clean')(1)"),
        ("import helpers", "helpers.__dict__['clean'](1)"),
        ("import helpers\nboxed = {'m': helpers}", "boxed['m'].clean(1)"),
        ("import helpers\ndef f(): return helpers.clean(1)", "f()"),
        ("from functools import partial\nimport helpers\nf = partial(helpers.clean, 1)", "f()"),
    ],
)
def test_edited_modules_make_a_step_stale(write: Write, cell: str, use: str) -> None:
    """Two imports deep, functions and constants, however they are imported."""

    def now(**texts: str) -> StepKey:
        write(**{"core": CORE, "helpers": HELPERS, **texts})
        return key(use, notebook(cell))

    before = now()
    assert now() == before
    assert now(core=CORE.replace("x * K", "x + K")).functions != before.functions
    assert now(core=CORE.replace("K = 3", "K = 4")).inputs != before.inputs
    assert now(helpers=HELPERS.replace("RATE = 2", "RATE = 3")).inputs != before.inputs
    assert now(core="# moved\n\n" + CORE) == before


def test_only_what_is_mentioned_of_a_module_counts(write: Write) -> None:
    write(core=CORE, helpers=HELPERS)
    before = key("helpers.clean(1)", notebook("import helpers"))
    assert set(before.functions) == {"helpers.clean", "core.deep"}
    assert set(before.inputs) == {"helpers.RATE", "core.K"}
    write(core=CORE.replace("return 1", "return 2"), helpers=HELPERS.replace("OTHER = 5", "OTHER = 6"))
    assert key("helpers.clean(1)", notebook("import helpers")) == before


def test_a_fresh_kernel_and_a_live_one_agree(write: Write) -> None:
    """The cell's own import must not make a difference when the module is there already."""
    write(core=CORE, helpers=HELPERS)
    fresh = key("import helpers\nhelpers.inside(1)", notebook(""))
    live = key("import helpers\nhelpers.inside(1)", notebook("import helpers"))
    assert fresh == live
    assert set(fresh.functions) == {"helpers.inside", "core.deep"}


def test_functions_of_modules_have_qualified_names(write: Write) -> None:
    write(core=CORE, helpers=HELPERS)
    found = key("also(1), T().m(), h.instance.m()", notebook("from helpers import also, T\nimport helpers as h"))
    assert set(found.functions) == {"helpers.also", "core.deep", "helpers.T"}


def test_packages_are_followed_through_relative_imports(write: Write) -> None:
    package = {"pkg/__init__": "from .a import f", "pkg/a": "from . import b\ndef f(): return b.g()"}
    write(**package, **{"pkg/b": "def g(): return 1"})
    before = key("pkg.f()", notebook("import pkg"))
    assert set(before.functions) == {"pkg.a.f", "pkg.b.g"}
    write(**{"pkg/b": "def g(): return 2"})
    assert key("pkg.f()", notebook("import pkg")) != before


def test_a_module_that_cannot_be_imported_is_left_to_the_step(write: Write) -> None:
    write(broken="raise RuntimeError('no')")
    assert key("import broken\nbroken.f()", notebook("")).functions == {}


def test_modules_that_import_each_other(write: Write) -> None:
    write(one="import two\ndef f(): return two.g()", two="import one\ndef g(): return one.f()")
    found = key("one.f()", notebook("import one"))
    assert set(found.functions) == {"one.f", "two.g"}


def test_eval_in_a_module_depends_on_all_of_it(write: Write) -> None:
    write(dyn="A = 1\nB = 2\ndef f(name): return eval(name)")
    assert {"dyn.A", "dyn.B"} <= key("dyn.f('A')", notebook("import dyn")).inputs.keys()


def test_module_state_without_content_counts_by_the_modules_text(write: Write) -> None:
    write(conn="import threading\nlock = threading.Lock()\ndef f(): return lock")
    before = key("conn.f()", notebook("import conn"))
    assert before.inputs["conn.lock"].startswith("by:")
    write(conn="import threading\nlock = threading.RLock()\ndef f(): return lock")
    assert key("conn.f()", notebook("import conn")).inputs != before.inputs


@pytest.mark.parametrize(
    "name", ["sys", "json", "os.path", "numpy", "numpy.linalg", "pandas", "resumable_nb.model", "pytest"]
)
def test_libraries_are_not_the_users(name: str) -> None:
    assert not user_module(name)
    assert not user_module(importlib.import_module(name))


def test_what_is_the_users(write: Write, tmp_path: Path) -> None:
    write(mine="")
    assert user_module("mine")
    assert user_module("__main__")
    assert user_module(types.ModuleType("made_at_run_time"))
    assert not user_module("there_is_no_such_module")
    site = types.ModuleType("installed")
    site.__file__ = str(tmp_path / "site-packages" / "installed.py")
    assert not user_module(site)


def test_the_callers_notion_of_user_modules_is_followed(write: Write) -> None:
    write(core=CORE, helpers=HELPERS)
    body = analyse(ast.parse("helpers.clean(1)"))
    found = step_key(body, Variables(notebook("import helpers")), StepOptions(), Path(),
                     is_user_module=lambda module: False)  # fmt: skip
    assert found.functions == {}


# --- files


def test_declared_files_count_by_content(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("1")
    before = key("x", {}, tmp_path, files=("a.csv", "none.csv"))
    assert before.files["none.csv"] == "absent"
    os.utime(tmp_path / "a.csv", (1, 1))
    assert key("x", {}, tmp_path, files=("a.csv", "none.csv")) == before
    (tmp_path / "a.csv").write_text("2")
    assert [str(each) for each in differences(before, key("x", {}, tmp_path, files=("a.csv", "none.csv")))] == [
        "file a.csv changed"
    ]


def test_patterns_name_each_file(tmp_path: Path) -> None:
    for name in ("a.csv", "b.csv", "c.txt", "sub/d.csv"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    assert set(key("x", {}, tmp_path, files=("*.csv",)).files) == {"a.csv", "b.csv"}
    assert set(key("x", {}, tmp_path, files=("**/*.csv",)).files) == {"a.csv", "b.csv", "sub/d.csv"}
    assert key("x", {}, tmp_path, files=("*.parquet",)).files == {"*.parquet": "absent"}


def test_folders_count_as_a_whole(tmp_path: Path) -> None:
    (tmp_path / "data" / "sub").mkdir(parents=True)
    (tmp_path / "data" / "sub" / "a").write_text("1")
    keys = [key("x", {}, tmp_path, files=("data",)).files]
    (tmp_path / "data" / "sub" / "a").rename(tmp_path / "data" / "sub" / "b")
    keys.append(key("x", {}, tmp_path, files=("data",)).files)
    (tmp_path / "data" / "empty").mkdir()
    keys.append(key("x", {}, tmp_path, files=("data",)).files)
    assert [set(each) for each in keys] == [{"data"}] * 3
    assert len({each["data"] for each in keys}) == 3


def test_files_elsewhere_and_with_brackets(tmp_path: Path) -> None:
    (tmp_path / "a[1].csv").write_text("1")
    outside = tmp_path / "a[1].csv"
    assert set(key("x", {}, tmp_path, files=("a[1].csv",)).files) == {"a[1].csv"}
    assert set(key("x", {}, tmp_path / "b", files=(str(outside),)).files) == {outside.as_posix()}


def test_a_file_that_cannot_be_read_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").write_text("1")

    def refuse(*args: Any, **kwargs: Any) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(UsageError, match="Permission denied"):
        key("x", {}, tmp_path, files=("a",))


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert key("x", {}, tmp_path, files=("pipe",)).files == {"pipe": "special"}


# --- describing


def test_describe() -> None:
    space = {"a": np.zeros((3, 4)), "b": [1, 2], "c": 5, "d": "x" * 100, "api_key": "hush", "m": np, "o": object()}
    shown = {name: describe(name, Variables(space)) for name in space}
    assert shown["a"] == "ndarray 3 × 4"
    assert shown["b"] == "list of 2"
    assert shown["c"] == "5"
    assert len(shown["d"]) <= 40
    assert "hush" not in shown["api_key"]
    assert shown["o"] == "object"
    assert describe("import m", Variables(space)) == "numpy"
    assert describe("nowhere", Variables(space)) == ""
    assert describe("c", Variables(space, {"c": "0" * 32})) == ""


# --- calls


def plain(a: Any, b: Any = 2, *rest: Any, c: Any = 3, **more: Any) -> None: ...


class Client:
    def __init__(self, name: str) -> None:
        self.name = name

    def send(self, x: Any, /, y: Any = 1) -> None: ...

    @classmethod
    def make(cls, x: Any) -> None: ...

    @staticmethod
    def static(x: Any) -> None: ...

    def __call__(self, x: Any) -> None: ...


def test_bind_fills_in_defaults_in_the_parameters_order() -> None:
    assert list(bind(plain, (1,), {"z": 1, "c": 5, "y": 2}).items()) == [
        ("a", 1),
        ("b", 2),
        ("c", 5),
        ("y", 2),
        ("z", 1),
    ]
    assert bind(plain, (), {"b": 1, "a": 2}) == bind(plain, (2, 1), {})
    assert bind(plain, (1, 2, 7, 8), {}) == {"a": 1, "b": 2, "rest[0]": 7, "rest[1]": 8, "c": 3}


def test_bind_keeps_keywords_apart_from_positional_only_parameters() -> None:
    def f(a: Any, /, *args: Any, **kwargs: Any) -> None: ...

    assert bind(f, (1,), {"a": 2}) == {"a": 1, "*a": 2}
    assert bind(f, (1,), {"a": 2, "*a": 3}) == {"a": 1, "**a": 2, "*a": 3}
    assert bind(f, (1, 2), {"args[0]": 3}) == {"a": 1, "args[0]": 2, "*args[0]": 3}


def test_bind_counts_the_object_of_a_bound_method() -> None:
    one = Client("one")
    assert bind(one.send, (1,), {}) == {"self": one, "x": 1, "y": 1}
    assert bind(Client.make, (1,), {}) == {"self": f"{__name__}.Client", "x": 1}
    assert bind(Client.static, (1,), {}) == {"x": 1}
    assert bind(Client.send, (one, 1), {}) == {"self": one, "x": 1, "y": 1}
    assert bind(one, (1,), {}) == {"x": 1}


def test_bind_of_functions_without_a_signature() -> None:
    assert bind(max, (1, 2), {"key": None}) == {"arg0": 1, "arg1": 2, "key": None}
    assert bind(functools.partial(plain, 1), (5,), {}) == {"b": 5, "c": 3}
    assert bind([1].append, (2,), {}) == {"self": [1], "object": 2}


@pytest.mark.parametrize(("args", "kwargs"), [((), {}), ((1,), {"a": 2})])
def test_bind_refuses_what_the_call_would(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match=r"plain\(\) .*'a'"):
        bind(plain, args, kwargs)


def identity(arguments: Mapping[str, Any] = types.MappingProxyType({}), **changes: Any) -> str:
    options: dict[str, Any] = {
        "incarnation": "i",
        "tool": "t",
        "version": "",
        "secrets": {},
        "key": b"k" * 32,
        **changes,
    }
    return call_identity(*(options.pop(name) for name in ("incarnation", "tool", "version")), arguments, **options)


def test_every_part_of_a_call_counts() -> None:
    calls = [
        identity(), identity({"a": 1}), identity({"a": 1.0}), identity({"a": True}),
        identity({"a": "1"}),
        identity({"b": 1}), identity({"a": 1, "b": 1}), identity({"a": [1]}),
        identity({"a": (1,)}), identity({"a": None}),
        identity(incarnation="j"), identity(tool="u"), identity(version="1"), identity(step="s"),
        identity(secrets={"a": 1}), identity(secrets={"a": 2}), identity(secrets={"b": 1}),
        identity(secrets={"a": 1}, key=b"l" * 32), identity({"a": 1}, secrets={"b": 1}),
    ]  # fmt: skip
    assert len(set(calls)) == len(calls)


def test_the_order_of_arguments_and_dicts_does_not_count() -> None:
    assert identity({"a": {"x": 1, "y": 2}, "b": 1}) == identity({"b": 1, "a": {"y": 2, "x": 1}})


def test_keys_of_any_length_do() -> None:
    assert len({identity(secrets={"a": 1}, key=bytes(n)) for n in (1, 16, 32, 64)}) == 4


def test_secrets_cannot_be_tried_without_the_key() -> None:
    """An identity that is known tells nothing about a secret to one who has not got the key."""
    real = identity(secrets={"token": "1234"})
    guesses = [identity(secrets={"token": f"{n:04}"}, key=b"other") for n in range(1200, 1300)]
    assert real not in guesses


def test_fixing_the_code_of_a_class_does_not_make_a_call_new() -> None:
    cells = "class Order:\n def __init__(self): self.id = 7\n def total(self): return {}\norder = Order()"
    one, other = notebook(cells.format(1)), notebook(cells.format(2))
    assert identity({"order": one["order"]}) == identity({"order": other["order"]})


@pytest.mark.parametrize(
    ("value", "advice"),
    [
        (iter([1]), "pass a list"),
        ((i for i in [1]), "pass a list"),
        (map(str, [1]), "pass a list"),
        (itertools.count(), "pass a list"),
        (io.BytesIO(b"a"), "pass its path"),
        (threading.Lock(), "ignore="),
        ({"deep": [threading.Lock()]}, "items['deep'][0]"),
    ],
    ids=["iterator", "generator", "map", "count", "stream", "lock", "nested"],
)
def test_arguments_without_a_lasting_identity_are_refused(value: Any, advice: str) -> None:
    with pytest.raises(BadArgument) as caught:
        identity({"ok": 1, "items": value})
    assert "'items'" in str(caught.value)
    assert advice in str(caught.value)
    assert (caught.value.argument, caught.value.tool) == ("items", "t")


def test_secrets_without_a_lasting_identity_are_refused_too() -> None:
    with pytest.raises(BadArgument, match="'token'"):
        identity(secrets={"token": iter("abc")})


def test_an_open_file_is_refused(tmp_path: Path) -> None:
    with (tmp_path / "f").open("w") as file, pytest.raises(BadArgument, match="open file"):
        identity({"f": file})


def test_identities_are_pinned() -> None:
    """They stand in journals: a change would repeat every recorded call."""
    assert identity({"order": "A1", "amount": 5}, secrets={"token": "x"}) == "85e2cf8a1ddfabb3c2b2385a1a50c900"


def test_an_executor_does_not_count() -> None:
    """Neither how many workers it has, nor what it has done."""
    with ThreadPoolExecutor(2) as one, ProcessPoolExecutor(3) as two:
        before = fingerprint([one])
        one.submit(int).result()
        assert before == fingerprint([one]) == fingerprint([two]) != fingerprint([None])


def test_a_path_into_the_home_of_nobody_is_no_file(tmp_path: Path) -> None:
    body = analyse(ast.parse("run('~nobody-of-that-name/a.py')"))
    assert body.scripts == {"~nobody-of-that-name/a.py"}
    assert step_key(body, Variables({}), StepOptions(), tmp_path).files == {}
