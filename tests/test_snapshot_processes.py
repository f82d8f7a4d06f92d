"""State comes back exactly, in another process: one case a kind of value or of change."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.notebook import Cells, in_new_process

S, P = "step", "plain"

CASES: dict[str, tuple[Cells, str]] = {
    "simple values": (
        [(S, "a, b, c, _private = 1, 'text', None, 2.5\nflag = True")],
        "assert (a, b, c, _private, flag) == (1, 'text', None, 2.5, True)",
    ),
    "a view stays a view of its base": (
        [(S, "import numpy as np\nbase = np.arange(100_000.0)\nview = base[10:20]\ncols = base.reshape(1000, 100).T")],
        "view[0] = -1\nassert base[10] == -1 and cols[10, 0] == -1 and cols.shape == (100, 1000)\n"
        "assert np.shares_memory(base, view) and np.shares_memory(base, cols)",
    ),
    "small views too, of every dtype": (
        [
            (
                S,
                "import numpy as np\nwhen = np.array(['2020-01-01', '2021-01-01'], 'M8[D]')\nlast = when[1:]\n"
                "rec = np.zeros(3, [('x', 'i4'), ('y', 'f8')])\nx = rec['x']\nthings = np.array([[1], 'a', None], object)\n"
                "tail = things[1:]\nback = rec[::-1]",
            )
        ],
        "last[0] = '1999-01-01'; assert str(when[1]) == '1999-01-01'\nx[0] = 7; assert rec[0]['x'] == 7\n"
        "tail[0] = 'b'; assert things[1] == 'b'\nback['y'][0] = 2; assert rec[2]['y'] == 2",
    ),
    "a view made by a later step": (
        [(S, "import numpy as np\nbase = np.zeros(50_000)"), (S, "view = base[5:]")],
        "view[0] = 3\nassert base[5] == 3",
    ),
    "read-only arrays stay read-only, others can be written": (
        [
            (
                S,
                "import numpy as np\nbig = np.ones(50_000)\nsmall = np.ones(3)\nfixed = np.ones(50_000)\n"
                "fixed.flags.writeable = False\ntiny = np.ones((4, 4))[::2, ::2]\ntiny.flags.writeable = False\n"
                "wide = np.broadcast_to(np.arange(3), (1000, 3))",
            )
        ],
        "big[0] = small[0] = 2\nassert not (fixed.flags.writeable or tiny.flags.writeable or wide.flags.writeable)\n"
        "assert wide.shape == (1000, 3) and wide[999, 2] == 2",
    ),
    "one list under two names, in one step and in two": (
        [(S, "one = [1]\ntwo = one"), (S, "three = {'deep': [two]}"), (S, "one.append(2)")],
        "assert one is two and three['deep'][0] is one and one == [1, 2]",
    ),
    "an alias that an equal list replaced stays broken": (
        [(S, "inner = [1]\nouter = {'l': inner}"), (S, "outer['l'] = list(inner)")],
        "assert outer['l'] == inner and outer['l'] is not inner",
    ),
    "mutation in place of what an earlier step made": (
        [
            (
                S,
                "import pandas as pd, numpy as np\nl, d, s = [1], {'a': 1}, {1}\ndf = pd.DataFrame({'x': [1, 2], 'y': list('ab')})\n"
                "class O: pass\no = O(); o.inner = O(); o.inner.values = [1]\narr = np.zeros(20_000)\nb = bytearray(b'ab')",
            ),
            (
                S,
                "l.append(2); d['b'] = d.pop('a'); s.add(2); df.loc[0, 'x'] = 9; df.attrs['unit'] = 'm'\n"
                "df.columns = ['p', 'q']; df.index = [5, 6]; o.inner.values.append(2); o.new = 1; arr[7] = 7; b += b'c'",
            ),
        ],
        "assert l == [1, 2] and d == {'b': 1} and s == {1, 2} and b == b'abc' and arr[7] == 7\n"
        "assert df.loc[5, 'p'] == 9 and df.attrs == {'unit': 'm'} and list(df.columns) == ['p', 'q']\n"
        "assert o.inner.values == [1, 2] and o.new == 1",
    ),
    "dict order counts": (
        [(S, "d = {'a': 1, 'b': 2}"), (S, "d['a'] = d.pop('a')")],
        "assert list(d) == ['b', 'a']",
    ),
    "deleted names": (
        [(S, "a = b = 1\nc = 2"), (S, "del a, c")],
        "assert 'a' not in dir() and 'c' not in dir() and b == 1",
    ),
    "functions see the live globals": (
        [(S, "rate = 2\ndef price(n): return n * rate"), (P, "rate = 3")],
        "assert price(2) == 6\nassert price.__globals__ is globals()\nimport inspect\n"
        "assert inspect.getsource(price) == 'def price(n): return n * rate\\n'",
    ),
    "a function that a plain cell defined is the one in a saved registry": (
        [(P, "def handler(x): return x + 1"), (S, "registry = {'h': handler, 'again': [handler]}")],
        "assert registry['h'] is handler and registry['again'][0] is handler and handler(1) == 2",
    ),
    "closures share their cells, with recursion and defaults": (
        [
            (
                S,
                "def make():\n    n = 0\n    def inc(step=1, *, twice=False):\n        nonlocal n\n        n += step * (2 if twice else 1)\n"
                "        return n\n    def get(): return n\n    return inc, get\ninc, get = make()\ninc()\n"
                "def outer():\n    def fact(k): return 1 if k < 2 else k * fact(k - 1)\n    return fact\nfact = outer()\n"
                "def tagged(): pass\ntagged.colour = 'red'",
            ),
            (S, "inc(twice=True)"),
        ],
        "assert get() == 3 and inc() == 4 and get() == 4 and fact(5) == 120 and tagged.colour == 'red'",
    ),
    "a mutable default is state": (
        [(P, "def collect(x, seen=[]):\n    seen.append(x)\n    return seen"), (S, "first = collect(1)")],
        "assert collect(2) == [1, 2] and first == [1, 2]",
    ),
    "decorated functions": (
        [
            (
                P,
                "import functools\ndef twice(f):\n    @functools.wraps(f)\n    def wrapper(*a): return 2 * f(*a)\n    return wrapper\n"
                "@twice\ndef add(x): return x + 1",
            ),
            (S, "table = {'add': add}"),
        ],
        "assert table['add'](1) == 4 and table['add'] is add and add.__wrapped__(1) == 2",
    ),
    "lru_cache comes back as a working cache": (
        [
            (
                S,
                "import functools\n@functools.lru_cache(maxsize=7)\ndef slow(x): calls.append(x); return x * 2\n"
                "@functools.cache\ndef fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)\ncalls = []\nslow(1)",
            )
        ],
        "slow(5); slow(5)\nassert calls == [1, 5] and slow.cache_parameters()['maxsize'] == 7\n"
        "assert slow.cache_info().hits == 1 and fib(30) == 832040 and fib.cache_info().hits > 0",
    ),
    "dataclass, enum, namedtuple, slots, abc, generic": (
        [
            (
                S,
                "import abc, dataclasses, enum, typing, collections, functools\n"
                "@dataclasses.dataclass(order=True)\nclass D:\n    x: int\n    tags: list = dataclasses.field(default_factory=list)\n"
                "    k: int = dataclasses.field(default=3, kw_only=True)\n"
                "class E(enum.Enum):\n    A = 1\n    B = 'b'\n    ALIAS = 1\n    def up(self): return self.name\n"
                "class F(enum.IntFlag):\n    R = 1\n    W = 2\n"
                "N = collections.namedtuple('N', 'a b')\nclass T(typing.NamedTuple):\n    p: int = 1\n"
                "class Base(abc.ABC):\n    @abc.abstractmethod\n    def area(self): ...\n"
                "class Slots(Base):\n    __slots__ = ('w',)\n    def __init__(self, w): super().__init__(); self.w = w\n"
                "    def area(self): return self.w\n    @property\n    def half(self): return self.w / 2\n"
                "    @classmethod\n    def one(cls): return cls(1)\n    @staticmethod\n    def two(): return 2\n"
                "X = typing.TypeVar('X')\nclass Box(typing.Generic[X]):\n    def __init__(self, v): self.v = v\n"
                "    @functools.cached_property\n    def twice(self): return self.v * 2\n"
                "d, e, n, t, s, box, f = D(1), E.A, N(1, 2), T(), Slots(4), Box([1]), F.R | F.W",
            ),
            (S, "everything = [d, e, n, t, s, box, f]"),
        ],
        "assert isinstance(d, D) and d == D(1) and d < D(2) and d.k == 3 and dataclasses.replace(d, x=5).x == 5\n"
        "assert e is E.A and E.ALIAS is E.A and E('b') is E.B and e.up() == 'A' and f == F.R | F.W\n"
        "assert isinstance(n, N) and n == N(1, 2) and n._replace(a=5).a == 5 and isinstance(t, T) and t.p == 1\n"
        "assert isinstance(s, Slots) and isinstance(s, Base) and s.half == 2 and Slots.one().w == 1 and s.two() == 2\n"
        "assert isinstance(box, Box) and box.twice == [1, 1] and everything[0] is d and everything[5] is box\n"
        "import pytest\nwith pytest.raises(TypeError): Base()\n"
        "class Sub(D): pass\nassert Sub(1).tags == []",
    ),
    "isinstance against a class that a plain cell defined again": (
        [
            (P, "class Point:\n    def __init__(self, x): self.x = x\n    def double(self): return Point(self.x * 2)"),
            (S, "p = Point(1)\nmany = [Point(i) for i in range(3)]"),
        ],
        "assert type(p) is Point and isinstance(p.double(), Point) and all(type(each) is Point for each in many)",
    ),
    "a class is the same in all streams, without its cell": (
        [(S, "class A: pass\nclass B(A): pass\na, b = A(), B()"), (S, "more = [B()]"), (S, "del B")],
        "assert type(a) is A and isinstance(b, A) and type(more[0]) is type(b)",
    ),
    "a registry of subclasses": (
        [
            (
                S,
                "class Plugin:\n    known = {}\n    def __init_subclass__(cls): Plugin.known[cls.__name__] = cls\n"
                "class Csv(Plugin): pass\nclass Json(Plugin): pass\nuse = Csv()",
            )
        ],
        "assert Plugin.known == {'Csv': Csv, 'Json': Json} and type(use) is Csv and issubclass(Csv, Plugin)\n"
        "assert type(use).__mro__[1] is Plugin",
    ),
    "state of a class that a plain cell defined": (
        [
            (P, "class Counter:\n    total = 0\n    made = []\n    def __init__(self): Counter.total += 1; self.made.append(self)"),
            (P, "early = Counter()"),
            (S, "one = Counter()"),
        ],
        "assert Counter.total == 2 and Counter.made == [early, one] and isinstance(early, Counter) and type(one) is Counter",
    ),
    "old instances of a class that was defined anew": (
        [(S, "class V: size = 1\nold = [V(), V()]"), (S, "class V: size = 2\nnew = V()"), (S, "kept = old[0]")],
        "assert old[0].size == 1 and new.size == 2 and type(new) is V and type(old[0]) is not V\n"
        "assert kept is old[0] and type(old[0]) is type(old[1])",
    ),
    "a generator beside good data": (
        [(S, "import re\ngen = (i for i in range(3))\ngood = [1]\nmatch = re.match('a', 'abc')\nalso = good")],
        "assert good == [1] and also is good and 'gen' not in dir() and 'match' not in dir()",
    ),
    "a chain of 100,000 nodes": (
        [
            (
                S,
                "class Node:\n    def __init__(self, next): self.next = next\nhead = None\n"
                "for _ in range(100_000): head = Node(head)\nend = [head]",
            ),
            (S, "head.next.next.mark = 1"),
        ],
        "n, node = 0, head\nwhile node is not None: n, node = n + 1, node.next\nassert n == 100_000\n"
        "assert head.next.next.mark == 1 and end[0] is head",
    ),
    "defaultdict of a lambda, partial, bound methods, counters": (
        [
            (
                S,
                "import collections, functools, operator, itertools\nd = collections.defaultdict(lambda: [0]); d['a'].append(1)\n"
                "add = functools.partial(operator.add, 2)\nclass K:\n    n = 1\n    def get(self): return self.n\nk = K(); method = k.get\n"
                "push = [1, 2].append\nstack = push.__self__\nup = 'abc'.upper\ncount = itertools.count(5); next(count)\n"
                "c = collections.Counter('aab'); q = collections.deque([1, 2], maxlen=2); od = collections.OrderedDict(a=1)\n"
                "keys = od.keys()",
            )
        ],
        "assert d['new'] == [0] and d['a'] == [0, 1] and add(3) == 5 and up() == 'ABC' and next(count) == 6\n"
        "k.n = 8; assert method() == 8 and method.__self__ is k\npush(3); assert stack == [1, 2, 3]\n"
        "q.append(3); assert list(q) == [2, 3] and c['a'] == 2\nod['b'] = 1; assert list(keys) == ['a', 'b']",
    ),
    "pandas": (
        [
            (
                S,
                "import pandas as pd, numpy as np\nn = 20_000\ndf = pd.DataFrame({'f': np.arange(n) / 2, 'i': np.arange(n), 's': ['x', None] * (n // 2),\n"
                "  't': pd.date_range('2020', periods=n, freq='h', tz='Europe/Berlin'), 'c': pd.Categorical(['u', 'v'] * (n // 2)),\n"
                "  'N': pd.array([1, None] * (n // 2), dtype='Int64'), 'o': [[k] for k in range(n)]})\n"
                "m = df.set_index(['c', 'i']).head(4)\nser = df['f']\nidx = df.index\nlist_in_cell = df.loc[3, 'o']\n"
                "iv = pd.interval_range(0, 3)\nper = pd.period_range('2020', periods=3)\nsp = pd.arrays.SparseArray([0, 0, 1])\n"
                "g = df.groupby('c')\nempty = pd.DataFrame()\nnat = pd.NaT\nref = df.copy(deep=True)",
            )
        ],
        "pd.testing.assert_frame_equal(df, ref)\nassert list(df.dtypes) == list(ref.dtypes) and df['t'].dt.tz is not None\n"
        "list_in_cell.append('more'); assert df.loc[3, 'o'] == [3, 'more']\n"
        "ser.iloc[0] = 99; assert df.loc[0, 'f'] == 0\ndf.loc[1, 'f'] = 55; assert ser.iloc[1] == 0.5 and ref.loc[1, 'f'] == 0.5\n"
        "df['new'] = 1; df.drop(columns='i'); df = df.sort_values('f', ascending=False)\n"
        "assert m.index.names == ['c', 'i'] and len(iv) == 3 and str(per[0]) == '2020-01-01' and list(sp) == [0, 0, 1]\n"
        "assert empty.empty and nat is pd.NaT and g.ngroups == 2",
    ),
    "cycles": (
        [(S, "a = []; a.append(a)\nb = {'self': None}; b['self'] = b\nclass N: pass\nx, y = N(), N(); x.o, y.o = y, x")],
        "assert a[0] is a and b['self'] is b and x.o is y and y.o is x",
    ),
    "imports, star imports, submodules and methods of hidden instances": (
        [
            (
                S,
                "import os.path as osp, json, xml.dom.minidom\nfrom math import *\nfrom collections import OrderedDict as OD\n"
                "from random import random, seed\nfrom numpy.random import rand\nimport numpy as np\nfrom numpy import add as plus",
            )
        ],
        "assert osp.join('a', 'b') and json.dumps(1) == '1' and sin(0) == 0 and pi > 3 and OD().keys() == {}.keys()\n"
        "assert xml.dom.minidom.parseString('<a/>')\nimport random as r\nr.seed(1); x = r.random(); seed(1); assert random() == x\n"
        "np.random.seed(1); x = np.random.rand(); np.random.seed(1); assert rand() == x and plus is np.add",
    ),
    "random state goes on where the step left it": (
        [
            (P, "import random, numpy as np\nrandom.seed(1); np.random.seed(1)"),
            (S, "[random.random() for _ in range(5)]; np.random.rand(5)"),
            (P, "expected = None"),
            (S, "after = (random.getstate(), np.random.get_state()[1].tolist(), np.random.get_state()[2])"),
        ],
        "assert (random.getstate(), np.random.get_state()[1].tolist(), np.random.get_state()[2]) == after",
    ),
    "a private generator": (
        [(S, "import numpy as np, random\nrng = np.random.default_rng(1)\nmine = random.Random(1)\nrng.random(3); mine.random()"),
         (S, "copy = (rng.bit_generator.state, mine.getstate())")],
        "assert (rng.bit_generator.state, mine.getstate()) == copy",
    ),
    "a function changes a global": (
        [(P, "state = {'n': 0}\nclass Model:\n    def fit(self): state['n'] += 1\nmodels = [Model()]"), (S, "models[0].fit()")],
        "assert state == {'n': 1}",
    ),
    "mutation through globals()": ([(P, "hidden_list = [1]"), (S, "globals()['hidden_list'].append(2)")], "assert hidden_list == [1, 2]"),
    "mutation of the frame under a view, and of a list in a cell": (
        [
            (P, "import numpy as np, pandas as pd\nbase = np.zeros(10)\nframe = pd.DataFrame(base.reshape(5, 2), copy=False)\n"
                "items = [1]\nholder = pd.Series([items, 2], dtype=object)"),
            (S, "base[0] = 7\nitems.append(2)"),
        ],
        "assert base[0] == 7 and frame.iloc[0, 0] == 7 and holder[0] == [1, 2] and holder[0] is items",
    ),
    "memmap by its path": (
        [(S, "import numpy as np, tempfile, os\npath = os.path.join(tempfile.mkdtemp(), 'm')\nmm = np.memmap(path, 'f8', 'w+', shape=(10,)); mm[3] = 3\npart = mm[2:5]")],
        "assert isinstance(mm, np.memmap) and mm[3] == 3 and part[1] == 3\npart[1] = 4; mm.flush(); assert mm[3] == 4\n"
        "assert np.memmap(path, 'f8', 'r')[3] == 4\nimport shutil; shutil.rmtree(os.path.dirname(path))",
    ),
    "pyarrow and polars-like strings": (
        [(S, "import pyarrow as pa, pandas as pd\nt = pa.table({'a': ['x' * 10, None] * 20_000, 'n': list(range(40_000))})\n"
             "s = pd.Series(['long text'] * 20_000, dtype='str'); s[3] = None\narr = t['a'].chunk(0)\npart = arr[5:]")],
        "assert t['a'][1].as_py() is None and t['n'][39_999].as_py() == 39_999 and s.isna().sum() == 1\n"
        "s.iloc[0] = 'new'; assert s.iloc[0] == 'new' and part[0].as_py() is None",
    ),
    "exceptions": (
        [(S, "class Mine(ValueError):\n    def __init__(self, code): super().__init__(f'code {code}'); self.code = code\n"
             "    def __reduce__(self): return Mine, (self.code,)\ntry: raise Mine(3)\nexcept Mine as e: error = e")],
        "assert error.code == 3 and str(error) == 'code 3' and type(error) is Mine",
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return in_new_process(CASES, tmp_path_factory.mktemp("cases"))


@pytest.mark.parametrize("case", CASES)
def test_state_comes_back_in_another_process(case: str, outcomes: dict[str, str]) -> None:
    assert outcomes[case] == ""
