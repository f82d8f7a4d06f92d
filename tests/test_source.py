"""Cell text and code objects as names and normal forms."""

from __future__ import annotations

import ast
import dis
import heapq
import inspect
import sys
import textwrap
import types
from collections.abc import Callable, Iterator
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from resumable_nb.source import Body, Import, analyse, code_form, code_names, names_of, normal_form


def body(text: str, **options: Callable[[str], str]) -> Body:
    return analyse(ast.parse(textwrap.dedent(text)), **options)


def reads(text: str) -> set[str]:
    return set(body(text).reads)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("for i in xs: print(i)", "xs print"),
        ("x = 1; print(x)", "print"),
        ("x += 1", "x"),
        ("x: int = y", "int y"),
        ("x: int", "int"),
        ("from __future__ import annotations\nx: int = y", "y"),
        ("a, (b, *c) = d", "d"),
        ("a.b = c", "a c"),
        ("a[i] = c", "a i c"),
        ("a[i] += 1", "a i"),
        ("x = x", "x"),
        ("print(x := 1, x)", "print"),
        ("a and (x := 1)\nx", "a x"),
        ("a < (x := 1) < (y := 2)\nx, y", "a y"),
        ("del x", ""),
        ("x = 1\ndel x\nx", "x"),
        ("import a.b as c, d.e\nc, d", ""),
        ("from a import b as c\nb, c", "b"),
        ("from m import *\nq", "q"),
        ("print(__file__)", "print __file__"),
        ("await f(x)", "f x"),
        ("async for i in xs: i", "xs"),
        ("async with a as b: b", "a"),
        ("get_ipython().user_ns", ""),
    ],
)
def test_reads_of_simple_statements(text: str, expected: str) -> None:
    assert reads(text) == set(expected.split())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("if a: x = 1\nelse: x = 2\nx", "a"),
        ("if a: x = 1\nx", "a x"),
        ("if a: x = 1\nelse: raise E\nx", "a E"),
        ("x = 1 if a else (y := 2)\ny", "a y"),
        ("while True:\n x = f()\n if x: break\nx", "f"),
        ("while a:\n x = 1\nx", "a x"),
        ("while True:\n if a: break\n x = 1\nx", "a x"),
        ("for i in xs: y = 1\ni, y", "xs i y"),
        ("for i in xs: break\nelse: y = 1\ny", "xs y"),
        ("for i in xs: pass\nelse: y = 1\ny", "xs"),
        ("for i in xs:\n if i: continue\n y = 1\n y", "xs"),
        ("try: x = f()\nexcept E as e: e\nx", "f E x"),
        ("try: x = f()\nexcept E: x = 2\nx", "f E"),
        ("try: x = f()\nexcept E: raise\nx", "f E"),
        ("try: x = f()\nfinally: y = x\ny", "f x"),
        ("try: pass\nexcept* E as e: pass\ne", "E e"),
        ("with open(p) as f: d = f.read()\nd, f", "open p"),
        ("with suppress(E): d = 1\nd", "suppress E d"),
        ("with a as (b, c): b, c", "a"),
        ("match v:\n case [a, *r]: a, r\n case {'k': q, **z}: q, z\n case K(x=1) as w: w", "v K"),
        ("match v:\n case 1: x = 1\n case _: x = 2\nx", "v"),
        ("match v:\n case 1: x = 1\nx", "v x"),
        ("match v:\n case y if y: x = 1\nx", "v x"),
    ],
)
def test_branches_intersect_and_loops_and_handlers_are_conservative(text: str, expected: str) -> None:
    assert reads(text) == set(expected.split())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[x for x in xs if x > y]", "xs y"),
        ("{k: v for k, v in d.items() for w in v if w}", "d"),
        ("[x for x in x]", "x"),
        ("[y for x in xs if (y := f(x))]", "xs f"),
        ("[(y := x) for x in xs]\ny", "xs y"),
        ("(z for _ in a)", "a z"),
        ("[[a for b in c] for c in d]", "d a"),
        ("lambda x, y=d: x + y + z", "d z"),
        ("f(lambda: later)\nlater = 1", "f later"),
    ],
)
def test_targets_of_comprehensions_and_parameters_are_local(text: str, expected: str) -> None:
    assert reads(text) == set(expected.split())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("def f(x): return f(x - 1) + g(x)\nf(1)", "g"),
        ("def f(): return g()\ndef g(): return y\nf()", "y"),
        ("def f(): return y\ny = 1\nf()", ""),
        ("def f(): return y\nf()\ny = 1", "y"),
        ("def f(a: T = d, *b: U, **c) -> R: a, b, c\nf", "T U R d"),
        ("def f():\n global q\n q = 1\n return q\nf()", ""),
        ("def f():\n global q\n return q\nf()", "q"),
        ("def f():\n x = 1\n def g():\n  nonlocal x\n  x += 1\n  return x\n return g\nf()", ""),
        ("def f():\n if a: x = 1\n return x\nf()", "a"),
        ("def f():\n import m\n return m.x\nf()", ""),
        ("def f():\n try: pass\n except E as e: return e\nf()", "E"),
        ("def f():\n z: Unseen = 1\nf()", ""),
        ("@dec\ndef f(): return z", "dec z"),
        ("async def f():\n async for i in k: await i\nawait f()", "k"),
        ("for i in n:\n if i: f()\n else:\n  def f(): return z", "n f z"),
        ("class A(B, metaclass=M):\n x = 1\n y = x + k\n def m(self): return z, x, A", "B M k z x"),
        ("class A:\n def m(self): return super().m() + z\nA().m()", "super z"),
        ("class A:\n def make(): return z\n x = make()", "z"),
        ("class A:\n x = x", "x"),
        ("class A:\n global g\n g = 1\ng", ""),
        ("f = lambda: f() + z\nf()", "z"),
    ],
)
def test_functions_read_what_is_not_bound_when_they_can_be_called(text: str, expected: str) -> None:
    assert reads(text) == set(expected.split())


