"""What steps do to libraries themselves: attributes that they set there, and calls that set a library up."""

from __future__ import annotations

import os
from collections.abc import Iterator
from unittest import mock

import pytest

from tests.rows import Row, Seeds, prove, prove_all, restored, row

pytestmark = pytest.mark.kernel

PATCHES: dict[str, Row] = {
    "method of a library's class": row("import fractions\nunit = 'm'\ndef shout(self): return f'{self}{unit}!'\nfractions.Fraction.shout = shout", "s = fractions.Fraction(1, 2).shout()", "unit = 'cm'", check="assert s == '1/2m!' and fractions.Fraction(1, 3).shout() == '1/3cm!'"),
    "lambda and property": row("from fractions import Fraction as F\nF.half = property(lambda self: self / 2)\nF.third = lambda self: self / 3", "n = 1", check="assert F(1).half == F(1, 2) and F(1).third() == F(1, 3)"),
    "constant of a module": row("import textwrap, string\ntextwrap.WIDTH = 3\nstring.digits = '01'", "string.digits = '012'", check="import textwrap as t, string as s\nassert t.WIDTH == 3 and s.digits == '012'"),
    "function of a module that is wrapped": row("import json\n_dumps = json.dumps\ndef dumps(*a, **k): return _dumps(*a, **k, sort_keys=True)\njson.dumps = dumps", "s = json.dumps({'b': 1, 'a': 2})", check="import json as j\nassert s == j.dumps({'b': 1, 'a': 2}) == '{\"a\": 2, \"b\": 1}'"),
    "function of a module that is wrapped and put back": row("import shlex\n_quote = shlex.quote\nshlex.quote = lambda s: '<' + _quote(s) + '>'", "s = shlex.quote('a b')", "shlex.quote = _quote", "t = shlex.quote('a b')", check="import shlex as h\nassert s == '<' + t + '>' and t == h.quote('a b') == _quote('a b')"),
    "attribute that is deleted": row("import colorsys\ncolorsys.extra = 1", "del colorsys.ONE_SIXTH", "del colorsys.extra", check="import colorsys as c\nassert not hasattr(c, 'extra') and not hasattr(c, 'ONE_SIXTH')"),
    "class of one's own with a library's metaclass": row("from ipywidgets import DOMWidget\nclass Mail(DOMWidget):\n    seen = []", "def hello(self): return 'hello'\nMail.hello = hello\nMail.seen.append(1)", "Mail()", "Mail.later = Mail.seen", check="assert (Mail().hello(), Mail.seen) == ('hello', [1]) and Mail.later is Mail.seen"),
    "setattr": row("import fractions\nsetattr(fractions.Fraction, 'kind', 'patched')", "n = 1", check="import fractions as f\nassert f.Fraction(1).kind == 'patched'"),
    "in a function of another step": row("import keyword\ndef patch(n):\n    keyword.mark = n", "patch(5)", "patch(6)", check="import keyword as k\nassert k.mark == 6"),
    "attribute of an object in a module": row("import reprlib\nreprlib.aRepr.maxlist = 2", "n = reprlib.repr([1, 2, 3])", check="import reprlib as r\nassert n == r.repr([1, 2, 3]) == '[1, 2, ...]'"),
    "output that is turned aside and back": row("import sys, io\nold = sys.stdout\nsys.stdout = buffer = io.StringIO()\nprint('hidden')\nsys.stdout = old\ntext = buffer.getvalue()\ndel old", "n = text", check="import sys as s\nassert n == 'hidden\\n' and s.stdout is not buffer"),
    "all results are shown": row("from IPython.core.interactiveshell import InteractiveShell\nInteractiveShell.ast_node_interactivity = 'all'", "n = 1", check="assert get_ipython().ast_node_interactivity == 'all'"),
    "magics of the notebook": row("from IPython.core.magic import register_line_magic\nword = 'hello '\n@register_line_magic\ndef hello(line): return word + line\ndef prepare(): get_ipython().register_magic_function(lambda line, cell: len(cell), 'cell', 'size')\nprepare()", "x = get_ipython().run_line_magic('hello', 'you')", "word = 'bye '", check="assert x == 'hello you' and get_ipython().run_line_magic('hello', 'you') == 'bye you' and get_ipython().run_cell_magic('size', '', 'abc') == 3"),
    "how a type is shown": row("import fractions\nclass Shown: pass\nmark = 'F'\nget_ipython().display_formatter.formatters['text/plain'].for_type(fractions.Fraction, lambda x, p, cycle: p.text(mark))\nget_ipython().display_formatter.formatters['text/html'].for_type(Shown, lambda x: '<b>')", "n = 1", check="import fractions as f\nshow = get_ipython().display_formatter.format\nassert show(f.Fraction(1))[0]['text/plain'] == 'F' and show(Shown())[0]['text/html'] == '<b>'"),
    "callbacks and transformers": row("seen = []\ndef note(info): seen.append(1)\nget_ipython().events.register('pre_run_cell', note)\nget_ipython().input_transformers_post.append(lambda lines: [each.replace('§', 'seen') for each in lines])", "n = 1", check="m = len(§)\nassert m > 0 and [each.__name__ for each in get_ipython().events.callbacks['pre_run_cell']].count('note') == 1"),
    "callback that is taken away again": row("def bell(info): rung.append(1)\nrung = []\nget_ipython().events.register('pre_run_cell', bell)", "get_ipython().events.unregister('pre_run_cell', bell)", check="assert 'bell' not in [each.__name__ for each in get_ipython().events.callbacks['pre_run_cell']]"),
    "magics that a library registers when it is imported": row("import sys\nfrom pathlib import Path\nhome = Path('site-packages').resolve()\nhome.mkdir(exist_ok=True)\nn = (home / 'bells.py').write_text('from IPython import get_ipython\\n\\ndef ring(line):\\n    return line + chr(33)\\n\\nget_ipython().register_magic_function(ring)')\nsys.path.insert(0, str(home))", "import bells", "rung = get_ipython().run_line_magic('ring', 'ding')", check="assert rung == 'ding!' and get_ipython().run_line_magic('ring', 'dong') == 'dong!'"),
}  # fmt: skip

