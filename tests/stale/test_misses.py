"""What a step depends on has changed: it runs again, and says what changed."""

from __future__ import annotations

import sys

import pytest

from tests.rows import Seeds, restored
from tests.stale.tables import NEXT, TURNED, Answer, Change, ask, ask_all, change

pytestmark = pytest.mark.kernel


LOOKUP = {
    "site-packages/lookup.py": "import sys\ndef right_side(text):\n    return eval(text.partition('~')[2], sys._getframe(1).f_globals)\n"
}
LOOKS_UP = "import sys\nsys.path.insert(0, 'site-packages')\n"

CODE: dict[str, Change] = {
    "helper": change("def f(): return 1", "def f(): return 2", use="f()", why="function f changed", gives="2"),
    "helper of a helper": change("def g(): return 1\ndef f(): return g()", "def g(): return 2\ndef f(): return g()", use="f()", why="function g changed", gives="2"),
    "helper that a helper defines inside": change("def f():\n    def g(): return 1\n    return g()", "def f():\n    def g(): return 2\n    return g()", use="f()", why="function f changed", gives="2"),
    "global constant of a helper": change("RATE = 1\ndef f(): return RATE", "RATE = 2\ndef f(): return RATE", use="f()", why="input RATE changed", gives="2"),
    "global constant two helpers deep": change("RATE = 1\ndef g(): return RATE\ndef f(): return g()", "RATE = 2\ndef g(): return RATE\ndef f(): return g()", use="f()", why="input RATE changed", gives="2"),
    "method": change("class A:\n    def f(self): return 1", "class A:\n    def f(self): return 2", use="A().f()", why="function A changed", gives="2"),
    "method of an object's class": change("class A:\n    def f(self): return 1\na = A()", "class A:\n    def f(self): return 2\na = A()", use="a.f()", why="function A changed", gives="2"),
    "method of a base class": change("class B:\n    def f(self): return 1\nclass A(B): pass", "class B:\n    def f(self): return 2\nclass A(B): pass", use="A().f()", why="function B changed", gives="2"),
    "constant that a method reads": change("K = 1\nclass A:\n    def f(self): return K", "K = 2\nclass A:\n    def f(self): return K", use="A().f()", why="input K changed", gives="2"),
    "object of a class that the step defines anew": change(f"class A:\n    shared = [7]\n    def __init__(self, n): self.n = n{NEXT}a = A(1)", f"class A:\n    shared = [7]\n    def __init__(self, n): self.n = n{NEXT}a = A(2)", head="class A:\n    shared = [7]\n    n = 3\n", use="A.n", why="input a changed", gives="3"),
    "class attribute": change("class A: n = 1", "class A: n = 2", use="A.n", why="A changed", gives="2"),
    "property": change("class A:\n    @property\n    def n(self): return 1", "class A:\n    @property\n    def n(self): return 2", use="A().n", why="function A changed", gives="2"),
    "dataclass field's default": change("import dataclasses\n@dataclasses.dataclass\nclass A:\n    n: int = 1", "import dataclasses\n@dataclasses.dataclass\nclass A:\n    n: int = 2", use="A().n", why="A changed", gives="2"),
    "virtual subclass": change("import abc\nclass B(abc.ABC): pass\nclass A: pass\nB.register(A)", "import abc\nclass B(abc.ABC): pass\nclass A: pass", use="issubclass(A, B)", why="B changed", gives="False"),
    "enum's value": change("import enum\nclass E(enum.Enum): A = 1", "import enum\nclass E(enum.Enum): A = 2", use="E.A.value", why="E changed", gives="2"),
    "default argument": change("def f(n=1): return n", "def f(n=2): return n", use="f()", why="function f changed", gives="2"),
    "keyword default": change("def f(*, n=1): return n", "def f(*, n=2): return n", use="f()", why="function f changed", gives="2"),
    "default argument from a global": change("K = 1\ndef f(n=K): return n", "K = 2\ndef f(n=K): return n", use="f()", why="function f changed", gives="2"),
    "lambda": change("f = lambda: 1", "f = lambda: 2", use="f()", why="f changed", gives="2"),
    "lambda in a dict": change("d = {'f': lambda: 1}", "d = {'f': lambda: 2}", use="d['f']()", why="d changed", gives="2"),
    "constant of a lambda in a dict": change("K = 1\nd = {'f': [lambda: K]}", "K = 2\nd = {'f': [lambda: K]}", use="d['f'][0]()", why="input K changed", gives="2"),
    "function in an object": change("class A: pass\na = A()\na.f = lambda: 1", "class A: pass\na = A()\na.f = lambda: 2", use="a.f()", why="a changed", gives="2"),
    "what a closure holds": change("def make(n):\n    return lambda: n\nf = make(1)", "def make(n):\n    return lambda: n\nf = make(2)", use="f()", why="f changed", gives="2"),
    "what a partial holds": change("import functools\nf = functools.partial(max, 0, 1)", "import functools\nf = functools.partial(max, 0, 2)", use="f()", why="f changed", gives="2"),
    "function inside a partial": change("import functools\ndef g(n): return n\nf = functools.partial(g, 2)", "import functools\ndef g(n): return n * 2\nf = functools.partial(g, 2)", use="f()", why="changed", gives="4"),
    "decorator": change("def deco(f): return lambda: f() + 1\n@deco\ndef f(): return 1", "def deco(f): return lambda: f() + 2\n@deco\ndef f(): return 1", use="f()", why="changed", gives="3"),
    "decorated function": change("import functools\n@functools.lru_cache\ndef f(): return 1", "import functools\n@functools.lru_cache\ndef f(): return 2", use="f()", why="function f changed", gives="2"),
    "function passed to map": change("def f(n): return n", "def f(n): return n * 2", use="list(map(f, [1]))", why="function f changed", gives="[2]"),
    "bound method's object": change("class A:\n    def __init__(self, n): self.n = n\n    def get(self): return self.n\nget = A(1).get", "class A:\n    def __init__(self, n): self.n = n\n    def get(self): return self.n\nget = A(2).get", use="get()", why="get changed", gives="2"),
    "operator overloaded": change("class A:\n    def __add__(self, o): return 1\na = A()", "class A:\n    def __add__(self, o): return 2\na = A()", use="a + a", why="function A changed", gives="2"),
    "metaclass": change("class M(type):\n    def size(cls): return 1\nclass A(metaclass=M): pass", "class M(type):\n    def size(cls): return 2\nclass A(metaclass=M): pass", use="A.size()", why="function M changed", gives="2"),
    "generator function": change("def f(): yield 1", "def f(): yield 2", use="list(f())", why="function f changed", gives="[2]"),
    "through getattr with a text": change("class A:\n    def f(self): return 1\na = A()", "class A:\n    def f(self): return 2\na = A()", use="getattr(a, 'f')()", why="function A changed", gives="2"),
    "singledispatch": change("import functools\n@functools.singledispatch\ndef f(n): return 1\n@f.register\ndef _(n: int): return 1", "import functools\n@functools.singledispatch\ndef f(n): return 1\n@f.register\ndef _(n: int): return 2", use="f(0)", why="changed", gives="2"),
    "a global rebound by a helper": change("n = 1\ndef f():\n    global n\n    n += 1\n    return n", "n = 5\ndef f():\n    global n\n    n += 1\n    return n", use="f()", why="input n changed", gives="6"),
    "global in a query": change("import pandas as pd\nd = pd.DataFrame({'a': [1, 2, 3]})\nlimit = 1", "import pandas as pd\nd = pd.DataFrame({'a': [1, 2, 3]})\nlimit = 2", use="len(d.query('a > @limit'))", why="input limit changed", gives="1"),
    "global in a helper's query": change("import pandas as pd\nd = pd.DataFrame({'a': [1, 2, 3]})\nlimit = 1\ndef f(): return len(d.query('a > @limit'))", "import pandas as pd\nd = pd.DataFrame({'a': [1, 2, 3]})\nlimit = 2\ndef f(): return len(d.query('a > @limit'))", use="f()", why="input limit changed", gives="1"),
    "global in an expression of pandas": change("import pandas as pd\nlimit = 1", "import pandas as pd\nlimit = 2", use="int(pd.eval('limit + 1'))", why="input limit changed", gives="3"),
    "global in a query whose text is a variable": change("import pandas as pd\nd = pd.DataFrame({'a': [1, 2, 3]})\nlimit, q = 1, 'a > @limit'", "import pandas as pd\nd = pd.DataFrame({'a': [1, 2, 3]})\nlimit, q = 2, 'a > @limit'", use="len(d.query(q))", why="input limit changed", gives="1"),
    "global in a query that is put together": change("import pandas as pd\nd = pd.DataFrame({'a': [1, 2, 3]})\nlimit, column = 1, 'a'", "import pandas as pd\nd = pd.DataFrame({'a': [1, 2, 3]})\nlimit, column = 2, 'a'", use="len(d.query(f'{column} > @limit'))", why="input limit changed", gives="1"),
    "global in a helper's query that is put together": change("import pandas as pd\nd = pd.DataFrame({'a': [1, 2, 3]})\nlimit = 1\ndef f(c): return len(d.query(f'{c} > @limit'))", "import pandas as pd\nd = pd.DataFrame({'a': [1, 2, 3]})\nlimit = 2\ndef f(c): return len(d.query(f'{c} > @limit'))", use="f('a')", why="input limit changed", gives="1"),
    "global in a helper's expression of pandas": change("import pandas as pd\nlimit = 1\ndef f(): return int(pd.eval('limit + 1'))", "import pandas as pd\nlimit = 2\ndef f(): return int(pd.eval('limit + 1'))", use="f()", why="input limit changed", gives="3"),
    "frame in an SQL text": change("import polars as pl\nframe = pl.DataFrame({'a': [1]})", "import polars as pl\nframe = pl.DataFrame({'a': [2]})", use="pl.sql('select sum(a) as a from frame', eager=True).item()", why="input frame changed", gives="2"),
    "frame in an SQL text that a helper puts together": change("import polars as pl\nframe = pl.DataFrame({'a': [1]})\ndef f(c): return pl.sql(f'select sum({c}) as a from frame', eager=True).item()", "import polars as pl\nframe = pl.DataFrame({'a': [2]})\ndef f(c): return pl.sql(f'select sum({c}) as a from frame', eager=True).item()", use="f('a')", why="input frame changed", gives="2"),
    "variable of the environment": change("import os\nos.environ['MODE_T'] = 'a'", "import os\nos.environ['MODE_T'] = 'b'", use="os.environ['MODE_T']", why="input environment MODE_T changed", gives="'b'"),
    "variable of the environment that a helper asks for": change("import os\nfrom os import getenv\nos.environ['MODE_U'] = 'a'\ndef f(): return getenv('MODE_U', 'none')", "import os\nfrom os import getenv\nos.environ.pop('MODE_U', None)\ndef f(): return getenv('MODE_U', 'none')", use="f()", why="input environment MODE_U changed", gives="'none'"),
    "precision of decimals": change("import decimal\ndecimal.getcontext().prec = 5", "import decimal\ndecimal.getcontext().prec = 3", use="str(decimal.Decimal(1) / 3)", why="input settings of decimal changed", gives="'0.333'"),
    "precision of decimals that are variables": change("from decimal import Decimal, getcontext\na = Decimal(1)\ngetcontext().prec = 5", "from decimal import Decimal, getcontext\na = Decimal(1)\ngetcontext().prec = 3", use="str(a / 3)", why="input settings of decimal changed", gives="'0.333'"),
    "global in the eval of builtins": change("import builtins\nn, q = 1, 'n'", "import builtins\nn, q = 2, 'n'", use="builtins.eval(q)", why="input n changed", gives="2"),
    "global in the eval of builtins in a helper": change("import builtins\nn, q = 1, 'n'\ndef f(): return builtins.eval(q)", "import builtins\nn, q = 2, 'n'\ndef f(): return builtins.eval(q)", use="f()", why="input n changed", gives="2"),
    "global in eval under another name": change("n, q = 1, 'n'", "n, q = 2, 'n'", head="from builtins import eval as run\n", use="run(q)", why="input n changed", gives="2"),
    "function in a formula that is a variable": change(f"{LOOKS_UP}import lookup\ntext = 'y ~ twice(4)'\ndef twice(n): return n * 2", f"{LOOKS_UP}import lookup\ntext = 'y ~ twice(4)'\ndef twice(n): return n * 3", use="lookup.right_side(text)", why="function twice changed", gives="12", files=LOOKUP),
    "function in a list of formulas that a step made": change(f"{LOOKS_UP}import lookup{NEXT}%%resumable texts\ntexts = ['y ~ double(4)']{NEXT}def double(n): return n * 2", f"{LOOKS_UP}import lookup{NEXT}%%resumable texts\ntexts = ['y ~ double(4)']{NEXT}def double(n): return n * 3", use="lookup.right_side(texts[0])", why="function double changed", gives="12", files=LOOKUP),
    "global through the module of the notebook": change("n = 1\ndef f():\n    import __main__\n    return __main__.n", "n = 2\ndef f():\n    import __main__\n    return __main__.n", use="f()", why="input n changed", gives="2"),
    "global through the table of modules": change("import sys\nn = 1\ndef f(): return sys.modules['__main__'].n", "import sys\nn = 2\ndef f(): return sys.modules['__main__'].n", use="f()", why="input n changed", gives="2"),
    "global through a frame": change("import sys\nn = 1\ndef f(): return sys._getframe().f_globals['n']", "import sys\nn = 2\ndef f(): return sys._getframe().f_globals['n']", use="f()", why="input n changed", gives="2"),
    "global through the shell": change("n = 1", "n = 2", use="get_ipython().ev('n')", why="input n changed", gives="2"),
    "seed of random": change("import random\nrandom.seed(1)", "import random\nrandom.seed(2)", use="random.random()", why="input random state of Python changed", gives="0.9560342718892494"),
    "seed of numpy that is a variable of a helper": change("import numpy as np\nSEED = 1\ndef fix(): np.random.seed(SEED)\nfix()", "import numpy as np\nSEED = 2\ndef fix(): np.random.seed(SEED)\nfix()", use="int(np.random.randint(100))", why="input random state of numpy changed", gives="40"),
    "what was drawn before": change("import random\nrandom.seed(1)", "import random\nrandom.seed(1)\nx = random.random()", use="random.random()", why="input random state of Python changed", gives="0.8474337369372327"),
    "magic of the notebook": change("from IPython.core.magic import register_line_magic\n@register_line_magic\ndef number_a(line): return 1", "from IPython.core.magic import register_line_magic\n@register_line_magic\ndef number_a(line): return 2", use="get_ipython().run_line_magic('number_a', '')", why="settings of magic %number_a changed", gives="2"),
    "global of a magic of the notebook": change("word = 1\nget_ipython().register_magic_function(lambda line: word, 'line', 'number_b')", "word = 2\nget_ipython().register_magic_function(lambda line: word, 'line', 'number_b')", use="get_ipython().run_line_magic('number_b', '')", why="input word changed", gives="2"),
    "another library's function": change("from math import floor as f", "from math import ceil as f", use="f(1.5)", why="f changed", gives="2"),
    "another module under the name": change("import math as m", "import cmath as m", use="str(m.sqrt(4))", why="m changed", gives="'(2+0j)'"),
}  # fmt: skip

