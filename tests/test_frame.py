"""Variables of running frames, and ``with`` bodies that must not run. Every program here is a real file."""

from __future__ import annotations

import asyncio
import importlib.util
import sys
import textwrap
import threading
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from resumable_nb import frame as frames
from resumable_nb.errors import UsageError


class Step:
    """Skips its body, and can write the frame's variables, as a step that is done does."""

    def __init__(self, *deletes: str, pending: bool = False, **values: Any) -> None:
        self.pending, self.values, self.deletes = pending, values, deletes
        self._skipping: frames.Skipping | None = None

    def __enter__(self) -> Step:
        self._enter(sys._getframe(1))
        return self

    def __exit__(self, kind: Any, error: BaseException | None, tb: Any) -> bool:
        return self._skipping.restore(error) if self._skipping is not None else False

    async def __aenter__(self) -> Step:
        self._enter(sys._getframe(1))
        return self

    async def __aexit__(self, kind: Any, error: BaseException | None, tb: Any) -> bool:
        return self.__exit__(kind, error, tb)

    def _enter(self, frame: FrameType) -> None:
        frames.with_statement(frame, "a")
        if not self.pending:
            frames.assign(frame, self.values, self.deletes)
            self._skipping = frames.skip_body(frame, "a")


class Programs:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def run(self, text: str) -> Any:
        """Import a file of this text, with ``step`` and a list ``ran`` in it."""
        path = self._folder / "program.py"
        path.write_text(textwrap.dedent(text))
        spec = importlib.util.spec_from_file_location("program", path)
        assert spec is not None
        assert spec.loader is not None
        module: Any = importlib.util.module_from_spec(spec)
        module.step, module.ran = Step, []
        spec.loader.exec_module(module)
        return module


@pytest.fixture
def programs(tmp_path: Path) -> Programs:
    return Programs(tmp_path)


SKIPPED = {
    "module": """
        with step() as s:
            ran.append(1)
        end = s
        """,
    "function": """
        def f():
            with step():
                ran.append(1)
            return 1
        end = f()
        """,
    "header of several lines": """
        with step(
            x=1,
            y=2,
        ) as s:
            ran.append(1)
        end = s
        """,
    "name on a line of its own": """
        with (
            step(x=1)
            as s
        ):
            ran.append(1)
        end = s
        """,
    "several items": """
        import contextlib
        with (
            contextlib.nullcontext(1) as one,
            step(x=1) as s,
        ):
            ran.append(1)
        end = one, s
        """,
    "loop": """
        end = []
        for i in range(3):
            with step():
                ran.append(i)
            end.append(i)
        assert end == [0, 1, 2]
        """,
    "loop in the body": """
        with step():
            while True:
                ran.append(1)
                if ran: break
        end = 1
        """,
    "nested": """
        with step(pending=True):
            with step():
                ran.append(1)
            end = 1
        """,
    "after comments and a docstring": """
        with step():
            # a comment

            "text"
            ran.append(1)
        end = 1
        """,
    "text alone": """
        with step():
            "text"
        end = 1
        """,
    "nothing to do": """
        try:
            with step() as s:
                pass
                x: int
        finally:
            end = s
        """,
    "decorated function first": """
        def deco(f):
            ran.append(f)
        with step():
            @deco
            def g(): pass
        end = 1
        """,
    "class body": """
        class C:
            with step(x=1):
                ran.append(1)
            end = x
        end = C.end
        """,
    "generator": """
        def g():
            yield 1
            with step(x=5):
                x = 0
                ran.append(1)
            yield x
        end = list(g())
        assert end == [1, 5]
        """,
    "coroutine": """
        import asyncio
        async def f():
            async with step(x=5) as s:
                await asyncio.sleep(0)
                x = ran.append(1)
            await asyncio.sleep(0)
            return x, s
        end = asyncio.run(f())
        assert end[0] == 5
        """,
    "try": """
        try:
            with step():
                ran.append(1)
            end = 1
        except BaseException:
            ran.append(2)
        """,
    "recursion": """
        def f(n):
            with step(pending=n > 0):
                f(n - 1) if n else ran.append(1)
            return n
        end = f(3) + 1
        """,
    "lambda and comprehension": """
        def f(xs):
            with step():
                y = [ran.append(x) for x in xs]
            return [x for x in xs]
        end = f([1])
        """,
}