KIT = """from IPython import get_ipython
from IPython.core.magic import Magics, line_magic, magics_class

words = []

@magics_class
class Kit(Magics):
    @line_magic
    def greet(self, line):
        return words[0] + line

def autoconfig(word):
    words.append(word)
    get_ipython().register_magics(Kit)
"""
"""A library that keeps for itself what it was told, beside the magics that it registers."""

SET_UPS: dict[str, Row] = {
    "magics that a library's call registers": row("import kit\nkit.autoconfig('hi ')", "x = get_ipython().run_line_magic('greet', 'you')", check="assert x == 'hi you' and get_ipython().run_line_magic('greet', 'me') == 'hi me'", files={"kit.py": KIT}, replayed=(0,)),
    "magics that a library's call registers for another": row("import toll\ntoll.start()", "x = get_ipython().run_line_magic('gong', 'you')", check="assert x == 'you!' and get_ipython().run_line_magic('gong', 'me') == 'me!'", setup="import sys; sys.path.insert(0, 'site-packages')", files={"site-packages/toll.py": "def start():\n    import bronze\n    bronze.hang()", "site-packages/bronze.py": "from IPython import get_ipython\ndef gong(line): return line + '!'\ndef hang(): get_ipython().register_magic_function(gong)"}, replayed=(0,)),
    "callback that is an object's method": row("class Count:\n    n = 0\n    def note(self, *_): self.n += 1\ncount = Count()\nget_ipython().events.register('pre_run_cell', count.note)", "m = 1", check="assert count.n > 0 and count.note in get_ipython().events.callbacks['pre_run_cell']", replayed=(0,)),
    "accessor of frames": row("import pandas as pd\n@pd.api.extensions.register_dataframe_accessor('mine')\nclass Mine:\n    def __init__(self, frame): self.frame = frame\n    def size(self): return len(self.frame)", "n = pd.DataFrame({'a': [1, 2]}).mine.size()", check="import pandas as p\nassert n == 2 and p.DataFrame({'a': [1]}).mine.size() == 1", replayed=(0,)),
    "handler of a logger, in a function": row("import logging, io\ndef loud():\n    global buffer\n    buffer = io.StringIO()\n    logging.getLogger('loud').addHandler(logging.StreamHandler(buffer))", "loud()", "logging.getLogger('loud').error('x')\nn = 1", check="logging.getLogger('loud').error('y')\nassert buffer.getvalue().endswith('y\\n')", replayed=(1,)),
    "first day of a week": row("import calendar\ncalendar.setfirstweekday(calendar.SUNDAY)", "text = calendar.month(2024, 2)", check="assert text.split()[2] == calendar.month(2024, 3).split()[2] == 'Su'", replayed=(0,)),
    "object that a module and a variable share": row("import cmd\ncmd.SHARED = shared = [1]", "n = 1", check="import cmd as c\nc.SHARED.append(2)\nassert shared == [1, 2]", replayed=(0,)),
}  # fmt: skip


@pytest.fixture(scope="module")
def patched(addresses: list[str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    folder = tmp_path_factory.mktemp("patches")
    with mock.patch.dict(os.environ, RESUMABLE_KEY_FILE=str(folder / "key")):
        kernels = Seeds(addresses, folder)
        yield prove_all(kernels, PATCHES)
        kernels.close()


@pytest.mark.xdist_group("patches")
@pytest.mark.parametrize("case", PATCHES)
def test_patches_come_back(patched: dict[str, str], case: str) -> None:
    assert not patched[case], patched[case]


@pytest.mark.parametrize("case", SET_UPS)
def test_a_step_that_sets_up_what_nothing_shows_is_replayed_in_a_new_kernel(seeds: Seeds, case: str) -> None:
    prove(seeds, SET_UPS[case])


def test_who_uses_a_patched_attribute_runs_again_when_it_is_patched_otherwise(seeds: Seeds) -> None:
    patch = "%%resumable patch\nimport fractions\nfractions.Fraction.double = lambda self: self * {}"
    use = "%%resumable use\nimport fractions\nx = fractions.Fraction(1).double()"
    other = "%%resumable other\ny = 1"
    kernel = seeds()
    for cell in (patch.format(2), use, other):
        kernel(cell)
    kernel = seeds()
    kernel(patch.format(3))
    shown = kernel(use)
    assert "fractions.Fraction.double changed" in " ".join(shown.messages)
    assert restored(kernel(other))
    kernel("assert x == 3")
    kernel = seeds()
    assert restored(kernel(patch.format(3)))
    assert restored(kernel(use))
    assert restored(kernel(patch.format(3)))


def test_a_set_up_is_not_replayed_in_the_kernel_that_has_it(seeds: Seeds) -> None:
    cell = "%%resumable set-up\nimport atexit\natexit.register(len, ())"
    kernel = seeds()
    kernel(cell)
    assert restored(kernel(cell))
    kernel = seeds()
    assert not restored(kernel(cell))
    assert restored(kernel(cell))
