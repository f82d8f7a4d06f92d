"""Values of libraries, values that cannot be saved, and large ones."""

from __future__ import annotations

import pytest

from tests.rows import Row, Seeds, prove, row

pytestmark = pytest.mark.kernel

PD = "import pandas as pd, numpy as np\n"

LIBRARIES: dict[str, Row] = {
    "order of a set": row("s = {(3, 1), (1, 2), (1, 3), (2, 3)}\norder, box = list(s), [s]", "t = sorted(box[0])", check="assert list(s) == order != list(set(order)) and box[0] is s"),
    "objects that are keys of each other's dicts": row(
        "class Cell:\n    def __init__(self, k): self.k, self.near = k, {}\ncells = [Cell(k) for k in range(40)]\nfor x in cells:\n    for y in cells:\n        if x is not y and abs(x.k - y.k) < 4: x.near[y] = [1]",
        "cells[0].near[cells[1]].append(2)",
        "n = len(cells)",
        check="assert n == 40 and cells[0].near[cells[1]] == [1, 2] and cells[1].near[cells[0]] == [1] and next(iter(cells[3].near)) is cells[0]",
    ),
    "frame of all kinds": row(
        PD + "n = 5_000\ndf = pd.DataFrame({'f': np.arange(n) / 2, 'i': np.arange(n), 's': ['x', None] * (n // 2), 'o': [[k] for k in range(n)],\n"
        "'t': pd.date_range('2020', periods=n, freq='h', tz='Europe/Berlin'), 'c': pd.Categorical(['u', 'v'] * (n // 2)),\n"
        "'N': pd.array([1, None] * (n // 2), dtype='Int64'), 'B': pd.array([True, None] * (n // 2), dtype='boolean')})\nref = df.copy(deep=True)",
        "df['new'] = df['f'] * 2\ndel df['new']",
        check="pd.testing.assert_frame_equal(df, ref)\nassert list(df.dtypes) == list(ref.dtypes) and df['t'].dt.tz.key == 'Europe/Berlin'\ndf.loc[0, 'f'] = 9\nassert ref.loc[0, 'f'] == 0",
    ),
    "variables in a query": row(PD + "df = pd.DataFrame({'a': [1, 2, 3]})", "limit = 1\ndef above(): return len(df.query('a > @limit'))", "n = len(df.query('a > @limit'))", check="assert n == 2 and len(df.query('a > @limit')) == above() == 2"),
    "series of a frame stays apart": row(PD + "df = pd.DataFrame({'a': [1, 2]})\ns = df['a']", "s.iloc[0] = 9", check="assert df.loc[0, 'a'] == 1 and s.iloc[0] == 9\ndf.loc[1, 'a'] = 5\nassert s.iloc[1] == 2"),
    "slice of a frame": row(PD + "df = pd.DataFrame({'a': range(20_000), 'b': 1.0})\nhead = df.iloc[:3]", "df.loc[0, 'a'] = 9", check="assert head.loc[0, 'a'] == 0\nhead.loc[1, 'b'] = 5\nassert df.loc[1, 'b'] == 1"),
    "frame over an array": row(PD + "a = np.zeros((3, 2))\ndf = pd.DataFrame(a, columns=['p', 'q'])", "df.loc[0, 'p'] = 5", check="assert df.loc[0, 'p'] == 5"),
    "categories": row(PD + "s = pd.Series(pd.Categorical(['lo', 'hi'], ['lo', 'hi'], ordered=True))", "s = s.cat.add_categories(['top'])", check="assert s.cat.ordered and list(s.cat.categories) == ['lo', 'hi', 'top'] and (s < 'hi').tolist() == [True, False]"),
    "MultiIndex": row(PD + "df = pd.DataFrame({'v': range(4)}, index=pd.MultiIndex.from_product([['a', 'b'], [1, 2]], names=['p', 'q']))", "total = df.groupby(level='p').sum()", check="assert df.loc[('b', 2), 'v'] == 3 and df.index.names == ['p', 'q'] and total.loc['b', 'v'] == 5"),
    "strings": row(PD + "s = pd.Series(['a', None, 'ü'])\npy = s.astype(pd.StringDtype('python'))\nob = s.astype(object)", "up = s.str.upper()", check="assert str(s.dtype) == str(up.dtype) and up[2] == 'Ü' and s.isna()[1] and py.dtype.storage == 'python' and ob.dtype == object"),
    "extension arrays": row(PD + "x = [pd.array([1, None], dtype='Int8'), pd.interval_range(0, 2), pd.period_range('2020', periods=2), pd.arrays.SparseArray([0, 1]), pd.array(['a'], dtype='string'), pd.to_timedelta(['1h'])]", "kinds = [str(each.dtype) for each in x]", check="assert [str(each.dtype) for each in x] == kinds and x[0][1] is pd.NA and x[3].density == 0.5 and str(x[2].freq) == '<Day>'"),
    "arrow-backed frame": row(PD + "import pyarrow as pa\ndf = pd.DataFrame({'a': pd.array([1, None], dtype=pd.ArrowDtype(pa.int64())), 'l': pd.array([[1], [2, 3]], dtype=pd.ArrowDtype(pa.list_(pa.int64())))})", "n = len(df)", check="assert df.dtypes['a'].pyarrow_dtype == pa.int64() and df['l'][1] == [2, 3]"),
    "arrow table": row("import pyarrow as pa\nt = pa.table({'a': range(20_000), 's': ['x', None] * 10_000, 'n': [{'k': [1]}] * 20_000})\nc = pa.chunked_array([[1], [2]])", "part = t.slice(5, 2)", check="assert part['a'].to_pylist() == [5, 6] and t['n'][7].as_py() == {'k': [1]} and c.num_chunks == 2 and t['s'].null_count == 10_000"),
    "groupby, rolling and resampler": row(PD + "df = pd.DataFrame({'k': ['a', 'b', 'a'], 'v': [1, 2, 3]})\ng = df.groupby('k')\nr = df['v'].rolling(2)", "total = g['v'].sum()", check="assert g.ngroups == 2 and g['v'].sum().equals(total) and r.sum().tolist()[1:] == [3, 5]"),
    "missing values keep their kind": row(PD + "x = [pd.NA, pd.NaT, None, float('nan'), np.nan, np.datetime64('NaT')]", "n = len(x)", check="assert x[0] is pd.NA and x[1] is pd.NaT and x[2] is None and x[3] != x[3] and np.isnat(x[5])"),
    "flags and attrs": row(PD + "df = pd.DataFrame({'a': [1]}).set_flags(allows_duplicate_labels=False)\ndf.attrs = {'u': {'m': [1]}}", "df.attrs['u']['m'].append(2)", check="assert df.flags.allows_duplicate_labels is False and df.attrs == {'u': {'m': [1, 2]}}"),
    "arrays of all kinds": row(
        "import numpy as np\nx = {'f': np.asfortranarray(np.arange(6.0).reshape(2, 3)), 'b': np.arange(3, dtype='>i4'), 'd': np.array(['2020-01-01', 'NaT'], 'M8[D]'), 'u': np.array(['ä', 'bc']),\n"
        "'m': np.ma.array([1, 2], mask=[0, 1]), 'r': np.array([(1, 'a')], [('n', 'i2'), ('s', 'U3')]), 'o': np.array([None, [1]], object), 'z': np.array(5), 'e': np.empty((0, 3)), 'c': np.array([1 + 2j]),\n"
        "'l': np.longdouble('1.1'), 'h': np.float16(1.5), 'big': np.zeros((300, 300), order='F'), 'rec': np.rec.array([(1, 2.0)], names='a,b'), 'str': np.array(['a', 'bb'], np.dtypes.StringDType())}",
        "x['f'][0, 0] = 9",
        check="assert x['f'].flags.f_contiguous and x['big'].flags.f_contiguous and x['f'][0, 0] == 9 and x['b'].dtype.str == '>i4' and np.isnat(x['d'][1]) and x['u'][0] == 'ä'\n"
        "assert x['m'].mask.tolist() == [False, True] and x['r']['s'][0] == 'a' and x['o'][1] == [1] and x['z'].shape == () and x['e'].shape == (0, 3) and x['l'] == np.longdouble('1.1') and type(x['h']) is np.float16\n"
        "assert x['rec'].a[0] == 1 and type(x['rec']) is np.recarray and x['str'].tolist() == ['a', 'bb']",
    ),
    "records whose module numpy loads when it is asked for": row("import numpy as np\nbase = np.zeros(3, [('a', 'i4'), ('b', 'f8')])\nx = base.view(np.recarray)\nC = type(x)", "base['b'][2] = 4", check="assert x.b[2] == 4 and x['a'][0] == 0 and type(x) is C is np.recarray and np.shares_memory(x, base)"),
    "memmap by its path": row("import numpy as np\nm = np.memmap('m.bin', 'f8', 'w+', shape=(10,))\nm[3] = 3", "m[4] = 4\nm.flush()", check="assert isinstance(m, np.memmap) and m[3:5].tolist() == [3, 4]\nm[5] = 5; m.flush()\nassert np.fromfile('m.bin')[5] == 5"),
    "figure": row("import matplotlib\nmatplotlib.use('agg')\nimport matplotlib.pyplot as plt\nfig, ax = plt.subplots()\nline, = ax.plot([1, 2])", "ax.set_title('t')", check="assert ax.get_title() == 't' and fig.axes[0] is ax and ax.lines[0] is line\nimport io\nfig.savefig(io.BytesIO())"),
    "dates and numbers": row(
        "import datetime as d, decimal, fractions, uuid, ipaddress, pathlib, zoneinfo, re, array\nx = [d.datetime(2020, 1, 1, tzinfo=zoneinfo.ZoneInfo('Europe/Berlin')), d.timedelta(1), decimal.Decimal('1.10'), fractions.Fraction(1, 3), uuid.UUID(int=5),\n"
        "ipaddress.ip_address('::1'), pathlib.Path('a/b'), re.compile('a+', re.I), array.array('d', [1, 2]), 10 ** 400, -0.0, 1e-320, complex(0, -0.0), range(3), slice(1, None), ..., NotImplemented, b'a', bytearray(b'b'), int, list[int], int | None]",
        "x[8].append(3)",
        check="assert repr(x) == kept\nassert x[0].tzinfo is zoneinfo.ZoneInfo('Europe/Berlin') and x[-1] == int | None",
        setup="kept = \"[datetime.datetime(2020, 1, 1, 0, 0, tzinfo=zoneinfo.ZoneInfo(key='Europe/Berlin')), datetime.timedelta(days=1), Decimal('1.10'), Fraction(1, 3), UUID('00000000-0000-0000-0000-000000000005'), "
        "IPv6Address('::1'), PosixPath('a/b'), re.compile('a+', re.IGNORECASE), array('d', [1.0, 2.0, 3.0]), 1\" + '0' * 400 + \", -0.0, 1e-320, -0j, range(0, 3), slice(1, None, None), Ellipsis, NotImplemented, b'a', bytearray(b'b'), <class 'int'>, list[int], int | None]\"",
    ),
    "containers": row(
        "import collections, types, heapq, queue\nod = collections.OrderedDict(a=1, b=2)\ncm = collections.ChainMap({'a': 1}, od)\nmp = types.MappingProxyType(od)\nfs = frozenset({1, (2, 'x')})\nheap = [3, 1]; heapq.heapify(heap)\nud = collections.UserDict(a=1)\nkeys = od.keys()",
        "od['c'] = 3\nod.move_to_end('a')",
        check="assert list(od) == list(keys) == ['b', 'c', 'a'] and cm['c'] == 3 and mp['c'] == 3 and fs == {1, (2, 'x')} and heap == [1, 3] and ud == {'a': 1}",
    ),
    "iterators": row("import itertools, re\nended = re.finditer('a', 'a'); next(ended); next(ended, None)\nx = iter([1, 2, 3]); next(x)\nc = itertools.count(5)\nz = zip('ab', [1, 2]); e = enumerate('ab'); m = map(str, [1, 2]); r = reversed([1, 2])", "next(c); next(z)", check="assert type(ended) is type(re.finditer('', '')) and [*ended] == [] and next(x) == 2 and next(c) == 6 and list(z) == [('b', 2)] and list(e) == [(0, 'a'), (1, 'b')] and list(m) == ['1', '2'] and list(r) == [2, 1]"),
}  # fmt: skip

