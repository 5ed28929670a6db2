"""Assertions on a recording, for tests and CI of people's own code."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final

from cachelab.calls import op_name
from cachelab.errors import NameNotFoundError, RecomputedError
from cachelab.i18n import plural
from cachelab.i18n import translate as _

if TYPE_CHECKING:
    from cachelab.model import OpExecution, Record

_LISTED: Final = 10
"""Ops named in an error before the rest is only counted."""


def assert_not_recomputed(record: Record, pattern: str) -> None:
    """Raise unless every op that matches ran only with inputs that it had not been run with before.

    Parameters
    ----------
    record
        The record to check.
    pattern
        Op names, with ``*``, ``?`` and ``[...]`` as in file names: ``"enc/*"``. Case matters.

    Raises
    ------
    RecomputedError
        Some op was recomputed; an :class:`AssertionError` that lists ops, calls and causes.
    NameNotFoundError
        No op of the recorded calls matches, so that the assertion could never fail.
    """
    wanted = op_name(pattern)
    seen = False
    found: dict[str, list[tuple[range, OpExecution]]] = {}
    for entry in record.calls:
        columns, graph = record.columns[entry.columns], record.graphs[entry.graph]
        matches = [fnmatchcase(graph.name[row], wanted) for row in columns.op]
        seen = seen or any(matches)
        if not any(match and status == "r" for match, status in zip(matches, columns.status, strict=True)):
            continue
        calls = range(entry.index, entry.index + entry.repeat)
        for match, execution in zip(matches, record.executions(entry.index), strict=True):
            if match and execution.status == "recomputed":
                found.setdefault(execution.name, []).append((calls, execution))
    if not seen:
        raise NameNotFoundError(
            _("No op of the recorded calls matches {pattern!r}.").format(pattern=pattern),
            _("An assertion on it could never fail: correct the pattern."),
        )
    if found:
        _fail(pattern, found)


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
