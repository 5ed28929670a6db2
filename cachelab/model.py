"""What a recording is, as plain frozen data: no TensorFlow, no IPython.

A :class:`Record` holds columns, not an object per op, so that large graphs and long loops stay small.
Calls are numbered from 0, everywhere: call ``k`` in a text is ``recording.calls[k]``.
Inside the columns a witness and a cause say *how many calls back* they lie, so that the calls of a loop
share one set of columns; :meth:`Record.executions` and :meth:`Record.cause` give absolute call numbers.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

FORMAT: Final = "cachelab.recording"
FORMAT_VERSION: Final = 1

STATUSES: Final[dict[str, str]] = {
    "c": "computed",
    "r": "recomputed",
    "s": "reused",
    "d": "fed",
    "m": "merged",
    "k": "folded",
    "u": "fused",
    "p": "pruned",
    "t": "untaken",
    "n": "not_reached",
    "x": "unknown",
}
"""Letter in the columns -> status. ``c`` and ``r`` executed; all others did not."""

EVIDENCES: Final[dict[str, str]] = {"m": "measured", "d": "derived", "a": "assumed"}

CAUSES: Final = (
    "first",
    "not_kept",
    "feed",
    "variable",
    "effect",
    "random",
    "iterator",
    "opaque",
    "file",
    "race",
    "overlap",
    "new_session",
    "graph",
)
"""Kinds of cause, see ``design.md``."""

FINDINGS: Final = (
    "race",
    "overlap",
    "built_twice",
    "graph_grew",
    "stale",
    "unfinished_handle",
    "stream_shift",
    "value_through_python",
    "unneeded_feed",
    "contradiction",
    "same_by_coincidence",
    "not_replayable",
    "trace_missing",
    "retrace",
)

BOOKKEEPING: Final = frozenset(
    {
        "Const", "VarHandleOp", "VariableV2", "Variable", "VarIsInitializedOp", "NoOp", "Placeholder",
        "PlaceholderV2", "PlaceholderWithDefault", "ReadVariableOp", "Identity", "_Arg", "_Retval",
        "Enter", "Exit", "NextIteration", "LoopCond", "Switch", "Merge", "RefEnter", "RefExit",
        "RefSwitch", "RefMerge", "RefNextIteration", "ControlTrigger", "IteratorV2", "Iterator",
        "AnonymousIteratorV3", "OneShotIterator", "HashTableV2", "MutableHashTableV2", "FIFOQueueV2", "RefIdentity",
    }
)  # fmt: skip
"""Op types that only hold, name or pass on a value: headline counts leave them out and say so."""

MODES: Final = ("run", "partial_run", "variable", "per_example", "joint", "feed", "handle", "memo")


@dataclass(frozen=True, slots=True)
class Line:
    """A line of user code: the file (or ``cell 3``), the number from 1, and its text."""

    file: str
    number: int
    text: str


@dataclass(frozen=True, slots=True)
class Source:
    """What can change an op's value between calls.

    ``kind`` is one of ``feed``, ``variable``, ``random``, ``iterator``, ``effect``, ``opaque``, ``file``;
    ``name`` a tensor (feed), a variable or an op of the user's graph.
    """

    name: str
    kind: str
    graph: int


@dataclass(frozen=True)
class GraphTable:
    """The ops of one graph, as columns. Ops of function bodies have their call op's name as a prefix.

    ``name``, ``type``: one string an op. ``inputs``: tensor names (``"x:0"``). ``control``: op names.
    ``line``: index into :attr:`Record.lines`, -1 if unknown. ``device``: the device asked for, ``""`` if none.
    """

    id: int
    name: tuple[str, ...]
    type: tuple[str, ...]
    inputs: tuple[tuple[str, ...], ...]
    control: tuple[tuple[str, ...], ...]
    line: tuple[int, ...]

    @cached_property
    def index(self) -> dict[str, int]:
        """Op name -> row."""
        return {name: row for row, name in enumerate(self.name)}

    @cached_property
    def consumers(self) -> tuple[tuple[int, ...], ...]:
        """Row -> rows of the ops that take one of its outputs as data."""
        found: list[list[int]] = [[] for _ in self.name]
        for row, inputs in enumerate(self.inputs):
            for tensor in inputs:
                producer = self.index.get(tensor.rpartition(":")[0])
                if producer is not None and (not found[producer] or found[producer][-1] != row):
                    found[producer].append(row)
        return tuple(tuple(rows) for rows in found)


@dataclass(frozen=True, slots=True)
class Cause:
    """Why an op could not be reused, or why it was not though it could.

    ``call`` is the call that brought it about (absolute in what users see). ``may``: it may have, as the
    branch or the order is not known. ``text`` is a sentence fragment, such as ``feed `x:0` changed``.
    """

    kind: str
    source: str
    call: int | None
    text: str
    may: bool = False


@dataclass(frozen=True, slots=True)
class CauseRow:
    """A :class:`Cause` as stored: ``back`` calls before the call that has it (``None``: no call).

    ``text`` may hold ``{call}``, replaced by the absolute number.
    """

    kind: str
    source: str
    back: int | None
    text: str
    may: bool = False


@dataclass(frozen=True, slots=True)
class Columns:
    """What one call executed and, for completeness, what its fetches needed but did not run.

    All tuples have one entry an op row. ``status`` and ``evidence`` are strings of letters. ``seconds`` is
    op time of all executions in the call; ``count`` the number of executions (loop iterations counted).
    ``witness`` is how many calls back the witness lies. ``cause`` has indices into :attr:`Record.causes`,
    root cause first. ``into`` is the row that a merged or fused op went into, -1 if none. ``shape`` indexes
    :attr:`Record.shapes`, -1 if not measured. ``start`` is in seconds after the start of the call, -1 if not
    measured; ``device`` indexes :attr:`Record.devices`, -1 if not measured.
    """

    op: tuple[int, ...]
    status: str
    evidence: str
    seconds: tuple[float, ...]
    bytes: tuple[int, ...]
    count: tuple[int, ...]
    witness: tuple[int | None, ...]
    cause: tuple[tuple[int, ...], ...]
    into: tuple[int, ...] = ()
    shape: tuple[int, ...] = ()
    start: tuple[float, ...] = ()
    device: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Call:
    """One entry of the log: a call, or ``repeat`` equal calls in a row, the first of which is ``index``.

    ``kind``: ``run``, ``callable``, ``partial_run_setup``, ``partial_run``, ``function``, ``train_on_batch``.
    ``start`` and ``seconds`` are wall time (a median where repeated). ``failed`` is the error's text.
    ``versions`` are (index into :attr:`Record.sources`, label) pairs: what the sources held in this call.
    ``needs`` lists for each fetch the placeholders that it really needs. ``trace`` is ``full``, ``light``,
    ``off`` or ``missing``.
    """

    index: int
    kind: str
    graph: int
    session: int
    thread: int
    fetches: tuple[str, ...]
    feeds: tuple[str, ...]
    line: int
    start: float
    seconds: float
    columns: int
    failed: str | None = None
    repeat: int = 1
    versions: tuple[tuple[int, str], ...] = ()
    needs: tuple[tuple[str, ...], ...] = ()
    trace: str = "full"


@dataclass(frozen=True, slots=True)
class Finding:
    """Something worth knowing that is not a verdict on one op; ``kind`` is one of :data:`FINDINGS`."""

    kind: str
    ops: tuple[str, ...]
    call: int | None
    text: str


@dataclass(frozen=True, slots=True)
class ModeResult:
    """What came of replaying a recording in a mode.

    ``equality``: ``equal``, ``close``, ``differs``, ``not applicable`` or ``reproduced`` (mode ``run``).
    ``seconds`` is wall time a replay (median), ``setup_seconds`` what is paid once, ``speedup`` against
    the replayed ``run``, ``bytes_held`` what the mode keeps between calls.
    """

    mode: str
    applicable: bool
    reason: str = ""
    equality: str = "not applicable"
    max_difference: float = 0.0
    seconds: float = 0.0
    setup_seconds: float = 0.0
    speedup: float = 0.0
    bytes_held: int = 0
    executed: int = 0
    recomputed: int = 0
    reused: int = 0
    break_even: int | None = None
    code: str = ""


@dataclass(frozen=True, slots=True)
class OpExecution:
    """One op in one call, as users see it. ``seconds`` is op time, ``witness`` an absolute call number."""

    name: str
    type: str
    call: int
    status: str
    evidence: str
    seconds: float
    bytes: int
    count: int
    shapes: str
    device: str
    causes: tuple[Cause, ...]
    witness: int | None
    into: str | None
    line: Line | None
    start: float | None

    @property
    def executed(self) -> bool:
        """Whether the op ran in this call."""
        return self.status in {"computed", "recomputed"}

    @property
    def bookkeeping(self) -> bool:
        """Whether headline counts leave the op out, see :data:`BOOKKEEPING`."""
        return self.type in BOOKKEEPING


@dataclass(frozen=True)
class Record:
    """Everything a recording says, ready for any view."""

    name: str
    environment: Mapping[str, Any]
    lines: tuple[Line, ...]
    graphs: tuple[GraphTable, ...]
    sources: tuple[Source, ...]
    causes: tuple[CauseRow, ...]
    columns: tuple[Columns, ...]
    calls: tuple[Call, ...]
    findings: tuple[Finding, ...] = ()
    modes: tuple[ModeResult, ...] = ()
    shapes: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def call_count(self) -> int:
        """Number of calls, repeats counted."""
        return sum(call.repeat for call in self.calls)

    def entry(self, index: int) -> Call:
        """Return the entry of the log that holds call ``index`` (negative: from the end)."""
        if index < 0:
            index += self.call_count
        low, high = 0, len(self.calls)
        while low < high:
            middle = (low + high) // 2
            if self.calls[middle].index + self.calls[middle].repeat <= index:
                low = middle + 1
            else:
                high = middle
        if index < 0 or low == len(self.calls):
            raise IndexError(index)
        return self.calls[low]

    def cause(self, row: int, call: int) -> Cause:
        """Return a cause with absolute call numbers, as seen from ``call``."""
        stored = self.causes[row]
        absolute = None if stored.back is None else call - stored.back
        text = stored.text.replace("{call}", str(absolute))
        return Cause(stored.kind, stored.source, absolute, text, stored.may)

    def line(self, index: int) -> Line | None:
        """Return the line at ``index``, ``None`` for -1."""
        return self.lines[index] if index >= 0 else None

    def executions(self, index: int) -> Iterator[OpExecution]:
        """Yield every op of call ``index``, in the order of the columns."""
        entry = self.entry(index)
        if index < 0:
            index += self.call_count
        graph, columns = self.graphs[entry.graph], self.columns[entry.columns]
        for i, row in enumerate(columns.op):
            back = columns.witness[i]
            into = columns.into[i] if columns.into else -1
            shape = columns.shape[i] if columns.shape else -1
            device = columns.device[i] if columns.device else -1
            start = columns.start[i] if columns.start else -1.0
            yield OpExecution(
                name=graph.name[row],
                type=graph.type[row],
                call=index,
                status=STATUSES[columns.status[i]],
                evidence=EVIDENCES[columns.evidence[i]],
                seconds=columns.seconds[i],
                bytes=columns.bytes[i],
                count=columns.count[i],
                shapes=self.shapes[shape] if shape >= 0 else "",
                device=self.devices[device] if device >= 0 else "",
                causes=tuple(self.cause(cause, index) for cause in columns.cause[i]),
                witness=None if back is None else index - back,
                into=graph.name[into] if into >= 0 else None,
                line=self.line(graph.line[row]),
                start=start if start >= 0 else None,
            )

    def summary(self) -> dict[str, Any]:
        """Return counts, op seconds and bytes per status, without bookkeeping ops, over all calls.

        ``redundant_share_of_op_seconds`` is recomputed / (computed + recomputed) op time, a sum over ops, not
        wall time. ``ops`` and ``executed`` count op executions.
        """
        counts = dict.fromkeys(STATUSES.values(), 0)
        seconds = dict.fromkeys(STATUSES.values(), 0.0)
        sizes = dict.fromkeys(STATUSES.values(), 0)
        bookkeeping = 0
        totals: dict[tuple[int, int], int] = {}
        for call in self.calls:
            key = (call.graph, call.columns)
            totals[key] = totals.get(key, 0) + call.repeat
        for (graph_id, columns_id), times in totals.items():
            types, columns = self.graphs[graph_id].type, self.columns[columns_id]
            for i, row in enumerate(columns.op):
                if types[row] in BOOKKEEPING:
                    bookkeeping += columns.count[i] * times if columns.status[i] in "cr" else 0
                    continue
                status = STATUSES[columns.status[i]]
                counts[status] += max(columns.count[i], 1) * times
                seconds[status] += columns.seconds[i] * times
                sizes[status] += columns.bytes[i] * times
        ran = seconds["computed"] + seconds["recomputed"]
        return {
            **counts,
            "calls": self.call_count,
            "executed": counts["computed"] + counts["recomputed"],
            "bookkeeping": bookkeeping,
            "op_seconds": seconds,
            "bytes": sizes,
            "wall_seconds": sum(call.seconds * call.repeat for call in self.calls),
            "redundant_share_of_op_seconds": seconds["recomputed"] / ran if ran else 0.0,
        }
