"""Functions and classes that cells define: on the live globals, with what they hold, and still the same classes."""

from __future__ import annotations

import pytest

from tests.rows import Row, Seeds, prove, restored, row

pytestmark = pytest.mark.kernel

FUNCTIONS: dict[str, Row] = {
    "sees a global that changes later": row("rate = 2\ndef price(n): return n * rate", "rate = 3", check="assert price(2) == 6\nrate = 5\nassert price(2) == 10 and price.__globals__ is globals()"),
    "sees a function that is defined later": row("def outer(): return inner()", "def inner(): return 1", check="assert outer() == 1"),
    "changes a global": row("n = 0\ndef bump():\n    global n\n    n += 1", "bump()", check="bump()\nassert n == 2"),
    "closure": row("def make(n):\n    def add(x): return x + n\n    return add\nadd = make(5)", "a = add(1)", check="assert a == 6 and add(2) == 7"),
    "two closures over one cell": row("def make():\n    n = 0\n    def inc():\n        nonlocal n\n        n += 1\n    def get(): return n\n    return inc, get\ninc, get = make()", "inc()", check="inc()\nassert get() == 2"),
    "cell that is still empty": row("def make():\n    def early(): return late\n    if False: late = 1\n    return early\nf = make()", check="try:\n    f()\nexcept NameError: pass\nelse: raise AssertionError"),
    "decorated": row("import functools\ndef twice(f):\n    @functools.wraps(f)\n    def wrapper(*a): return 2 * f(*a)\n    return wrapper\n@twice\ndef add(x): 'Adds.'; return x + 1", "a = add(1)", check="assert a == 4 and add.__name__ == 'add' and add.__doc__ == 'Adds.' and add.__wrapped__(1) == 2"),
    "decorated with arguments and state": row("def count(start):\n    def wrap(f):\n        def inner(*a):\n            inner.n += 1\n            return f(*a)\n        inner.n = start\n        return inner\n    return wrap\n@count(5)\ndef f(): return 1", "f()", check="f()\nassert f.n == 7"),
    "decorated by a class": row("class Memo:\n    def __init__(self, f): self.f, self.seen = f, {}\n    def __call__(self, x):\n        if x not in self.seen: self.seen[x] = self.f(x)\n        return self.seen[x]\n@Memo\ndef square(x): return x * x", "square(3)", check="assert square.seen == {3: 9} and square(4) == 16"),
    "recursion": row("def fact(n): return 1 if n < 2 else n * fact(n - 1)", "a = fact(5)", check="assert a == fact(5) == 120"),
    "recursion of two": row("def even(n): return n == 0 or odd(n - 1)\ndef odd(n): return n != 0 and even(n - 1)", "a = even(4)", check="assert a and odd(3)"),
    "lru_cache": row("import functools\n@functools.lru_cache(maxsize=7)\ndef f(x): return x * 2\nf(1)", "a = f(2)", check="assert a == 4 and f(5) == 10 and f.cache_parameters()['maxsize'] == 7"),
    "recursive cache": row("import functools\n@functools.cache\ndef fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)", "a = fib(30)", check="assert a == fib(30) == 832040"),
    "cached method": row("import functools\nclass A:\n    @functools.lru_cache\n    def f(self, x): return x + 1\na = A()", "b = a.f(1)", check="assert b == 2 and a.f(2) == 3"),
    "singledispatch": row("import functools\n@functools.singledispatch\ndef show(x): return 'any'\n@show.register\ndef _(x: int): return 'int'", "@show.register\ndef _(x: list): return 'list'", check="assert [show(1), show([]), show('')] == ['int', 'list', 'any']"),
    "singledispatch over an own class": row("import functools\nclass A: pass\n@functools.singledispatch\ndef show(x): return 'any'\nshow.register(A, lambda x: 'A')\na = A()", "b = show(a)", check="assert b == 'A' and show(A()) == 'A'"),
    "lambda": row("f = lambda x, y=2: x + y", "a = f(1)", check="assert a == 3 and f(1, 1) == 2"),
    "lambdas in a loop": row("fs = [lambda x, k=k: x * k for k in range(3)]\ngs = [lambda x: x + k for k in range(3)]", "a = [f(2) for f in fs]", check="assert a == [0, 2, 4] and [g(1) for g in gs] == [3, 3, 3]"),
    "defaultdict of a lambda": row("from collections import defaultdict\nd = defaultdict(lambda: [0])", "d['a'].append(1)", check="assert d['a'] == [0, 1] and d['b'] == [0]"),
    "nested defaultdict": row("from collections import defaultdict\ntree = lambda: defaultdict(tree)\nt = tree()", "t['a']['b']['c'] = 1", check="t['x']['y'] = 2\nassert t['a']['b'] == {'c': 1} and t['x']['y'] == 2"),
    "partial": row("import functools\ndef add(x, y): return x + y + z\nz = 0\npart = functools.partial(add, 1)", "a = part(2)", check="z = 10\nassert a == 3 and part(2) == 13 and part.func is add"),
    "bound method": row("class A:\n    n = 1\n    def get(self): return self.n\na = A()\nget = a.get", "a.n = 2", check="assert get() == 2 and get.__self__ is a"),
    "class method and static method as values": row("class A:\n    n = 1\n    @classmethod\n    def make(cls): return cls()\n    @staticmethod\n    def two(): return 2\nmake, two = A.make, A.two", "a = make()", check="assert type(a) is A and type(make()) is A and two() == 2"),
    "generator function": row("def count():\n    yield from range(3)", "a = list(count())", check="assert a == list(count()) == [0, 1, 2]"),
    "coroutine function": row("import asyncio\nasync def work(n):\n    await asyncio.sleep(0)\n    return n + 1", "a = await work(1)", check="assert a == 2 and await work(2) == 3"),
    "attributes, annotations and docs": row("def f(a: int, *, b: str = 'x') -> list:\n    'Doc.'\nf.tag = {'k': [1]}", "f.tag['k'].append(2)", check="import inspect\nassert str(inspect.signature(f)) == \"(a: int, *, b: str = 'x') -> list\" and f.__doc__ == 'Doc.' and f.tag == {'k': [1, 2]}"),
    "source and traceback": row("def f(x):\n    # a comment\n    return 1 / x", check="import inspect, traceback\nassert inspect.getsource(f) == 'def f(x):\\n    # a comment\\n    return 1 / x\\n'\ntry: f(0)\nexcept ZeroDivisionError: assert 'return 1 / x' in traceback.format_exc()\nelse: raise AssertionError"),
    "defined anew while an old one is held": row("def f(): return 1\nold = [f]", "def f(): return 2", check="assert old[0]() == 1 and f() == 2"),
    "patched in place while a table holds it": row("def f(): return 1\ntable = {'f': f}", "f.tag = 1\nf.__defaults__ = ()", check="assert table['f'] is f and f.tag == 1"),
    "held by a table and by its name": row("def f(x): return x\ntable = {'f': f}", "table['g'] = f", check="assert table['f'] is f is table['g']"),
    "operator helpers": row("import operator\nget = operator.itemgetter('a', 'b')\nattr = operator.attrgetter('real')\ncall = operator.methodcaller('upper')", check="assert get({'a': 1, 'b': 2}) == (1, 2) and attr(3) == 3 and call('x') == 'X'"),
    "numpy's vectorize": row("import numpy as np\n@np.vectorize\ndef f(x): return x + shift\nshift = 1", "a = f([1, 2])", check="assert a.tolist() == [2, 3] and f([5]).tolist() == [6]"),
    "contextmanager": row("import contextlib\nlog = []\n@contextlib.contextmanager\ndef noted(name):\n    log.append(name)\n    yield name\n    log.append('end')", "with noted('a'): pass", check="with noted('b') as b: pass\nassert log == ['a', 'end', 'b', 'end']"),
}  # fmt: skip

