"""The nouns of the design as frozen values. What is stored is a msgspec struct; times are seconds since the epoch."""

from __future__ import annotations

import enum
import hashlib
import html
from typing import Final, Literal
from urllib.parse import quote

import msgspec

from resumable_nb.change import Change

SCHEMA: Final = 1
"""Version of the records that this package writes."""

FINGERPRINTS: Final = 3
"""Version of the canonical digests. Calls are known by them: a task made under another version is refused, because its
finished calls would not be recognised, and would be made again."""


class Missing(enum.Enum):
    """The type of ``MISSING``, so that ``None`` stays a value."""

    MISSING = "MISSING"

    def __repr__(self) -> str:
        return "MISSING"


MISSING: Final = Missing.MISSING

StepStatus = Literal["running", "done", "failed", "stopped", "compensated"]
CallStatus = Literal["intent", "done", "failed"]
StepKind = Literal["cell", "block", "function"]
OnError = Literal["keep", "compensate"]
"""What becomes of a step's calls when it fails: they are kept for when it goes on, or undone."""


class Stored(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A record on disk: JSON that can be read without this package."""

    schema: int = SCHEMA


class StepOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What the user asked for beside the step's name."""

    files: tuple[str, ...] = ()
    makes: tuple[str, ...] = ()
    keep: tuple[str, ...] | None = None
    drop: tuple[str, ...] = ()
    always: bool = False
    rerun: bool = False
    output: bool = True
    quiet: bool = False
    on_error: OnError = "keep"

    def in_key(self) -> str:
        """The options that change what a step leaves behind, in a fixed spelling."""
        keep = "*" if self.keep is None else ",".join(sorted(self.keep))
        return f"keep={keep};drop={','.join(sorted(self.drop))};makes={','.join(sorted(self.makes))}"


class StepKey(msgspec.Struct, frozen=True, kw_only=True):
    """What a step's result depends on, in named parts, so that a miss can say which part changed.

    ``functions``, ``inputs`` and ``files`` map a name to a digest.
    """

    source: str
    functions: dict[str, str] = {}
    inputs: dict[str, str] = {}
    files: dict[str, str] = {}
    options: str = ""


class Owner(msgspec.Struct, frozen=True, kw_only=True):
    """Who holds a lease: a process on a booted machine, not a name that can come again."""

    token: str
    epoch: int
    pid: int
    pid_started: str
    boot_id: str
    host: str
    run: str
    since: float
    beat: int = 0
    beat_at: float = 0.0
    """When the heartbeat was last counted, on the owner's clock."""
    machine: str = ""
    """The machine over all its boots, or empty where it does not say."""


class TaskRecord(Stored, frozen=True, kw_only=True):
    """One durable piece of work. ``incarnation`` changes when the task is forgotten and begun anew."""

    name: str
    incarnation: str
    created_at: float
    notebook: str = ""
    completed_at: float | None = None
    fingerprints: int = 1
    branch: str = ""
    """Of a copy: what makes the idempotency keys of its own calls others than the original's."""
    rollback: str | None = None
    """The step whose calls are being undone (``""``: all of the task's): until that is over nothing else goes on."""


class RunRecord(Stored, frozen=True, kw_only=True):
    """One process that worked on the task. ``ended_at`` stays None when it was killed."""

    id: str
    pid: int
    host: str
    started_at: float
    ended_at: float | None = None
    kernel: str = ""


class StepRecord(Stored, frozen=True, kw_only=True):
    """The state of a step: written when it starts, and again in the one transaction that makes it done."""

    id: str
    name: str
    version: int
    status: StepStatus
    key: StepKey
    run: str
    why: str
    """Why it ran: "first run", or what had changed."""
    changes: tuple[Change, ...] = ()
    previews: dict[str, str] = {}
    """Short descriptions of the inputs' values, for people: ``DataFrame 1000 × 4``."""
    kind: StepKind = "cell"
    started_at: float
    ended_at: float | None = None
    duration_s: float = 0.0
    """How long this version took, with ``earlier_s``."""
    earlier_s: float = 0.0
    """What was done before it last began, up to the last call, kept turn or step inside: that was not done again."""
    text: str = ""
    after: dict[str, str] = {}
    """Digests, after the step, of key parts that the step itself changed: ``"input x"`` to digest ('' if gone)."""
    manifest: str = ""
    output: str = ""
    random: str = ""
    """Blob with the state of the random generators at the step's first start."""
    sharing: str = ""
    """Digest of how what it found shared objects, when its body began."""
    makes: tuple[str, ...] = ()
    size_bytes: int = 0
    saved_names: tuple[str, ...] = ()
    unsaved: dict[str, str] = {}
    error: str = ""
    replay: str = ""
    """Why its state cannot be put back from outside, so that the body has to run again, calls answered."""
    first_call: int = 0
    """How many calls the step had recorded when its body first began with this key: later ones are of this code."""
    memory: str = ""
    """Blob with what the step did to the task's memory; empty where it did not use it."""
    settings: str = ""
    """Blob with what it changed of the process's settings."""
    left: str = ""
    """How a block was left: ``return``, ``break``, ``continue``, or at its end."""

    def __repr__(self) -> str:
        names = f", {len(self.saved_names)} variables" if self.saved_names else ""
        return f"<Step {_seen(self.id)} v{self.version} {self.status}, {self.duration_s:.1f} s{names}>"

    def _repr_html_(self) -> str:
        return f"<code>{html.escape(repr(self))}</code>"


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """One try of a tool call; ``error`` is empty for the one that succeeded."""

    started_at: float
    ended_at: float | None = None
    error: str = ""


class CallRecord(Stored, frozen=True, kw_only=True):
    """One tool call. ``status == "intent"`` without a live caller means in doubt."""

    id: str
    step: str
    n: int
    tool: str
    version: str
    identity: str
    k: int
    arguments: dict[str, str]
    """Parameter name to a short, redacted preview."""
    status: CallStatus
    repeatable: bool
    run: str
    started_at: float
    ended_at: float | None = None
    attempts: tuple[Attempt, ...] = ()
    idempotency_key: str = ""
    result: str = ""
    """Blob with the encoded result, or with the exception of a failed call."""
    preview: str = ""
    unavailable: str = ""
    """Why the value of a done call could not be saved."""
    error: str = ""
    raised: tuple[str, ...] = ()
    """Qualified names of the failed call's exception class and its bases: a class made anew is known by them."""
    escaped: bool = False
    """The failure left the step: the step did not handle it."""
    doubt: str = ""
    """Why the outcome is unknown, where that was seen (interrupt, time-out, lost connection)."""
    resolved: str = ""
    """Who settled an in-doubt call: reconcile, user, late (the function itself, after its time-out)."""
    source: str = ""
    """Digest of the tool's code when it was called: shown as drift, never part of the identity."""
    compensate: str = ""
    """Name of the function that undoes the call."""
    marks: dict[str, str] = {}
    """Keyed digests of the arguments that identify the call: they say which one differs from another call's."""
    rule: str = ""
    """Which parameters identified the tool's calls: ``ignore=`` and ``key=`` may say otherwise later."""
    changed: tuple[str, ...] = ()
    """Arguments that were different after the call."""
    beside: bool = False
    """Asked for beside other calls (another thread or task than the step's own): it has no place in the order."""
    inside: str = ""
    """Place of the tool call that made it: who replays that one does not ask for this one."""
    undo: str = ""
    """Blob with the arguments: what the undo will be given, or, while the call is open, ``reconcile=``."""
    undoes: str = ""
    """Row of the call that this one undoes."""
    compensated: str = ""
    """Id of the call that has undone this one: an identical call is a new one, of the next generation."""
    generation: int = 0
    branch: str = ""
    """The copy of the task that made it; empty for the original."""

    def __repr__(self) -> str:
        arguments = ", ".join(f"{name}={text}" for name, text in self.arguments.items())
        return f"<ToolCall {self.id} {_seen(f'{self.tool}({arguments})')} {self.status}>"

    def _repr_html_(self) -> str:
        return f"<code>{html.escape(repr(self))}</code>"

    @property
    def duration_s(self) -> float | None:
        """``None`` while it is open, and where somebody settled it: nobody knows when it ended."""
        return None if self.ended_at is None or self.resolved else self.ended_at - self.started_at


class Position(Stored, frozen=True, kw_only=True):
    """The last kept turn of a ``track`` loop. ``done`` turns are finished, and their state is in ``manifest``."""

    step: str
    loop: str
    version: int
    done: int
    total: int | None
    at: float
    key: str
    """Digest of the step's key without the kept variables: those come back, whatever they are when the step goes on."""
    inputs: dict[str, str] = {}
    """Digests that the kept variables had in the step's key when the loop first began."""
    given: dict[str, str] = {}
    """Digests, when the loop first began, of what comes back with it and is no part of the step's key: kept variables
    that its code does not mention, and those from before the step that shared objects with kept ones."""
    same: tuple[str, ...] = ()
    """Saved variables that were the objects still that they had been when the step began."""
    manifest: str = ""
    claims: dict[str, int] = {}
    """How many calls of each identity with ``each_call`` the kept turns had made."""
    ordinals: dict[str, int] = {}
    """How often each nested step name had been entered."""
    calls: int = 0
    """How many calls the step had recorded: the kept turns do not ask for theirs again."""


Want = Literal["run", "pause", "stop"]


class PauseRecord(Stored, frozen=True, kw_only=True):
    """A pause or a stop: who asked for it and when, and what became of it."""

    id: str
    run: str
    want: Want
    by: str
    asked_at: float
    where: str = ""
    """The safe point at which it took effect."""
    began_at: float | None = None
    """When that was; ``None`` while the owner is still on its way there."""
    ended_at: float | None = None
    ended_by: str = ""
    end: Literal["", "resumed", "stopped", "nothing was running"] = ""


class ControlRequest(Stored, frozen=True, kw_only=True):
    """What another process asks of the task's owner. A new id is a new request."""

    id: str
    want: Want
    by: str
    at: float


class Extent(msgspec.Struct, frozen=True, array_like=True):
    """Bytes in a pack, with their digest."""

    pack: str
    offset: int
    size_bytes: int
    digest: str


class Buffer(msgspec.Struct, frozen=True, array_like=True):
    """One out-of-band buffer, in order, as extents."""

    size_bytes: int
    readonly: bool
    extents: tuple[Extent, ...]


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """Variables that share objects, in one pickle stream, so that aliases survive.

    ``stream`` is a blob digest, or empty where ``stream_extents`` says where the stream lies.
    """

    names: tuple[str, ...]
    stream: str = ""
    stream_extents: tuple[Extent, ...] = ()
    buffers: tuple[Buffer, ...] = ()
    handles: bool = False
    """It holds files or the like, which may not be what they were when the group is loaded."""
    graphs: bool = False  # it holds tensors whose graph the step has to make again, where a gradient needs it
    refs: dict[str, str] = {}
    """Notebook functions and classes that the stream names instead of holding: name to digest."""
    parts: tuple[tuple[str, ...], ...] = ()
    """The names that share with each other, where several such groups are in one stream."""
    joints: dict[str, dict[str, str]] = {}
    """Name to the other variables that share objects with it, each with a digest of what is shared."""


class Manifest(Stored, frozen=True, kw_only=True):
    """What a step did to the namespace."""

    groups: tuple[Group, ...] = ()
    deleted: tuple[str, ...] = ()
    imports: dict[str, str] = {}
    """Name to what it is bound to: ``package.module`` or ``package.module:attribute``."""
    alike: dict[str, tuple[str, str]] = {}  # the same, and what is there: else to what was saved
    unsaved: dict[str, str] = {}
    mark: str = ""  # tells a manifest with such from those of other steps that say the same
    digests: dict[str, str] = {}
    """Canonical digest of each saved name, after the step."""
    outlines: dict[str, str] = {}
    """The same of names without canonical content, unsaved ones too: what has none counts by its type."""
    along: dict[str, list[str]] = {}  # unsaved name to the saved ones that share objects with it
    companions: tuple[str, ...] = ()
    """Saved because they share with a changed variable: bound again where an equal value is; no newer one is lost."""
    perhaps: tuple[str, ...] = ()
    """The step may have bound them to the very objects that they had: bound where nothing is, else as a companion."""
    made: tuple[str, ...] = ()
    """Classes that the step made: each is another one than its name had before, be they alike but for their data."""
    random: str = ""
    """Blob with the state of the random generators after the step; empty when the step left them alone."""
    result: bool = False
    """The value of the cell's last expression is saved, under the name ``RESULT``."""


RESULT: Final = "<result>"
"""The pseudo-variable that carries the value of a cell's last expression."""


def _seen(text: str) -> str:
    """A short line that shows what it holds: nothing in it colours, turns the direction, or takes no room."""
    text = text if len(text) <= 80 else f"{text[:79]}…"
    return "".join(each if each.isprintable() else repr(each)[1:-1] for each in text)


def place(identity: str, k: int) -> str:
    """What a call is found by, whatever becomes of it."""
    return f"{identity}@{k}"


def digest(data: bytes) -> str:
    """Short hexadecimal name for small text-like data (not for authentication)."""
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def step_path(parent: str, name: str, k: int) -> str:
    """A step's identity: the enclosing step's, its own name, and ``#k`` where the name comes again."""
    own = "".join(c if c.isprintable() and c not in "/#%@\\`" else quote(c, "", errors="surrogatepass") for c in name)
    own += f"#{k + 1}" * bool(k)
    return f"{parent}/{own}" if parent else own
