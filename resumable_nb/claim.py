"""What a caller asks for: the bound arguments, the identity that they give the call, and how the call is spelled."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Mapping
from typing import Any, Final

from resumable_nb import undo
from resumable_nb.errors import BadArgument, NoContent
from resumable_nb.fingerprint import argument_marks, argument_prints, call_identity
from resumable_nb.model import CallRecord, digest
from resumable_nb.preview import HIDDEN, learn, preview, secrets_in
from resumable_nb.scope import StepScope
from resumable_nb.tooldef import IDEMPOTENCY_KEY, Tool

_CONSTANT: Final = frozenset({str, bytes, int, float, complex, bool, type(None)})


class Claim:
    """The right of one asked call to one record: ``identity`` and, with ``each_call``, the ``k``-th of it.

    ``incarnation`` is the task's; ``key`` is this user's secret. Raises ``TypeError`` for arguments that do not fit,
    and ``BadArgument`` for one that has no lasting identity.
    """

    def __init__(
        self,
        tool: Tool,
        scope: StepScope,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        *,
        incarnation: str,
        key: bytes,
        branch: str = "",
        undoes: CallRecord | None = None,
    ) -> None:
        self._tool, self._secret_key = tool, key
        self._prints: dict[str, str] = {}
        """Of the arguments that identify the call; none with a ``key=`` function: they would say too much."""
        # What both copies of a task had done is undone once: the receiver knows its undo by one key.
        self.branch = branch if undoes is None else undoes.branch
        self.undoes = undoes
        given = dict(kwargs)
        self._given_key = given.pop(IDEMPOTENCY_KEY, None) if tool.keyed else None
        self.given = tool.bind(args, given)
        self.bound = inspect.BoundArguments(self.given.signature, self.given.arguments.copy())
        self.bound.apply_defaults()
        self._flat = tool.flat(self.bound)
        if tool.has_secrets:  # a call that is answered from the record has texts round it, too
            learn(self.secrets)
        if scope.undoing:  # what a function calls on the way to undo something is not what was called before
            incarnation = f"{incarnation} {scope.undoing}"
        if undoes is None:
            self.identity = self._identity(incarnation, key, scope.id if tool.each_call else "")
            self.k = self._claim(scope)
        else:  # known by what it undoes: whatever becomes of the undoing function, it is done once
            self.identity = digest(f"undo {undoes.identity}@{undoes.k}~{undoes.generation}".encode())
            self.k = 0
            self._prints = argument_prints({} if tool.key is not None else tool.identifying(self._flat))
        self.renew(0)

    def renew(self, generation: int) -> None:
        """Be another call than the one that was undone: to the receiver as well."""
        self.generation = generation
        name = f"{self.identity}@{self.k}" + (f"~{generation}" if generation else "")
        self.id = digest(name.encode())[:12]
        keyed = self._tool.keyed
        self.idempotency_key = (
            str(self._given_key or digest(f"idempotency {self.branch}{name}".encode())) if keyed else ""
        )

    def kept(self) -> bytes:
        """The arguments for whoever undoes the call, or asks what became of it; empty where nobody needs them.

        Raises ``BadArgument`` where one that ``compensate=`` needs cannot be saved.
        """
        tool = self._tool
        if tool.compensate is None:
            if tool.reconcile is None or tool.repeatable:
                return b""
            return undo.keep_all(
                tool.signature.parameters, self.bound.arguments, secret=tool.is_secret, secrets=self.secrets
            )
        return undo.keep(
            tool.name,
            tool.signature.parameters,
            self.bound.arguments,
            undo=tool.compensate,
            secret=tool.is_secret,
            secrets=self.secrets,
            all_of_them=tool.reconcile is not None,
        )

    def _identity(self, incarnation: str, key: bytes, step: str) -> str:
        tool = self._tool
        secrets: dict[str, Any] = {}
        if tool.key is not None:
            counted = {"key": tool.key(*self.bound.args, **self.bound.kwargs)}
        else:
            counted = tool.identifying(self._flat)
            secrets = {name: counted.pop(name) for name in list(counted) if tool.is_secret(name)}
        try:
            return call_identity(
                incarnation,
                tool.name,
                tool.version,
                counted,
                secrets=secrets,
                key=key,
                step=step,
                prints=self._prints if tool.key is None else None,
            )
        except NoContent as error:
            raise BadArgument(
                f"{tool.name}: {error.message}; a call is known by its arguments, so pass plain data, or say what "
                "counts with key= or ignore=",
                tool=tool.name,
                **error.facts,
            ) from None

    def _claim(self, scope: StepScope) -> int:
        """Which of the identical calls of this execution it is."""
        if not self._tool.each_call:
            return 0
        return scope.claim(self.identity)

    def give_back(self, scope: StepScope) -> None:
        """The call was not begun, and will not be."""
        if self._tool.each_call and self.undoes is None:
            scope.give_back(self.identity, self.k)

    @functools.cached_property
    def marks(self) -> dict[str, str]:
        """Digests of the arguments that identify the call, as they were when this was asked; they may be stored."""
        return argument_marks(self._prints, self._secret_key)

    def changed(self) -> tuple[str, ...]:
        """Names of the identifying arguments that are not what they were."""
        values = {name: self._flat[name] for name in self._prints}
        now = argument_prints({name: each for name, each in values.items() if not _constant(each)})
        return tuple(name for name, found in now.items() if found != self._prints[name])

    @functools.cached_property
    def secrets(self) -> frozenset[str]:
        """What must not be spelled out in any message."""
        hidden = [secrets_in(value, secret=self._tool.is_secret(name)) for name, value in self._flat.items()]
        found: frozenset[str] = frozenset().union(*hidden)
        learn(found)
        return found

    @functools.cached_property
    def previews(self) -> dict[str, str]:
        """Parameter name to short, redacted text."""
        return {
            name: HIDDEN if self._tool.is_secret(name) else preview(value, self.secrets)
            for name, value in self._flat.items()
        }

    @property
    def text(self) -> str:
        """The call as it was written, redacted."""
        return f"{self._tool.name}({', '.join(f'{name}={shown}' for name, shown in self.previews.items())})"


def _constant(value: object) -> bool:
    """Whether it surely cannot change."""
    kind = type(value)
    return kind in _CONSTANT or (kind is tuple and all(map(_constant, value)))  # type: ignore[call-overload]  # a tuple
