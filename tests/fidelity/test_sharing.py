"""What is one object stays one, what is two stays two; and a change in place of what an earlier step made comes back."""

from __future__ import annotations

import pytest

from tests.rows import Row, Seeds, prove, row

pytestmark = pytest.mark.kernel

ALIASES: dict[str, Row] = {
    "two names for one list in one step": row("a = [1]\nb = a", check="a.append(2)\nassert b == [1, 2]"),
    "two names for one list in two steps": row("a = [1]", "b = a", check="a.append(2)\nassert b == [1, 2] and b is a"),
    "a list in a dict of a later step": row("a = [1]", "d = {'deep': [(a,)]}", check="assert d['deep'][0][0] is a"),
    "one list in three steps": row(
        "a = [1]", "b = [a]", "c = {1: b}", check="c[1][0].append(2)\nassert a == [1, 2] and c[1] is b"
    ),
    "an alias that an equal list replaced stays broken": row(
        "a = [1]\nb = [a, a]", "b[1] = list(a)", check="assert b[0] is a and b[1] is not a and b == [a, a]"
    ),
    "a name bound to an equal list stays apart": row(
        "a = [1]\nb = a", "b = list(b)", check="a.append(2)\nassert b == [1]"
    ),
    "equal lists that were never one stay two": row(
        "a = [1]\nb = [1]", "c = [1]", check="a.append(2)\nassert b == c == [1]\nassert b is not c"
    ),
    "functions that do the same and have no name stay two": row(
        "a = [lambda: 1]\npair = {'x': lambda v: v, 'y': lambda v: v}",
        "b = [lambda: 1]\nc = [a[0], b[0]]",
        "for each in (a[0], c[0]):\n    each.mark = 'a'",
        check="assert a[0] is c[0] is not b[0] is c[1] and pair['x'] is not pair['y']\n"
        "assert a[0].mark == 'a' and not hasattr(b[0], 'mark')",
    ),
    "classes that a function made stay two": row(
        "def make():\n    class Made: pass\n    return Made\nA, B = make(), make()",
        "C = make()\na, made = A(), [make(), make()]",
        check="assert len({A, B, C, *made}) == 5 and type(a) is A",
    ),
    "a class that is defined anew, and who holds the former one": row(
        "class Old:\n    kept = 1",
        "held = {'k': Old()}",
        "class New(Old): pass\nnew = New()",
        "listed = [Old]",
        "class Old:\n    kept = 2",
        check="assert type(held['k']) is New.__base__ is listed[0] is not Old\n"
        "assert isinstance(new, listed[0]) and (New.kept, Old.kept) == (1, 2)",
    ),
    "functions with a cache that have no name stay two": row(
        "import functools\ncached = [functools.lru_cache(lambda: 1) for _ in 'ab']",
        "other = cached[1]",
        check="assert cached[0] is not cached[1] is other",
    ),
    "an alias whose first name is deleted": row(
        "a = [1]\nb = a", "del a", "b.append(2)", check="assert b == [1, 2] and 'a' not in globals()"
    ),
    "an alias that is changed through its other name": row(
        "a = [1]\nb = a", "b.append(2)", check="assert a == [1, 2] and a is b"
    ),
    "joined by a later step": row("a = [1]\nb = [1]", "a = b", check="assert a is b"),
    "joined inside a container by a later step": row(
        "a = [1]\nd = {'x': [1]}", "d['x'] = a", check="assert d['x'] is a"
    ),
    "shared through two objects": row(
        "class Box: pass\nleft, right = Box(), Box()\nleft.items = right.items = []",
        "left.items.append(1)",
        check="assert right.items == [1] and right.items is left.items",
    ),
    "an object and its own bound method": row(
        "stack = [1]\npush = stack.append", "push(2)", check="push(3)\nassert stack == [1, 2, 3]"
    ),
    "a view and its base": row(
        "import numpy as np\nbase = np.arange(50_000.0)\nview = base[10:20]",
        "view[0] = -1",
        check="assert base[10] == -1 and np.shares_memory(view, base)\nbase[11] = 7\nassert view[1] == 7",
    ),
    "a view made by a later step": row(
        "import numpy as np\nbase = np.arange(50_000.0)",
        "turned = base.reshape(500, 100).T",
        "base[1] = 5",
        check="assert turned[1, 0] == 5\nturned[2, 0] = 9\nassert base[2] == 9",
    ),
    "a view whose base was deleted": row(
        "import numpy as np\nbase = np.arange(50_000.0)\nview = base[10:20]",
        "del base",
        "view[0] = 3",
        check="assert view.tolist() == [3.0, *range(11, 20)] and 'base' not in globals()",
    ),
    "two views of a base that has no name": row(
        "import numpy as np\nleft, right = (lambda a: (a[:60], a[40:]))(np.zeros(100))",
        "left[50] = 1",
        check="assert right[10] == 1\nright[11] = 2\nassert left[51] == 2",
    ),
    "a view that a copy replaced": row(
        "import numpy as np\nbase = np.zeros(10)\nview = base[:5]",
        "view = view.copy()",
        check="base[0] = 1\nassert view[0] == 0",
    ),
    "a view in a dict": row(
        "import numpy as np\nbase = np.zeros(10)",
        "parts = {'head': base[:2]}",
        check="base[0] = 1\nassert parts['head'][0] == 1",
    ),
    "a frame is no view of the array it was made from once it copied": row(
        "import numpy as np, pandas as pd\nbase = np.zeros((5, 2))\nframe = pd.DataFrame(base.copy(), columns=['a', 'b'])\nhead = frame['a']",
        "frame.loc[0, 'a'] = 1",
        check="assert base[0, 0] == 0 and frame.loc[0, 'a'] == 1\nhead.iloc[1] = 5\nassert frame.loc[1, 'a'] in (0, 5)",
    ),
    "memory of a bytearray under an array": row(
        "import numpy as np\nraw = bytearray(16)\narray = np.frombuffer(raw, 'u1')",
        "raw[3] = 7",
        check="assert array[3] == 7\nraw[4] = 8\nassert array[4] == 8",
    ),
    "the result and a variable are one": row("a = [1]\na", check="assert Out[max(Out)] is a"),
    "a class attribute that a later step changes, and a result": row(
        "class A: n = 1\nx = [2]\nA.x = x",
        "x.append(1)\nx",
        "d = [x]",
        check="assert len(Out) and A.x is x is d[0] and x == [2, 1]",
    ),
    "a result that is imported is no variable": row(
        "import math\nmath.sin",
        "type(math.sin(0))",
        check="assert '<result>' not in globals() and [Out[n] for n in sorted(Out)][-2:] == [math.sin, float]",
    ),
    "a closure's list and a name for it": row(
        "def make():\n    seen = []\n    def add(x):\n        seen.append(x)\n        return seen\n    return add\nadd = make()\nseen = add(1)",
        "add(2)",
        check="assert seen == [1, 2] and add(3) is seen",
    ),
    "a class attribute and a name for it": row(
        "class Registry:\n    known = []\nknown = Registry.known",
        "Registry.known.append(1)",
        check="assert known == [1] and known is Registry.known",
    ),
    "a default argument and a name for it": row(
        "seen = []\ndef collect(x, into=seen):\n    into.append(x)",
        "collect(1)",
        check="collect(2)\nassert seen == [1, 2]",
    ),
    "a method's default argument and an object": row(
        "class Bus:\n    def __init__(self, riders=[]): self.riders = riders\n    @staticmethod\n    def all(riders=[]): return riders\n"
        "class Tram(Bus):\n    def __init__(self): super().__init__()",
        "bus = Bus()\nbus.riders.append('a')\nBus.all().append(1)",
        "tram = Tram()\ntram.riders.append('b')",
        check="assert bus.riders is tram.riders is Bus().riders is Tram().riders and bus.riders == ['a', 'b'] and Bus.all() == [1]",
    ),
    "memory and views of it": row(
        "from array import array\na = array('H', range(6))\nv = memoryview(a)\nb = bytearray(b'abcdef')",
        "t, back, low = v.cast('B').cast('B', [2, 6]), v[1::2][::-1], memoryview(b)[2:4].toreadonly()",
        "t[1, 0] = 77\nback[0] = 9\nb[2] = 122",
        check="assert a.tolist() == [0, 1, 2, 77, 4, 9] == v.tolist() and back.tolist() == [9, 77, 1] and bytes(low) == b'zd'\nback[1] = 5; b[3] = 120\nassert t[1, 0] == v[3] == a[3] == 5 and bytes(low) == b'zx' and low.readonly and v.obj is a",
    ),
    "a generator object stays one under two names": row(
        "import numpy as np\nrng = np.random.default_rng(1)\nsame = rng",
        "x = same.random()",
        check="assert same is rng",
    ),
    "an index of a frame and a name for it": row(
        "import pandas as pd\nindex = pd.Index(range(5), name='k')[::2]\nframe = pd.DataFrame({'a': [1, 2, 3]}, index=index)",
        "index.name = 'z'",
        check="assert frame.index is index and frame.index.name == 'z'",
    ),
    "a weak dictionary and what it holds": row(
        "import weakref\nclass A: pass\no = A()\nd = weakref.WeakValueDictionary(k=o)",
        "o.n = 1",
        check="assert d['k'] is o and o.n == 1\ndel o\nassert 'k' not in d",
    ),
    "keys that are shared objects": row(
        "class Key: pass\nk = Key()\nd = {k: 1}", "d[k] += 1", check="assert d == {k: 2} and next(iter(d)) is k"
    ),
}