@pytest.mark.parametrize("name", SKIPPED)
def test_body_is_skipped_and_the_rest_runs(programs: Programs, name: str) -> None:
    module = programs.run(SKIPPED[name])
    assert module.ran == []
    assert module.end


@pytest.mark.parametrize("name", SKIPPED)
def test_body_is_skipped_under_another_tracer(programs: Programs, name: str) -> None:
    """A debugger or a coverage tool traces as before when the block is left."""
    traced: list[int] = []

    def tracer(frame: FrameType, event: str, argument: Any) -> Any:
        if frame.f_code.co_filename.endswith("program.py"):
            traced.append(frame.f_lineno)
        return tracer

    before = sys.gettrace()
    sys.settrace(tracer)
    try:
        module = programs.run(SKIPPED[name])
        after = sys.gettrace()
    finally:
        sys.settrace(before)
    assert after is tracer
    assert module.ran == []
    lines = textwrap.dedent(SKIPPED[name]).splitlines()
    assert max(number for number, line in enumerate(lines, 1) if "end = " in line) in traced


def test_pending_body_runs(programs: Programs) -> None:
    assert programs.run("with step(pending=True):\n    ran.append(1)").ran == [1]


def test_errors_of_others_pass(programs: Programs) -> None:
    module = programs.run(
        """
        def f():
            try:
                with step():
                    ran.append(1)
                1 / 0
            except ZeroDivisionError:
                return "caught"
        end = f()
        """
    )
    assert module.end == "caught"


def test_other_threads_are_not_traced(programs: Programs) -> None:
    """Skipping in one thread leaves a body that has to run in another thread alone."""
    module = programs.run(
        """
        import threading
        inside, go_on = threading.Event(), threading.Event()
        def other():
            with step(pending=True):
                inside.set()
                go_on.wait(10)
                ran.append("other")
        thread = threading.Thread(target=other)
        thread.start()
        inside.wait(10)
        with step():
            ran.append("here")
        go_on.set()
        thread.join()
        """
    )
    assert module.ran == ["other"]
    assert threading.active_count() >= 1


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("with step(): ran.append(1)", "put the body on a line of its own, or under ``if s.pending:``"),
        ("with step(\n    x=1\n): ran.append(1)", "put the body on a line of its own"),
        ("for i in 'a':\n    with step():\n        break", "its body has a break"),
        ("for i in 'a':\n    with step():\n        for j in 'a': break\n        else: continue", "has a continue"),
        ("def f():\n    with step():\n        ran.append(1)\n        return 1\nf()", "its body has a return"),
        ("def f():\n    with step():\n        if ran:\n            x = yield\nlist(f())", "its body has a yield"),
    ],
)
@pytest.mark.parametrize("pending", [True, False])
def test_body_that_cannot_be_skipped_is_refused_at_once(
    programs: Programs, body: str, message: str, pending: bool
) -> None:
    """Also when it would run: the refusal must not come only after a crash."""
    text = body.replace("step()", f"step(pending={pending})").replace("x=1", f"x=1, pending={pending}")
    with pytest.raises(UsageError, match=message.replace("(", r"\(")) as caught:
        programs.run(text)
    assert "program.py:" in str(caught.value)


def test_ways_out_that_stay_inside_are_fine(programs: Programs) -> None:
    module = programs.run(
        """
        with step():
            for i in range(3):
                if i: continue
                break
            def f():
                return (yield 1)
            g = lambda: (yield 2)
            ran.append(1)
        end = 1
        """
    )
    assert module.ran == []


def test_two_steps_in_one_statement_are_refused(programs: Programs) -> None:
    """The second would be entered although the first is done."""
    with pytest.raises(UsageError, match="give each step a with statement of its own"):
        programs.run("with step(), step():\n    ran.append(1)")


def test_code_of_an_older_source_is_refused(programs: Programs, tmp_path: Path) -> None:
    text = "def f():\n    with step():\n        ran.append(1)\n    return 1\n"
    module = programs.run(text)
    (tmp_path / "program.py").write_text(f"# new\n\n{text}")
    with pytest.raises(UsageError, match="or has changed"):
        module.f()


