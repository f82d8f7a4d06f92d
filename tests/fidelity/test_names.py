"""Names that a step binds, imports, rebinds and deletes; the state of random generators."""

from __future__ import annotations

import pytest

from tests.rows import Row, Seeds, prove, row

pytestmark = pytest.mark.kernel

HELPERS = {
    "helpers_of_mine.py": "RATE = 2\ndef clean(n):\n    return n * RATE\nseen = []\n",
    "package_of_mine/__init__.py": "",
    "package_of_mine/inner.py": "from . import deeper\nfrom .deeper import BASE\n__all__ = ['twice', 'BASE']\ndef twice(n):\n    return deeper.scale(n)\n",
    "package_of_mine/deeper.py": "BASE = 10\ndef scale(n):\n    return n * 2 + BASE\n",
}

LIBRARY = {
    "site-packages/library_of_others.py": "import functools\n"
    "def counted(f):\n    def inner(*args):\n        inner.called += 1\n        return f(*args)\n    inner.called = 0\n    return inner\n"
    "class Odd:\n    def __call__(self, n): return n + 5\n    def method(self, n): return n + 6\n    def __reduce__(self): raise TypeError('not me')\n"
    "@counted\ndef wrapped(n): return n + 1\n"
    "unnamed = lambda n: n + 2\npart = functools.partial(max, 3)\nodd = Odd()\nbound = odd.method\nknown = {'a': [1]}\n"
    "def swap():\n    global wrapped, unnamed\n    wrapped, unnamed = counted(lambda n: -n), (lambda n: -n)\n",
}
OTHERS = "import sys\nsys.path.insert(0, 'site-packages')"

NAMES: dict[str, Row] = {
    "deleted": row("a = b = 1", "del a", check="assert 'a' not in globals() and b == 1"),
    "deleted through globals": row("a = 1", "globals().pop('a')", check="assert 'a' not in globals()"),
    "deleted through a function": row("a = 1\ndef drop():\n    global a\n    del a", "drop()", check="assert 'a' not in globals()"),
    "deleted and made again": row("a = [1]", "del a", "a = 2", check="assert a == 2"),
    "made and deleted in one step": row("a = 1\ndel a\nb = 2", check="assert 'a' not in globals() and b == 2"),
    "deleted by a step that was replayed before": row("a = 1", "b = a\ndel a", "c = b", check="assert c == 1 and 'a' not in globals()"),
    "private": row("_a, __b = 1, 2", "_a += __b", check="assert (_a, globals()['__b']) == (3, 2)"),
    "bound to None": row("a = [1]", "a = None", check="assert a is None"),
    "bound to itself": row("a = [1]", "a = a", check="assert a == [1]"),
    "bound to an equal value": row("a = 1000", "a = 10 ** 3", check="assert a == 1000"),
    "bound to an equal value of another type": row("a = 1", "a = 1.0", check="assert type(a) is float"),
    "bound over a builtin": row("sum = 5\nlist = [1]", "list.append(sum)", check="assert list == [1, 5]"),
    "a builtin again": row("sum = 5", "del sum", check="assert sum([1, 2]) == 3"),
    "bound by every statement that binds": row(
        "import os as system\nfrom math import pi as circle\nfor n in [1, 2]:\n    pass\nwith open('f', 'w') as handle:\n    size = handle.write('a')\n"
        "del handle\nif (late := 3):\n    first, *rest = 'abc'\nmatch {'k': [1, 2]}:\n    case {'k': [low, high], **others}:\n        pass\n"
        "try:\n    1 / 0\nexcept ZeroDivisionError as error:\n    text = str(error)\nkind: int = 4",
        check="assert (n, size, late, first, rest, low, high, others, text, kind) == (2, 1, 3, 'a', ['b', 'c'], 1, 2, {}, 'division by zero', 4)\n"
        "assert system.sep == '/' and circle > 3 and 'error' not in globals()",
    ),
    "bound through globals": row("globals()['a'] = 1", check="assert a == 1"),
    "bound through a global statement": row("def make():\n    global a\n    a = [1]\nmake()", "make()\na.append(2)", check="assert a == [1, 2]"),
    "bound by IPython's own means": row("%env SOME_NAME=5\nx = !echo hi\ny = %sx echo ho", check="assert x == ['hi'] and y[0] == 'ho'"),
    "a name that an unreached step wants": row("a = [1]", "b = 2", "a.append(b)", check="assert a == [1, 2]"),
    "unicode": row("größe = 1\nµ = 2", "größe += 1", check="assert größe == 2 and μ == 2"),
    "ten thousand": row("for n in range(10_000):\n    globals()[f'name_{n}'] = [n]", "name_77.append(1)", check="assert name_9999 == [9999] and name_77 == [77, 1]"),
}  # fmt: skip