MUTATIONS: dict[str, Row] = {
    "list": row("x = [3, 1]", "x.sort()", check="assert x == [1, 3]"),
    "list element by slice": row("x = [3, 1]", "x[:1] = [7, 8]", check="assert x == [7, 8, 1]"),
    "dict": row("x = {'a': 1}", "x['b'] = 2", check="assert x == {'a': 1, 'b': 2}"),
    "order of a dict": row("x = {'a': 1, 'b': 2}", "x['a'] = x.pop('a')", check="assert list(x) == ['b', 'a']"),
    "set": row("x = {1}", "x |= {2}\nx.discard(1)", check="assert x == {2}"),
    "bytearray": row("x = bytearray(b'ab')", "x[0] = 99", check="assert x == b'cb'"),
    "deque": row("from collections import deque\nx = deque([1], maxlen=2)", "x.extend([2, 3])", check="assert list(x) == [2, 3] and x.maxlen == 2"),
    "counter": row("from collections import Counter\nx = Counter('a')", "x.update('aab')", check="assert x == {'a': 3, 'b': 1}"),
    "equal value of another type": row("x = [1]", "x[0] = True", check="assert x[0] is True"),
    "float of the other sign": row("x = [0.0]", "x[0] = -0.0", check="assert str(x) == '[-0.0]'"),
    "frame's cell": row("import pandas as pd\nx = pd.DataFrame({'a': [1, 2]})", "x.loc[1, 'a'] = 5", check="assert x['a'].tolist() == [1, 5]"),
    "frame's attrs": row("import pandas as pd\nx = pd.DataFrame({'a': [1]})", "x.attrs['unit'] = 'm'", check="assert x.attrs == {'unit': 'm'}"),
    "frame's columns": row("import pandas as pd\nx = pd.DataFrame({'a': [1]})", "x.columns = ['b']", check="assert list(x) == ['b']"),
    "frame's index": row("import pandas as pd\nx = pd.DataFrame({'a': [1, 2]})", "x.index = pd.Index([5, 6], name='k')", check="assert x.index.tolist() == [5, 6] and x.index.name == 'k'"),
    "frame's new column": row("import pandas as pd\nx = pd.DataFrame({'a': [1]})", "x['b'] = 2\ndel x['a']", check="assert x.to_dict('list') == {'b': [2]}"),
    "frame's dtype": row("import pandas as pd\nx = pd.DataFrame({'a': [1]})", "x['a'] = x['a'].astype('int8')", check="assert str(x['a'].dtype) == 'int8'"),
    "frame in place": row("import pandas as pd\nx = pd.DataFrame({'a': [2, 1]})", "x.insert(0, 'b', 3)\nx.pop('a')", check="assert x.to_dict('list') == {'b': [3, 3]}"),
    "list in a frame's cell": row("import pandas as pd\nx = pd.DataFrame({'a': [[1]]})", "x.loc[0, 'a'].append(2)", check="assert x.loc[0, 'a'] == [1, 2]"),
    "series' name": row("import pandas as pd\nx = pd.Series([1])", "x.name = 'n'", check="assert x.name == 'n'"),
    "index's name": row("import pandas as pd\nx = pd.Index([1])\ny = pd.DataFrame({'a': [1]})", "x.name = 'n'\ny.index.name = 'm'", check="assert x.name == 'n' and y.index.name == 'm'"),
    "categories": row("import pandas as pd\nx = pd.Series(['u', 'v'], dtype='category')", "x = x.cat.rename_categories({'u': 'w'})", check="assert x.tolist() == ['w', 'v']"),
    "numpy element": row("import numpy as np\nx = np.zeros(50_000)", "x[7] = 1", check="assert x[7] == 1 and x.sum() == 1"),
    "numpy shape": row("import numpy as np\nx = np.zeros(6)", "x.shape = (2, 3)", check="assert x.shape == (2, 3)"),
    "numpy flags": row("import numpy as np\nx = np.zeros(50_000)", "x.flags.writeable = False", check="assert not x.flags.writeable"),
    "numpy sorted in place": row("import numpy as np\nx = np.array([3, 1])", "x.sort()", check="assert x.tolist() == [1, 3]"),
    "masked array": row("import numpy as np\nx = np.ma.array([1, 2, 3])", "x[1] = np.ma.masked", check="assert x.mask.tolist() == [False, True, False] and x.sum() == 4"),
    "record's field": row("import numpy as np\nx = np.zeros(2, [('a', 'i4'), ('b', 'O')])", "x['b'][0] = [1]\nx['a'][1] = 2", check="assert x['b'][0] == [1] and x['a'].tolist() == [0, 2]"),
    "object's attribute": row("class Box: pass\nx = Box()", "x.a = 1", check="assert vars(x) == {'a': 1}"),
    "object's slot": row("class Box:\n    __slots__ = ('a', 'b')\nx = Box()\nx.a = 1", "del x.a\nx.b = 2", check="assert not hasattr(x, 'a') and x.b == 2"),
    "object's class": row("class A: pass\nclass B: pass\nx = A()", "x.__class__ = B", check="assert type(x) is B"),
    "nested deep": row("class Box: pass\nx = {'a': [(Box(),)]}\nx['a'][0][0].b = {'c': [1]}", "x['a'][0][0].b['c'].append(2)", check="assert x['a'][0][0].b == {'c': [1, 2]}"),
    "through a function": row("items = []\ndef add(n):\n    items.append(n)", "add(1)", check="assert items == [1]"),
    "through two functions": row("items = []\ndef add(n):\n    items.append(n)\ndef twice(n):\n    add(n)\n    add(n)", "twice(1)", check="assert items == [1, 1]"),
    "through a method": row("class Log:\n    def __init__(self): self.lines = []\n    def say(self, x): self.lines.append(x)\nlog = Log()\ndef work(): log.say('a')", "work()", check="assert log.lines == ['a']"),
    "through a property": row("class Box:\n    n = 0\n    @property\n    def next(self):\n        self.n += 1\n        return self.n\nx = Box()", "x.next", check="assert x.n == 1"),
    "through a closure": row("def make():\n    n = 0\n    def inc():\n        nonlocal n\n        n += 1\n        return n\n    return inc\ninc = make()", "inc()", "inc()", check="assert inc() == 3"),
    "through an iterator of a dictionary": row("d = {'a': [1], 'b': 2, 'c': 3}\nit, back = iter(d.items()), reversed(d.values())\nfirst = next(it)", "d['b'] = 5", "second = next(it)", check="assert second == ('b', 5) and first[1] is d['a'] and next(back) == 3\nd['c'] = 7; assert next(it) == ('c', 7) and next(back) == 5"),
    "what iterators gave last": row("import itertools\nxs, ys = [[1], [2], [3]], 'abc'\nits = [enumerate(xs), zip(xs, ys), itertools.zip_longest(xs, ys), itertools.product(xs, ys), itertools.permutations(xs), itertools.combinations(xs, 2)]\na, b, c, d, e, f = map(next, its)", "xs[1].append(9)", "g = [next(it) for it in its]", check="assert [a, b, c, d, e, f] == [(0, [1]), ([1], 'a'), ([1], 'a'), ([1], 'a'), ([1], [2, 9], [3]), ([1], [2, 9])] and g[0][1] is g[1][0] is g[2][0] is e[1] is f[1] is xs[1] and g[3][0] is a[1]"),
    "through an iterator": row("x = [1, 2, 3]\nit = iter(x)", "next(it)", check="assert next(it) == 2"),
    "through globals": row("items = []", "globals()['items'].append(1)", check="assert items == [1]"),
    "through eval": row("items = []", "eval('items.append(1)')", check="assert items == [1]"),
    "through exec": row("items = []", "exec('items.append(1); new = 2')", check="assert items == [1] and new == 2"),
    "through a default argument": row("def collect(x, seen=[]):\n    seen.append(x)\n    return seen", "collect(1)", check="assert collect(2) == [1, 2]"),
    "through a function's attribute": row("def f():\n    f.calls += 1\nf.calls = 0", "f()", check="f()\nassert f.calls == 2"),
    "through a class attribute": row("class Counter:\n    n = 0\n    def __init__(self): Counter.n += 1", "c = Counter()", check="assert Counter.n == 1 and type(c) is Counter"),
    "through setattr on a class": row("class A: pass\na = A()", "A.shape = property(lambda self: 4)", check="assert a.shape == 4"),
    "through a method patched in": row("class A:\n    def f(self): return 1\na = A()", "def g(self): return 2\nA.f = g", check="assert a.f() == 2"),
    "through the result of the cell before": row("[1]", "x = _\n_.append(2)", check="assert x == [1, 2]"),
    "through an object that holds the function": row("state = {'n': 0}\ndef bump(): state['n'] += 1\ntable = {'bump': [bump]}", "table['bump'][0]()", check="assert state == {'n': 1}"),
    "in a step inside an unfinished loop": row("x = []\nfor n in range(3):\n    x.append(n)", "for n in range(3):\n    x[n] += n", check="assert x == [0, 2, 4] and n == 2"),
}  # fmt: skip


@pytest.mark.parametrize("name", ALIASES)
def test_sharing(seeds: Seeds, name: str) -> None:
    prove(seeds, ALIASES[name])


@pytest.mark.parametrize("name", MUTATIONS)
def test_change_in_place(seeds: Seeds, name: str) -> None:
    prove(seeds, MUTATIONS[name])