ONE, TWO = "def scale(n):\n    return n\n", "def scale(n):\n    return n * 2\n"

MODULES: dict[str, Change] = {
    "module": change("import mine", use="mine.scale(1)", why="function mine.scale changed", gives="2", files={"mine.py": ONE}, new_files={"mine.py": TWO}),
    "function of a module": change("from mine import scale as s", use="s(1)", why="mine.scale changed", gives="2", files={"mine.py": ONE}, new_files={"mine.py": TWO}),
    "module under another name": change("import mine as m", use="m.scale(1)", why="function mine.scale changed", gives="2", files={"mine.py": ONE}, new_files={"mine.py": TWO}),
    "constant of a module": change("import mine", use="mine.f()", why="input mine.RATE changed", gives="2", files={"mine.py": "RATE = 1\ndef f(): return RATE\n"}, new_files={"mine.py": "RATE = 2\ndef f(): return RATE\n"}),
    "two imports deep": change("import outer", use="outer.f(1)", why="function deep.scale changed", gives="2", files={"outer.py": "import middle\ndef f(n): return middle.g(n)\n", "middle.py": "from deep import scale\ndef g(n): return scale(n)\n", "deep.py": ONE}, new_files={"deep.py": TWO}),
    "relative import": change("from package.inner import f", use="f(1)", why="function package.deep.scale changed", gives="2", files={"package/__init__.py": "", "package/inner.py": "from . import deep\ndef f(n): return deep.scale(n)\n", "package/deep.py": ONE}, new_files={"package/deep.py": TWO}),
    "import inside the helper": change("import outer", use="outer.f(1)", why="function deep.scale changed", gives="2", files={"outer.py": "def f(n):\n    import deep\n    return deep.scale(n)\n", "deep.py": ONE}, new_files={"deep.py": TWO}),
    "import by a text": change("import importlib\ndef f(n): return importlib.import_module('deep').scale(n)", use="f(1)", why="function deep.scale changed", gives="2", files={"deep.py": ONE}, new_files={"deep.py": TWO}),
    "import inside the step": change("", use="deep.scale(1)", head="import deep\n", why="function deep.scale changed", gives="2", files={"deep.py": ONE}, new_files={"deep.py": TWO}),
    "script that %run executes": change("", head="%run -i helper.py\n", use="x", why="script helper.py changed", gives="2", files={"helper.py": "x = 1"}, new_files={"helper.py": "x = 2"}),
    "script without its ending": change("", head="%run helper\n", use="x", why="script helper.py changed", gives="2", files={"helper.py": "x = 1"}, new_files={"helper.py": "x = 2"}),
    "script by a module's name": change("", head="%run -m package.helper\n", use="x", why="script package/helper.py changed", gives="2", files={"package/helper.py": "x = 1"}, new_files={"package/helper.py": "x = 2"}),
    "extension of the shell": change("", head="%load_ext extension\n", use="get_ipython().run_line_magic('number', '')", why="script extension.py changed", gives="2", files={"extension.py": "def load_ipython_extension(shell): shell.register_magic_function(lambda line: 1, magic_name='number')"}, new_files={"extension.py": "def load_ipython_extension(shell): shell.register_magic_function(lambda line: 2, magic_name='number')"}),
    "magic of a module": change("import magic_kit", use="get_ipython().run_line_magic('number_c', '')", why="function magic_kit.scale changed", gives="2", files={"magic_kit.py": "def scale(): return 1\ndef number(line): return scale()\n__import__('IPython').get_ipython().register_magic_function(number, 'line', 'number_c')\n"}, new_files={"magic_kit.py": "def scale(): return 2\ndef number(line): return scale()\n__import__('IPython').get_ipython().register_magic_function(number, 'line', 'number_c')\n"}),
    "script of a shell": change("", use="get_ipython().getoutput('python helper.py')", why="script helper.py changed", gives="['2']", files={"helper.py": "print(1)"}, new_files={"helper.py": "print(2)"}),
    "script of another process": change("", head="import subprocess, sys\n", use="subprocess.check_output([sys.executable, '-m', 'helper', 'helper.py'])[:1]", why="script helper.py changed", gives="b'2'", files={"helper.py": "print(1)"}, new_files={"helper.py": "print(2)"}),
    "script whose text is executed": change("", head="exec(open('helper.py').read())\n", use="x", why="script helper.py changed", gives="2", files={"helper.py": "x = 1"}, new_files={"helper.py": "x = 2"}),
    "script that a helper runs": change("import runpy\ndef f(): return runpy.run_path('helper.py')['x']", use="f()", why="script helper.py changed", gives="2", files={"helper.py": "x = 1"}, new_files={"helper.py": "x = 2"}),
    "star import": change("from mine import *", use="scale(1)", why="mine.scale changed", gives="2", files={"mine.py": ONE}, new_files={"mine.py": TWO}),
    "constant that a star import binds": change("", head="from mine import *\n", use="0", why="input mine.RATE changed", gives="0", files={"mine.py": "RATE = 1\n"}, new_files={"mine.py": "RATE = 2\n"}),
    "class of a module": change("from mine import A\na = A()", use="a.f()", why="mine.A changed", gives="2", files={"mine.py": "class A:\n    def f(self): return 1\n"}, new_files={"mine.py": "class A:\n    def f(self): return 2\n"}),
    "base class in another module": change("from mine import A", use="A().f()", why="deep.B changed", gives="2", files={"mine.py": "from deep import B\nclass A(B): pass\n", "deep.py": "class B:\n    def f(self): return 1\n"}, new_files={"deep.py": "class B:\n    def f(self): return 2\n"}),
}  # fmt: skip

