"""What does not matter is no reason to run again."""

from __future__ import annotations

import os
import sys

import pytest

from tests.rows import Seeds, restored
from tests.stale.tables import NEXT, TURNED, Answer, Change, ask_all, change

pytestmark = pytest.mark.kernel

NP, PD = "import numpy as np\n", "import pandas as pd\n"

CODE: dict[str, Change] = {
    "random that nobody seeded": change("import random, numpy as np\nx = random.random(), np.random.rand()", use="random.random() + np.random.rand()"),
    "random that another generator's seed does not move": change("import random, numpy as np\nrandom.seed(1)\nx = np.random.rand()", use="np.random.rand()"),
    "comments, blank lines and formatting of a helper": change("def f(a,b): return a+b", "# why\n\ndef f( a, b ):\n    # how\n\n    return (a\n        + b)", use="f(1, 1)"),
    "quotes and number forms": change("def f(): return ('a', 1000, 16)", 'def f(): return ("a", 1_000, 0x10)', use="f()"),
    "helper below another": change("def f(): return 1\ndef g(): return 2", "def g(): return 2\ndef f(): return 1", use="f() + g()"),
    "helper that is not reached": change("def f(): return 1\ndef g(): return 2", "def f(): return 1\ndef g(): return 3", use="f()"),
    "global that is not reached": change("def f(): return 1\nK = 1", "def f(): return 1\nK = 2", use="f()"),
    "class defined again": change("class A:\n    def f(self): return 1\na = A()", "class A:\n    def f(self): return 1\nclass A:\n    # a comment\n    def f(self): return 1\na = A()", use="a.f()"),
    "decorated and cached function defined again": change("import functools\n@functools.lru_cache\ndef f(n): return n\nf(1)", "import functools\n@functools.lru_cache\ndef f(n): return n", use="f(2)"),
    "sets in code": change("def f(n): return n in {'a', 'b', 'c', 'd'}", use="f('a')"),
    "lambda on another line": change("d = {'f': lambda n: n + 1}", "d = {\n    # first\n    'f': lambda n: n + 1\n}", use="d['f'](1)"),
    "dataclass, enum and namedtuple defined again": change("import dataclasses, enum, collections\n@dataclasses.dataclass\nclass D:\n    x: int = 1\nclass E(enum.Enum):\n    A = {'k'}\nN = collections.namedtuple('N', 'a b')\nx = [D(), E.A, N(1, 2)]", use="x[0].x"),
    "what a query with a literal text does not name": change("import pandas as pd\nd = pd.DataFrame({'a': [1, 2, 3]})\nother = 1", "import pandas as pd\nd = pd.DataFrame({'a': [1, 2, 3]})\nother = 2", use="len(d.query('a > 1'))"),
    "whether the code is the notebook's": change("def f(): return __name__ == '__main__'\nother = 1", "def f(): return __name__ == '__main__'\nother = 2", use="f()"),
    "what a formula in a variable does not name": change("text = 'y ~ np.log(x)'\nother = 1", "text = 'y ~ np.log(x)'\nother = 2", use="len(text)"),
    "method called eval that is given no text": change("class Model:\n    def eval(self): return 1\nm = Model()\nother = 1", "class Model:\n    def eval(self): return 1\nm = Model()\nother = 2", use="m.eval()"),
    "closure made again": change("def make(n):\n    def f(): return n\n    return f\nf = make({'a', 'b'})", use="f()"),
    "bound method, partial and object made again": change("import functools\nclass A:\n    def get(self): return 1\na = A()\nfs = [a.get, functools.partial(max, 1), str.upper, len]", use="fs[0]()"),
    "variables of the environment that are not read": change("import os\nos.environ['OTHER_V'] = 'a'\nos.environ['MODE_V'] = 'm'", "import os\nos.environ['OTHER_V'] = 'b'\nos.environ['MODE_V'] = 'm'", use="os.environ['MODE_V']"),
    "environment that is imported by name": change("from os import environ\nenviron['OTHER_W'] = 'a'\nenviron['MODE_W'] = 'm'", "from os import environ\nenviron['OTHER_W'] = 'b'\nenviron['MODE_W'] = 'm'", use="environ.get('MODE_W')"),
    "password in the environment": change("import os\nos.environ['DB_PASSWORD'] = 'a'", "import os\nos.environ['DB_PASSWORD'] = 'b'", use="len(os.environ['DB_PASSWORD'])"),
    "seed that is the same, written otherwise": change("import random\nrandom.seed(1)", "import random as r\nONE = 1\nr.seed(ONE)", use="__import__('random').random()"),
    "seed in the step itself": change("import numpy as np\nnp.random.seed(1)", "import numpy as np\nnp.random.seed(2)", head="np.random.seed(5)\n", use="np.random.rand()"),
    "seed of a generator that is not drawn from": change("import random\nrandom.seed(1)", "import random\nrandom.seed(2)", use="1 + 1"),
    "alias of an import": change("import math\nimport math as m", use="m.floor(math.pi)"),
}  # fmt: skip

