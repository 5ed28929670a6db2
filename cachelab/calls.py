"""One call of a recording, as users read it: a light view on the columns of a :class:`~cachelab.model.Record`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cachelab.errors import NameNotFoundError
from cachelab.i18n import translate as _

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cachelab.model import Call, Line, OpExecution, Record


class CallView:
    """One call: what was asked, how long it took, what ran.

    A loop of 10,000 equal calls is one entry of the record and 10,000 of these; each holds two references and a
    number, and reads all else from the record when asked.
    """

    __slots__ = ("_entry", "_record", "index")

    def __init__(self, record: Record, entry: Call, index: int) -> None:
        self._record = record
        self._entry = entry
        self.index = index

    @property
    def kind(self) -> str:
        """``run``, ``callable``, ``partial_run_setup``, ``partial_run``, ``function`` or ``train_on_batch``."""
        return self._entry.kind

    @property
    def fetches(self) -> tuple[str, ...]:
        """Names of the fetched tensors and operations."""
        return self._entry.fetches

    @property
    def feeds(self) -> tuple[str, ...]:
        """Names of the fed tensors."""
        return self._entry.feeds

    @property
    def needs(self) -> dict[str, tuple[str, ...]]:
        """Each fetch with the placeholders that it really needs."""
        return dict(zip(self._entry.fetches, self._entry.needs, strict=False))

    @property
    def seconds(self) -> float:
        """Wall time in seconds; the median where equal calls follow each other."""
        return self._entry.seconds

    @property
    def start(self) -> float:
        """Seconds from the start of the recording to the first of the equal calls."""
        return self._entry.start

    @property
    def failed(self) -> str | None:
        """The error's text if the call failed."""
        return self._entry.failed

    @property
    def trace(self) -> str:
        """``full``, ``light``, ``off`` or ``missing``: where the knowledge of what ran comes from."""
        return self._entry.trace

    @property
    def graph(self) -> int:
        """Number of the graph."""
        return self._entry.graph

    @property
    def session(self) -> int:
        """Number of the session."""
        return self._entry.session

    @property
    def thread(self) -> int:
        """Number of the thread that made the call."""
        return self._entry.thread

    @property
    def line(self) -> Line | None:
        """The line of user code that made the call: file, number and text."""
        return self._record.line(self._entry.line)

    @property
    def versions(self) -> dict[str, str]:
        """What each source (feed, variable, ...) held in this call, as a label."""
        return {self._record.sources[source].name: label for source, label in self._entry.versions}

    @property
    def ops(self) -> tuple[OpExecution, ...]:
        """What ran and, for completeness, what the fetches needed but did not run."""
        return tuple(self._record.executions(self.index))

    def op(self, name: str) -> OpExecution:
        """Return one op of this call, by op name or by the name of one of its tensors.

        Raises
        ------
        NameNotFoundError
            The graph has no such op, or this call did not need it.
        """
        wanted = op_name(name)
        for execution in self._record.executions(self.index):
            if execution.name == wanted:
                return execution
        known = wanted in self._record.graphs[self._entry.graph].index
        raise NameNotFoundError(
            _("Call {call} was asked for op {name!r}, which it did not need.").format(call=self.index, name=wanted)
            if known
            else _("Call {call} was asked for op {name!r}, which its graph does not have.").format(
                call=self.index, name=wanted
            ),
            _("See .ops for those that it lists."),
        )

    def __iter__(self) -> Iterator[OpExecution]:
        return self._record.executions(self.index)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, CallView):
            return NotImplemented
        return self._record is other._record and self.index == other.index

    def __hash__(self) -> int:
        return hash((id(self._record), self.index))

    def __repr__(self) -> str:
        feeds = f", feeds={list(self.feeds)}" if self.feeds else ""
        failed = f", failed={self.failed!r}" if self.failed else ""
        return f"<call {self.index}: {self.kind} {list(self.fetches)}{feeds}, {self.seconds:.3g} s{failed}>"


def op_name(name: str) -> str:
    """Return the op's name of a tensor name (``"h:0"``, ``"^h"``), or the name itself."""
    head, colon, tail = name.lstrip("^").rpartition(":")
    return head if colon and tail.isdigit() else name.lstrip("^")


def views_of(record: Record) -> tuple[CallView, ...]:
    """Return a view on each call of a record, repeats expanded."""
    return tuple(
        CallView(record, entry, index)
        for entry in record.calls
        for index in range(entry.index, entry.index + entry.repeat)
    )


def describe_difference(record: Record, before: int, after: int) -> str:
    """Return what differs between two calls of a record: sources first, then the ops that ran or did not.

    Parameters
    ----------
    record
        The record that holds both calls.
    before, after
        Numbers of the calls; negative ones count from the end.

    Raises
    ------
    NameNotFoundError
        The record has no call of that number.
    """
    one, other = (find_call(record, index) for index in (before, after))
    lines = [
        _("Call {one} ({fetches}) and call {other} ({others}):").format(
            one=one.index, fetches=", ".join(one.fetches), other=other.index, others=", ".join(other.fetches)
        )
    ]
    versions, others = one.versions, other.versions
    for name in sorted(versions.keys() | others.keys()):
        if versions.get(name) != others.get(name):
            was, now = (held.get(name, _("not used")) for held in (versions, others))
            lines.append(f"  {name}: {was} -> {now}")
    missing = _("not needed")
    ran, runs = ({op.name: op.status for op in call if not op.bookkeeping} for call in (one, other))
    changed = [(name, ran.get(name, missing), runs.get(name, missing)) for name in (ran | runs)]
    lines += [f"  {name}: {was} -> {now}" for name, was, now in changed if was != now]
    if len(lines) == 1:
        lines.append("  " + _("the same sources and the same ops with the same statuses"))
    return "\n".join(lines)


def find_call(record: Record, index: int) -> CallView:
    """Return a view on one call; negative numbers count from the end.

    Raises
    ------
    NameNotFoundError
        The record has no call of that number.
    """
    try:
        entry = record.entry(index)
    except IndexError:
        raise NameNotFoundError(
            _("Call {call} was asked for; the recording has {count} calls.").format(
                call=index, count=record.call_count
            ),
            _("Calls are numbered from 0."),
        ) from None
    return CallView(record, entry, index if index >= 0 else index + record.call_count)