NP, PD = "import numpy as np\n", "import pandas as pd\n"

VALUES: dict[str, Change] = {
    "edited to what the step had left": change("x = 1", "x = 2", use="(x := x + 1)", gives="3"),
    "int": change("x = 1", "x = 2", use="x"),
    "int and float": change("x = 1", "x = 1.0", use="x"),
    "int and bool": change("x = 1", "x = True", use="x"),
    "int and text": change("x = 1", "x = '1'", use="x"),
    "text and bytes": change("x = '1'", "x = b'1'", use="x"),
    "zero of the other sign": change("x = 0.0", "x = -0.0", use="x"),
    "None and absent text": change("x = None", "x = ''", use="x"),
    "list and tuple": change("x = [1]", "x = (1,)", use="x"),
    "order of a list": change("x = [1, 2]", "x = [2, 1]", use="x"),
    "what a new type stands for": change("import typing\nx = typing.NewType('x', int)", "import typing\nx = typing.NewType('x', str)", use="x.__supertype__.__name__", gives="'str'"),
    "bound of a parameter of types": change("import typing\nx = typing.TypeVar('x', bound=int)", "import typing\nx = typing.TypeVar('x', bound=str)", use="x.__bound__.__name__", gives="'str'"),
    "set and frozenset": change("x = {1}", "x = frozenset({1})", use="x"),
    "nested value": change("x = {'a': [{'b': 1}]}", "x = {'a': [{'b': 2}]}", use="x"),
    "value that was changed through an alias, and has other content since it was restored": change(TURNED, TURNED + NEXT + "own['k'] = 1", use="[turned.own, len(turned.lines)]", why="input turned changed", gives="[{'k': 1}, 1]"),
    "value that was changed, and has other content since it was restored": change(TURNED.replace("urned", "ent"), TURNED.replace("urned", "ent") + NEXT + "tent.lines += ('b',)", use="[*tent.lines]", why="input tent changed", gives="[['a'], 'b']"),
    "value without content that a plain cell changed after it was restored": change("%%resumable up-lines\nclass Lines:\n    def __init__(self, lines): self.lines = lines\n    def __setstate__(self, state): self.lines = list(state['lines'])\nlines = Lines(iter('ab'))", f"%%resumable up-lines\nclass Lines:\n    def __init__(self, lines): self.lines = lines\n    def __setstate__(self, state): self.lines = list(state['lines'])\nlines = Lines(iter('ab')){NEXT}lines.lines += 'c'", use="[*lines.lines]", why="input lines changed", gives="['a', 'b', 'c']"),
    "boundaries of nested lists": change("x = [[1], [2, 3]]", "x = [[1, 2], [3]]", use="x"),
    "boundaries of texts": change("x = ['ab', 'c']", "x = ['a', 'bc']", use="x"),
    "attribute of an object": change("class A: pass\nx = A(); x.n = 1", "class A: pass\nx = A(); x.n = 2", use="x.n"),
    "subclass of a builtin": change("class L(list): pass\nx = [1]", "class L(list): pass\nx = L([1])", use="x", why="input x changed"),
    "array's dtype": change(NP + "x = np.zeros(3, 'int64')", NP + "x = np.zeros(3, 'float64')", use="x"),
    "array's shape": change(NP + "x = np.zeros((2, 3))", NP + "x = np.zeros((3, 2))", use="x"),
    "array transposed": change(NP + "x = np.arange(4.0).reshape(2, 2)", NP + "x = np.arange(4.0).reshape(2, 2).T", use="x"),
    "array's element": change(NP + "x = np.zeros(50_000)", NP + "x = np.zeros(50_000); x[49_999] = 1", use="x"),
    "array's byte order": change(NP + "x = np.arange(3, dtype='>f8')", NP + "x = np.arange(3, dtype='<f8')", use="x.tobytes()"),
    "scalar and array": change(NP + "x = np.float64(1)", NP + "x = np.array(1.0)", use="x"),
    "scalar and float": change(NP + "x = np.float32(1)", NP + "x = np.float64(1)", use="x"),
    "mask of an array": change(NP + "x = np.ma.array([1, 2], mask=[0, 1])", NP + "x = np.ma.array([1, 2], mask=[1, 0])", use="x"),
    "object array": change(NP + "x = np.array([[1], 'a'], object)", NP + "x = np.array([[2], 'a'], object)", use="x"),
    "text array": change(NP + "x = np.array(['a', 'b'])", NP + "x = np.array(['a', 'c'])", use="x"),
    "date's unit": change(NP + "x = np.array(['2020-01-01'], 'M8[D]')", NP + "x = np.array(['2020-01-01'], 'M8[s]')", use="x"),
    "frame's cell": change(PD + "x = pd.DataFrame({'a': [1, 2]})", PD + "x = pd.DataFrame({'a': [1, 3]})", use="x.sum()"),
    "frame's column name": change(PD + "x = pd.DataFrame({'a': [1]})", PD + "x = pd.DataFrame({'b': [1]})", use="x.sum()"),
    "frame's column order": change(PD + "x = pd.DataFrame({'a': [1], 'b': [1]})", PD + "x = pd.DataFrame({'b': [1], 'a': [1]})", use="x.sum()"),
    "frame's index": change(PD + "x = pd.DataFrame({'a': [1]})", PD + "x = pd.DataFrame({'a': [1]}, index=[5])", use="x.sum()"),
    "frame's index name": change(PD + "x = pd.DataFrame({'a': [1]})", PD + "x = pd.DataFrame({'a': [1]}).rename_axis('k')", use="x.sum()"),
    "frame's dtype": change(PD + "x = pd.DataFrame({'a': [0, 0]})", PD + "x = pd.DataFrame({'a': [0.0, 0.0]})", use="x.sum()"),
    "frame's nullable dtype": change(PD + "x = pd.DataFrame({'a': [1, 2]})", PD + "x = pd.DataFrame({'a': pd.array([1, 2], dtype='Int64')})", use="x.sum()"),
    "frame's missing value": change(PD + "x = pd.DataFrame({'a': pd.array([1, None], dtype='Int64')})", PD + "x = pd.DataFrame({'a': pd.array([1, 0], dtype='Int64')})", use="x.sum()"),
    "frame's attrs": change(PD + "x = pd.DataFrame({'a': [1]}); x.attrs['u'] = 'm'", PD + "x = pd.DataFrame({'a': [1]}); x.attrs['u'] = 'km'", use="x.sum()"),
    "frame's strings": change(PD + "x = pd.DataFrame({'a': ['u', None]})", PD + "x = pd.DataFrame({'a': ['u', 'None']})", use="x.sum()"),
    "frame's mixed column": change(PD + "x = pd.DataFrame({'a': [1, 'a', None]}, dtype=object)", PD + "x = pd.DataFrame({'a': [1, 'a', 0]}, dtype=object)", use="len(x)"),
    "categories": change(PD + "x = pd.Series(pd.Categorical(['u'], ['u', 'v']))", PD + "x = pd.Series(pd.Categorical(['u'], ['u', 'w']))", use="len(x)"),
    "ordered categories": change(PD + "x = pd.Series(pd.Categorical(['u'], ['u', 'v']))", PD + "x = pd.Series(pd.Categorical(['u'], ['u', 'v'], ordered=True))", use="len(x)"),
    "time zone": change(PD + "x = pd.Series(pd.to_datetime(['2020'], utc=True))", PD + "x = pd.Series(pd.to_datetime(['2020'], utc=True).tz_convert('Europe/Berlin'))", use="len(x)"),
    "series' name": change(PD + "x = pd.Series([1], name='a')", PD + "x = pd.Series([1], name='b')", use="len(x)"),
    "series and frame": change(PD + "x = pd.Series([1], name='a')", PD + "x = pd.DataFrame({'a': [1]})", use="len(x)"),
    "levels of a MultiIndex": change(PD + "x = pd.DataFrame({'a': [1]}, index=pd.MultiIndex.from_tuples([(1, 2)], names=['p', 'q']))", PD + "x = pd.DataFrame({'a': [1]}, index=pd.MultiIndex.from_tuples([(1, 2)], names=['p', 'r']))", use="len(x)"),
    "arrow table": change("import pyarrow as pa\nx = pa.table({'a': [1]})", "import pyarrow as pa\nx = pa.table({'a': [2]})", use="len(x)"),
    "decimal": change("from decimal import Decimal\nx = Decimal('1.0')", "from decimal import Decimal\nx = Decimal('1.00')", use="str(x)"),
    "time zone of a datetime": change("import datetime as d\nx = d.datetime(2020, 1, 1)", "import datetime as d\nx = d.datetime(2020, 1, 1, tzinfo=d.UTC)", use="x"),
    "state of a generator": change(NP + "x = np.random.default_rng(1)", NP + "x = np.random.default_rng(1); x.random()", use="x"),
    "pattern's flags": change("import re\nx = re.compile('a')", "import re\nx = re.compile('a', re.I)", use="x"),
    "exception's facts": change("x = ValueError('a')", "x = ValueError('b')", use="str(x)"),
    "deque's length": change("from collections import deque\nx = deque([1], 2)", "from collections import deque\nx = deque([1], 3)", use="x.maxlen"),
    "default of a defaultdict": change("from collections import defaultdict\nx = defaultdict(int)", "from collections import defaultdict\nx = defaultdict(list)", use="len(x)"),
    "range": change("x = range(3)", "x = range(0, 3, 2)", use="x"),
}  # fmt: skip