def test_uncalled_functions_defer_their_reads() -> None:
    """Cells that only define things must not depend on names that later cells bind."""
    found = body("def f(): return g() + data\ndef g(): return more\nclass A:\n def m(self): return f() + z")
    assert found.reads == {"data", "more", "z"} == found.only_deferred
    assert found.deferred == {"f": {"g", "data"}, "g": {"more"}, "A": {"f", "z"}}


def test_called_functions_defer_nothing() -> None:
    found = body("def main(): return f()\ndef f(): return data\nmain()")
    assert (found.only_deferred, dict(found.deferred)) == (set(), {})


def test_a_class_with_a_base_of_unknown_kind_defers_nothing() -> None:
    """The base may register the class and call it."""
    assert body("class A(Base):\n def m(self): return z").only_deferred == set()
    assert body("class A(Exception):\n def m(self): return z").only_deferred == {"z"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x = y = 1", "x y"),
        ("import a.b, c as d\nfrom e import f, g as h", "a d f h"),
        ("def f(): x = 1\nclass A: y = 1", "f A"),
        ("def f():\n global q\n q = 1", "f q"),
        ("for i, j in k: pass\nwith a as b: pass\n(w := 1)", "i j b w"),
        ("try: pass\nexcept E as e: pass", "e"),
        ("match v:\n case {'a': b, **c} | [b, *c] as d: pass", "b c d"),
        ("[(w := x) for x in y]", "w"),
        ("x.y = 1; z[0] = 1; t: int", ""),
    ],
)
def test_writes(text: str, expected: str) -> None:
    assert body(text).writes == set(expected.split())


def test_deletes_and_attributes_and_stars() -> None:
    found = body("del x, y.z\nfrom m import *\nfrom ..n import *\na.b.c(d.e)")
    assert found.deletes == {"x"}
    assert found.attributes == {"z", "b", "c", "e"}
    assert found.star_imports == ("m", "..n")


def test_imports_tell_modules_and_names() -> None:
    found = body("import a.b as c\ndef f():\n from .d import e, g as h")
    assert found.imports == {Import("a.b", bound="c"), Import("d", ("e", "g"), 1)}


def test_words_of_formulas_are_names_wherever_they_stand() -> None:
    assert body("q = 'y ~ scale(a)'\n'y ~ text'").reads == {"y", "scale", "a"}
    assert body("def f():\n    'approx ~ text'\n    return [g('y ~ h(b)') for _ in ()]").reads == {"g", "y", "h", "b"}
    code = code_of("def f():\n    'approx ~ text'\n    return [g('y ~ h(b)') for _ in ()]")
    assert names_of(code).globals == {"g", "y", "h", "b"}


