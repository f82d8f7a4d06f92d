"""Classes that a library enters into registries of its own, their objects, and the databases that these are kept in.

They are not saved: what made them is replayed, each once and in order, so that all of them are of one registry.
"""

from __future__ import annotations

import sqlite3

import pytest

from tests.rows import Row, Seeds, restored, row

pytestmark = pytest.mark.kernel

LIBRARY = {
    "site-packages/mapper.py": """
import sqlite3, threading, weakref

everywhere = weakref.WeakKeyDictionary()

class Registry:
    def __init__(self): self.tables, self.known = {}, weakref.WeakValueDictionary(); everywhere[self] = True

class Manager:
    def __init__(self, kind): self.kind, self.configured, self.hook = weakref.ref(kind), 0, lambda: kind

class Base:
    def __init_subclass__(cls):
        if cls.__mro__[1] is Base:
            cls.registry = Registry()
            return
        name = cls.__name__
        assert name not in cls.registry.tables, f'Table {name!r} is already defined'
        cls.registry.tables[name] = [each for each in vars(cls) if not each.startswith('_')]
        cls.registry.known[name] = cls
        cls.manager = Manager(cls)
        everywhere[cls.manager] = True
    def __init__(self, **values): self.__dict__.update(values)

class Engine:
    def __init__(self, path):
        self.path, self.local, self.cache = path, threading.local(), {}
        self.connection = sqlite3.connect(path, check_same_thread=False)

class Session:
    def __init__(self, engine): self.engine, self.new, self.seen = engine, [], weakref.WeakSet()
    def __enter__(self): return self
    def __exit__(self, *_): self.seen.clear()
    def add(self, *things): self.new += things
    def commit(self):
        for each in self.new:
            type(each).manager.configured += 1
            self.run(f"insert into {type(each).__name__} values (?)", each.name)
        self.new.clear()
        self.engine.connection.commit()
    def run(self, text, *values):
        self.engine.cache[text] = len(self.engine.cache)
        return self.engine.connection.execute(text, values).fetchall()
    def all(self, kind):
        found = [kind(name=name) for (name,) in self.run(f"select name from {kind.__name__}")]
        self.seen.update(found)
        return found

class Model(Base):
    registry = Registry()

def create_all(registry, engine):
    for name in registry.tables:
        registry.known[name]
        there = engine.connection.execute('select 1 from sqlite_master where name = ?', (name,)).fetchall()
        if not there:
            engine.connection.execute(f'create table {name} (name)')
"""
}
PATH = "import sys\nsys.path.insert(0, 'site-packages')"
CLASSES = (
    "import mapper",
    "class Base(mapper.Base): pass",
    "class User(Base):\n    name = ''\n    def hello(self): return f'hello {self.name}'",
    "class Pet(Base):\n    name = ''",
)


def notebook(path: str) -> tuple[str, ...]:
    return (
        *CLASSES,
        f"engine = mapper.Engine({path!r})",
        "mapper.create_all(Base.registry, engine)",
        "with mapper.Session(engine) as session:\n    session.add(User(name='ann'), User(name='bob'), Pet(name='rex'))\n    session.commit()",
        "s = mapper.Session(engine)\nusers = s.all(User)",
        "names = [each.name for each in users]\npets = len(s.all(Pet))",
    )


CHECK = "assert names == ['ann', 'bob'] and pets == 1\nassert [type(each) is User for each in users] == [True, True] and users[0].hello() == 'hello ann' and sorted(Base.registry.tables) == ['Pet', 'User'] and Base.registry.known['User'] is User and User.__base__ is Base and s.engine is engine and [each.name for each in s.all(User)] == ['ann', 'bob'] and len(s.all(Pet)) == 1"


def put_library(seeds: Seeds) -> None:
    for name, text in LIBRARY.items():
        (seeds.folder / name).parent.mkdir(exist_ok=True)
        (seeds.folder / name).write_text(text)


def replays(case: Row, kernels: Seeds) -> None:
    """As ``prove``, for steps that are replayed as others look at what they have made."""
    for done in range(len(case.steps) + 1):
        kernel = kernels()
        kernel(case.setup)
        for index, text in enumerate(case.steps[: done + 1]):
            shown = kernel(f"%%resumable step-{index}\n{text}")
            assert restored(shown) == (index < done), shown.messages
            assert not any("another" in each for each in shown.messages), shown.messages
        if done >= len(case.steps) - 1:
            kernel(case.check)


@pytest.mark.parametrize("path", [":memory:", "base.sqlite"])
def test_classes_of_a_registry_and_what_is_kept_in_a_database(seeds: Seeds, path: str) -> None:
    """All are of one world; rows in memory are there again, rows in a file are not written twice."""
    put_library(seeds)
    replays(row(*notebook(path), check=CHECK, setup=PATH), seeds)
    if path != ":memory:":
        with sqlite3.connect(seeds.folder / path) as base:
            assert base.execute("select count(*) from User").fetchone() == (2,)


