"""``Codec``: one namespace's way to write values and to read them."""

from __future__ import annotations

import contextlib
import pickle
import sys
import threading
import types
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final, TypeVar

from resumable_nb.codec import endings, reopen
from resumable_nb.codec.definitions import Definitions, importable
from resumable_nb.codec.encoder import NOTHING_SHARED, DeepEncoder, Encoded, Encoder, Shared
from resumable_nb.codec.graft import Grafted, Grafter, Pairs
from resumable_nb.codec.library import Fetch, Shelf, Trial
from resumable_nb.codec.probe import Probe, offender
from resumable_nb.codec.rebuild import Decoder, Library
from resumable_nb.codec.special import makes_itself
from resumable_nb.collector import collector_off
from resumable_nb.errors import NotSaved, ResumableError
from resumable_nb.model import MISSING

A = TypeVar("A")
T = TypeVar("T")

DEEP_STACK_BYTES: Final = 512 << 20
DEEP_RECURSION = 1_000_000
LARGE_STREAM_BYTES: Final = 1 << 20

_deep = threading.Lock()


class Codec:
    """``live`` is the namespace that notebook functions get as their globals.

    Where a stream names a function or class that ``live`` has not: ``load`` brings a pending variable back (and says
    whether it did), ``fetch`` finds the definition's stream, ``former`` says what a pending name was bound to.
    """

    def __init__(
        self,
        live: dict[str, Any],
        *,
        fetch: Fetch = lambda _: MISSING,
        load: Callable[[str], bool] = lambda _: False,
        former: Callable[[str], object] = lambda _: MISSING,
    ) -> None:
        self._live = live
        self.definitions = Definitions(live, former)
        self._shelf = Shelf(self.definitions, self.decode, fetch, load, former)
        self._proved: set[frozenset[type]] = set()

    def encode(
        self, value: Any, *, own: Collection[object] = (), shared: Shared = NOTHING_SHARED, in_band: bool = False
    ) -> Encoded:
        """Raises ``NotSaved``, with the path to what cannot be written down."""

        try:
            return self._encode(value, own, shared, in_band=in_band)
        except Exception as error:
            raise self.explain(value, error) from error

    def digestible(
        self,
        value: Any,
        *,
        own: Collection[object] = (),
        shared: Shared = NOTHING_SHARED,
        untouched: bool = False,
    ) -> Encoded:
        """As ``encode``, but what cannot be written stands as its type and identity: good for comparing only.

        ``untouched``: nobody used what each use changes.
        """

        try:
            return self._encode(value, own, shared, in_band=False)
        except Exception:
            try:
                probe = Probe(self.definitions, own, shared, in_band=False, untouched=untouched)
                return _with_deep_stack(probe.encode, value)
            except Exception as error:  # not to be compared at all, and never to be saved
                return Encoded(f"{type(error).__name__} {id(value)}".encode(), (), {}, frozenset())

    def _encode(self, value: Any, own: Collection[object], shared: Shared, *, in_band: bool) -> Encoded:
        def work(kind: type[Encoder | DeepEncoder]) -> Encoded:
            return kind(self.definitions, own, shared, in_band=in_band).encode(value)

        try:
            return work(Encoder)
        except RecursionError:
            try:
                return _with_deep_stack(work, Encoder)
            except RecursionError:
                return _with_deep_stack(work, DeepEncoder)

    def forget(self, name: str) -> None:
        """The class of that name is another one from now on."""
        self._shelf.forget(name)

    def meet(self, keys: Collection[str]) -> None:
        """Streams name these functions and classes: those of them that live are meant, whatever becomes of them."""
        self._shelf.meet(keys)

    def decode(
        self,
        stream: bytes | memoryview,
        buffers: Sequence[Any] = (),
        met: dict[int, Any] | None = None,
        beside: Mapping[str, Any] = {},
    ) -> Any:
        """Raises ``NotSaved`` where the objects' own code fails. ``met`` gets the classes and functions in there.

        ``beside``: classes that go on otherwise by now, or ``MISSING`` where their names are others'.
        """
        return self._read(stream, buffers, self._shelf, met, beside)

    def decode_apart(
        self, stream: bytes | memoryview, buffers: Sequence[Any] = (), met: dict[int, Any] | None = None
    ) -> Any:
        """As ``decode``, and living classes keep their attributes: for values that live beside the namespace's own."""
        with reopen.apart():
            return self._read(stream, buffers, self._shelf.apart(), met)

    def copy(self, value: Any, *, own: Collection[object] = (), shared: Shared = NOTHING_SHARED) -> Any:
        """A deep copy. Raises ``NotSaved``."""
        encoded = self.encode(value, own=own, shared=shared)
        return self.decode_apart(encoded.stream, [bytearray(each.raw) for each in encoded.buffers])

    def graft(self, value: Any, pairs: Pairs, *, shared: Shared = NOTHING_SHARED) -> Any:
        """A deep copy that has other objects in the place of some. Raises ``NotSaved``."""
        try:
            encoded = Grafter(self.definitions, shared, pairs).encode(value)
        except Exception as error:
            raise error if isinstance(error, NotSaved) else self.explain(value, error) from error
        buffers = [bytearray(each.raw) for each in encoded.buffers]
        with reopen.apart():
            decoder = Grafted(encoded.stream, buffers, self._live, self._shelf.apart(), pairs)
            return self._load(decoder, len(encoded.stream))

    def definitions_of(self, refs: Mapping[str, object]) -> dict[str, bytes]:
        """A stream for each definition that ``refs`` names, and for those that they name in turn."""
        found: dict[str, bytes] = {}
        todo = dict(refs)
        while todo:
            key, thing = todo.popitem()
            encoded = self.encode(thing, own=[thing], in_band=True)
            found[key] = encoded.stream
            todo |= {each: other for each, other in encoded.refs.items() if each not in found}
        return found

    def _read(
        self,
        stream: bytes | memoryview,
        buffers: Sequence[Any],
        library: Library,
        met: dict[int, Any] | None = None,
        beside: Mapping[str, Any] = {},
    ) -> Any:
        return self._load(Decoder(stream, buffers, self._live, library, beside), len(stream), met)

    def _load(self, decoder: Decoder, size_bytes: int, met: dict[int, Any] | None = None) -> Any:
        # Some ``__setstate__`` look up names where they are called from, as a formula's functions.
        load = types.FunctionType(_call.__code__, self._live) if "__builtins__" in self._live else _call
        try:
            with collector_off() if size_bytes >= LARGE_STREAM_BYTES else contextlib.nullcontext():
                found = load(decoder.load)
            if decoder.library.trial and decoder.has_endings:
                endings.keep(found)
            if met is not None:
                met |= decoder.met
            return found
        except ResumableError:
            raise
        except Exception as error:
            # Perhaps a library was upgraded: the body, run again, makes the value in its own way.
            raise NotSaved(f"cannot be read back: {_text(error)}", path="", replay=True) from error
        finally:
            decoder.memo.clear()  # it holds the decoder's own methods: a cycle that keeps every object alive

    def prove(self, encoded: Encoded) -> None:
        """Read what was just written, where that could fail. Raises ``NotSaved``.

        Copies that have endings are kept for good: of objects of the same classes one is enough.
        """
        if encoded.kinds in self._proved or not any(map(_may_fail_to_load, encoded.kinds)):
            return
        with reopen.trial():
            self._prove(encoded)
        if any(map(endings.has_ending, encoded.kinds)):
            self._proved.add(encoded.kinds)

    def _prove(self, encoded: Encoded) -> None:
        trial = Trial(self.definitions, encoded.refs)
        # Read-only, so that no ``__setstate__`` writes into the user's own arrays; copied for those that have to write.
        try:
            self._read(encoded.stream, [each.raw.toreadonly() for each in encoded.buffers], trial)
        except NotSaved:
            if not encoded.buffers:
                raise
            self._read(encoded.stream, [bytearray(each.raw) for each in encoded.buffers], trial)

    def explain(self, value: Any, error: BaseException) -> NotSaved:
        """Say where in ``value`` the object is that cannot be written."""
        probe = Probe(self.definitions, (), NOTHING_SHARED, in_band=False)
        try:
            _with_deep_stack(probe.encode, value)
        except Exception as other:
            return NotSaved(_text(other), path="")
        if not probe.offenders:
            return NotSaved(_text(error), path="")
        path, why = offender(value, probe.offenders)
        return NotSaved(f"{path}: {_text(why)}" if path else _text(why), path=path)