def test_bare_names_are_used_other_than_by_attribute() -> None:
    assert body("a.x; b.y; f(b)\ndef g(): return c.z, d").bare == {"b", "f", "d"}


@pytest.mark.parametrize(
    "text",
    ["globals()['x']", "eval(s)", "exec(s)", "locals()", "vars()", "dir()", "get_ipython().user_ns['x']",
     "def f(): return eval(s)", "x.query(q)", "x.query(f'a > {n}')", "glm(formula=q)",
     "x.eval(expr=q)", "x.sql('a' + q)",
     "import builtins\nbuiltins.exec('')", "from builtins import eval as e", "import __main__",
     "sys._getframe().f_globals", "f.__globals__",
     "get_ipython().run_line_magic('whos', '')", "get_ipython().run_line_magic('run', 'a.py')"],
)  # fmt: skip
def test_dynamic_code_may_touch_every_name(text: str) -> None:
    assert body(text).dynamic


@pytest.mark.parametrize(
    "text",
    [
        "vars(x)",
        "dir(x)",
        "def f(): return locals()",
        "x.eval()",
        "x.query('a' 'b')",
        "x.query([4, 5])",
        "x.execute(q)",
        "x.query(texts=q)",
        "x.query",
        "print('globals()')",
    ],
)
def test_what_only_looks_dynamic_is_not(text: str) -> None:
    assert not body(text).dynamic


def test_line_magic_reads_its_identifiers() -> None:
    found = body("get_ipython().run_line_magic('sql', 'select {a} from b where')\nget_ipython().system('ls {c} $d')")
    assert found.reads >= {"a", "b", "c", "d"}


def test_time_magic_is_code() -> None:
    found = body("get_ipython().run_line_magic('time', 'r = f(y)')\nprint(r)")
    assert (found.reads, found.writes) == ({"f", "y", "print"}, {"r"})


def test_cell_magic_body_is_code_through_the_transform() -> None:
    seen: list[str] = []

    def transform(text: str) -> str:
        seen.append(text)
        return text.replace("!ls", "pass")

    found = body("get_ipython().run_cell_magic('capture', 'out', 'a = b\\n!ls\\nc = a\\n')", transform=transform)
    assert (found.reads, found.writes) == ({"b", "out"}, {"a", "c"})
    assert "a = b\n!ls\nc = a\n" in seen


def test_cell_magic_body_that_is_no_python_counts_as_words() -> None:
    assert "data" in body("get_ipython().run_cell_magic('sql', '', 'select * from data')").reads


@pytest.mark.parametrize(
    ("text", "reads"),
    [
        ("get_ipython().system('touch written.py')", set()),
        ("get_ipython().system('touch written')", set()),
        ("a = get_ipython().getoutput('ls $folder/{name}.py written')", {"folder", "name", "py", "written"}),
        ("get_ipython().system('echo $first $$second.third $HOME')", {"first", "second", "HOME"}),
        ("get_ipython().run_line_magic('pip', 'install numpy')", set()),
        ("get_ipython().run_line_magic('cd', '{folder}')", {"folder"}),
        ("get_ipython().run_cell_magic('sx', '', 'ls $folder\\nwc {name}')", {"folder", "name"}),
        ("get_ipython().run_line_magic('config', 'IPCompleter.greedy = wanted')", {"wanted", "IPCompleter"}),
        ("get_ipython().run_cell_magic('bash', '-s $n', 'echo numpy {k} $m')", {"n"}),
        ("get_ipython().run_cell_magic('writefile', 'x.py', 'import numpy\\nprint(numpy)')", set()),
    ],
)
def test_shell_lines_read_what_ipython_puts_into_them(text: str, reads: set[str]) -> None:
    found = body(text)
    assert found.reads - {"get_ipython"} == reads
    assert not found.dynamic