LIBRARIES: dict[str, Change] = {
    "polars frame's cell": change("import polars as pl\nx = pl.DataFrame({'a': [1]})", "import polars as pl\nx = pl.DataFrame({'a': [2]})", use="x.item()", gives="2"),
    "polars frame's dtype": change("import polars as pl\nx = pl.DataFrame({'a': [1]})", "import polars as pl\nx = pl.DataFrame({'a': [1]}, {'a': pl.Int8})", use="x.height"),
    "lazy frame's plan": change("import polars as pl\nx = pl.LazyFrame({'a': [1, 2]}).filter(pl.col('a') > 0)", "import polars as pl\nx = pl.LazyFrame({'a': [1, 2]}).filter(pl.col('a') > 1)", use="x.collect().height", gives="1"),
    "xarray's coordinate": change("import xarray as xr\nx = xr.DataArray([1], dims='t', coords={'t': [1]})", "import xarray as xr\nx = xr.DataArray([1], dims='t', coords={'t': [2]})", use="int(x.t[0])", gives="2"),
    "sparse matrix' element": change("import scipy.sparse as sp\nx = sp.csr_array([[0, 1]])", "import scipy.sparse as sp\nx = sp.csr_array([[0, 2]])", use="int(x.sum())", gives="2"),
    "model's data": change(NP + "from sklearn.linear_model import LinearRegression as L\nx = L().fit(np.array([[0.0], [1.0]]), [0, 1])", NP + "from sklearn.linear_model import LinearRegression as L\nx = L().fit(np.array([[0.0], [1.0]]), [0, 2])", use="round(x.coef_[0])", gives="2"),
    "what a model's steps give": change("import sklearn\nfrom sklearn.preprocessing import StandardScaler\nimport pandas as pd\nd = pd.DataFrame({'a': [1.0, 2.0]})\nsklearn.set_config(transform_output='pandas')", "import sklearn\nfrom sklearn.preprocessing import StandardScaler\nimport pandas as pd\nd = pd.DataFrame({'a': [1.0, 2.0]})\nsklearn.set_config(transform_output='default')", use="type(StandardScaler().fit_transform(d)).__name__", why="input settings of sklearn changed", gives="'ndarray'"),
    "model's parameter": change("from sklearn.linear_model import Ridge\nx = Ridge(1)", "from sklearn.linear_model import Ridge\nx = Ridge(2)", use="x.alpha", gives="2"),
    "pydantic field": change("from pydantic import BaseModel\nclass P(BaseModel):\n    a: int\nx = P(a=1)", "from pydantic import BaseModel\nclass P(BaseModel):\n    a: int\nx = P(a=2)", use="x.a", gives="2"),
    "pydantic validator": change("from pydantic import BaseModel, field_validator\nclass P(BaseModel):\n    a: int\n    @field_validator('a')\n    @classmethod\n    def check(cls, v): return v", "from pydantic import BaseModel, field_validator\nclass P(BaseModel):\n    a: int\n    @field_validator('a')\n    @classmethod\n    def check(cls, v): return v + 1", use="P(a=1).a", why="function P changed", gives="2"),
}  # fmt: skip

