"""Settings of libraries and of the process, which are in no variable."""

from __future__ import annotations

import pytest

from tests.rows import Row, Seeds, prove, restored, row

pytestmark = pytest.mark.kernel

INLINE = "import os\nos.environ['MPLBACKEND'] = 'module://matplotlib_inline.backend_inline'"
"""As a kernel of Jupyter begins."""

SETTINGS: dict[str, Row] = {
    "plot style": row("import matplotlib.pyplot as plt\nplt.rcParams['figure.figsize'] = (3, 2)\nplt.style.use('ggplot')", "plt.rcParams['font.sans-serif'].insert(0, 'Nonesuch')", check="import matplotlib\nassert matplotlib.rcParams['figure.figsize'][0] == 3 and matplotlib.rcParams['axes.facecolor'] == '#E5E5E5' and matplotlib.rcParams['font.sans-serif'][0] == 'Nonesuch' and len(plt.rcParams['axes.prop_cycle']) == 7"),
    "parameters that are read, before and after the first drawing": row("from matplotlib import rcParams\nrcParams['font.size'] = 20", "m = rcParams['font.size']", "import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.close()", "n = rcParams['font.size']", check="import matplotlib\nassert m == n == 20 and rcParams is matplotlib.rcParams and matplotlib.is_interactive()", setup=INLINE),
    "meaning of a colour's letter": row("import matplotlib.colors as mc\nmc.get_named_colors_mapping()['r'] = (0.5, 0.0, 0.0)", "n = 1", check="import matplotlib.colors\nassert matplotlib.colors.to_rgb('r') == (0.5, 0.0, 0.0)"),
    "plot style that goes back": row("import matplotlib.pyplot as plt\nplt.rcParams['figure.dpi'] = 50", "plt.rcdefaults()", check="assert plt.rcParams['figure.dpi'] == 100"),
    "display options of pandas": row("import pandas as pd\npd.set_option('display.max_rows', 7)\npd.options.display.float_format = '{:.1f}'.format", "pd.set_option('display.precision', 2)", check="import pandas\nassert pandas.get_option('display.max_rows') == 7 and pandas.options.display.precision == 2 and '1.2' in repr(pandas.Series([1.23])) and '1.23' not in repr(pandas.Series([1.23]))"),
    "format given as a lambda": row("import pandas as pd\npd.set_option('display.float_format', lambda x: f'<{x:.0f}>')", "n = 1", check="import pandas\nassert '<1>' in repr(pandas.Series([1.23]))"),
    "printing and errors of numpy": row("import numpy as np\nnp.set_printoptions(precision=2, suppress=True)", "old = np.seterr(divide='raise')", check="import numpy\nassert repr(numpy.array([1.2345])) == 'array([1.23])' and numpy.geterr()['divide'] == 'raise'"),
    "warnings that are ignored": row("import warnings\nwarnings.filterwarnings('ignore')", "n = 1", check="import warnings as w\nassert w.filters[0][0] == 'ignore' and w.filters[0][2] is Warning\nwith w.catch_warnings(record=True) as seen:\n    w.warn('x')\nassert not seen"),
    "the last filter counts": row("import warnings\nwarnings.simplefilter('ignore')", "warnings.simplefilter('error')", "warnings.simplefilter('ignore')", check="import warnings as w\nassert w.filters[0][:3] == ('ignore', None, Warning)"),
    "environment": row("import os\nos.environ['MODE'] = 'test'\nos.environ['GONE'] = 'x'", "del os.environ['GONE']", check="import os as o\nassert o.environ['MODE'] == 'test' and 'GONE' not in o.environ"),
    "path of a module": row("import sys\nsys.path.append('lib')\nsys.path.insert(0, 'first')", "import helper_in_lib as h\nx = h.f()", check="assert x == h.f() == 1 and sys.path[0] == 'first' and sys.path[-1] == 'lib'", files={"lib/helper_in_lib.py": "def f(): return 1\n"}),
    "working folder": row("import os\nos.makedirs('sub', exist_ok=True)\nos.chdir('sub')", "n = 1", check="import os as o\nassert o.path.basename(o.getcwd()) == 'sub'"),
    "precision of decimals": row("import decimal\ndecimal.getcontext().prec = 5", "n = decimal.Decimal(1) / 3", check="assert str(decimal.Decimal(2) / 3) == '0.66667'"),
    "logging": row("import logging\nlogging.basicConfig(level=logging.INFO, format='%(levelname)s %(message)s')", "logging.getLogger('mine').setLevel('ERROR')", check="import logging as l\nassert l.getLogger().level == l.INFO and l.getLogger('mine').level == l.ERROR\nassert [h.formatter._fmt for h in l.getLogger().handlers] == ['%(levelname)s %(message)s']"),
    "magics that set up the shell": row("%precision 2\n%load_ext ext_here\n%autoawait off\n%autocall 1", "x = 1 / 3", check="assert (get_ipython().autoawait, get_ipython().autocall) == (False, 1)\nassert get_ipython().display_formatter.formatters['text/plain'].float_format == '%.2f'\nassert get_ipython().run_line_magic('hello', '') == 'hello'", files={"ext_here.py": "def load_ipython_extension(shell):\n    shell.register_magic_function(lambda line: 'hello', magic_name='hello')\n"}),
    "extension that a function loads": row("def prepare(name): get_ipython().run_line_magic('load_ext', name)\nprepare('ext_there')", "x = get_ipython().run_line_magic('hello', '')", check="assert x == get_ipython().run_line_magic('hello', '') == 'hello'", files={"ext_there.py": "def load_ipython_extension(shell):\n    shell.register_magic_function(lambda line: 'hello', magic_name='hello')\n"}),
    "recursion limit": row("import sys\nsys.setrecursionlimit(5000)", "n = 1", check="import sys as s\nassert s.getrecursionlimit() == 5000"),
}  # fmt: skip