def test_magic_text_counts_in_the_normal_form() -> None:
    assert body("get_ipython().system('ls a')").normal != body("get_ipython().system('ls  a')").normal


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("x=1", "# why\nx   =   1\n\n\n"),
        ("f(a,b)", "f(\n    a,  # first\n    b,\n)"),
        ("x = 'a' 'b'", "x = ('a'\n  'b')"),
        ("x = 'a'", 'x = "a"'),
        ("x = 1_000", "x = 1000"),
        ("if a: b", "if a:\n\n    b  # c"),
        ("x = u'a'", "x = 'a'"),
        ("x = 1 # type: ignore", "x = 1"),
    ],
)
def test_formatting_does_not_show_in_the_normal_form(one: str, other: str) -> None:
    assert body(one).normal == body(other).normal


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("x = 1", "x = 2"), ("x = 1", "x = True"), ("x = 1", "x = 1.0"), ("x = 'a'", "x = b'a'"), ("x + y", "x - y"),
        ("x.a", "x.b"), ("x", "y"), ("[x]", "(x,)"), ("f(a)", "f(*a)"), ("f(a=1)", "f(b=1)"), ("{**a}", "{None: a}"),
        ("a[1:]", "a[:1]"), ("def f(): 'doc'", "def f(): 'other'"), ("x; y", "y; x"), ("x = None", "x = ..."),
        ("async def f(): pass", "def f(): pass"), ("f'{x}'", "f'{x!r}'"), ("f'{x}'", "f'{x:1}'"),
        ("x = 0x10000000000000000000", "x = 0x10000000000000000001"), ("a if b else c", "c if b else a"),
        ("from . import a", "from .. import a"), ("x = -0.0", "x = 0.0"), ("x = 1j", "x = 1"),
    ],
)  # fmt: skip
def test_meaning_shows_in_the_normal_form(one: str, other: str) -> None:
    assert body(one).normal != body(other).normal


def test_normal_form_is_pinned() -> None:
    """Stored keys hold its digest: a change makes every step of every task run again."""
    assert normal_form(ast.parse("x = [1, None]").body) == (
        "[Assign(targets=[Name(id=str:'x',)]value=List(elts=[Constant(value=int:0x1,)Constant()]))]"
    )


def test_huge_integers_have_a_normal_form() -> None:
    assert body(f"x = 0x{'f' * 8000}").normal


def test_deep_code_is_analysed() -> None:
    chain = "if a: pass\n" + "".join(f"elif a{i}: pass\n" for i in range(400))
    assert len(reads(chain)) == 401
    assert reads("+".join(["a"] * 1000)) == {"a"}


def test_deep_code_leaves_the_recursion_limit_alone() -> None:
    before = sys.getrecursionlimit()
    body("+".join(["a"] * 1000))
    assert sys.getrecursionlimit() == before


# --- code objects


def code_of(text: str, name: str = "<cell>") -> types.CodeType:
    module = compile(textwrap.dedent(text), name, "exec")
    return next(each for each in module.co_consts if isinstance(each, types.CodeType))


LAYOUTS = {
    "conditions": (
        "def f(a, b): return a and b or [x for x in a if x and b]",
        """
        # moved

        def f(a,
              b):
            # why
            return (a and
                b
                or [
                    x
                    for x in a
                    if x
                    and b
                ])
        """,
    ),
    "returns": (
        "def f(x):\n    if x: return 1\n    return 2",
        "def f(x):\n    if x:\n        return 1\n\n    return 2  # two",
    ),
    "swaps": (
        "def f(a, b):\n    a, b = b, a\n    return a < b < 3",
        "def f(a, b):\n    (a,\n     b) = (b,\n     a)\n    return (a <\n      b\n   < 3)",
    ),
    "loops": (
        """
        def f(x):
            while x:
                try: x -= 1
                except E: continue
                finally: g()
            else: h()
        """,
        """
        def f(x):
            while (
                x
            ):
                try:
                    x -= 1
                except E:
                    # on
                    continue
                finally:
                    g()
            else:
                h()
        """,
    ),
    "with": (
        "def f(x):\n    with a as b, c: return b if x else {k: v for k, v in x}",
        """
        def f(x):
            with (
                a as b,
                c,
            ):
                return (b
                    if x
                    else {
                        k: v
                        for k, v in x
                    })
        """,
    ),
    "class": (
        "class A:\n    x = 1\n    def f(self): return self.x",
        "\n\n\nclass A:\n\n    x = 1\n\n    def f(self):\n        return self.x",
    ),
}


@pytest.mark.parametrize(("one", "other"), LAYOUTS.values(), ids=LAYOUTS)
def test_layout_does_not_show_in_the_code_form(one: str, other: str) -> None:
    assert code_form(code_of(one)) == code_form(code_of(other, "elsewhere.py"))


def test_an_indented_function_has_the_same_code_form() -> None:
    inner = code_of("def outer():\n    def f(x):\n        return x + 1\n    return f")
    nested = next(each for each in inner.co_consts if isinstance(each, types.CodeType))
    assert code_form(nested) == code_form(code_of("def f(x): return x + 1"))