TORCH: dict[str, Change] = {
    "tensor's element": change("import torch\nx = torch.zeros(3)", "import torch\nx = torch.zeros(3); x[1] = 1", use="x.sum().item()", gives="1.0"),
    "tensor's dtype": change("import torch\nx = torch.zeros(3)", "import torch\nx = torch.zeros(3, dtype=torch.bfloat16)", use="x.dtype"),
    "tensor that wants a gradient": change("import torch\nx = torch.zeros(3)", "import torch\nx = torch.zeros(3, requires_grad=True)", use="x.requires_grad", gives="True"),
    "module's weight": change("import torch\nx = torch.nn.Linear(1, 1); torch.nn.init.constant_(x.weight, 1)", "import torch\nx = torch.nn.Linear(1, 1); torch.nn.init.constant_(x.weight, 2)", use="x.weight.item()", gives="2.0"),
    "seed of torch": change("import torch\n_ = torch.manual_seed(1)", "import torch\n_ = torch.manual_seed(2)", use="torch.rand(1).item() > 0.7", why="input random state of torch changed", gives="False"),
    "dtype that tensors have by default": change("import torch\ntorch.set_default_dtype(torch.float64)", "import torch", use="torch.zeros(1).dtype", why="input settings of torch changed", gives="torch.float32"),
}  # fmt: skip

