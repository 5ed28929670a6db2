"""Recordings whose marks are known by construction: the comment of a line says what its op did.

A line such as ``a = 1  # op enc/A 30 r`` makes an op ``enc/A`` that took 30 ms in each of three calls, was computed in
the first one and, with ``r``, recomputed in the others. ``mark()`` in a cell reads the cell and records it.
"""

from __future__ import annotations

import re
from itertools import count

from IPython import get_ipython

from cachelab.material import Material, ValueStore
from cachelab.model import Call, CauseRow, Columns, GraphTable, Line, Record
from cachelab.recording import Recording
from cachelab.session_state import recordings

OP = re.compile(r"#\s*op (?P<name>\S+) (?P<ms>[\d.]+) (?P<letter>[cr])")
MARK = re.compile(r"(?<![.\w])mark\(")
CALLS = 3
_names = count(1)


class Marked(Recording):
    """A recording of this session, as far as anybody asks."""

    @property
    def material(self):
        return Material(ValueStore(0))


def mark(number: int | None = None, name: str | None = None) -> Recording:
    """Record what the comments of a cell say; the call of ``mark`` is the line that issued the calls."""
    shell = get_ipython()
    own = shell.displayhook.prompt_count
    inputs = shell.history_manager.input_hist_raw
    found = _ops(number or own, inputs[number or own])
    issued = next(k for k, line in enumerate(inputs[own].splitlines(), 1) if MARK.search(line))
    lines = [line for line, _match in found] + [
        Line(f"cell {own}", issued, inputs[own].splitlines()[issued - 1].strip())
    ]
    ops = [match for _line, match in found]
    rows = range(len(ops))
    graph = GraphTable(
        id=0,
        name=tuple(op["name"] for op in ops),
        type=("MatMul",) * len(ops),
        inputs=tuple((f"{ops[row - 1]['name']}:0",) if row else () for row in rows),
        control=((),) * len(ops),
        line=tuple(rows),
    )
    seconds = tuple(float(op["ms"]) / 1e3 for op in ops)

    def columns(letters: str) -> Columns:
        again = [letter == "r" for letter in letters]
        return Columns(
            op=tuple(rows),
            status=letters,
            evidence="m" * len(ops),
            seconds=seconds,
            bytes=(4,) * len(ops),
            count=(1,) * len(ops),
            witness=tuple(1 if one else None for one in again),
            cause=tuple((1,) if one else (0,) for one in again),
        )

    record = Record(
        name=name or f"sample {next(_names)}",
        environment={},
        lines=tuple(lines),
        graphs=(graph,),
        sources=(),
        causes=(
            CauseRow("first", "", None, "no earlier call ran it"),
            CauseRow("not_kept", "", 1, "ran on the inputs of call {call}; a value lives for one call only"),
        ),
        columns=(columns("c" * len(ops)), columns("".join(op["letter"] for op in ops))),
        calls=tuple(
            Call(k, "run", 0, 0, 0, (f"{ops[-1]['name']}:0",), (), len(ops), 0.1 * k, sum(seconds), min(k, 1))
            for k in range(CALLS)
        ),
    )
    recording = Marked(record=record)
    recordings.add(recording)
    return recording


def _ops(number: int, text: str) -> list[tuple[Line, re.Match[str]]]:
    # IPython leaves empty lines at the top out before it compiles, and counts from what is left.
    lines = enumerate(re.sub(r"\A(\s*\n)+", "", text).splitlines(), 1)
    return [(Line(f"cell {number}", k, line.strip()), found) for k, line in lines if (found := OP.search(line))]