def test_where_a_module_is_imported_does_not_show_in_the_code_form() -> None:
    """The compiler makes another call of ``time.sleep()`` where the import stands in the same cell."""
    apart = code_of("def f(s): time.sleep(s)\n")
    together = compile("import time\ndef f(s): time.sleep(s)\n", "cell", "exec").co_consts
    (f,) = [each for each in together if isinstance(each, types.CodeType)]
    assert code_form(f) == code_form(apart)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("def f(x): return x + 1", "def f(x): return x + 2"),
        ("def f(x): return x + 1", "def f(x): return x + 1.0"),
        ("def f(x): return 1", "def f(x): return True"),
        ("def f(x): return 0.0", "def f(x): return -0.0"),
        ("def f(x): return x + 1", "def f(x): return x - 1"),
        ("def f(x): return x.a", "def f(x): return x.b"),
        ("def f(x): return g(x)", "def f(x): return h(x)"),
        ("def f(x): return x", "def f(y): return y"),
        ("def f(x): return x", "def g(x): return x"),
        ("def f(x): return x", "def f(*x): return x"),
        ("def f(x, y): return x", "def f(x, *, y): return x"),
        ("def f(x, y): return x", "def f(x, /, y): return x"),
        ("def f(x): 'a'", "def f(x): 'b'"),
        ("def f(x): return x < 1", "def f(x): return x <= 1"),
        ("def f(x): return a if x else b", "def f(x): return b if x else a"),
        ("def f(x): return x and y", "def f(x): return x or y"),
        ("def f(x): return x in {1, 2}", "def f(x): return x in {1, 3}"),
        ("def f(x): return (1, (2,))", "def f(x): return (1, (3,))"),
        ("def f(x): return lambda: 1", "def f(x): return lambda: 2"),
        ("def f(x):\n  for i in x:\n    if i: break\n  g()", "def f(x):\n  for i in x:\n    if i: continue\n  g()"),
        ("def f(x):\n  try: g()\n  except A: h()", "def f(x):\n  try: g()\n  except B: h()"),
        ("def f(x):\n  try: g()\n  except A: h()\n  k()", "def f(x):\n  try: g(); k()\n  except A: h()"),
        ("def f(x): yield x", "def f(x): return x"),
        ("async def f(x): return x", "def f(x): return x"),
        ("def f(x):\n  while x: pass", "def f(x):\n  if x: pass"),
        ("def f(x):\n  for i in x:\n    for j in x:\n      if j: break\n      g()",
         "def f(x):\n  for i in x:\n    for j in x:\n      if j: continue\n      g()"),
    ],
)  # fmt: skip
def test_meaning_shows_in_the_code_form(one: str, other: str) -> None:
    assert code_form(code_of(one)) != code_form(code_of(other))


def functions_of(code: types.CodeType) -> Iterator[types.CodeType]:
    for each in code.co_consts:
        if isinstance(each, types.CodeType):
            yield each
            yield from functions_of(each)


@pytest.mark.parametrize("module", [ast, textwrap, dis, inspect], ids=lambda module: module.__name__)
def test_reformatted_modules_have_the_same_code_forms(module: types.ModuleType) -> None:
    """Real code, once as it was written and once as ``ast.unparse`` lays it out."""
    text = inspect.getsource(module)
    written = functions_of(compile(text, "a", "exec"))
    laid_out = functions_of(compile(ast.unparse(ast.parse(text)), "b", "exec"))
    pairs = list(zip(written, laid_out, strict=True))
    assert len(pairs) > 10
    assert [one.co_name for one, other in pairs if code_form(one) != code_form(other)] == []


def test_different_functions_of_a_module_have_different_code_forms() -> None:
    """One constant, name or operator changed anywhere in real code shows."""
    functions = [each for each in ast.parse(inspect.getsource(heapq)).body if isinstance(each, ast.FunctionDef)]
    tried = sum(changes_that_show(function) for function in functions)
    assert tried > 100