@pytest.mark.parametrize("case", SETTINGS)
def test_settings_come_back(seeds: Seeds, case: str) -> None:
    prove(seeds, SETTINGS[case])


def test_a_secret_in_the_environment_is_not_stored_and_its_step_runs_again(seeds: Seeds) -> None:
    cell = "%%resumable keys\nimport os\nos.environ['API_KEY'] = ''.join(['qX', '7' * 9])"
    seeds()(cell)
    assert not [path for path in seeds.folder.rglob("*") if path.is_file() and b"qX" + b"7" * 9 in path.read_bytes()]
    kernel = seeds()
    assert not restored(kernel(cell))
    kernel("assert os.environ['API_KEY'] == 'qX777777777'")


def test_settings_of_an_edited_step_replace_its_former_ones_only(seeds: Seeds) -> None:
    """The step is edited in a kernel that has the old settings: what did not change is recorded all the same."""
    kernel = seeds()
    kernel(
        "%%resumable style\nimport matplotlib as mpl\nmpl.rcParams['figure.dpi'] = 50\nmpl.rcParams['font.size'] = 7"
    )
    edited = (
        "%%resumable style\nimport matplotlib as mpl\nmpl.rcParams['figure.dpi'] = 50\nmpl.rcParams['font.size'] = 8"
    )
    kernel(edited)
    kernel = seeds()
    assert restored(kernel(edited))
    kernel("import matplotlib as m\nassert m.rcParams['figure.dpi'] == 50 and m.rcParams['font.size'] == 8")


def test_a_step_that_failed_first_keeps_all_that_it_set(seeds: Seeds) -> None:
    kernel = seeds()
    cell = "%%resumable style\nimport matplotlib as mpl\nmpl.rcParams['figure.dpi'] = 50\nassert ready"
    kernel("ready = False")
    assert kernel.attempt(cell).error
    kernel("ready = True")
    kernel(cell)
    kernel = seeds()
    kernel("ready = True")
    assert restored(kernel(cell))
    kernel("import matplotlib as m\nassert m.rcParams['figure.dpi'] == 50")


def test_what_is_shown_in_another_style_is_shown_anew(seeds: Seeds) -> None:
    show = "%%resumable show\nimport pandas as pd\npd.Series([1.23456], name='s')"
    count = "%%resumable count\nprint('counted')"
    kernel = seeds()
    for cell in ("%%resumable style\nimport pandas as pd\npd.set_option('display.precision', 2)", show, count):
        kernel(cell)
    kernel = seeds()
    kernel("%%resumable style\nimport pandas as pd\npd.set_option('display.precision', 3)")
    shown = kernel(show)
    assert "settings of pandas" in " ".join(shown.messages)
    assert restored(kernel(count))
    kernel = seeds()
    kernel("%%resumable style\nimport pandas as pd\npd.set_option('display.precision', 3)")
    assert restored(kernel(show))


def test_parameters_that_a_step_read_are_the_same_after_a_drawing_and_in_a_new_kernel(seeds: Seeds) -> None:
    cells = (
        "%%resumable style\nfrom matplotlib import rcParams\nrcParams['font.size'] = 20",
        "%%resumable read\nn = rcParams['font.size']",
        "%%resumable draw\nimport matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.close()",
    )
    kernel = seeds()
    kernel(INLINE, *cells)
    assert kernel("rcParams['interactive']").value == "True"
    for cell in cells:
        assert restored(kernel(cell))
    kernel = seeds()
    for cell in (INLINE, *cells):
        assert restored(kernel(cell)) == (cell != INLINE)