def _call(function: Callable[[], T]) -> T:
    return function()


def is_reading(code: types.CodeType) -> bool:
    """Whether a frame with this code reads a value back, though its globals are the notebook's."""
    return code is _call.__code__


def _with_deep_stack(work: Callable[[A], T], argument: A) -> T:
    """Run ``work`` in a thread with a large stack: a chain may be longer than the usual one is deep."""
    outcome: list[T | BaseException] = []

    def run() -> None:
        try:
            outcome.append(work(argument))
        except BaseException as error:
            outcome.append(error)

    with _deep:
        limit, size = sys.getrecursionlimit(), threading.stack_size(DEEP_STACK_BYTES)
        sys.setrecursionlimit(DEEP_RECURSION)
        try:
            thread = threading.Thread(target=run, name="resumable-deep")
            thread.start()
            thread.join()
        finally:
            sys.setrecursionlimit(limit)
            threading.stack_size(size)
    (result,) = outcome
    if isinstance(result, BaseException):
        raise result
    return result


def _may_fail_to_load(kind: type) -> bool:
    """Objects that come back through code of their own may write well and read badly."""
    if issubclass(kind, type):
        return not importable(kind)  # a metaclass of the notebook's, or made by a function: its classes may refuse
    if str(kind.__module__).partition(".")[0] in _TRUSTED:
        return issubclass(kind, BaseException)
    plain = kind.__reduce_ex__ is object.__reduce_ex__ and kind.__reduce__ is object.__reduce__
    made = kind.__new__ is object.__new__ or makes_itself(kind)
    return not (plain and made and not hasattr(kind, "__setstate__"))


def may_come_back_otherwise(met: Collection[Any]) -> bool:
    """Whether code of a library's or the user's had a part in loading what is made of these."""
    return any(_may_fail_to_load(each) if isinstance(each, type) else _is_anybodys(each) for each in met)


def _is_anybodys(function: Any) -> bool:
    return str(getattr(function, "__module__", "")).partition(".")[0] not in _TRUSTED | _PLUMBING


_PLUMBING: Final = frozenset({"copyreg", "_codecs", "_operator", "operator", "cloudpickle", __name__.partition(".")[0]})
_TRUSTED: Final = frozenset(
    {"builtins", "numpy", "pandas", "pyarrow", "datetime", "decimal", "fractions", "collections", "pathlib", "uuid"}
    | {"types", "functools", "re", "enum", "_thread", "zoneinfo", "ipaddress", "string", "random"}
)


def _text(error: BaseException) -> str:
    if isinstance(error, NotSaved):
        return error.message
    if isinstance(error, RecursionError):
        return "nested too deeply to be written"
    text = str(error)
    return text if isinstance(error, TypeError | pickle.PicklingError) and text else f"{type(error).__name__}: {text}"
