"""A stand-in for the session that rewritten code calls, and a shell that rewrites."""

from __future__ import annotations

import ast
import asyncio
import contextlib
import contextvars
import copy
import sys
import types
from collections.abc import Iterator
from typing import Any

import pytest

from resumable_nb.magics.blocks import BlockRewriter
from resumable_nb.magics.rewrite import CellRewriter, mark
from tests.shells import shell

HIDDEN = {"_", "_oh", "_dh", "In", "Out"}
GUARD = "__import__('resumable_nb.session', fromlist=['x']).cell_pending()"


class Step:
    """A step that remembers, in its session, which names had changed when it ended."""

    def __init__(self, session: Session, name: str) -> None:
        self.session, self.name = session, name
        self.frame: types.FrameType | None = None
        self.id = ""

    def __enter__(self) -> Step:
        assert self.frame is not None
        self.before = {name: copy.deepcopy(value) for name, value in self.locals().items()}
        self.pending = self.name not in self.session.done
        self.session.active.append(self)
        if not self.pending and self.session.blocks[self.id]["kind"] in ("cell", "class"):
            record = self.session.done[self.name]
            self.frame.f_locals.update(record.values)
            for name in record.deleted:
                self.frame.f_locals.pop(name, None)
        return self

    def __exit__(self, kind: Any, error: Any, tb: Any) -> bool:
        self.session.active.remove(self)
        if self.pending and kind is None:
            after = self.locals()
            same = {name for name in after.keys() & self.before.keys() if after[name] == self.before[name]}
            self.session.done[self.name] = types.SimpleNamespace(
                values={name: copy.deepcopy(after[name]) for name in after.keys() - same},
                deleted=self.before.keys() - after.keys(),
                left=self.session.left.pop(self.id, ""),
                result=self.session.results.pop(self.id, None),
            )
        self.frame = None
        return False

    async def __aenter__(self) -> Step:
        await asyncio.sleep(0)
        return self.__enter__()

    async def __aexit__(self, *error: Any) -> bool:
        return self.__exit__(*error)

    def locals(self) -> dict[str, Any]:
        assert self.frame is not None
        plain = (int, str, list, dict, tuple)
        own = {k: v for k, v in self.frame.f_locals.items() if type(v) in plain}
        return {k: v for k, v in own.items() if k not in HIDDEN and not k.startswith(("__", "_i"))}


class Session(types.ModuleType):
    """Stands in for the session module that the generated code calls."""

    def __init__(self) -> None:
        super().__init__("resumable_nb.session")
        self.done: dict[str, Any] = {}
        self.blocks: dict[str, dict[str, Any]] = {}
        self.latest: contextvars.ContextVar[dict[str, Step | None]] = contextvars.ContextVar("latest")
        self.active: list[Step] = []
        self.left: dict[str, str] = {}
        self.results: dict[str, Any] = {}
        self.ran: list[str] = []
        self.cell = True

    @classmethod
    def installed(cls, monkeypatch: pytest.MonkeyPatch) -> Session:
        session = cls()
        monkeypatch.setitem(sys.modules, session.__name__, session)
        return session

    def register(self, block_id: str, body: list[ast.stmt], names: frozenset[str], kind: str, text: str) -> None:
        facts = {"body": "\n".join(map(ast.unparse, body)), "names": names, "kind": kind, "text": text}
        assert self.blocks.setdefault(block_id, facts) == facts

    def enter_block(self, manager: Any, block_id: str) -> Any:
        self.latest.set({**self.latest.get({}), block_id: manager if isinstance(manager, Step) else None})
        if isinstance(manager, Step):
            manager.frame, manager.id = sys._getframe(1), block_id
        return manager

    def pending(self, block_id: str) -> bool:
        step = self.latest.get()[block_id]
        return step is None or step.pending

    def restored(self, block_id: str) -> Any:
        step = self.latest.get()[block_id]
        assert step is not None
        return self.done[step.name]

    def leave(self, block_id: str, way: str, value: Any = None) -> Any:
        self.left[block_id], self.results[block_id] = way, value
        return value

    def cell_pending(self) -> bool:
        return self.cell

    def step(self, name: str) -> Step:
        return Step(self, name)


@contextlib.contextmanager
def rewriting_shell(session: Session) -> Iterator[Any]:
    """A shell in which marked cells and steps are rewritten; ``session.cell`` says whether cells are pending."""

    class Transformer:
        def visit(self, tree: ast.Module) -> ast.Module:
            tree = CellRewriter(GUARD, ip.ast_node_interactivity).rewrite(tree)
            return BlockRewriter(session.register).rewrite(tree)

    with shell() as ip:
        ip.input_transformers_cleanup.append(mark)
        ip.ast_transformers.append(Transformer())
        ip.register_magic_function(lambda line, _: session.ran.append(f"enter {line}"), "cell", "resumable")
        ip.user_ns.update(step=session.step, ran=session.ran.append)
        yield ip