VALUES: dict[str, Change] = {
    "order of a set": change("x = {str(n) for n in range(50)}", "x = {str(n) for n in reversed(range(50))}", use="len(x)"),
    "order of a frozenset in a tuple": change("x = ({'a', 'b', 'c'}, frozenset('xyz'))", "x = ({'c', 'b', 'a'}, frozenset('zyx'))", use="len(x)"),
    "set of tuples and enums": change("import enum\nclass E(enum.Enum):\n    A = 1\n    B = 2\nx = {(E.A, 'a'), (E.B, 'b'), (None, 1.5)}", use="len(x)"),
    "order of a dict": change("x = {'a': 1, 'b': 2}", "x = {'b': 2, 'a': 1}", use="len(x)"),
    "set as a key of a dict": change("x = {frozenset('abc'): 1, frozenset('xyz'): 2}", "x = {frozenset('zyx'): 2, frozenset('cba'): 1}", use="len(x)"),
    "interned and made texts": change("x = ['ab', 'ab']", "x = [''.join(['a', 'b']), 'AB'.lower()]", use="len(x)"),
    "shared and equal parts": change("a = [1]\nx = [a, a]", "x = [[1], [1]]", use="len(x)"),
    "NaNs": change("x = [float('nan')]", "import struct\nx = [struct.unpack('d', struct.pack('Q', 0x7FF8000000000123))[0]]", use="len(x)"),
    "NaNs in an array": change(NP + "x = np.array([np.nan, 1])", NP + "x = np.array([0x7FF8000000000123, 0x3FF0000000000000], 'u8').view('f8')", use="x[1]"),
    "array in Fortran order": change(NP + "x = np.arange(6.0).reshape(2, 3)", NP + "x = np.asfortranarray(np.arange(6.0).reshape(2, 3))", use="x.sum()"),
    "view of an array": change(NP + "x = np.arange(5.0)", NP + "x = np.arange(10.0)[:5]", use="x.sum()"),
    "array with a step": change(NP + "x = np.arange(50_000)", NP + "x = np.repeat(np.arange(50_000), 2)[::2]", use="x.sum()"),
    "array backwards twice": change(NP + "x = np.arange(5)", NP + "x = np.arange(5)[::-1].copy()[::-1]", use="x.sum()"),
    "read-only array": change(NP + "x = np.arange(5)", NP + "x = np.arange(5)\nx.flags.writeable = False", use="x.sum()"),
    "frame made column by column": change(PD + "x = pd.DataFrame({'a': [1, 2], 'b': [3, 4]})", PD + "x = pd.DataFrame({'a': [1, 2]})\nx['b'] = [3, 4]", use="len(x)"),
    "frame that was used": change(PD + "x = pd.DataFrame({'a': [1, 2]}, index=['u', 'v'])", PD + "x = pd.DataFrame({'a': [1, 2]}, index=['u', 'v'])\nx.loc['u']; x['a'].mean(); x.index.is_unique; x.T; repr(x)", use="len(x)"),
    "frame sliced from a larger one": change(PD + "x = pd.DataFrame({'a': [1, 2], 's': ['u', 'v']})", PD + "x = pd.DataFrame({'a': [1, 2, 3], 's': ['u', 'v', 'w']}).iloc[:2]", use="len(x)"),
    "frame copied": change(PD + "x = pd.DataFrame({'a': [1, 2], 'c': pd.Categorical(['u', 'v'])})", PD + "x = pd.DataFrame({'a': [1, 2], 'c': pd.Categorical(['u', 'v'])}).copy()", use="len(x)"),
    "arrow table in other chunks": change("import pyarrow as pa\nx = pa.table({'a': [1, 2]})", "import pyarrow as pa\nx = pa.concat_tables([pa.table({'a': [1]}), pa.table({'a': [2]})])", use="len(x)"),
    "object whose attributes came in another order": change("class A: pass\nx = A(); x.a = 1; x.b = 2", "class A: pass\nx = A(); x.b = 2; x.a = 1", use="x.a"),
    "object with a warm cache": change("import functools\nclass A:\n    @functools.lru_cache\n    def f(self): return 1\nx = A()", "import functools\nclass A:\n    @functools.lru_cache\n    def f(self): return 1\nx = A()\nx.f()", use="x.f()"),
    "pattern that was used": change("import re\nx = re.compile('a')", "import re\nx = re.compile('a')\nx.match('a')", use="x.pattern"),
    "generator over the same": change(f"n = 'ab'{NEXT}x = (k for k in n){NEXT}head = next(x)", f"n = 'a' 'b'  # the same\nother = 2{NEXT}x = (k for k in n){NEXT}head = next(x)", use="next(x)"),
    "lock made by the same code": change("import threading\nx = threading.Lock()", use="x.locked()"),
    "values restored from another step": change("%%resumable up\nimport numpy as np\nx = {'a': np.arange(20_000.0), 'b': np.arange(20_000, dtype='>f8'), 'r': np.zeros(3, '>i4,<f8'), 's': {'p', 'q'}, 'f': lambda n: n}", use="x['f'](1)"),
    "value that has other content since it was restored": change(TURNED, TURNED + NEXT + "own['k'] = 1" + NEXT + "del own['k']", use="turned is None"),
    "value that reads up its iterator when it is restored": change("%%resumable up-lines\nclass Lines:\n    def __init__(self, lines): self.lines = lines\n    def __setstate__(self, state): self.lines = list(state['lines'])\nlines = Lines(iter('ab'))", use="lines is None"),
    "map of a file that a step has written to": change(f"%%resumable up-map\n{NP}x = np.memmap('map.bin', 'u1', 'w+', shape=(8,)){NEXT}%%resumable up-write\nx[0] = 7", use="int(x.sum())"),
}  # fmt: skip