def test_registry_of_the_librarys_own_class(seeds: Seeds) -> None:
    """It leads to classes that the code does not name."""
    put_library(seeds)
    steps = (
        "import mapper\nfrom mapper import Model",
        "class User(Model): name = ''",
        "engine = mapper.Engine(':memory:')",
        "mapper.create_all(Model.registry, engine)",
        "s = mapper.Session(engine)\ns.add(User(name='ann'))\ns.commit()",
    )
    replays(row(*steps, check="assert [each.name for each in s.all(User)] == ['ann']", setup=PATH), seeds)


def test_finished_steps_that_use_such_classes_are_skipped_in_the_same_kernel(seeds: Seeds) -> None:
    """What the library makes of a class as it goes is no change of it."""
    put_library(seeds)
    kernel = seeds()
    kernel(PATH)
    steps = [
        f"%%resumable step-{i}\n{text}"
        for i, text in enumerate((*CLASSES, "u = User(name='x')\nu.manager.configured += 1", "print(u.hello())"))
    ]
    kernel(*steps)
    assert [restored(kernel(each)) for each in steps] == [True] * len(steps)


def test_edit_of_such_a_class_is_a_miss(seeds: Seeds) -> None:
    put_library(seeds)
    steps = [f"%%resumable step-{i}\n{text}" for i, text in enumerate((*CLASSES, "print(User(name='x').hello())"))]
    kernel = seeds()
    kernel(PATH, *steps)
    steps[2] = steps[2].replace("hello {", "good day {")
    kernel = seeds()
    kernel(PATH, *steps[:4])
    shown = kernel(steps[4])
    assert "good day x" in shown.text
    assert "function User changed" in shown.messages[-1]


def test_replay_of_what_wrote_to_a_file_leaves_the_file_as_it_is(seeds: Seeds) -> None:
    """The session is made again, and its rows are not. An object that stands for one of them cannot come back."""
    put_library(seeds)
    bodies = (
        *CLASSES,
        "engine = mapper.Engine('base.sqlite')\nmapper.create_all(Base.registry, engine)",
        "s = mapper.Session(engine)\nann = User(name='ann')\ns.add(ann)\ns.commit()",
    )
    steps = [f"%%resumable step-{i}\n{text}" for i, text in enumerate(bodies)]
    seeds()(PATH, *steps)
    kernel = seeds()
    kernel(PATH, *steps)
    assert kernel("[each.name for each in s.all(User)], type(s.all(User)[0]) is User").value == "(['ann'], True)"
    shown = kernel.attempt("ann.name")
    assert shown.error == "NotSaved"
    assert "to make ann again, it would write to" in shown.said
    with sqlite3.connect(seeds.folder / "base.sqlite") as base:
        assert base.execute("select count(*) from User").fetchone() == (1,)


FAILING = {
    "a setting that was another one": ("{conf.prefix}", "conf.prefix = 'dr '", "conf.prefix = ''", "input conf.prefix changed"),
    "a file that was gone": ("{open('in.txt').read()}", "os.rename('in.txt', 'gone')", "os.rename('gone', 'in.txt')", "FileNotFoundError"),
}  # fmt: skip


@pytest.mark.parametrize("name", FAILING)
def test_what_may_write_to_a_file_runs_at_its_place_when_somebody_says_so(seeds: Seeds, name: str) -> None:
    """What it reads is another thing when the replay is due, and back again for the next run."""
    put_library(seeds)
    (seeds.folder / "conf.py").write_text("prefix = ''")
    (seeds.folder / "in.txt").write_text("")
    reads, lose, bring_back, why = FAILING[name]
    bodies = (
        *CLASSES,
        "engine = mapper.Engine('base.sqlite')\nmapper.create_all(Base.registry, engine)",
        f's = mapper.Session(engine)\nann = User(name=f"{reads}ann")\ns.add(ann)\ns.commit()',
    )
    steps = [f"%%resumable step-{i}\n{text}" for i, text in enumerate(bodies)]
    seeds()(PATH, "import conf, os", *steps)
    kernel = seeds()
    kernel(PATH, "import conf, os", *steps, lose)
    shown = kernel.attempt("ann.name")
    assert shown.error == "NotSaved"
    assert why in shown.said
    assert "`%resumable rerun step-" in shown.said
    kernel(bring_back)
    assert [restored(kernel(each)) for each in steps] == [True] * len(steps)
    with sqlite3.connect(seeds.folder / "base.sqlite") as base:
        assert base.execute("select name from User").fetchall() == [("ann",)]