def changes_that_show(function: ast.FunctionDef) -> int:
    def forms() -> list[bytes]:
        return [code_form(code) for code in functions_of(compile(ast.Module([function], []), "a", "exec"))]

    before, tried = forms(), 0
    for node in (node for part in function.body for node in ast.walk(part)):
        kept = dict(vars(node))
        match node:
            case ast.Attribute():
                node.attr += "_"
            case ast.Compare():
                node.ops = [ast.Is() if isinstance(node.ops[0], ast.Lt) else ast.Lt(), *node.ops[1:]]
            case ast.BinOp():
                node.op = ast.MatMult()
            case ast.Name(ctx=ast.Load()):
                node.id += "_"
            case ast.Constant(value=str()):
                node.value += "changed"
            case _:
                continue
        tried += 1
        assert forms() != before, ast.dump(node)
        vars(node).update(kept)
    return tried


NAMES = st.sampled_from(["a", "b", "c"])
EXPRESSIONS = st.recursive(
    NAMES | st.integers(0, 3).map(str) | st.just("f(a)"),
    lambda inner: (
        st.tuples(inner, st.sampled_from(["and", "or", "+", "<", "=="]), inner).map(lambda t: f"({t[0]} {t[1]} {t[2]})")
        | st.tuples(inner, inner, inner).map(lambda t: f"({t[0]} if {t[1]} else {t[2]})")
        | st.tuples(inner, inner).map(lambda t: f"[x for x in {t[0]} if {t[1]} and x]")
        | inner.map(lambda t: f"(not {t})")
    ),
    max_leaves=8,
)


@given(test=EXPRESSIONS, value=EXPRESSIONS, form=st.sampled_from(["if", "while"]), tail=EXPRESSIONS)
@settings(max_examples=100, deadline=None)
def test_a_line_break_after_every_word_does_not_show(test: str, value: str, form: str, tail: str) -> None:
    """The compiler works by line where it shortens jumps; the form must not."""
    spread = [each.replace(" ", "\n").replace("(", "(\n").replace("[", "[\n") for each in (test, value, tail)]
    flat = f"def f(a, b, c):\n    {form} {test}:\n        a = {value}\n        if a: return a\n    return {tail}"
    wide = (
        f"def f(a, b, c):\n    {form} (\n{spread[0]}):\n\n        a = (\n{spread[1]})\n        # so\n        if a:\n"
        f"            return a\n    return (\n{spread[2]}\n)"
    )
    assert code_form(code_of(flat)) == code_form(code_of(wide))


def test_code_names() -> None:
    code = code_of("def f(x):\n    def g(): return h.attr(y)\n    x.other = z.m(len)\n    return g")
    assert code_names(code) == ({"h", "y", "z", "len"}, {"attr", "other", "m"})


def test_names_of_tells_bare_uses_and_imports() -> None:
    names = names_of(
        code_of("def f():\n    import a.b\n    from .c import d, e\n    return h.x, h.y, k, a.b.z, len(d)")
    )
    assert names.bare == {"k", "len"}
    assert names.imports == {Import("a.b"), Import("c", ("d", "e"), 1)}


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("x.query('a > @limit')", {"a", "limit"}),
        ("x.query('a' 'b', engine='python')", {"ab"}),
        ("x.eval(expr='limit + 1')", {"limit"}),
        ("x.execute('select 1 from frame')", {"select", "from", "frame"}),
        ("x.query(x)", {"eval"}),
        ("x.query(f'a > {x}')", {"eval"}),
        ("x.sql(f'select {x}', eager=True)", {"eval"}),
        ("builtins.eval('n')", {"builtins", "eval"}),
        ("fit('y ~ scale(a) + b')", {"fit", "y", "scale", "a", "b"}),
        ("open('~/a.txt')", {"open"}),
        ("x.execute(x)", set()),
        ("x.eval()", set()),
        ("x.query", set()),
    ],
)
def test_functions_look_up_names_in_texts_that_are_code(text: str, names: set[str]) -> None:
    """An unknown text is as good as a look at ``eval``: it reaches everything."""
    code = next(each for each in compile(f"lambda x: {text}", "", "eval").co_consts if hasattr(each, "co_code"))
    assert names_of(code).globals - {"1"} == names


