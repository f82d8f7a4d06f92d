"""Values of libraries that are no dependencies: whole models, frames and figures, in kernels that are killed between steps."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest

from tests.rows import Row, Seeds, prove_all, row

pytestmark = pytest.mark.kernel

NP, PL, SK = (
    "import numpy as np\n",
    "import polars as pl\n",
    "import numpy as np\nfrom sklearn.linear_model import LinearRegression\n",
)

POLARS: dict[str, Row] = {
    "frame": row(PL + "x = pl.DataFrame({'a': [1, None], 's': ['u', 'ü'], 'l': [[1], []], 'd': [{'k': 1}, {'k': 2}]})\nref = x.clone()", "x = x.with_columns(b=pl.col('a') + 1)", check="assert x.drop('b').equals(ref) and x.schema['l'] == pl.List(pl.Int64) and x['b'].to_list() == [2, None]"),
    "frame changed in place": row(PL + "x = pl.DataFrame({'a': [1, 2]})\ny = x", "x[0, 'a'] = 5\nx.columns = ['b']", check="assert x.to_dict(as_series=False) == {'b': [5, 2]} and y is x"),
    "series, categories and dates": row(PL + "import datetime as d\nx = [pl.Series('c', ['u', 'v', 'u'], pl.Categorical), pl.Series('e', ['u'], pl.Enum(['u', 'v'])), pl.Series('t', [d.datetime(2020, 1, 1)]).dt.replace_time_zone('Europe/Berlin'), pl.Series('p', [1.5], pl.Decimal(10, 2))]", "kinds = [each.dtype for each in x]", check="assert [each.dtype for each in x] == kinds and x[0].to_list() == ['u', 'v', 'u'] and x[2].dtype.time_zone == 'Europe/Berlin' and x[1].dtype.categories.to_list() == ['u', 'v']"),
    "lazy frame": row(PL + "lazy = pl.LazyFrame({'a': [1, 2, 3]}).filter(pl.col('a') > 1)", "n = lazy.collect()['a'].sum()", check="assert n == 5 and lazy.with_columns(b=2).collect()['b'].to_list() == [2, 2]"),
    "lazy frame of a file": row(PL + "pl.DataFrame({'a': [1, 2]}).write_csv('lazy.csv')\nlazy = pl.scan_csv('lazy.csv')", "n = lazy.select('a').collect().height", check="assert n == 2 and lazy.collect()['a'].to_list() == [1, 2]"),
    "expression": row(PL + "e = (pl.col('a') * 2).alias('b')", "x = pl.DataFrame({'a': [1]}).select(e)", check="assert x['b'].to_list() == [2] and pl.DataFrame({'a': [4]}).select(e).item() == 8"),
    "objects": row(PL + "class A: n = 1\nx = [pl.DataFrame({'a': [1]}), {'deep': pl.Series([1.5])}]", "x.append(A())", check="assert x[0].item() == 1 and x[1]['deep'][0] == 1.5 and type(x[2]) is A"),
}  # fmt: skip

XARRAY: dict[str, Row] = {
    "array with coordinates": row("import xarray as xr, numpy as np\nx = xr.DataArray(np.arange(6.0).reshape(2, 3), dims=('t', 'p'), coords={'t': [10, 20], 'p': list('abc')}, name='n', attrs={'unit': 'm'})", "x.loc[{'t': 10, 'p': 'b'}] = -1\nx.attrs['log'] = [1]", check="assert x.sel(t=10, p='b') == -1 and x.attrs == {'unit': 'm', 'log': [1]} and x.name == 'n' and x.dims == ('t', 'p')"),
    "dataset": row("import xarray as xr, pandas as pd\nx = xr.Dataset({'a': ('t', [1.0, 2.0])}, coords={'t': pd.date_range('2020', periods=2)})", "x['b'] = x.a * 2", check="assert x.b.values.tolist() == [2, 4] and x.sel(t='2020-01-02').a == 2 and list(x.data_vars) == ['a', 'b']"),
    "array over an array": row("import xarray as xr, numpy as np\nbase = np.zeros(20_000)\nx = xr.DataArray(base)", "x[3] = 5", check="assert base[3] == 5 and x[3] == 5\nbase[4] = 6\nassert x[4] == 6"),
    "groups": row("import xarray as xr\ng = xr.DataArray([1, 2, 3], dims='t', coords={'k': ('t', list('aba'))}).groupby('k')", "s = g.sum()", check="assert s.values.tolist() == [4, 2] and g.sum().equals(s)"),
}  # fmt: skip

SCIPY: dict[str, Row] = {
    "sparse matrices": row("import scipy.sparse as sp, numpy as np\nx = {kind: sp.eye_array(200, format=kind) for kind in ('csr', 'csc', 'coo', 'lil', 'dok', 'dia', 'bsr')}\nold = sp.csr_matrix([[0, 1], [2, 0]])", "x['lil'][0, 1] = 5\nx['dok'][3, 4] = 6\nold[0, 1] = 7", check="assert x['lil'][0, 1] == 5 and x['dok'][3, 4] == 6 and old[0, 1] == 7 and all(sp.issparse(each) and each.format == kind for kind, each in x.items()) and type(old) is sp.csr_matrix\nassert (x['csr'] @ np.ones(200)).sum() == 200"),
    "parts of a sparse matrix": row("import scipy.sparse as sp\nx = sp.random_array((300, 300), density=0.1, rng=1, format='csr')\ndata = x.data", "data[0] = 9", check="assert x.data[0] == 9 and x.data is data"),
    "distributions and interpolation": row("import scipy.stats as st, scipy.interpolate as ip\nd = st.norm(1, 2)\nf = ip.CubicSpline([0, 1, 2], [0, 1, 4])", "a = d.mean(), float(f(1))", check="assert a == (1, 1) == (d.mean(), float(f(1))) and d.cdf(1) == 0.5"),
    "result of an optimisation": row("import scipy.optimize as so\nr = so.minimize(lambda v: (v[0] - 3) ** 2, [0.0])", "best = float(r.x[0])", check="assert abs(best - 3) < 1e-4 and r.success and r['x'] is not None"),
    "tree of points": row("import scipy.spatial as ss, numpy as np\nt = ss.cKDTree(np.arange(20.0).reshape(10, 2))", "n = t.query([4, 5])[1]", check="assert n == 2 == t.query([4, 5])[1]"),
}  # fmt: skip

SKLEARN: dict[str, Row] = {
    "model that is fitted": row(SK + "x = LinearRegression().fit(np.array([[0.0], [1.0]]), [1, 3])", "p = x.predict([[2.0]])", check="assert abs(p[0] - 5) < 1e-9 and (x.predict([[2.0]]) == p).all()"),
    "model that is fitted later": row(SK + "x = LinearRegression()\nsame = x", "x.fit(np.array([[0.0], [1.0]]), [1, 3])", check="assert abs(x.coef_[0] - 2) < 1e-9 and same is x"),
    "forest": row("from sklearn.ensemble import RandomForestClassifier as F\nimport numpy as np\nx = F(5, random_state=0).fit(np.arange(20.0).reshape(-1, 1), [0] * 10 + [1] * 10)", "p = x.predict_proba([[3.0]])", check="assert (x.predict_proba([[3.0]]) == p).all() and len(x.estimators_) == 5"),
    "boosting that goes on": row("from sklearn.ensemble import GradientBoostingRegressor as G\nimport numpy as np\na = np.arange(20.0).reshape(-1, 1)\nx = G(n_estimators=3, warm_start=True, random_state=0).fit(a, a[:, 0])", "x.n_estimators = 6\nx.fit(a, a[:, 0])", check="assert len(x.estimators_) == 6 and (x.predict(a) == G(n_estimators=6, random_state=0).fit(a, a[:, 0]).predict(a)).all()"),
    "pipeline with a function of the notebook": row("from sklearn.pipeline import make_pipeline\nfrom sklearn.preprocessing import FunctionTransformer, StandardScaler\nimport numpy as np\ndef double(v): return v * factor\nfactor = 2\nx = make_pipeline(FunctionTransformer(double), StandardScaler()).fit(np.array([[1.0], [3.0]]))", "p = x.transform(np.array([[3.0]]))", check="assert p[0, 0] == 1 and x.named_steps['functiontransformer'].func is double"),
    "transformer of an own class": row("from sklearn.base import BaseEstimator, TransformerMixin\nclass Shift(BaseEstimator, TransformerMixin):\n    def __init__(self, by=1): self.by = by\n    def fit(self, X, y=None):\n        self.n_ = len(X)\n        return self\n    def transform(self, X): return X + self.by\nimport numpy as np\nx = Shift(3).fit(np.zeros((4, 1)))", "p = x.transform(np.zeros((1, 1)))", check="assert p[0, 0] == 3 and x.n_ == 4 and isinstance(x, Shift) and repr(x) == 'Shift(by=3)'"),
    "search": row("from sklearn.model_selection import GridSearchCV\nfrom sklearn.tree import DecisionTreeRegressor\nimport numpy as np\na = np.arange(30.0).reshape(-1, 1)\nx = GridSearchCV(DecisionTreeRegressor(random_state=0), {'max_depth': [1, 3]}, cv=2).fit(a, a[:, 0])", "best = x.best_params_", check="assert best == x.best_params_ and len(x.cv_results_['params']) == 2 and x.best_estimator_.get_depth() == best['max_depth']"),
    "data set": row("from sklearn.datasets import load_iris\niris = load_iris()", "n = len(iris.target)", check="assert n == 150 and iris.data is iris['data'] and vars(iris) == vars(load_iris()) != {}"),
    "vectorizer": row("from sklearn.feature_extraction.text import TfidfVectorizer\nx = TfidfVectorizer(tokenizer=str.split, token_pattern=None).fit(['a b', 'b c'])", "m = x.transform(['a c'])", check="assert m.shape == (1, 3) and (x.transform(['a c']) != m).nnz == 0"),
}  # fmt: skip

PYDANTIC: dict[str, Row] = {
    "model of a cell": row("from pydantic import BaseModel, Field\nclass P(BaseModel):\n    a: int\n    tags: list[str] = Field(default_factory=list)\nx = P(a='1')", "x.tags.append('t')\nx.a = 5", check="assert x == P(a=5, tags=['t']) and type(x) is P and x.model_dump_json() == '{\"a\":5,\"tags\":[\"t\"]}' and P.model_validate({'a': 2}).a == 2"),
    "nested models": row("from pydantic import BaseModel\nclass Part(BaseModel):\n    n: int = 1\nclass Whole(BaseModel):\n    parts: list[Part]\nx = Whole(parts=[{}, {'n': 2}])", "x.parts[0].n = 7\ny = x.parts[1]", check="assert x.parts[0].n == 7 and type(x.parts[0]) is Part and y is x.parts[1] and Whole.model_validate(x.model_dump()) == x"),
    "validators and private attributes": row("from pydantic import BaseModel, PrivateAttr, field_validator\nlimit = 3\nclass P(BaseModel):\n    a: int\n    _seen: list = PrivateAttr(default_factory=list)\n    @field_validator('a')\n    @classmethod\n    def small(cls, v):\n        if v > limit: raise ValueError('too large')\n        return v\nx = P(a=1)", "x._seen.append(1)", check="assert x._seen == [1]\ntry: P(a=4)\nexcept ValueError as e: assert 'too large' in str(e)\nelse: raise AssertionError\nlimit = 5\nassert P(a=4).a == 4"),
    "model that refers to itself": row("from __future__ import annotations\nfrom pydantic import BaseModel\nclass Tree(BaseModel):\n    kids: list[Tree] = []\nx = Tree(kids=[{'kids': [{}]}])", "x.kids[0].kids.append(Tree())", check="assert len(x.kids[0].kids) == 2 and type(x.kids[0].kids[0]) is Tree and Tree.model_validate({'kids': [{}]}).kids[0] == Tree()"),
    "frozen model as a key": row("from pydantic import BaseModel, ConfigDict\nclass K(BaseModel):\n    model_config = ConfigDict(frozen=True)\n    a: int\nd = {K(a=1): 'x'}", "d[K(a=2)] = 'y'", check="assert d[K(a=1)] == 'x' and d[K(a=2)] == 'y'"),
    "generic and derived models": row("from typing import Generic, TypeVar\nfrom pydantic import BaseModel, computed_field\nT = TypeVar('T')\nclass Box(BaseModel, Generic[T]):\n    v: T\nclass Named(Box[int]):\n    name: str = 'n'\n    @computed_field\n    @property\n    def twice(self) -> int: return 2 * self.v\nx, y = Box[int](v='3'), Named(v=4)", "x.v += 1", check="assert x.v == 4 and type(x) is Box[int] and isinstance(x, Box) and y.twice == 8 and isinstance(y, Named) and y.model_dump() == {'v': 4, 'name': 'n', 'twice': 8}"),
    "type adapter and dataclass": row("import pydantic, pydantic.dataclasses\n@pydantic.dataclasses.dataclass\nclass D:\n    a: int\nx = D(a='1')", "x.a += 1", check="assert x == D(a=2) and type(x) is D"),
}  # fmt: skip

SYMPY: dict[str, Row] = {
    "expressions beside all that the library has": row("from sympy import *", "x, y = symbols('x y', positive=True)\nf = Function('f')", "e = f(x).diff(x) + sin(y) * pi\ng = Function('g')(x) + Rational(1, 3)", "m = Matrix([x, y])\nn = m\nfixed = ImmutableMatrix([x])", "m[0] = e", check="assert n[0] == e == Derivative(f(x), x) + pi * sin(y) and n is m and m[1] == y and e.subs(y, 0).doit() == f(x).diff(x) and sqrt(x**2) == x and fixed[0] == x and g - Function('g')(x) == S(1) / 3"),
    "function of an own class": row("from sympy import Function, Integer, Symbol\nstart = 5\ndef grown(n): return Integer(start) + n\nclass steps(Function):\n    @classmethod\n    def eval(cls, n):\n        if n.is_Integer: return grown(n)", "x = Symbol('x')\ne = steps(x) + 1", check="assert e.subs(x, 2) == 8 and type(e - 1) is steps"),
    "coordinate of a frame": row("from sympy.physics.vector import ReferenceFrame\nN = ReferenceFrame('N')", "x = N[0]\ne = x + 1", check="assert x.frame is N and e - 1 == N[0]"),
    "polynomials and solutions": row("import sympy as sp\nx = sp.Symbol('x')\np = sp.Poly(x**2 - 2, x)", "found = sp.solve(p.as_expr(), x)\nby = {x: found[1]}", "by[sp.Symbol('y')] = sp.oo", check="assert found == [-sp.sqrt(2), sp.sqrt(2)] and p.eval(3) == 7 and by[x] ** 2 == 2 and len(by) == 2"),
}  # fmt: skip

FIGURES: dict[str, Row] = {
    "figure under the inline backend": row("import matplotlib\nmatplotlib.use('module://matplotlib_inline.backend_inline')\nimport matplotlib.pyplot as plt\nfig, ax = plt.subplots()\nline, = ax.plot([1, 2], label='l')", "ax.set_title('t')\nax.legend()", check="import io\nassert ax.get_title() == 't' and fig.axes == [ax] and ax.lines[0] is line and ax.figure is fig and ax.get_legend() is not None\nfig.savefig(io.BytesIO()); plt.close('all')"),
    "colour bar, image and text": row("import matplotlib.pyplot as plt, numpy as np\nfig, ax = plt.subplots()\nim = ax.imshow(np.eye(3)); bar = fig.colorbar(im)\nnote = ax.annotate('n', (1, 1))", "note.set_text('m')\nim.set_clim(0, 2)", check="import io\nassert ax.texts[0] is note and note.get_text() == 'm' and im.get_clim() == (0, 2) and im.colorbar is bar\nfig.savefig(io.BytesIO()); plt.close('all')"),
    "many axes": row("import matplotlib.pyplot as plt\nfig, axes = plt.subplots(2, 2, sharex=True)\nplt.close(fig)", "bars = axes[0, 1].bar(['a', 'b'], [1, 2])", "axes[1, 1].plot([1])", "axes[1, 1].plot([2])", check="import io\nassert bars[0] is axes[0, 1].patches[0] and len(axes[0, 1].patches) == 2 and axes[1, 0].figure is fig and fig.axes[1] is axes[0, 1]\naxes[0, 0].set_xlim(0, 9); assert axes[1, 0].get_xlim() == (0, 9)\nfig.savefig(io.BytesIO())"),
}  # fmt: skip

TORCH: dict[str, Row] = {
    "tensors": row("import torch\nx = torch.arange(6.0).reshape(2, 3)\nkinds = [torch.tensor([1, 2], dtype=torch.int8), torch.tensor(1.5, dtype=torch.bfloat16), torch.tensor([True]), torch.tensor([1 + 2j])]", "x[0, 1] = -1", check="assert x.tolist() == [[0, -1, 2], [3, 4, 5]] and [each.dtype for each in kinds] == [torch.int8, torch.bfloat16, torch.bool, torch.complex64] and kinds[1] == 1.5"),
    "tensor and view": row("import torch\nbase = torch.zeros(10)\nview = base[2:5]", "view[0] = 1", check="assert base[2] == 1\nbase[3] = 4\nassert view[1] == 4"),
    "tensor over an array": row("import torch, numpy as np\na = np.zeros(20_000)\nt = torch.from_numpy(a)", "a[3] = 5", check="assert t[3] == 5\nt[4] = 6\nassert a[4] == 6"),
    "module and its optimiser": row("import torch\ntorch.manual_seed(0)\nnet = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.ReLU(), torch.nn.Linear(3, 1))\nopt = torch.optim.Adam(net.parameters(), 0.1)", "loss = net(torch.ones(4, 2)).sum()\nopt.zero_grad(); loss.backward(); opt.step()\nvalue = loss.item()\ndel loss", check="assert opt.param_groups[0]['params'][0] is next(net.parameters())\nbefore = net[0].weight.clone()\nopt.zero_grad(); net(torch.ones(4, 2)).sum().backward(); opt.step()\nassert not torch.equal(before, net[0].weight)"),
    "module of an own class": row("import torch\nclass Net(torch.nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.a = torch.nn.Linear(2, 2)\n        self.register_buffer('seen', torch.zeros(1))\n    def forward(self, x):\n        self.seen += 1\n        return self.a(x)\nnet = Net()", "y = net(torch.ones(1, 2)).detach()", check="assert net.seen.item() == 1 and type(net) is Net and torch.equal(net(torch.ones(1, 2)).detach(), y) and set(net.state_dict()) == {'seen', 'a.weight', 'a.bias'}"),
    "random state": row("import torch\ntorch.manual_seed(1)\na = torch.rand(2)", "b = torch.rand(2)", check="g = torch.Generator().manual_seed(1)\nassert torch.equal(a, torch.rand(2, generator=g)) and torch.equal(b, torch.rand(2, generator=g)) and torch.equal(torch.rand(2), torch.rand(2, generator=g))"),
    "generator": row("import torch\ng = torch.Generator().manual_seed(2)\na = torch.rand(1, generator=g)", "b = torch.rand(1, generator=g)", check="h = torch.Generator().manual_seed(2)\nassert [float(each) for each in (a, b, torch.rand(1, generator=g))] == [float(torch.rand(1, generator=h)) for _ in range(3)]"),
    "data set and loader": row("import torch.utils.data as tud, torch\nclass Squares(tud.Dataset):\n    def __len__(self): return 4\n    def __getitem__(self, i): return i * i\nloader = tud.DataLoader(Squares(), batch_size=2)", "first = next(iter(loader)).tolist()", check="assert first == [0, 1] and [each.tolist() for each in loader] == [[0, 1], [4, 9]]"),
    "what a computation returned": row("import torch\nw = torch.ones(2, requires_grad=True)\ny = w * 3\nview, loss = y.detach(), (y ** 2).mean()\nloss.backward()", "view += 1", check="assert str(loss) == 'tensor(9., grad_fn=<MeanBackward0>)' and str(y) == 'tensor([4., 4.], grad_fn=<MulBackward0>)'\nview += 1\nassert y.tolist() == [5, 5] and y.requires_grad and not y.is_leaf and w.grad.tolist() == [9, 9]\ntry: (y + 1).sum().backward()\nexcept RuntimeError: assert w.grad.tolist() == [9, 9]\nelse: raise AssertionError('gradients that end half-way')"),
    "loss that is gone back through later": row("import torch\ntorch.manual_seed(0)\nnet = torch.nn.Linear(3, 1)\nopt = torch.optim.SGD(net.parameters(), 0.1)\nX, Y = torch.randn(5, 3), torch.randn(5, 1)\ny_pred = net(X)", "loss = torch.nn.functional.mse_loss(y_pred, Y)", check="shown = str(loss)\nopt.zero_grad()\nloss.backward()\nopt.step()\ntorch.manual_seed(0)\nref = torch.nn.Linear(3, 1)\no = torch.optim.SGD(ref.parameters(), 0.1)\nX_, Y_ = torch.randn(5, 3), torch.randn(5, 1)\nl = torch.nn.functional.mse_loss(ref(X_), Y_)\nassert shown == str(l) and 'MseLoss' in str(loss)\nl.backward()\no.step()\nassert torch.equal(ref.weight, net.weight) and torch.equal(ref.bias, net.bias) and torch.equal(ref.weight.grad, net.weight.grad)\nassert opt.param_groups[0]['params'][0] is net.weight"),
    "loss behind which a step has trained, with chance": row("import torch, copy\ntorch.manual_seed(0)\nnet = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.Dropout(0.5), torch.nn.Linear(4, 1))\nopt = torch.optim.Adam(net.parameters(), 0.1)\nX, ref = torch.randn(6, 3), copy.deepcopy(net)", "state = torch.get_rng_state()\nfor _ in range(3):\n    opt.zero_grad(); net(X).pow(2).mean().backward(); opt.step()\nloss = net(X).pow(2).mean()", check="opt.zero_grad()\nloss.backward(retain_graph=True)\nloss.backward()\nopt.step()\ntorch.set_rng_state(state)\no = torch.optim.Adam(ref.parameters(), 0.1)\nfor _ in range(3):\n    o.zero_grad(); ref(X).pow(2).mean().backward(); o.step()\nl = ref(X).pow(2).mean()\no.zero_grad(); l.backward(retain_graph=True); l.backward(); o.step()\nassert all(torch.equal(a, b) and (a.grad is None or torch.equal(a.grad, b.grad)) for a, b in zip(net.parameters(), ref.parameters())) and all(torch.equal(a, b) for a, b in zip(net.buffers(), ref.buffers()))\nassert opt.param_groups[0]['params'][0] is net[0].weight"),
    "gradients through what steps have computed": row("import torch\nw, v, u = (torch.ones(2, requires_grad=True) for _ in range(3))\ny = w * 3\nz, loss, cube = [y + 1], (v ** 2).sum(), (u ** 3).sum()\na = v * 2\na.retain_grad()\nkept = a.sum()\ndef after(work):\n    try: work()\n    except RuntimeError as e: return str(e)", "n = y.detach().sum().item() + z[0].sum().item()\nloss.backward()\nstep = v.grad.tolist()", check="assert step == [2, 2] and n == 14\ng, = torch.autograd.grad(y.sum(), w, retain_graph=True)\n(y * 2).sum().backward()\nm = after(loss.backward), after(lambda: torch.autograd.grad(cube, u, create_graph=True)[0].sum().backward()), after(kept.backward)\nassert g.tolist() == [3, 3] and w.grad.tolist() == [6, 6] and m[0]\nassert u.grad.tolist() == [6, 6] if m[1] is None else u.grad is None and 'not saved' in m[1]\nassert v.grad.tolist() == [4, 4] if m[2] is None else v.grad.tolist() == [2, 2] and 'not saved' in m[2]\nassert y.requires_grad and not y.is_leaf", asking=(1,)),
    "gradients": row("import torch\nw = torch.ones(2, requires_grad=True)\n(w * 3).sum().backward()", "w.grad += 1", check="assert w.requires_grad and w.grad.tolist() == [4, 4]"),
    "hook and its handle": row("import torch\nnet = torch.nn.Linear(1, 1)\nother = torch.nn.Linear(1, 1)\nseen = []\ndef hook(*each): seen.append(1)", "handle = net.register_forward_hook(hook)\nkept = other.register_forward_hook(hook)\nnet(torch.ones(1))", "handle.remove()", check="net(torch.ones(1))\nassert seen == [1]\nother(torch.ones(1))\nassert seen == [1, 1]\nkept.remove()\nother(torch.ones(1))\nassert seen == [1, 1]"),
    "parameters that are shared": row("import torch\na = torch.nn.Linear(2, 2); b = torch.nn.Linear(2, 2)\nb.weight = a.weight", "with torch.no_grad(): a.weight[0, 0] = 7", check="assert b.weight is a.weight and b.weight[0, 0] == 7"),
}  # fmt: skip

TABLES = {
    "polars": POLARS,
    "xarray": XARRAY,
    "scipy": SCIPY,
    "sklearn": SKLEARN,
    "pydantic": PYDANTIC,
    "sympy": SYMPY,
    "figure": FIGURES,
}
if sys.version_info[:2] == (3, 11):  # the one for which ``libraries`` has torch
    TABLES["torch"] = TORCH


@pytest.fixture(scope="module")
def faults(
    request: pytest.FixtureRequest, addresses: list[str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, str]]:
    """Of all rows of one library."""
    folder = tmp_path_factory.mktemp(request.param)
    with mock.patch.dict(os.environ, RESUMABLE_KEY_FILE=str(Path(folder, "key"))):
        kernels = Seeds(addresses, folder)
        yield prove_all(kernels, TABLES[request.param])
        kernels.close()


@pytest.mark.parametrize(
    ("faults", "name"),
    [
        pytest.param(library, name, id=f"{library}: {name}", marks=pytest.mark.xdist_group(library))
        for library, table in TABLES.items()
        for name in table
    ],
    indirect=["faults"],
)
def test_values_of_libraries(faults: dict[str, str], name: str) -> None:
    assert not faults[name], faults[name]
