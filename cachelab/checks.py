"""Assertions on a recording, for tests and CI of people's own code."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final

from cachelab.calls import op_name
from cachelab.errors import NameNotFoundError, NotApplicableError, RecomputedError
from cachelab.i18n import plural
from cachelab.i18n import translate as _
from cachelab.model import BOOKKEEPING

if TYPE_CHECKING:
    from cachelab.model import GraphTable, OpExecution, Record

_LISTED: Final = 10
"""Ops named in an error before the rest is only counted."""


def assert_not_recomputed(record: Record, pattern: str) -> None:
    """Raise unless every op that matches ran only with inputs that it had not been run with before.

    Parameters
    ----------
    record
        The record to check.
    pattern
        Op names, with ``*``, ``?`` and ``[...]`` as in file names: ``"enc/*"``. Case matters. Ops that only hold or
        pass on a value (``Const``, variables' handles, ...) count only if nothing else matches.

    Raises
    ------
    RecomputedError
        Some op was recomputed; an :class:`AssertionError` that lists ops, calls and causes.
    NameNotFoundError
        No op of the recorded calls matches, so that the assertion could never fail.
    NotApplicableError
        There is no trace of a call that lists such ops, so that nothing can be said of it.
    """
    rows = [_rows(graph, op_name(pattern)) for graph in record.graphs]
    listed = [bool(rows[entry.graph].intersection(record.columns[entry.columns].op)) for entry in record.calls]
    if not any(listed):
        raise NameNotFoundError(
            _("No op of the recorded calls matches {pattern!r}.").format(pattern=pattern),
            _("An assertion on it could never fail: correct the pattern."),
        )
    found: dict[str, list[tuple[range, OpExecution]]] = {}
    for entry in (entry for entry, lists in zip(record.calls, listed, strict=True) if lists):
        columns, graph = record.columns[entry.columns], record.graphs[entry.graph]
        matches = {
            graph.name[row] for row, status in zip(columns.op, columns.status, strict=True)
            if status == "r" and row in rows[entry.graph]
        }  # fmt: skip
        if not matches:
            continue
        calls = range(entry.index, entry.index + entry.repeat)
        for execution in record.executions(entry.index):
            if execution.name in matches:
                found.setdefault(execution.name, []).append((calls, execution))
    if found:
        _fail(pattern, found)
    for entry, lists in zip(record.calls, listed, strict=True):
        if lists and entry.trace in {"off", "missing"}:
            raise NotApplicableError(
                _("Nothing is recomputed as far as is known, but there is no trace of call {call}.").format(
                    call=entry.index
                ),
                _("Record with trace='auto', 'full' or 'light'."),
            )


def _rows(graph: GraphTable, pattern: str) -> set[int]:
    """Return the rows of the ops that match; those that only hold or pass on a value only if no other does."""
    rows = {row for row, name in enumerate(graph.name) if fnmatchcase(name, pattern)}
    return {row for row in rows if graph.type[row] not in BOOKKEEPING} or rows


def _fail(pattern: str, found: dict[str, list[tuple[range, OpExecution]]]) -> None:
    ops = plural("{n} op was recomputed", "{n} ops were recomputed", len(found))
    lines = [_("{ops} of those that match {pattern!r}:").format(ops=ops, pattern=pattern)]
    for name, places in list(found.items())[:_LISTED]:
        execution = places[0][1]
        cause = "; ".join(cause.text for cause in execution.causes)
        calls = ", ".join(str(calls[0]) if len(calls) == 1 else f"{calls[0]}-{calls[-1]}" for calls, _op in places)
        lines.append(
            _("  {name} in call {calls} as in call {witness}: {cause}").format(
                name=name, calls=calls, witness=execution.witness, cause=cause
            )
        )
    if len(found) > _LISTED:
        lines.append(plural("  and {n} more op", "  and {n} more ops", len(found) - _LISTED))
    raise RecomputedError("\n".join(lines), "\n" + _("recording.advise() names what to keep between the calls."))