@pytest.mark.parametrize(
    ("text", "stores", "calls"),
    [
        ("pd.DataFrame.shout = f", {"pd.DataFrame.shout"}, set()),
        ("a.b += 1\ndel c.d.e\n(x.y, z), w.v = g()", {"a.b", "c.d.e", "x.y", "w.v"}, {("g", "g")}),
        ("setattr(m.C, 'n', 1)\nsetattr(m.C, name, 1)\nf().x = 1", {"m.C.n"}, {("setattr", "setattr"), ("f", "f")}),
        ("def f(self):\n    m.n = g()", {"m.n"}, set()),
        ("lambda: g()", set(), set()),
        ("@a.b.c\n@d.e('n')\ndef f(x=g()): h()", set(), {("a", "b.c"), ("d", "e"), ("g", "g")}),
        ("ip().x['k'].y(1)", set(), {("ip", "x.y"), ("ip", "ip")}),
    ],
)  # fmt: skip
def test_what_code_sets_and_calls_of_others(text: str, stores: set[str], calls: set[tuple[str, str]]) -> None:
    found = body(text).touched
    assert found.stores == stores
    assert found.calls == calls


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("os.environ['A']", {"A"}),
        ("environ['A']", {"A"}),
        ("os.environ.get('A', 'other')", {"A"}),
        ("os.getenv('A')", {"A"}),
        ("getenv('A', x)", {"A"}),
        ("'A' in os.environ", {"A"}),
        ("[os.environ[k] for k in x]", set()),
        ("dict(os.environ)", set()),
        ("x['A']", set()),
    ],
)
def test_variables_of_the_environment_that_code_names(text: str, names: set[str]) -> None:
    """In a cell's text, and in the code of a function."""
    assert analyse(ast.parse(f"y = {text}")).environment == names
    code = next(each for each in compile(f"lambda x: {text}", "", "eval").co_consts if hasattr(each, "co_code"))
    assert names_of(code).environment == names


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("a = 1", "a"),
        ("if x: a = 1", ""),
        ("if x: a = 1\nelse: a = b = 2", "a"),
        ("try: a = x()\nexcept E: a = 1", "a"),
        ("try: a = x()\nexcept E: pass", ""),
        ("for i in x: a = 1", ""),
        ("with step('s'): a = 1", "a"),
        ("with suppress(E): a = 1", ""),
        ("a = 1\ndel a", ""),
        ("if x: break\na = 1", ""),
        ("while x:\n    if y: break\n    continue\na = 1", "a"),
        ("def a():\n    b = 1\n    return b", "a"),
    ],
)
def test_what_a_body_has_surely_bound_at_its_end(text: str, names: str) -> None:
    """A block's body may be left by a break: then nothing is sure."""
    assert analyse(ast.parse(text)).bound == set(names)


@pytest.mark.parametrize(
    ("code", "scripts"),
    [
        ("get_ipython().system('python sub/a.py --n 1 && ./b.sh')", {"sub/a.py", "./b.sh"}),
        ("get_ipython().run_line_magic('run', '-i a')", {"a.py"}),
        ("get_ipython().system('gcc a.c -o a.out')", {"a.c"}),
        ("get_ipython().run_line_magic('run', 'set_up.ipynb')", {"set_up.ipynb"}),
        ("get_ipython().run_cell_magic('time', '', '%run a')", {"a.py"}),
        ("subprocess.run(['python', '-m', 'a.b'])", set()),
        ("os.system('python -m a.b')", {"a/b.py", "a/b/__main__.py"}),
        ("def f():\n    return open('~/a.py')", {"~/a.py"}),
        ("print('a.pyc, x.python and my.notebook.ipynb')", set()),
    ],
)
def test_files_of_code_that_code_names(code: str, scripts: set[str]) -> None:
    assert body(code).scripts == scripts
    function: dict[str, Any] = {}
    exec("def f():\n" + textwrap.indent(code, "    "), function)
    assert names_of(function["f"].__code__).scripts == scripts


@pytest.mark.parametrize(
    ("code", "looks_up"),
    [
        ("doctest.testmod(verbose=True)", True),
        ("testmod()", True),
        ("x = unittest.main(argv=[''], exit=False)", True),
        ("unittest.TestLoader().loadTestsFromName('T', None)", True),
        ("cProfile.run('work()', sort='time')", True),
        ("timeit.timeit('work()', setup='from __main__ import work')", True),
        ("app.main()", False),
        ("subprocess.run('ls')", False),
        ("mode = '__main__'", False),
    ],
)
def test_code_that_looks_up_the_notebook_by_itself(code: str, looks_up: bool) -> None:
    assert body(code).dynamic is looks_up
    function: dict[str, Any] = {}
    exec(f"def f():\n    {code}", function)
    assert ("eval" in names_of(function["f"].__code__).globals) is looks_up