LIBRARIES: dict[str, Change] = {
    "polars frame in other chunks": change("import polars as pl\nx = pl.DataFrame({'a': [1, 2]})", "import polars as pl\nx = pl.concat([pl.DataFrame({'a': [1]}), pl.DataFrame({'a': [2]})], rechunk=False)", use="x.height"),
    "lazy frame made again": change("import polars as pl\nx = pl.LazyFrame({'a': [1, 2]}).filter(pl.col('a') > 0)", use="x.collect().height"),
    "xarray in another memory order": change(NP + "import xarray as xr\nx = xr.DataArray(np.arange(6).reshape(2, 3))", NP + "import xarray as xr\nx = xr.DataArray(np.asfortranarray(np.arange(6).reshape(2, 3)))", use="int(x.sum())"),
    "sparse matrix made again": change("import scipy.sparse as sp\nx = sp.csr_array([[0, 1]])", use="int(x.sum())"),
    "model fitted again": change(NP + "from sklearn.linear_model import LinearRegression as L\nx = L().fit(np.array([[0.0], [1.0]]), [0, 1])", use="round(x.coef_[0])"),
    "pydantic model made again": change("from pydantic import BaseModel\nclass P(BaseModel):\n    a: int = 1\nx = P(a=1)", "from pydantic import BaseModel\nclass P(BaseModel):\n    # a comment\n    a: int = 1\nx = P()", use="x.a"),
}  # fmt: skip

TORCH: dict[str, Change] = {
    "tensor with other strides": change("import torch\nx = torch.arange(6.0).reshape(2, 3)", "import torch\nx = torch.arange(6.0).reshape(2, 3).T.contiguous().T", use="x.sum().item()"),
    "part of a larger tensor": change("import torch\nx = torch.arange(3.0)", "import torch\nx = torch.arange(9.0)[:3]", use="x.sum().item()"),
    "module made again": change("import torch\ntorch.manual_seed(0)\nx = torch.nn.Linear(2, 2)", use="len(x.state_dict())"),
}  # fmt: skip