CLASSES: dict[str, Row] = {
    "isinstance of an old instance": row("class A: pass\na = A()", "b = A()", check="assert isinstance(a, A) and isinstance(b, A) and type(a) is type(b) is A"),
    "instance of a class that is defined before": row("a = A(1)", "b = A(a.x + 1)", check="assert type(a) is type(b) is A and b.x == 2", setup="class A:\n    def __init__(self, x): self.x = x"),
    "methods see live globals": row("rate = 2\nclass A:\n    def f(self): return rate\na = A()", "rate = 3", check="assert a.f() == 3"),
    "method patched in": row("class A:\n    def f(self): return 1\na = A()", "def g(self): return 2\nA.f = g", check="assert a.f() == 2 and type(a) is A"),
    "class changed later, asked through an old instance alone": row("class B: x = [1]\nclass A(B): pass\na = [A()]", "B.x.append(2)", check="assert a[0].x == [1, 2]"),
    "object that says when it goes": row("log = []\nclass Own:\n    def __getstate__(self): return vars(self).copy()\n    def __del__(self): log.append('gone')\nk = [Own()]", "k[0].n = 1", check="assert log == [] and k[0].n == 1"),
    "method patched into a base": row("class A: pass\nclass B(A): pass\nboxes = [B()]", "A.size = property(lambda self: 4)", check="assert boxes[0].size == 4 and type(boxes[0]) is B and isinstance(boxes[0], A)"),
    "defined anew while old instances live": row("class A:\n    def f(self): return 1\nold = [A(), A()]", "class A:\n    def f(self): return 2\nnew = A()", check="assert old[0].f() == 1 and new.f() == 2 and type(old[0]) is type(old[1]) is not A"),
    "defined anew in a step that reads the old": row("class A: size = 1\nold = [A(), A()]", "keep = A\nclass A(A): size = 2\nnew = A()", check="assert old[0].size == 1 and new.size == 2 and type(old[0]) is type(old[1]) is keep and A.__base__ is keep"),
    "super": row("class A:\n    def __init__(self): self.log = ['A']\nclass B(A):\n    def __init__(self):\n        super().__init__()\n        self.log.append('B')\nb = B()", "c = B()", check="assert b.log == c.log == B().log == ['A', 'B']"),
    "multiple inheritance": row("class A:\n    def f(self): return ['A']\nclass B(A):\n    def f(self): return ['B', *super().f()]\nclass C(A):\n    def f(self): return ['C', *super().f()]\nclass D(B, C): pass\nd = D()", "e = d.f()", check="assert e == d.f() == ['B', 'C', 'A'] and D.__mro__[1:3] == (B, C)"),
    "cached_property": row("import functools\ncalls = []\nclass A:\n    @functools.cached_property\n    def x(self):\n        calls.append(1)\n        return [1]\na = A()", "a.x.append(2)", check="assert a.x == [1, 2] and calls == [1] and A().x == [1]"),
    "dataclass": row("import dataclasses\n@dataclasses.dataclass(order=True)\nclass D:\n    x: int\n    tags: list = dataclasses.field(default_factory=list)\nd = D(1)", "d.tags.append(1)", check="assert d == D(1, [1]) and d < D(2) and D(5).tags == [] and dataclasses.asdict(d) == {'x': 1, 'tags': [1]}"),
    "frozen dataclass with slots": row("import dataclasses\n@dataclasses.dataclass(frozen=True, slots=True)\nclass P:\n    x: int\n    y: int = 2\np = {P(1): 'a'}", "q = P(1)", check="assert p[q] == 'a' and p[P(1)] == 'a' and dataclasses.replace(q, x=3) == P(3)"),
    "enum": row("import enum\nclass E(enum.Enum):\n    A = 1\n    B = 'b'\n    def up(self): return self.name\ne = E.A\nd = {E.B: 1}", "f = E('b')", check="assert e is E.A and f is E.B and d[E.B] == 1 and e.up() == 'A' and list(E) == [E.A, E.B]"),
    "flag": row("import enum\nclass F(enum.Flag):\n    R = enum.auto()\n    W = enum.auto()\nf = F.R | F.W", "g = f & F.R", check="assert g is F.R and F.W in f"),
    "str enum as keys": row("import enum\nclass K(enum.StrEnum):\n    A = 'a'\nd = {K.A: 1}", "d['b'] = 2", check="assert d['a'] == 1 and type(next(iter(d))) is K"),
    "namedtuple": row("from collections import namedtuple\nN = namedtuple('N', 'a b', defaults=[2])\nn = N(1)", "m = n._replace(a=5)", check="assert type(n) is type(m) is N and m == (5, 2) and N(3).b == 2"),
    "typed namedtuple": row("import typing\nclass T(typing.NamedTuple):\n    p: int = 1\n    def twice(self): return self.p * 2\nt = T()", "u = t.twice()", check="assert u == T().twice() == 2 and isinstance(t, T)"),
    "typed dict and generics": row("import typing\nclass M(typing.TypedDict):\n    a: int\nX = typing.TypeVar('X')\nclass Box(typing.Generic[X]):\n    def __init__(self, v): self.v = v\nb = Box[int](1)\nm: M = {'a': 1}", "b.v += 1", check="assert b.v == 2 and type(b) is Box and m == {'a': 1} and Box[int](3).v == 3"),
    "protocol": row("import typing\n@typing.runtime_checkable\nclass P(typing.Protocol):\n    def f(self) -> int: ...\nclass A:\n    def f(self): return 1\na = A()", "ok = isinstance(a, P)", check="assert ok and isinstance(a, P) and not isinstance(1, P)"),
    "abstract base": row("import abc\nclass Base(abc.ABC):\n    @abc.abstractmethod\n    def area(self): ...\nclass Sq(Base):\n    def area(self): return 4\ns = Sq()", "a = s.area()", check="assert isinstance(s, Base) and a == 4\ntry: Base()\nexcept TypeError: pass\nelse: raise AssertionError"),
    "registered virtual subclass": row("import collections.abc\nclass Seq:\n    def __len__(self): return 0\ncollections.abc.Sized.register(Seq)\ns = Seq()", "n = len(s)", check="assert isinstance(s, collections.abc.Sized) and n == 0"),
    "virtual subclass that a later step registers": row("import abc\nclass Shape(abc.ABC): pass\nclass Square: pass", "Shape.register(Square)", "s = Square()\nok = isinstance(s, Shape)", "@Shape.register\nclass Tri: pass", check="assert ok and isinstance(s, Shape) and isinstance(Tri(), Shape) and not isinstance(1, Shape)"),
    "flags put together by a later step": row("import enum\nP = enum.IntFlag('P', {'R': 4, 'W': 2})", "both = P.R | P.W", "n = int(both & P.R)\nagain = P(6)", check="assert n == 4 and again is both and list(P) == [P.R, P.W]"),
    "library that looks up names where it is called": row("import lookup\ndef double(x): return 2 * x", "text = 'y ~ double(4)'", "f = lookup.Formula(text)", check="assert f.value == 8", files={"lookup.py": "import sys\nclass Formula:\n    def __init__(self, text): self.text = text; self.find(sys._getframe(1))\n    def find(self, frame): self.value = eval(self.text[4:], frame.f_globals)\n    def __getstate__(self): return self.text\n    def __setstate__(self, text): self.text = text; self.find(sys._getframe(1))\n"}),
    "dictionary that is its own attributes": row("class Bunch(dict):\n    def __init__(self, **items): dict.__init__(self, items); self.__dict__ = self\nd = Bunch(a=[1])\na = d.a", "a.append(2)", check="assert d.__dict__ is d and d['a'] is d.a is a and a == [1, 2]"),
    "metaclass": row("class Meta(type):\n    made = []\n    def __new__(m, name, bases, space):\n        kind = super().__new__(m, name, bases, space)\n        m.made.append(name)\n        return kind\nclass A(metaclass=Meta): pass\na = A()", "class B(A): pass", check="assert Meta.made == ['A', 'B'] and type(A) is type(B) is Meta and type(a) is A"),
    "registry of subclasses": row("class Plugin:\n    known = {}\n    def __init_subclass__(cls): Plugin.known[cls.__name__] = cls\nclass Csv(Plugin): pass", "class Json(Plugin): pass", check="assert Plugin.known == {'Csv': Csv, 'Json': Json}\nclass Xml(Plugin): pass\nassert len(Plugin.known) == 3"),
    "descriptor": row("class Positive:\n    def __set_name__(self, owner, name): self.name = '_' + name\n    def __get__(self, obj, kind=None): return getattr(obj, self.name)\n    def __set__(self, obj, value):\n        assert value > 0\n        setattr(obj, self.name, value)\nclass A:\n    x = Positive()\na = A(); a.x = 1", "a.x += 1", check="assert a.x == 2\ntry: a.x = -1\nexcept AssertionError: pass\nelse: raise SystemError"),
    "slots": row("class S:\n    __slots__ = ('a', '__weakref__')\ns = S(); s.a = [1]", "s.a.append(2)", check="assert s.a == [1, 2] and not hasattr(s, '__dict__')"),
    "attributes that are the very objects its bases have": row("class A:\n    'Doc.'\n    n, tags = 1, ()\nclass C: tags = ()\nclass B(A, C):\n    'Doc.'\n    n, tags = 1, ()\nb = B()", "A.n, A.tags, C.tags, A.__doc__ = 5, (1,), (2,), 'Other.'", check="assert (b.n, b.tags, B.__doc__) == (1, (), 'Doc.') and (A.n, A.tags, A.__doc__) == (5, (1,), 'Other.') and {'n', 'tags'} <= set(vars(B))"),
    "slots that are the very object its base has": row("class A: __slots__ = ()\nclass B(A): __slots__ = ()\nclass C(A): __slots__ = ('a',)\nclass D(C): __slots__ = ()\nb, d = B(), D(); d.a = 1", "d.a += 1", check="assert d.a == 2 and not hasattr(b, '__dict__') and not hasattr(d, '__dict__') and vars(B)['__slots__'] == ()"),
    "attribute that its base has, taken away later": row("class A: n = 1\nclass B(A): n = 1\nb = B()", "del B.n\nA.n = 2", check="assert b.n == 2 and 'n' not in vars(B)"),
    "double underscores": row("class A:\n    'Doc.'\n    __version__ = 1\n    __secret = [1]\na = A()", "A.__doc__, A.__version__, A.__author__ = 'Other.', 2, 'me'\nA._A__secret.append(2)", check="assert (a.__doc__, a.__version__, a.__author__, a._A__secret) == ('Other.', 2, 'me', [1, 2])"),
    "operators and hashing": row("class V:\n    def __init__(self, x): self.x = x\n    def __eq__(self, o): return self.x == o.x\n    def __hash__(self): return hash(self.x)\n    def __add__(self, o): return V(self.x + o.x)\nd = {V('a'): 1}", "d[V('b')] = 2", check="assert d[V('a')] == 1 and d[V('b')] == 2 and (V(1) + V(2)).x == 3"),
    "getstate and setstate": row("class A:\n    def __init__(self): self.x, self.cache = 1, [2]\n    def __getstate__(self): return {'x': self.x}\n    def __setstate__(self, s): self.__dict__.update(s); self.cache = []\na = A()", "a.x += 1", check="assert a.x == 2 and a.cache in ([2], [])"),
    "getattr that raises what it likes": row("class Loud:\n    __slots__ = ('items', '__own')\n    def __init__(self): self.items = []; self.__own = self.items\n    def __getattr__(self, name): raise TypeError(name)\n    def __getstate__(self): return self.items\n    def __setstate__(self, items): self.items = items; self.__own = items\n    def both(self): return self.items, self.__own\nclass Callable(Loud):\n    __slots__ = ()\n    def __call__(self): return self.items\na, b = Loud(), Callable()\nheld = [a, a.items, b.items, b]", "a.items.append(1)\nb().append(2)", check="assert held[0] is a and held[1] is a.items is a.both()[1] and held[3] is b and b() is held[2] and held[1:3] == [[1], [2]]"),
    "getattr that answers to everything": row("class Any:\n    def __init__(self): self.d = {}\n    def __getattr__(self, name):\n        if name.startswith('__'): raise AttributeError(name)\n        return self.d.get(name)\na = Any()", "a.d['x'] = 1", check="assert a.x == 1 and a.y is None"),
    "another class of the same name, with other data": row("class A:\n    z, old = 1, True\n    def get(self): return self.z", "a = A()", "class A:\n    z = 2\n    a = 3\n    def get(self): return self.z", "b = A()", "cached = '__slotnames__' in vars(A), b", check="assert not cached[0]\nassert (a.get(), b.get(), a.old, hasattr(b, 'old')) == (1, 2, True, False) and type(b) is A is not type(a)\nassert [k for k in vars(A) if len(k) == 1] == ['z', 'a']"),
    "attribute of a class that is deleted": row("class A: x, y = 1, 2", "a = A()", "del A.x\nA.y = 3", check="assert not hasattr(a, 'x') and a.y == A.y == 3 and type(a) is A"),
    "own __new__ that counts, and takes what pickle does not give": row("class A:\n    made = 0\n    def __new__(cls, *x):\n        A.made += 1\n        return super().__new__(cls)\nclass P(tuple):\n    def __new__(cls, x, y): return super().__new__(cls, (x, y))\na, p = A(1), P(1, 2)", "b = [A(1, 2), a, p]", check="assert A.made == 2 and b[1] is a and type(b[0]) is A and p == (1, 2) and type(p) is P and b[2] is p"),
    "nested class": row("class Outer:\n    class Inner:\n        n = 1\n    def make(self): return Outer.Inner()\ni = Outer().make()", "j = Outer.Inner()", check="assert type(i) is type(j) is Outer.Inner"),
    "class made by a function": row("def make(n):\n    class Local:\n        size = n\n        def get(self): return self.size\n    return Local\nA = make(1); B = make(2)\na, b = A(), B()", "c = A()", check="assert (a.get(), b.get(), c.get()) == (1, 2, 1) and type(a) is type(c) is A and type(b) is B"),
    "subclass of a builtin": row("class D(dict):\n    def __missing__(self, k): return k * 2\nclass L(list): pass\nclass I(int): pass\nd, l, i = D(a=1), L([1]), I(5)\nl.tag = 'x'", "d['b'] = 2\nl.append(2)", check="assert d == {'a': 1, 'b': 2} and d['c'] == 'cc' and l == [1, 2] and l.tag == 'x' and type(i) is I"),
    "subclass of an array": row("import numpy as np\nclass Q(np.ndarray):\n    def __array_finalize__(self, o): self.unit = getattr(o, 'unit', None)\nq = np.arange(3.0).view(Q); q.unit = 'm'", "q += 1", check="assert type(q) is Q and q.tolist() == [1, 2, 3]"),
    "subclass of a frame": row("import pandas as pd\nclass F(pd.DataFrame):\n    _metadata = ['unit']\n    @property\n    def _constructor(self): return F\nf = F({'a': [1]}); f.unit = 'm'", "f['b'] = 2", check="assert type(f) is F and list(f) == ['a', 'b'] and f.unit == 'm'"),
    "exception": row("class Oops(Exception):\n    def __init__(self, code, *, hint=''): super().__init__(code); self.code, self.hint = code, hint\ntry:\n    raise Oops(3, hint='h')\nexcept Oops as e:\n    kept = e", "code = kept.code", check="assert type(kept) is Oops and kept.args == (3,) and kept.hint == 'h' and code == 3"),
    "simple namespace and class instance cycles": row("from types import SimpleNamespace as S\na = S(x=1); a.me = a", "a.x += 1", check="assert a.me is a and a.x == 2"),
}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(seeds: Seeds, name: str) -> None:
    prove(seeds, FUNCTIONS[name])