IMPORTS: dict[str, Row] = {
    "module": row("import json", "a = json.dumps(1)", check="assert a == json.dumps(1)"),
    "module under another name": row("import xml.dom.minidom as dom", check="assert dom.parseString('<a/>')"),
    "submodule": row("import xml.dom.minidom", check="assert xml.dom.minidom.parseString('<a/>')"),
    "star": row("from math import *", "a = sqrt(4)", check="assert sin(0) == 0 and a == 2"),
    "star of numpy": row("from numpy import *", "a = arange(3)", check="assert a.sum() == 3 and cos(0) == 1 and sum is __import__('numpy').sum"),
    "function": row("from os.path import join", check="assert join('a', 'b') == 'a/b'"),
    "method of a hidden instance": row("from random import random, seed", check="seed(1); a = random()\nimport random as r\nr.seed(1)\nassert a == r.random()"),
    "mutable things of the standard library": row("from sys import modules as loaded\nfrom os import environ\nfrom warnings import filters", "x = 1", check="import sys, os, warnings\nassert loaded is sys.modules and environ is os.environ and filters is warnings.filters"),
    "value": row("from math import pi", "a = pi", check="import math\nassert a == pi == math.pi"),
    "helper module": row("import helpers_of_mine as h", "a = h.clean(3)", check="assert a == 6 and h.RATE == 2", files=HELPERS),
    "function of a helper module": row("from helpers_of_mine import clean", "a = clean(3)", check="import helpers_of_mine as h\nassert a == 6 and clean is h.clean", files=HELPERS),
    "relative imports of a helper module": row("import package_of_mine.inner as inner", "a = inner.twice(3)", check="assert a == 16 and inner.deeper.BASE == 10", files=HELPERS),
    "star of a helper module": row("from package_of_mine.inner import *", "a = twice(BASE)", check="assert a == 30", files=HELPERS),
    "function of a library that does not say where it is": row("from library_of_others import *", "a = wrapped(1) + unnamed(1) + part(1) + odd(1) + bound(1)", check="import library_of_others as other\nassert (wrapped, unnamed, part, odd, bound, known) == (other.wrapped, other.unnamed, other.part, other.odd, other.bound, other.known)\nassert known is other.known and a == 21", setup=OTHERS, files=LIBRARY),
    "the same under another name": row("from library_of_others import wrapped as w, unnamed as u, part as p, odd as o, bound as b", check="import library_of_others as other\nassert [w, u, p, o, b] == [other.wrapped, other.unnamed, other.part, other.odd, other.bound]", setup=OTHERS, files=LIBRARY),
    "function that a call has put into a library": row("import library_of_others as other\nother.swap()\nfrom library_of_others import *", "a = wrapped(1) + unnamed(1)", check="assert (a, wrapped(2), unnamed(2)) == (-2, -2, -2)", setup=OTHERS, files=LIBRARY),
    "function that a cell has put into a library": row("import library_of_others as other\nother.wrapped = other.counted(lambda n: 7 * n)\nother.unnamed = lambda n: 8 * n\nfrom library_of_others import *", "a = wrapped(1) + unnamed(1)", check="assert (a, wrapped(2), unnamed(2)) == (15, 14, 16)", setup=OTHERS, files=LIBRARY),
    "everything of pyplot, where figures are shown inline": row("from matplotlib.pyplot import *", check="import matplotlib.pyplot as plt\nassert draw_if_interactive is plt.draw_if_interactive and rcParams is plt.rcParams and 'IPython' in draw_if_interactive.__module__", setup="from IPython.core.pylabtools import activate_matplotlib\nactivate_matplotlib('inline')"),
    "inside a function": row("def f():\n    import helpers_of_mine\n    return helpers_of_mine.clean(1)", "a = f()", check="assert a == f() == 2", files=HELPERS),
    "module object in a container": row("import json, math\ntools = {'j': json, 'm': [math]}", check="assert tools['j'] is json and tools['m'][0].pi > 3"),
    "lazy submodule of a package": row("import concurrent.futures\npool = concurrent.futures.ThreadPoolExecutor", check="assert concurrent.futures.ThreadPoolExecutor is pool"),
    "from the future": row("from __future__ import annotations\ndef f(a: Nothing) -> Nowhere:\n    return a", "x = f(1)", check="assert x == f(1) == 1"),
}  # fmt: skip