TABLE = {
    f"{kind}: {name}": case
    for kind, table in (("code", CODE), ("value", VALUES), ("library", LIBRARIES), ("torch", TORCH))
    if kind != "torch" or sys.version_info[:2] == (3, 11)  # the one for which ``libraries`` has torch
    for name, case in table.items()
}


@pytest.fixture(scope="module")
def answers(module_seeds: Seeds) -> dict[str, Answer]:
    return ask_all(module_seeds, TABLE)


@pytest.mark.xdist_group("hits")
@pytest.mark.parametrize("name", TABLE)
def test_equal_is_a_hit(answers: dict[str, Answer], name: str) -> None:
    assert answers[name].skipped, answers[name]


SEEDED = """
import enum
class Kind(enum.Enum):
    A = frozenset("abc")
    B = frozenset("xyz")
def inside(n, among=frozenset({"p", "q", ("r", None)})):
    return n in among or n in {"a", "b", "c", 1, 2.5, None}
x = {Kind.A: {"k", "l"}, "f": [lambda n: n in {"u", "v"}], ("t", 1): {frozenset("ab"), Kind.B, b"c"}}
"""


def test_hash_seeds(seeds: Seeds) -> None:
    step = "%%resumable a\ny = [inside('a'), x['f'][0]('u'), len(x), sorted({'m', 'n'})]"
    seeds()(SEEDED, step)
    for _ in range(2):
        assert restored(seeds()(SEEDED, step))


CELL = "%%resumable a\nx = {'a', 'b'}\ny = sorted(x)  # once\n"


def test_declared_file_that_was_only_touched(seeds: Seeds) -> None:
    path = seeds.folder / "in.txt"
    path.write_text("a")
    step = "%%resumable a --files in.txt\ny = open('in.txt').read()"
    seeds()(step)
    os.utime(path, ns=(10**18, 10**18))
    kernel = seeds()
    assert restored(kernel(step))
    path.write_text("b")
    os.utime(path, ns=(10**18, 10**18))
    assert kernel(step).messages == ["● a: runs again: file in.txt changed"], "by its content, not its time"


def test_upstream_with_the_same_result_stops_the_change_from_spreading(seeds: Seeds) -> None:
    """Of a chain of steps only the one that was edited runs, also where its result is restored by none of them."""
    first, *later = (f"%%resumable s{k}\nx{k + 1} = [*x{k}, {k}]" for k in range(4))
    seeds()("x0 = ['start']", first, *later)
    kernel = seeds()
    kernel("x0 = ['start']")
    edited = first.replace("[*x0, 0]", "list(x0) + [0]")
    assert kernel(edited).messages == ["● s0: runs again: its source changed"]
    assert all(restored(kernel(step)) for step in later)
    assert kernel("x4").value == "['start', 0, 1, 2, 3]"


def test_class_that_a_library_made(seeds: Seeds) -> None:
    """``make_dataclass`` and the like: of a module that does not have it; loaded or not, it is a variable."""
    steps = "%%resumable a\nC = type('C', (), {'__module__': 'types', 'n': 1})", "%%resumable b\nc = C()"
    seeds()(*steps)
    kernel = seeds()
    assert all(restored(kernel(step)) for step in steps)


def test_formatting_of_the_cell_itself(seeds: Seeds) -> None:
    seeds()(CELL)
    assert restored(seeds()("%%resumable a\n\n# Once.\nx = {'a',\n     'b'}\n\ny = sorted( x )"))


def test_cell_moved_to_another_place(seeds: Seeds) -> None:
    seeds()("z = 1", CELL)
    kernel = seeds()
    assert restored(kernel(CELL))


def test_notebook_at_another_path(seeds: Seeds) -> None:
    """The folder moves with its store; the name is the task's."""
    seeds()(CELL)
    seeds.close()
    seeds.move("elsewhere")
    assert restored(seeds()(CELL))


def test_finished_step_run_again_in_the_live_kernel(seeds: Seeds) -> None:
    kernel = seeds()
    kernel("x = 1")
    for _ in range(3):
        shown = kernel("%%resumable a\nx += 1")
    assert restored(shown)
    assert kernel("x").value == "2"
    for _ in range(2):
        kernel("x = 1", "%%resumable a\nx += 1")
        assert restored(kernel("%%resumable a\nx += 1"))
    kernel = seeds()
    kernel("x = 1")
    for _ in range(2):
        assert restored(kernel("%%resumable a\nx += 1"))
    assert kernel("x").value == "2"
    assert not restored(kernel("x = 2", "%%resumable a\nx += 1"))