LIVING: dict[str, Row] = {
    "generator": row("g = (n for n in range(3))\ngood = [1]\nalso = good", "good.append(2)", check="assert good == [1, 2] and also is good and list(g) == [0, 1, 2]"),
    "coroutine and thread": row("import threading\nasync def work(): return 5\nc = work()\nt = threading.Thread(target=len, args=('',), name='mine')\nt.start()\nt.join()\ngood = [1]", "good.append(2)", check="assert good == [1, 2] and (await c, t.name, t.is_alive()) == (5, 'mine', False)"),
    "sqlite connection": row("import sqlite3\ndb = sqlite3.connect('my.db')\ngood = [1]", "good.append(2)", check="assert good == [1, 2] and db.execute('select 1').fetchone() == (1,)\ndb.close()"),
    "lock": row("import threading\nlock = threading.Lock()\ngood = [1]", "with lock:\n    good.append(2)", check="assert good == [1, 2] and lock.acquire(timeout=0)"),
    "lock inside an object": row("import threading\nclass Safe:\n    def __init__(self): self.lock, self.items = threading.Lock(), []\nsafe, good = Safe(), [1]", "good.append(2)", check="assert good == [1, 2] and safe.items == [] and safe.lock.acquire(timeout=0)"),
    "open file": row("f = open('my.txt', 'w+')\nf.write('a')\nf.flush()\ngood = [1]", "good.append(2)", check="assert good == [1, 2] and f.name == 'my.txt' and f.fileno() > 2\nf.close()"),
    "context variable": row("import contextvars\nv = contextvars.ContextVar('v', default=5)\ngood = [1]", "good.append(2)", check="assert good == [1, 2] and v.get() == 5"),
    "match": row("import re\nm = re.match('(a)b', 'ab')\ngood = [1]", "good.append(2)", check="assert good == [1, 2] and m[1] == 'a'"),
    "weak reference": row("import weakref\nclass A: pass\na = A()\nw = weakref.ref(a)\ngood = [1]", "good.append(2)", check="assert good == [1, 2] and w() is a"),
    "thread pool": row("import concurrent.futures as cf\npool = cf.ThreadPoolExecutor(1)\ngood = [1]", "good.append(pool.submit(int, 2).result())", check="assert good == [1, 2]\npool.shutdown()"),
    "socket": row("import socket\ns = socket.socket()\ngood = [1]", "good.append(2)", check="assert good == [1, 2] and s.fileno() > 2\ns.close()"),
    "HTTP connection": row("import http.client\nc = http.client.HTTPConnection('127.0.0.1', 9)\ngood = [1]", "good.append(2)", check="assert good == [1, 2] and c.port == 9"),
    "event loop's task": row("import asyncio\nt = asyncio.ensure_future(asyncio.sleep(0))\nawait t\ngood = [1]", "good.append(2)", check="assert good == [1, 2] and t.done()", replayed=(0,)),
    "memoryview": row("b = bytearray(b'abc')\nv = memoryview(b)\ngood = [1]", "good.append(2)", check="v[0] = 122\nassert good == [1, 2] and b == b'zbc'"),
    "loads badly": row("class Bad:\n    def __reduce__(self): return (int, ('x',))\nbad, good = Bad(), [1]", "good.append(2)", check="assert good == [1, 2] and type(bad) is Bad"),
    "needs an argument to be made": row("class Bad(Exception):\n    def __init__(self, a, b): super().__init__('text')\nbad, good = Bad(1, 2), [1]", "good.append(2)", check="assert good == [1, 2] and type(bad) is Bad"),
    "refuses to be pickled": row("class No:\n    def __getstate__(self): raise TypeError('no')\nno, good = {'deep': [No()]}, [1]", "good.append(2)", check="assert good == [1, 2] and type(no['deep'][0]) is No"),
}  # fmt: skip

