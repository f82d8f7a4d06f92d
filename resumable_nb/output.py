"""What a cell shows: recorded in order while it streams live, and shown again.

An output is a dict as in a notebook file: ``stream`` (name, text), ``display_data`` and ``execute_result`` (data,
metadata, display_id), and ``update_display_data`` for a display that was made before the recording. Messages that
code sends by itself on a kernel's session count as what they say.

Out of reach: what child processes write to a terminal by themselves, handlers that hold an older ``sys.stderr``, and
what is redirected (it is not shown then either).
"""

from __future__ import annotations

import base64
import contextlib
import functools
import json
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from resumable_nb import widgets
from resumable_nb.settle import settle

Output = dict[str, Any]


_muted = threading.local()


@contextlib.contextmanager
def _mute() -> Iterator[None]:
    """What this thread shows in the block is not recorded."""
    before = getattr(_muted, "on", False)
    _muted.on = True
    try:
        yield
    finally:
        _muted.on = before


class Recorder:
    """Records what a shell shows between ``start`` and ``stop``. Recorders nest: each gets everything.

    ``closing`` shows what belongs to it at the end.
    """

    def __init__(self, shell: Any, closing: Callable[[], None] = lambda: None) -> None:
        self._shell = shell
        self._closing = closing
        self._tap: _Tap | None = None
        self._figures: set[int] = set()
        self._outputs: list[Output] = []
        self._clear_next = False

    @staticmethod
    def paused() -> contextlib.AbstractContextManager[None]:
        """In the block, what this thread shows is recorded by nobody: messages of our own."""
        return _mute()

    def start(self) -> None:
        if self._tap is None:
            self._figures = set(map(id, _figures()))
            self._tap = _Tap.on(self._shell)
            self._tap.recorders = (*self._tap.recorders, self)

    def stop(self) -> list[Output]:
        """End the recording. The same list each time; inline figures that were made meanwhile are shown first."""
        tap = self._tap
        if tap is not None:
            self._closing()
            _show_figures(self._shell, self._figures)
            self._tap = None
            tap.recorders = tuple(each for each in tap.recorders if each is not self)
            if not tap.recorders:
                tap.remove()
            for output in self._outputs:
                if output["output_type"] == "stream":
                    output["text"] = settle("".join(output["text"]))
        return self._outputs

    def write(self, name: str, text: str) -> None:
        if widgets.is_capturing():
            return
        self._begin()
        last = self._outputs[-1] if self._outputs else {}
        if last.get("name") == name:
            last["text"].append(text)
        else:
            self._outputs.append({"output_type": "stream", "name": name, "text": [text]})

    def show(self, kind: str, data: Mapping[str, Any], metadata: Mapping[str, Any], display_id: str | None) -> None:
        if widgets.is_capturing():
            return
        self._begin()
        output = {"output_type": kind, "data": _plain(data), "metadata": _plain(metadata)}
        self._outputs.append(output if display_id is None else {**output, "display_id": display_id})

    def update(self, data: Mapping[str, Any], metadata: Mapping[str, Any], display_id: str) -> None:
        """Change a display where it stands."""
        known = [output for output in self._outputs if output.get("display_id") == display_id]
        for output in known:
            output.update(data=_plain(data), metadata=_plain(metadata))
        if not known:
            update = {"output_type": "update_display_data", "data": _plain(data), "metadata": _plain(metadata)}
            self._outputs.append({**update, "display_id": display_id})

    def clear(self, *, wait: bool) -> None:
        if widgets.is_capturing():
            return
        if wait:
            self._clear_next = True
        else:
            self._outputs.clear()

    def _begin(self) -> None:
        if self._clear_next:
            self._clear_next = False
            self._outputs.clear()


