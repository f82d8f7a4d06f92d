"""State comes back exactly, in another process: one case a kind of value or of change."""

from __future__ import annotations

import pytest

from tests.notebook import in_new_process

CASES: dict[str, str] = {
    "simple values": """
# step
a, b, c, _private = 1, 'text', None, 2.5
flag = True
# check
assert (a, b, c, _private, flag) == (1, 'text', None, 2.5, True)
""",
    "a view stays a view of its base": """
# step
import numpy as np
base = np.arange(100_000.0)
view = base[10:20]
cols = base.reshape(1000, 100).T
# check
view[0] = -1
assert base[10] == -1 and cols[10, 0] == -1 and cols.shape == (100, 1000)
assert np.shares_memory(base, view) and np.shares_memory(base, cols)
""",
    "small views too, of every dtype": """
# step
import numpy as np
when = np.array(['2020-01-01', '2021-01-01'], 'M8[D]')
last = when[1:]
rec = np.zeros(3, [('x', 'i4'), ('y', 'f8')])
x = rec['x']
things = np.array([[1], 'a', None], object)
tail = things[1:]
back = rec[::-1]
# check
last[0] = '1999-01-01'; assert str(when[1]) == '1999-01-01'
x[0] = 7; assert rec[0]['x'] == 7
tail[0] = 'b'; assert things[1] == 'b'
back['y'][0] = 2; assert rec[2]['y'] == 2
""",
    "a view made by a later step": """
# step
import numpy as np
base = np.zeros(50_000)
# step
view = base[5:]
# check
view[0] = 3
assert base[5] == 3
""",
    "read-only arrays stay read-only, others can be written": """
# step
import numpy as np
big = np.ones(50_000)
small = np.ones(3)
fixed = np.ones(50_000)
fixed.flags.writeable = False
tiny = np.ones((4, 4))[::2, ::2]
tiny.flags.writeable = False
wide = np.broadcast_to(np.arange(3), (1000, 3))
# check
big[0] = small[0] = 2
assert not (fixed.flags.writeable or tiny.flags.writeable or wide.flags.writeable)
assert wide.shape == (1000, 3) and wide[999, 2] == 2
""",
    "one list under two names, in one step and in two": """
# step
one = [1]
two = one
# step
three = {'deep': [two]}
# step
one.append(2)
# check
assert one is two and three['deep'][0] is one and one == [1, 2]
""",
    "an alias that an equal list replaced stays broken": """
# step
inner = [1]
outer = {'l': inner}
# step
outer['l'] = list(inner)
# check
assert outer['l'] == inner and outer['l'] is not inner
""",
    "mutation in place of what an earlier step made": """
# step
import pandas as pd, numpy as np
l, d, s = [1], {'a': 1}, {1}
df = pd.DataFrame({'x': [1, 2], 'y': list('ab')})
class O: pass
o = O(); o.inner = O(); o.inner.values = [1]
arr = np.zeros(20_000)
b = bytearray(b'ab')
# step
l.append(2); d['b'] = d.pop('a'); s.add(2); df.loc[0, 'x'] = 9; df.attrs['unit'] = 'm'
df.columns = ['p', 'q']; df.index = [5, 6]; o.inner.values.append(2); o.new = 1; arr[7] = 7; b += b'c'
# check
assert l == [1, 2] and d == {'b': 1} and s == {1, 2} and b == b'abc' and arr[7] == 7
assert df.loc[5, 'p'] == 9 and df.attrs == {'unit': 'm'} and list(df.columns) == ['p', 'q']
assert o.inner.values == [1, 2] and o.new == 1
""",
    "dict order counts": """
# step
d = {'a': 1, 'b': 2}
# step
d['a'] = d.pop('a')
# check
assert list(d) == ['b', 'a']
""",
    "deleted names": """
# step
a = b = 1
c = 2
# step
del a, c
# check
assert 'a' not in dir() and 'c' not in dir() and b == 1
""",
    "functions see the live globals": """
# step
rate = 2
def price(n): return n * rate
# plain
rate = 3
# check
assert price(2) == 6
assert price.__globals__ is globals()
import inspect
assert inspect.getsource(price) == 'def price(n): return n * rate\\n'
""",
    "a function that a plain cell defined is the one in a saved registry": """
# plain
def handler(x): return x + 1
# step
registry = {'h': handler, 'again': [handler]}
# check
assert registry['h'] is handler and registry['again'][0] is handler and handler(1) == 2
""",
    "closures share their cells, with recursion and defaults": """
# step
def make():
    n = 0
    def inc(step=1, *, twice=False):
        nonlocal n
        n += step * (2 if twice else 1)
        return n
    def get(): return n
    return inc, get
inc, get = make()
inc()
def outer():
    def fact(k): return 1 if k < 2 else k * fact(k - 1)
    return fact
fact = outer()
def tagged(): pass
tagged.colour = 'red'
# step
inc(twice=True)
# check
assert get() == 3 and inc() == 4 and get() == 4 and fact(5) == 120 and tagged.colour == 'red'
""",
    "a mutable default is state": """
# plain
def collect(x, seen=[]):
    seen.append(x)
    return seen
# step
first = collect(1)
# check
assert collect(2) == [1, 2] and first == [1, 2]
""",
    "decorated functions": """
# plain
import functools
def twice(f):
    @functools.wraps(f)
    def wrapper(*a): return 2 * f(*a)
    return wrapper
@twice
def add(x): return x + 1
# step
table = {'add': add}
# check
assert table['add'](1) == 4 and table['add'] is add and add.__wrapped__(1) == 2
""",
    "lru_cache comes back as a working cache": """
# step
import functools
@functools.lru_cache(maxsize=7)
def slow(x): calls.append(x); return x * 2
@functools.cache
def fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)
calls = []
slow(1)
# check
slow(5); slow(5)
assert calls == [1, 5] and slow.cache_parameters()['maxsize'] == 7
assert slow.cache_info().hits == 1 and fib(30) == 832040 and fib.cache_info().hits > 0
""",
    "dataclass, enum, namedtuple, slots, abc, generic": """
# step
import abc, dataclasses, enum, typing, collections, functools
@dataclasses.dataclass(order=True)
class D:
    x: int
    tags: list = dataclasses.field(default_factory=list)
    k: int = dataclasses.field(default=3, kw_only=True)
class E(enum.Enum):
    A = 1
    B = 'b'
    ALIAS = 1
    def up(self): return self.name
class F(enum.IntFlag):
    R = 1
    W = 2
N = collections.namedtuple('N', 'a b')
class T(typing.NamedTuple):
    p: int = 1
class Base(abc.ABC):
    @abc.abstractmethod
    def area(self): ...
class Slots(Base):
    __slots__ = ('w',)
    def __init__(self, w): super().__init__(); self.w = w
    def area(self): return self.w
    @property
    def half(self): return self.w / 2
    @classmethod
    def one(cls): return cls(1)
    @staticmethod
    def two(): return 2
X = typing.TypeVar('X')
class Box(typing.Generic[X]):
    def __init__(self, v): self.v = v
    @functools.cached_property
    def twice(self): return self.v * 2
d, e, n, t, s, box, f = D(1), E.A, N(1, 2), T(), Slots(4), Box([1]), F.R | F.W
# step
everything = [d, e, n, t, s, box, f]
# check
assert isinstance(d, D) and d == D(1) and d < D(2) and d.k == 3 and dataclasses.replace(d, x=5).x == 5
assert e is E.A and E.ALIAS is E.A and E('b') is E.B and e.up() == 'A' and f == F.R | F.W
assert isinstance(n, N) and n == N(1, 2) and n._replace(a=5).a == 5 and isinstance(t, T) and t.p == 1
assert isinstance(s, Slots) and isinstance(s, Base) and s.half == 2 and Slots.one().w == 1 and s.two() == 2
assert isinstance(box, Box) and box.twice == [1, 1] and everything[0] is d and everything[5] is box
import pytest
with pytest.raises(TypeError): Base()
class Sub(D): pass
assert Sub(1).tags == []
""",
    "isinstance against a class that a plain cell defined again": """
# plain
class Point:
    def __init__(self, x): self.x = x
    def double(self): return Point(self.x * 2)
# step
p = Point(1)
many = [Point(i) for i in range(3)]
# check
assert type(p) is Point and isinstance(p.double(), Point) and all(type(each) is Point for each in many)
""",
    "a class is the same in all streams, without its cell": """
# step
class A: pass
class B(A): pass
a, b = A(), B()
# step
more = [B()]
# step
del B
# check
assert type(a) is A and isinstance(b, A) and type(more[0]) is type(b)
""",
    "a registry of subclasses": """
# step
class Plugin:
    known = {}
    def __init_subclass__(cls): Plugin.known[cls.__name__] = cls
class Csv(Plugin): pass
class Json(Plugin): pass
use = Csv()
# check
assert Plugin.known == {'Csv': Csv, 'Json': Json} and type(use) is Csv and issubclass(Csv, Plugin)
assert type(use).__mro__[1] is Plugin
""",
    "state of a class that a plain cell defined": """
# plain
class Counter:
    total = 0
    made = []
    def __init__(self): Counter.total += 1; self.made.append(self)
# plain
early = Counter()
# step
one = Counter()
# check
assert Counter.total == 2 and Counter.made == [early, one] and isinstance(early, Counter) and type(one) is Counter
""",
    "old instances of a class that was defined anew": """
# step
class V: size = 1
old = [V(), V()]
# step
class V: size = 2
new = V()
# step
kept = old[0]
# check
assert old[0].size == 1 and new.size == 2 and type(new) is V and type(old[0]) is not V
assert kept is old[0] and type(old[0]) is type(old[1])
""",
    "a generator beside good data": """
# step
import re
gen = (i for i in range(3))
good = [1]
match = re.match('a', 'abc')
also = good
# check
assert good == [1] and also is good and 'gen' not in dir() and match[0] == 'a'
""",
    "a chain of many nodes": """
# step
class Node:
    def __init__(self, next): self.next = next
head = None
for _ in range(5_000): head = Node(head)
end = [head]
# step
head.next.next.mark = 1
# check
n, node = 0, head
while node is not None: n, node = n + 1, node.next
assert n == 5_000
assert head.next.next.mark == 1 and end[0] is head
""",
    "defaultdict of a lambda, partial, bound methods, counters": """
# step
import collections, functools, operator, itertools
d = collections.defaultdict(lambda: [0]); d['a'].append(1)
add = functools.partial(operator.add, 2)
class K:
    n = 1
    def get(self): return self.n
k = K(); method = k.get
push = [1, 2].append
stack = push.__self__
up = 'abc'.upper
count = itertools.count(5); next(count)
c = collections.Counter('aab'); q = collections.deque([1, 2], maxlen=2); od = collections.OrderedDict(a=1)
keys = od.keys()
# check
assert d['new'] == [0] and d['a'] == [0, 1] and add(3) == 5 and up() == 'ABC' and next(count) == 6
k.n = 8; assert method() == 8 and method.__self__ is k
push(3); assert stack == [1, 2, 3]
q.append(3); assert list(q) == [2, 3] and c['a'] == 2
od['b'] = 1; assert list(keys) == ['a', 'b']
""",
    "pandas": """
# step
import pandas as pd, numpy as np
n = 20_000
df = pd.DataFrame({'f': np.arange(n) / 2, 'i': np.arange(n), 's': ['x', None] * (n // 2),
  't': pd.date_range('2020', periods=n, freq='h', tz='Europe/Berlin'), 'c': pd.Categorical(['u', 'v'] * (n // 2)),
  'N': pd.array([1, None] * (n // 2), dtype='Int64'), 'o': [[k] for k in range(n)]})
m = df.set_index(['c', 'i']).head(4)
ser = df['f']
idx = df.index
list_in_cell = df.loc[3, 'o']
iv = pd.interval_range(0, 3)
per = pd.period_range('2020', periods=3)
sp = pd.arrays.SparseArray([0, 0, 1])
g = df.groupby('c')
empty = pd.DataFrame()
nat = pd.NaT
ref = df.copy(deep=True)
# check
pd.testing.assert_frame_equal(df, ref)
assert list(df.dtypes) == list(ref.dtypes) and df['t'].dt.tz is not None
list_in_cell.append('more'); assert df.loc[3, 'o'] == [3, 'more']
ser.iloc[0] = 99; assert df.loc[0, 'f'] == 0
df.loc[1, 'f'] = 55; assert ser.iloc[1] == 0.5 and ref.loc[1, 'f'] == 0.5
df['new'] = 1; df.drop(columns='i'); df = df.sort_values('f', ascending=False)
assert m.index.names == ['c', 'i'] and len(iv) == 3 and str(per[0]) == '2020-01-01' and list(sp) == [0, 0, 1]
assert empty.empty and nat is pd.NaT and g.ngroups == 2
""",
    "cycles": """
# step
a = []; a.append(a)
b = {'self': None}; b['self'] = b
class N: pass
x, y = N(), N(); x.o, y.o = y, x
# check
assert a[0] is a and b['self'] is b and x.o is y and y.o is x
""",
    "imports, star imports, submodules and methods of hidden instances": """
# step
import os.path as osp, json, xml.dom.minidom
from math import *
from collections import OrderedDict as OD
from random import random, seed
from numpy.random import rand
import numpy as np
from numpy import add as plus
# check
assert osp.join('a', 'b') and json.dumps(1) == '1' and sin(0) == 0 and pi > 3 and OD().keys() == {}.keys()
assert xml.dom.minidom.parseString('<a/>')
import random as r
r.seed(1); x = r.random(); seed(1); assert random() == x
np.random.seed(1); x = np.random.rand(); np.random.seed(1); assert rand() == x and plus is np.add
""",
    "random state goes on where the step left it": """
# plain
import random, numpy as np
random.seed(1); np.random.seed(1)
# step
[random.random() for _ in range(5)]; np.random.rand(5)
# plain
expected = None
# step
after = (random.getstate(), np.random.get_state()[1].tolist(), np.random.get_state()[2])
# check
assert (random.getstate(), np.random.get_state()[1].tolist(), np.random.get_state()[2]) == after
""",
    "a private generator": """
# step
import numpy as np, random
rng = np.random.default_rng(1)
mine = random.Random(1)
rng.random(3); mine.random()
# step
copy = (rng.bit_generator.state, mine.getstate())
# check
assert (rng.bit_generator.state, mine.getstate()) == copy
""",
    "a function changes a global": """
# plain
state = {'n': 0}
class Model:
    def fit(self): state['n'] += 1
models = [Model()]
# step
models[0].fit()
# check
assert state == {'n': 1}
""",
    "mutation through globals()": """
# plain
hidden_list = [1]
# step
globals()['hidden_list'].append(2)
# check
assert hidden_list == [1, 2]
""",
    "mutation of the frame under a view, and of a list in a cell": """
# plain
import numpy as np, pandas as pd
base = np.zeros(10)
frame = pd.DataFrame(base.reshape(5, 2), copy=False)
items = [1]
holder = pd.Series([items, 2], dtype=object)
# step
base[0] = 7
items.append(2)
# check
assert base[0] == 7 and frame.iloc[0, 0] == 7 and holder[0] == [1, 2] and holder[0] is items
""",
    "memmap by its path": """
# step
import numpy as np, tempfile, os
path = os.path.join(tempfile.mkdtemp(), 'm')
mm = np.memmap(path, 'f8', 'w+', shape=(10,)); mm[3] = 3
part = mm[2:5]
# check
assert isinstance(mm, np.memmap) and mm[3] == 3 and part[1] == 3
part[1] = 4; mm.flush(); assert mm[3] == 4
assert np.memmap(path, 'f8', 'r')[3] == 4
import shutil; shutil.rmtree(os.path.dirname(path))
""",
    "pyarrow and polars-like strings": """
# step
import pyarrow as pa, pandas as pd
t = pa.table({'a': ['x' * 10, None] * 20_000, 'n': list(range(40_000))})
s = pd.Series(['long text'] * 20_000, dtype='str'); s[3] = None
arr = t['a'].chunk(0)
part = arr[5:]
# check
assert t['a'][1].as_py() is None and t['n'][39_999].as_py() == 39_999 and s.isna().sum() == 1
s.iloc[0] = 'new'; assert s.iloc[0] == 'new' and part[0].as_py() is None
""",
    "exceptions": """
# step
class Mine(ValueError):
    def __init__(self, code): super().__init__(f'code {code}'); self.code = code
    def __reduce__(self): return Mine, (self.code,)
try: raise Mine(3)
except Mine as e: error = e
# check
assert error.code == 3 and str(error) == 'code 3' and type(error) is Mine
""",
    "a held lock in an object, beside values of the library": """
# step
import threading, logging, decimal, uuid, pathlib, datetime, zoneinfo, fractions, re, types, contextlib
class W:
    def __init__(self): self.lock = threading.Lock(); self.lock.acquire(); self.n = 1
w = W(); ok = [1]
log = logging.getLogger('x'); p = pathlib.Path('a/b'); tz = zoneinfo.ZoneInfo('Europe/Berlin'); rx = re.compile('a+')
d = decimal.Decimal('1.20'); ns = types.SimpleNamespace(a=ok); dt = datetime.datetime(2020,1,1,tzinfo=tz)
@contextlib.contextmanager
def ctx(): yield ok
# check
assert ok == [1] and ns.a is ok and dt.tzinfo is tz and rx.match('aa') and log.name == 'x'
with ctx() as c: assert c is ok
assert 'w' not in globals()
""",
    "super, and classes that a function makes": """
# step
class Base:
    def __init__(self, v): self.v = v
class Sub(Base):
    def __init__(self, v): super().__init__(v * 2)
def factory(n):
    class Local(Base):
        size = n
        def get(self): return n + self.v
        def __init__(self, v): super().__init__(v)
    return Local
L3, L4 = factory(3), factory(4)
s, l3, l4, l33 = Sub(1), L3(1), L4(1), [L3(2)]
# check
assert s.v == 2 and Sub(2).v == 4 and l3.get() == 4 and l4.get() == 5
assert type(l3) is L3 and type(l33[0]) is L3 and L3 is not L4
assert issubclass(L3, Base) and L4(5).get() == 9 and L3.size == 3
""",
    "coroutine and generator functions": """
# step
import asyncio
async def work(x): return x + k
k = 2
def gen(n):
    for i in range(n): yield i * k
# check
assert asyncio.run(work(1)) == 3 and list(gen(3)) == [0, 2, 4]
""",
    "other arrays, and views that step backwards": """
# step
import numpy as np
m = np.ma.array([1., 2.], mask=[0, 1])
r = np.rec.array([(1, 2.)], dtype=[('a', int), ('b', float)])
s = np.array(['a', 'bb']); o = np.array([None, 'x', [1]], object)
f = np.asfortranarray(np.arange(60000.).reshape(200, 300)); e = np.empty((0, 3)); z = np.array(5)
part = f[::2, ::3]; neg = f[::-1]
# check
assert m.mask.tolist() == [False, True] and r.a[0] == 1 and s[1] == 'bb' and o[2] == [1]
assert f.flags.f_contiguous and f[1, 2] == 302 and e.shape == (0, 3) and z.shape == () and part[1, 1] == f[2, 3]
f[2, 3] = -5; assert part[1, 1] == -5 and neg[197, 3] == -5
""",
    "a class that a plain cell defines again while it is pending": """
# step
class Pt:
    def __init__(self, x): self.x = x
p = Pt(1)
# step
q = [p]
# plain
class Pt:
    def __init__(self, x): self.x = x
# check
assert type(p) is not Pt and type(p).__name__ == "Pt" and q[0] is p  # as in a kernel that never died
""",
}


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return in_new_process(CASES, tmp_path_factory.mktemp("cases"))


@pytest.mark.xdist_group("processes")
@pytest.mark.parametrize("case", CASES)
def test_state_comes_back_in_another_process(case: str, outcomes: dict[str, str]) -> None:
    """Cells marked ``step`` run here and are restored there, ``plain`` ones run in both, ``check`` runs there."""
    assert outcomes[case] == ""