SIZES: dict[str, Row] = {
    "100,000 levels": row("x = []\nfor _ in range(100_000):\n    x = [x]\ngood = [1]", "good.append(2)", check="n = 0\nwhile x:\n    x = x[0]; n += 1\nassert n == 100_000 and good == [1, 2]"),
    "a chain of 100,000 nodes": row("class Node:\n    def __init__(self, next): self.next = next\nhead = None\nfor _ in range(100_000): head = Node(head)", "head.mark = 1", check="n, node = 0, head\nwhile node: n, node = n + 1, node.next\nassert n == 100_000 and head.mark == 1"),
    "cycles": row("a = []; a.append(a)\nd = {}; d['d'] = d\nclass N: pass\nx, y = N(), N(); x.o, y.o = y, x", "a.append(1)", check="assert a[0] is a and a[1] == 1 and d['d'] is d and x.o is y and y.o is x"),
    "a frame of 40 MB": row(PD + "df = pd.DataFrame(np.arange(5_000_000.0).reshape(500_000, 10))", "df.iloc[3, 3] = -1", check="assert df.iloc[3, 3] == -1 and df.iloc[-1, -1] == 4_999_999 and df.shape == (500_000, 10)"),
    "a frame of 1 GB": row(PD + "df = pd.DataFrame(np.zeros((125_000, 1_000)))\ndf.iloc[3, 3] = -1", check="assert df.iloc[3, 3] == -1 and df.iloc[-1, -1] == 0 and df.shape == (125_000, 1_000)"),
    "text and bytes of 10 MB": row("s, b = 'ä' * 5_000_000, b'x' * 10_000_000", "s += 'b'", check="assert len(s) == 5_000_001 and s[-1] == 'b' and len(b) == 10_000_000"),
    "one text 100,000 times": row("s = 'x' * 1_000\nx = [s] * 100_000", "x.append('y')", check="assert len(x) == 100_001 and x[0] is x[99_999]"),
}  # fmt: skip


@pytest.mark.parametrize("name", LIBRARIES)
def test_library_values(seeds: Seeds, name: str) -> None:
    prove(seeds, LIBRARIES[name])


@pytest.mark.parametrize("name", LIVING)
def test_values_that_cannot_be_saved_do_not_sink_the_rest(seeds: Seeds, name: str) -> None:
    """A new kernel makes them again, when they are used; a step that awaits is replayed as it comes."""
    prove(seeds, LIVING[name])


@pytest.mark.parametrize("name", SIZES)
def test_sizes(seeds: Seeds, name: str) -> None:
    prove(seeds, SIZES[name])