class _Tap:
    """Listens on one shell's streams, displays and results, for all recorders on that shell."""

    _all: list[_Tap] = []  # noqa: RUF012  # shared by purpose

    @classmethod
    def on(cls, shell: Any) -> _Tap:
        for tap in cls._all:
            if tap._shell is shell:
                return tap
        return cls(shell)

    def __init__(self, shell: Any) -> None:
        self.recorders: tuple[Recorder, ...] = ()
        self._shell = shell
        self._lock = threading.RLock()
        self._undo: list[Callable[[], None]] = []
        self._all.append(self)
        self._wrap(sys.stdout, "write", functools.partial(self._stream, "stdout"))
        if sys.stderr is not sys.stdout:
            self._wrap(sys.stderr, "write", functools.partial(self._stream, "stderr"))
        self._wrap(shell.display_pub, "publish", self._publish)
        self._wrap(shell.display_pub, "clear_output", self._clear_output)
        self._wrap(shell.displayhook, "write_format_data", self._result)
        self._wrap(_session(shell), "send", self._send)
        for own in ("write_output_prompt", "finish_displayhook"):  # a terminal prints the prompt
            self._wrap(shell.displayhook, own, _silent)
        self._wrap(shell, "_showtraceback", _silent)  # a traceback belongs to an error, which is recorded as such

    def remove(self) -> None:
        self._all.remove(self)
        while self._undo:
            self._undo.pop()()

    def _wrap(self, owner: Any, name: str, make: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
        """Put a wrapper on the instance. One that somebody else has wrapped stays, and passes everything on."""
        original = getattr(owner, name, None)
        if original is None:
            return
        own = vars(owner).get(name) if hasattr(owner, "__dict__") else None
        wrapper = functools.wraps(original)(make(original))
        try:
            setattr(owner, name, wrapper)
        except AttributeError:  # a stream with slots: its text is shown, and not recorded
            return

        def undo() -> None:
            if getattr(owner, name, None) is wrapper:
                if own is None:
                    delattr(owner, name)
                else:
                    setattr(owner, name, own)

        self._undo.append(undo)

    def _tell(self, what: Callable[[Recorder], None]) -> None:
        if getattr(_muted, "on", False) or threading.current_thread().name.startswith("subshell-"):
            return  # such threads run widgets' callbacks beside the cell
        with self._lock:
            for recorder in self.recorders:
                what(recorder)

    def _stream(self, name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        def write(text: Any, *args: Any, **options: Any) -> Any:
            result = original(text, *args, **options)
            if isinstance(text, str) and text:
                self._tell(lambda recorder: recorder.write(name, text))
            return result

        return write

    def _publish(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def publish(data: Any, metadata: Any = None, *args: Any, **options: Any) -> Any:
            kind = "update_display_data" if options.get("update") else "display_data"
            self._display(kind, data, metadata, options.get("transient"))
            with _mute():
                return original(data, metadata, *args, **options)

        return publish

    def _display(self, kind: str, data: Any, metadata: Any, transient: Any) -> None:
        display_id = (transient or {}).get("display_id")
        if kind == "update_display_data" and display_id is not None:
            self._tell(lambda recorder: recorder.update(data, metadata or {}, display_id))
        else:
            kind = "execute_result" if kind == "execute_result" else "display_data"
            self._tell(lambda recorder: recorder.show(kind, data, metadata or {}, display_id))

    def _send(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """A kernel's ``Session.send``. What code sends itself is seen here only; the rest is muted on its way here."""

        def send(stream: Any, message: Any, content: Any = None, parent: Any = None, *args: Any, **options: Any) -> Any:
            whole = message if isinstance(message, Mapping) else {}
            kind = whole.get("msg_type", message)
            if kind in ("display_data", "update_display_data", "execute_result"):
                said, of = (whole["content"], whole.get("parent_header")) if whole else (content, parent)
                if _message_id(of) == _message_id(self._shell.get_parent()):  # of another cell: shown there
                    self._display(kind, said["data"], said.get("metadata"), said.get("transient"))
            return original(stream, message, content, parent, *args, **options)

        return send

    def _clear_output(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def clear_output(wait: bool = False) -> Any:
            self._tell(lambda recorder: recorder.clear(wait=wait))
            with _mute():
                return original(wait)

        return clear_output

    def _result(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def write_format_data(data: Any, metadata: Any = None) -> Any:
            self._tell(lambda recorder: recorder.show("execute_result", data, metadata or {}, None))
            with _mute():
                return original(data, metadata)

        return write_format_data


def _silent(original: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any, **options: Any) -> Any:
        with _mute():
            return original(*args, **options)

    return call


def _session(shell: Any) -> Any:
    """What a kernel sends its messages with; ``None`` in a terminal."""
    return getattr(getattr(shell, "kernel", None), "session", None)


def _message_id(parent: Any) -> Any:
    parent = parent or {}
    return parent.get("header", parent).get("msg_id")


def _figures() -> list[Any]:
    """The managers of open figures that the inline backend is going to show."""
    inline = sys.modules.get("matplotlib_inline.backend_inline")
    helpers = sys.modules.get("matplotlib._pylab_helpers")
    pyplot = sys.modules.get("matplotlib.pyplot")
    if inline is None or helpers is None or pyplot is None or "inline" not in pyplot.get_backend():
        return []
    return list(helpers.Gcf.get_all_fig_managers())


def _show_figures(shell: Any, earlier: set[int]) -> None:
    """Show the figures that are not among ``earlier`` now: the backend itself would do so at the cell's end."""
    managers = _figures()
    new = [manager for manager in managers if id(manager) not in earlier]
    if not new:
        return
    inline = sys.modules["matplotlib_inline.backend_inline"]
    if len(new) == len(managers):
        inline.flush_figures()
        return
    close = inline.InlineBackend.instance().close_figures
    for manager in new:
        figure = manager.canvas.figure
        try:
            inline.display(figure, metadata=inline._fetch_figure_metadata(figure))
        except Exception:
            shell.showtraceback()
        if figure in inline.show._to_draw:
            inline.show._to_draw.remove(figure)
        if close:
            sys.modules["matplotlib.pyplot"].close(figure)


def replay(shell: Any, outputs: list[Output]) -> None:
    """Show recorded outputs again, in order. Results come as results, under the current execution count."""
    for output in outputs:
        match output["output_type"]:
            case "stream":
                stream = sys.stdout if output["name"] == "stdout" else sys.stderr
                stream.write(output["text"])
            case "execute_result" if "display_id" in output and _session(shell) is not None:
                _send_result(shell, output)
            case "execute_result":
                hook = shell.displayhook
                hook.start_displayhook()
                hook.write_output_prompt()
                hook.write_format_data(_lasting(output["data"]), output["metadata"])
                hook.finish_displayhook()
            case kind:
                options: dict[str, Any] = {"update": True} if kind == "update_display_data" else {}
                if "display_id" in output:
                    options["transient"] = {"display_id": output["display_id"]}
                shell.display_pub.publish(_lasting(output["data"]), output["metadata"], **options)


def _send_result(shell: Any, output: Output) -> None:
    """A result that can be updated: a display hook has no such thing, a message does."""
    content = {
        "execution_count": shell.displayhook.prompt_count,
        "data": _lasting(output["data"]),
        "metadata": output["metadata"],
        "transient": {"display_id": output["display_id"]},
    }
    _session(shell).send(shell.kernel.iopub_socket, "execute_result", content, shell.get_parent())


def _lasting(data: dict[str, Any]) -> dict[str, Any]:
    """A bundle without what needs the kernel that made it."""
    if widgets.model(data) is not None:
        return data
    return {mime: value for mime, value in data.items() if mime != widgets.WIDGET} or {"text/plain": "[widget]"}


def _plain(value: Any) -> Any:
    """A copy in JSON's types: bytes become base64, as in a notebook file, and what is unknown its text."""
    match value:
        case None | str() | bool() | int() | float():
            return value
        case Mapping():
            return {str(key): _plain(each) for key, each in value.items()}
        case list() | tuple() | set() | frozenset():
            return [_plain(each) for each in value]
        case bytes() | bytearray() | memoryview():
            return base64.b64encode(value).decode("ascii")
        case _ if hasattr(value, "tolist"):  # numpy's scalars and arrays
            return _plain(value.tolist())
    return str(value)


def encode(outputs: list[Output]) -> bytes:
    return json.dumps(outputs, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")


def decode(data: bytes) -> list[Output]:
    outputs: list[Output] = json.loads(data.decode("utf-8", "surrogatepass"))
    return outputs