FILES: dict[str, Change] = {
    "content": change("", use="open('in.txt').read()", options="--files in.txt", why="file in.txt changed", gives="'b'", files={"in.txt": "a"}, new_files={"in.txt": "b"}),
    "a file of a folder": change("", use="len(open('data/b.txt').read())", options="--files data", why="file data changed", gives="2", files={"data/a.txt": "a", "data/b.txt": "b"}, new_files={"data/b.txt": "bb"}),
    "a new file of a pattern": change("", use="len(__import__('glob').glob('data/*.txt'))", options="--files data/*.txt", why="file data/b.txt is new", gives="2", files={"data/a.txt": "a"}, new_files={"data/b.txt": "bb"}),
    "a file that was absent": change("", use="__import__('os').path.exists('in.txt')", options="--files in.txt", why="file in.txt changed", gives="True", new_files={"in.txt": ""}),
}  # fmt: skip

ORIGINS: dict[str, Change] = {
    "generator's code": change("x = (n for n in [1])", "x = (n for n in [2])", use="next(x)", gives="2"),
    "connection's target": change("import sqlite3\nx = sqlite3.connect(':memory:')", "import sqlite3\nx = sqlite3.connect('other.db')", use="len(x.execute('pragma database_list').fetchone()[2]) > 0", gives="True"),
    "what a generator was given": change(f"def count(n): yield n\nn = 1{NEXT}x = count(n)", f"def count(n): yield n\nn = 2{NEXT}x = count(n)", use="next(x)", gives="2"),
    "function that a generator runs": change(f"def count(): yield 1{NEXT}x = count()", f"def count(): yield 2{NEXT}x = count()", use="next(x)", gives="2"),
    "what a plain cell took from an iterator": change("x = iter([1, 2])", f"x = iter([1, 2]){NEXT}head = next(x)", use="next(x)", gives="2"),
    "path of a connection": change(f"import sqlite3\npath = 'one.db'{NEXT}x = sqlite3.connect(path)", f"import sqlite3\npath = 'two.db'{NEXT}x = sqlite3.connect(path)", use="x.execute('pragma database_list').fetchone()[2][-6:]", gives="'two.db'"),
    "lock in an object": change("import threading\nx = {'lock': threading.Lock(), 'n': 1}", "import threading\nx = {'lock': threading.Lock(), 'n': 2}", use="x['n']", gives="2"),
}  # fmt: skip