def test_code_without_source_is_refused() -> None:
    with pytest.raises(UsageError, match="its source cannot be read"):
        exec(compile("with step():\n    ran", "<nowhere>", "exec"), {"step": Step})


def test_edited_file_is_read_again(programs: Programs) -> None:
    assert programs.run("with step():\n    ran.append(1)\nend = 1").ran == []
    assert programs.run("\n\n\nx = 1\nwith step():\n    ran.append(1)\nend = 2").end == 2


# ---- variables


def test_variables_of_a_module_are_the_live_ones(programs: Programs) -> None:
    module = programs.run("import sys\nframe = sys._getframe()")
    assert not frames.is_function(module.frame)
    assert frames.variables(module.frame) is vars(module)
    assert "anything" in frames.own_names(module.frame)


def test_variables_of_a_class_body(programs: Programs) -> None:
    module = programs.run("import sys\nclass C:\n    frame = sys._getframe()\n    x = 1\n    y = len")
    assert not frames.is_function(module.C.frame)
    assert {"frame", "x"} <= set(frames.own_names(module.C.frame))
    assert "len" not in frames.own_names(module.C.frame)


def outer() -> tuple[FrameType, Any, Any]:
    free, cell, unbound = 1, 2, 3

    def inner(parameter: int, *rest: int) -> tuple[FrameType, Any, Any]:
        local = 4
        nonlocal_read = free
        frame = sys._getframe()
        snapshot = frames.variables(frame)
        frames.assign(frame, {"local": 40, "free": 10, "cell": 20, "parameter": 50, "new": 60, "nowhere": 1})
        if not parameter:
            new = 0
        return frame, snapshot, (local, free, cell, parameter, new, nonlocal_read)

    del unbound
    cell = 3
    result = inner(5, 6)
    assert (free, cell) == (10, 20)
    return result


def test_variables_of_a_function_are_a_copy_and_can_be_set() -> None:
    """Parameters, locals, cells and free variables; also one that is not bound yet."""
    frame, snapshot, seen = outer()
    assert frames.is_function(frame)
    assert {name: snapshot[name] for name in ("free", "cell", "parameter", "rest", "local")} == {
        "free": 1, "cell": 3, "parameter": 5, "rest": (6,), "local": 4,
    }  # fmt: skip
    assert "new" not in snapshot
    assert seen == (40, 10, 20, 50, 60, 1)
    assert {"free", "cell", "local", "new"} <= set(frames.own_names(frame))
    assert "nowhere" not in frames.own_names(frame)


def test_variables_are_set_under_a_tracer() -> None:
    before = sys.gettrace()
    sys.settrace(lambda *_: None)
    try:
        assert outer()[2] == (40, 10, 20, 50, 60, 1)
    finally:
        sys.settrace(before)


def test_assigned_in_a_coroutine_and_a_generator() -> None:
    async def coroutine() -> int:
        x = 1
        await asyncio.sleep(0)
        frames.assign(sys._getframe(), {"x": 2})
        await asyncio.sleep(0)
        return x

    def generator() -> Any:
        x = 1
        yield x
        frames.assign(sys._getframe(), {"x": 2})
        yield x

    assert asyncio.run(coroutine()) == 2
    assert list(generator()) == [1, 2]


def test_module_variables_are_set_and_deleted(programs: Programs) -> None:
    module = programs.run("y = 1\nwith step('y', 'absent', x=2):\n    ran.append(1)\nend = x")
    assert module.end == 2
    assert not hasattr(module, "y")


def test_function_variable_is_deleted_or_refused(programs: Programs) -> None:
    """From 3.12 on no local variable can be unbound from outside: then nothing is changed, and it is said."""
    text = "def f():\n    x = y = 1\n    with step('y', x=2):\n        del y\n    return x, 'y' in locals()\nend = f()"
    if sys.version_info >= (3, 12):
        with pytest.raises(UsageError, match="deleted y of function f"):
            programs.run(text)
    else:
        assert programs.run(text).end == (2, False)


def test_deleting_what_is_not_bound_is_fine(programs: Programs) -> None:
    text = "def f():\n    with step('y', 'nowhere', x=2):\n        x = y = 1\n        del y\n    return x\nend = f()"
    assert programs.run(text).end == 2