def test_draw_beside_the_import_runs_again_where_a_seed_is_put_above_it(seeds: Seeds) -> None:
    draw = "%%resumable d\nimport numpy as np\nx = np.random.rand()"
    seeds()(draw)
    kernel = seeds()
    assert restored(kernel(draw))
    assert not restored(kernel("import numpy as np; np.random.seed(0)", draw))


def test_upstream_run_again_with_the_same_result(seeds: Seeds) -> None:
    down = "%%resumable down\ny = sum(x)"
    seeds()("%%resumable up\nx = [1, 2]", down)
    kernel = seeds()
    assert not restored(kernel("%%resumable up\nx = [1] + [2]"))
    assert restored(kernel(down))


def test_upstream_run_again_with_another_result(seeds: Seeds) -> None:
    down, draw = "%%resumable down\ny = sum(x)", "%%resumable draw\nz = np.random.randint(100)"
    up = "%%resumable up\nimport numpy as np\nnp.random.seed({0})\nx = [1, {0}]"
    seeds()(up.format(1), down, draw)
    kernel = seeds()
    assert not restored(kernel(up.format(2)))
    assert kernel(down).messages == ["● down: runs again: input x changed"]
    assert kernel(draw).messages == ["● draw: runs again: input random state of numpy changed"]
    assert kernel("y, int(z)").value == "(3, 40)"
    kernel("np.random.rand()")
    assert restored(kernel(draw)), "cells are run anew in any order"
    kernel = seeds()
    assert all(restored(kernel(cell)) for cell in (up.format(2), down, draw))
    assert kernel("int(z), int(np.random.randint(100))").value == "(40, 15)"


def test_scripts_that_steps_write_count_where_they_stand(seeds: Seeds) -> None:
    write, run = "%%resumable {0}\nopen('m.py', 'w').write('n = {1}') and None", "%%resumable {0}\n%run m.py\n{0} = n"
    cells = [write.format("w1", 1), run.format("r1"), write.format("w2", 2), run.format("r2")]
    seeds()(*cells)
    for _ in range(2):
        kernel = seeds()
        assert all(restored(kernel(cell)) for cell in cells)
        assert kernel("r1, r2").value == "(1, 2)"
    cells[2] = write.format("w2", 3)
    kernel = seeds()
    assert [restored(kernel(cell)) for cell in cells] == [True, True, False, False]
    assert kernel("r1, r2").value == "(1, 3)"
    kernel = seeds()
    assert all(restored(kernel(cell)) for cell in cells)


CURVES = """
names = iter(range(1_000_000))
class Chain:
    def __init__(self, data): self.data, self.name = data, f"chain{next(names)}"
class Curve:
    def __init__(self, data): self.data, self.chain = data, Chain(data)
    def __getstate__(self): return vars(self) | {"chain": Chain(self.data)}
"""


def test_what_says_something_else_of_itself_at_each_look(seeds: Seeds) -> None:
    """A library's object whose state has a part that is made, and counted, at each look. A kernel is killed after each
    step."""
    (seeds.folder / "curves.py").write_text(CURVES)
    bodies = [
        "c = curves.Curve([1, 2])",
        "n = len(c.data)",
        "both = [c, curves.Curve([3])]",
        "c.data.append(n)",
        "m = len(both)",
    ]
    steps = [f"%%resumable s{number}\n{body}" for number, body in enumerate(bodies)]
    for done in range(len(steps)):
        kernel = seeds()
        kernel("import curves")
        shown = [kernel(step) for step in steps[: done + 1]]
        assert all(map(restored, shown[:done])), (done, [each.messages for each in shown])
    assert kernel("c.data, n, both[0] is c, both[1].data, m").value == "([1, 2, 2], 2, True, [3], 2)"
    kernel = seeds()
    kernel("import curves")
    kernel("%%resumable s0\nc = curves.Curve([1, 2, 3])")
    assert not any(restored(kernel(step)) for step in steps[1:4])
    assert kernel("c.data, n").value == "([1, 2, 3, 3], 3)"