ALONE: dict[str, Change] = {
    "result of the cell before": change("1", "2", use="_", why="input _ changed"),
    "through globals": change("def f(): return 1", "def f(): return 2", use="globals()['f']()", why="function f changed", gives="2"),
    "a value through eval": change("n = 1", "n = 2", use="eval('n')", why="input n changed", gives="2"),
    "a value through a helper's globals": change("n = 1\ndef f(): return globals()['n']", "n = 2\ndef f(): return globals()['n']", use="f()", why="input n changed", gives="2"),
    **{f"module: {name}": case for name, case in MODULES.items()},
    **{f"file: {name}": case for name, case in FILES.items()},
}  # fmt: skip

TABLE = {
    f"{kind}: {name}": case
    for kind, table in (
        ("code", CODE),
        ("value", VALUES),
        ("origin", ORIGINS),
        ("library", LIBRARIES),
        ("torch", TORCH),
    )
    if kind != "torch" or sys.version_info[:2] == (3, 11)  # the one for which ``libraries`` has torch
    for name, case in table.items()
}


@pytest.fixture(scope="module")
def answers(module_seeds: Seeds) -> dict[str, Answer]:
    return ask_all(module_seeds, TABLE)


@pytest.mark.xdist_group("misses")
@pytest.mark.parametrize("name", TABLE)
def test_change_is_a_miss_that_says_why(answers: dict[str, Answer], name: str) -> None:
    answer = answers[name]
    assert not answer.error
    assert not answer.skipped
    assert TABLE[name].why in answer.messages[0]