RANDOM: dict[str, Row] = {
    "random": row("import random\nrandom.seed(1)\na = random.random()", "b = random.random()", check="r = random.Random(1)\nassert [a, b, random.random()] == [r.random() for _ in range(3)]"),
    "random that nobody seeded": row("import random\na = random.random()", "state = random.getstate()", check="assert random.getstate() == state"),
    "random in a step that binds nothing": row("import random\nrandom.seed(1); random.random()", check="r = random.Random(1); r.random()\nassert random.random() == r.random()"),
    "random inside a helper": row("import random\nrandom.seed(3)\ndef roll():\n    return random.randint(1, 100)", "a = roll()", check="r = random.Random(3)\nassert [a, roll()] == [r.randint(1, 100), r.randint(1, 100)]"),
    "gauss keeps its second value": row("import random\nrandom.seed(1)\na = random.gauss(0, 1)", "b = random.gauss(0, 1)", check="r = random.Random(1)\nassert [a, b, random.gauss(0, 1)] == [r.gauss(0, 1) for _ in range(3)]"),
    "numpy's legacy state": row("import numpy as np\nnp.random.seed(1)\na = np.random.rand()", "b = np.random.randn()", check="r = np.random.RandomState(1)\nassert [a, b, np.random.rand()] == [r.rand(), r.randn(), r.rand()]"),
    "numpy's generator": row("import numpy as np\nrng = np.random.default_rng(1)\na = rng.random()", "b = rng.random()", check="r = np.random.default_rng(1)\nassert [a, b, rng.random()] == [r.random() for _ in range(3)]"),
    "generator inside an object": row("import numpy as np\nclass Model:\n    def __init__(self): self.rng = np.random.default_rng(1)\n    def draw(self): return self.rng.random()\nm = Model()", "a = m.draw()", check="r = np.random.default_rng(1)\nassert [a, m.draw()] == [r.random(), r.random()]"),
    "generators from one seed sequence": row("import numpy as np\nparent = np.random.SeedSequence(5)\nrngs = [np.random.default_rng(s) for s in parent.spawn(2)]", "a = rngs[1].random()\nchild = parent.spawn(1)[0]", check="p = np.random.SeedSequence(5); r = [np.random.default_rng(s) for s in p.spawn(2)]\nassert [a, rngs[0].random()] == [r[1].random(), r[0].random()] and child.spawn_key == (2,)\nassert parent.spawn(1)[0].spawn_key == (3,)"),
    "other bit generators": row("import numpy as np\nrngs = [np.random.Generator(kind(1)) for kind in (np.random.MT19937, np.random.Philox, np.random.SFC64, np.random.PCG64DXSM)]", "a = [each.random() for each in rngs]", check="fresh = [np.random.Generator(type(each.bit_generator)(1)) for each in rngs]\nassert a == [each.random() for each in fresh] and [each.random() for each in rngs] == [each.random() for each in fresh]"),
    "own random": row("import random\nmine = random.Random(4)\na = mine.random()", "b = mine.random()", check="r = random.Random(4)\nassert [a, b, mine.random()] == [r.random() for _ in range(3)]"),
    "a shuffle in place": row("import random\nrandom.seed(2)\ndeck = list(range(9))\nrandom.shuffle(deck)", "random.shuffle(deck)", check="r = random.Random(2); d = list(range(9)); r.shuffle(d); r.shuffle(d)\nassert deck == d"),
    "uuid and secrets are not drawn again": row("import uuid, secrets\na = uuid.uuid4(); b = secrets.token_hex()\nkept = (str(a), b)", check="assert (str(a), b) == kept"),
}  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_names(seeds: Seeds, name: str) -> None:
    prove(seeds, NAMES[name])


@pytest.mark.parametrize("name", IMPORTS)
def test_imports(seeds: Seeds, name: str) -> None:
    prove(seeds, IMPORTS[name])


@pytest.mark.parametrize("name", RANDOM)
def test_random_state(seeds: Seeds, name: str) -> None:
    prove(seeds, RANDOM[name])