@pytest.mark.parametrize("name", CLASSES)
def test_classes(seeds: Seeds, name: str) -> None:
    prove(seeds, CLASSES[name])


def test_class_defined_anew_by_a_plain_cell_leaves_restored_objects_alone(seeds: Seeds) -> None:
    """Also where only its data differ, and its objects are not loaded yet."""
    steps = ["%%resumable a\nclass Config: rate = 1\nfirst = Config()", "%%resumable b\nsecond = Config()"]
    seeds()(*steps)
    kernel = seeds()
    kernel(*steps, "class Config: rate = 2")
    assert kernel("first.rate, second.rate, Config.rate").value == "(1, 1, 2)"
    assert kernel("type(first) is type(second), type(first) is Config").value == "(True, False)"


def test_skip_takes_back_what_later_steps_have_put_into_a_class(seeds: Seeds) -> None:
    """Properties and class methods too, so that the steps between stay hits when all is run again in one kernel."""
    steps = [
        "%%resumable a\nclass A:\n    def f(self): return 1",
        "%%resumable b\nA.g = lambda self: self.f() + 1\nprint(A().g())",
        "%%resumable c\nA.both = property(lambda self: self.f() + self.g())\nA.make = classmethod(lambda cls: cls())",
        "%%resumable d\nprint(A.make().both)",
    ]
    kernel = seeds()
    kernel(*steps)
    assert [restored(kernel(each)) for each in steps] == [True] * 4
    assert kernel("A.make().both").value == "3"