@pytest.mark.parametrize("name", ALONE)
def test_change_around_the_cells_is_a_miss_that_says_why(seeds: Seeds, name: str) -> None:
    answer = ask(seeds, ALONE[name])
    assert not answer.error
    assert not answer.skipped
    assert ALONE[name].why in answer.messages[0]


LOOKERS = {
    "doctest": "import doctest\nfailed = doctest.testmod().failed",
    "doctest in a function of the notebook": "failed = check()",
    "unittest": "failed = len(unittest.main(argv=['x'], exit=False, verbosity=0).result.failures)",
    "loader of unittest": "import __main__ as book\nfound = unittest.defaultTestLoader.loadTestsFromModule(book)\nfailed = len(unittest.TextTestRunner(verbosity=0).run(found).failures)",
    "profiler": "import cProfile\ncProfile.run('failed = int(double(2) != 4)')",
    "text that is timed": "import timeit\nbox = []\ntimeit.timeit('box.append(double(2))', 'from __main__ import box, double', number=1)\nfailed = int(box[0] != 4)",
}


@pytest.mark.parametrize("code", LOOKERS.values(), ids=LOOKERS)
def test_what_looks_up_the_notebook_by_itself(seeds: Seeds, code: str) -> None:
    """No name in the step's code leads to ``double``."""
    made = '%%resumable make\ndef double(x):\n    """\n    >>> double(2)\n    4\n    """\n    return {} * x'
    tests = "import unittest\nclass Tests(unittest.TestCase):\n    def test(self): self.assertEqual(double(2), 4)\ndef check():\n    import doctest\n    return doctest.testmod().failed"
    step = f"%%resumable look\n{code}"
    for factor, ran, failed in ((2, True, 0), (2, False, 0), (3, True, 1), (3, False, 1)):
        kernel = seeds()
        kernel(made.format(factor), tests)
        assert restored(kernel(step)) is not ran
        assert kernel("failed").value == str(failed)
