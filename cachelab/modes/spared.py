"""Which ops of a recording would run no more if the values of some were kept between calls."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from cachelab.model import Record

CALLS = re.compile("^(Stateless|Stateful)?(PartitionedCall|If|While|Case)$")
"""Types of ops that run a function."""


def spared(record: Record, graph: int, kept: Collection[int]) -> Iterator[tuple[Any, set[int]]]:
    """Yield the entries of the log with the ops that would run no more if ``kept`` were served where it is redundant.

    What another op still needs runs all the same.
    """
    table, known = record.graphs[graph], {}
    for entry in record.calls:
        if entry.graph != graph:
            continue
        key = (entry.columns, entry.fetches)
        if key not in known:
            columns = record.columns[entry.columns]
            letters = dict(zip(columns.op, columns.status, strict=True))
            fetched = (table.index.get(name.rpartition(":")[0] or name) for name in entry.fetches)
            runs, stack = set(), [row for row, letter in letters.items() if letter == "c"]
            stack += [row for row in fetched if row is not None and not (row in kept and letters.get(row) == "r")]
            while stack:
                row = stack.pop()
                if row in runs:
                    continue
                runs.add(row)
                stack += [
                    other
                    for other in _producers(table, row)
                    if letters.get(other, "d") != "d" and not (other in kept and letters[other] == "r")
                ]
            known[key] = {row for row, letter in letters.items() if letter == "r"} - runs
        yield entry, set(known[key])


def covered(record: Record, graph: int, rows: Collection[int]) -> set[int]:
    """Return the ops that are redundant in some call and then run no more if ``rows`` are kept."""
    runs: set[int] = set()
    saved: set[int] = set()
    for entry, gone in spared(record, graph, rows):
        columns = record.columns[entry.columns]
        again = {row for row, letter in zip(columns.op, columns.status, strict=True) if letter == "r"}
        runs |= again - gone
        saved |= gone
    return saved - runs


def ancestry(record: Record, graph: int, row: int) -> set[int]:
    """Return an op and its ancestors."""
    table = record.graphs[graph]
    seen, stack = {row}, [row]
    while stack:
        for producer in _producers(table, stack.pop()):
            if producer not in seen:
                seen.add(producer)
                stack.append(producer)
    return seen


def _producers(table: Any, row: int) -> Iterator[int]:
    """Yield what an op waits for; the call of a function also runs the ops of its body, whose names begin with its."""
    names = [*(tensor.rpartition(":")[0] for tensor in table.inputs[row]), *table.control[row]]
    yield from (table.index[name] for name in names if name in table.index)
    if CALLS.search(table.type[row]):
        prefix = f"{table.name[row]}/"
        yield from (other for other, name in enumerate(table.name) if name.startswith(prefix))
