"""Which lines of which notebook cells carry a mark: a recording knows ``cell 7, line 3``, the notebook knows cell ids.

Cells are told apart by Jupyter's cell ids, so that moving a cell changes nothing. Of a cell that was edited and run
again the text that was run last and has marks counts. A mark is placed only where the text of the line agrees.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from cachelab.model import Record
    from cachelab.views.line_marks import LineMark

UNKNOWN = "?"
"""What ids begin with that stand for the number of an execution."""
MOST_EXECUTIONS = 2_000
MOST_LINES = 300
MOST_SOURCE = 40_000
MOST_BYTES = 400_000
_CELL = re.compile(r"cell (\d+)$")
_MAGIC = re.compile(r"[%!?]")


@dataclass(frozen=True)
class Execution:
    """One execution of a cell: its number in the prompt, the cell's id (``""`` in a console), and its text."""

    number: int
    cell: str
    text: str


class CellBook:
    """What was executed under which number; the oldest are forgotten.

    Parameters
    ----------
    history
        Function (number) -> text of a cell that ran before anybody noted it, ``""`` if that is not known either. The
        front end finds such a cell by its number and text; its id here is ``?`` and the number.
    """

    def __init__(self, history: Callable[[int], str] = lambda _number: "") -> None:
        self._history = history
        self._by_number: dict[int, Execution] = {}
        self.latest: dict[str, Execution] = {}

    def note(self, number: int, cell: str, text: str) -> None:
        """Note that a cell starts to run."""
        execution = self._by_number[number] = Execution(number, cell, text)
        if cell:
            self.latest.pop(cell, None)
            self.latest[cell] = execution
        while len(self._by_number) > MOST_EXECUTIONS:
            gone = self._by_number.pop(next(iter(self._by_number)))
            if self.latest.get(gone.cell) is gone:
                del self.latest[gone.cell]

    def of(self, file: str) -> Execution | None:
        """Return the execution that a recording names ``cell 7``."""
        match = _CELL.match(file)
        if match is None:
            return None
        number = int(match[1])
        known = self._by_number.get(number)
        if known is None and (text := self._history(number)):
            known = Execution(number, f"{UNKNOWN}{number}", text)
        return known

    def ran_after(self, cell: str, number: int) -> bool:
        """Tell whether a cell ran again after its execution ``number``."""
        now = self.latest.get(cell)
        return now is not None and now.number > number

    def sharing(self, execution: Execution) -> list[str]:
        """Return the cells whose text is that of ``execution``: IPython knows code by its text, not by its cell."""
        same = [one.cell for one in self.latest.values() if one.text == execution.text]
        return [execution.cell, *(cell for cell in same if cell != execution.cell)]


@dataclass(frozen=True)
class Recorded:
    """A recording with the cell that ran it and the number of that execution."""

    name: str
    cell: str
    number: int
    marks: Sequence[LineMark]


def place(number: int, text: str, source: str) -> int | None:
    """Return the line of a cell (from 1) that a recording calls ``number`` with ``text``; ``None`` if none agrees.

    IPython drops empty lines at the top and rewrites magics before it compiles, and so may shift the lines below.
    """
    lines = [line.strip() for line in source.splitlines()]
    top = next((i for i, line in enumerate(lines) if line), 0)
    wanted, at = text.strip(), number - 1 + top
    if not wanted:
        return None
    if at < len(lines) and (
        lines[at] == wanted or ("get_ipython()" in wanted and wanted != lines[at] and _MAGIC.search(lines[at]))
    ):
        return at + 1
    same = [i for i, line in enumerate(lines) if line == wanted]
    return min(same, key=lambda i: abs(i - at)) + 1 if same else None


def marks_of(record: Record) -> list[LineMark]:
    """Return the marks of a recording whose line is in a cell."""
    from cachelab.views.line_marks import line_marks

    return [mark for mark in line_marks(record) if _CELL.match(mark.file)]


def cell_marks(book: CellBook, recorded: Iterable[Recorded]) -> tuple[list[dict[str, Any]], int]:
    """Return the marks of all cells as JSON data, and the number of cells left out because they are too large.

    Parameters
    ----------
    book
        What was executed.
    recorded
        The recordings, latest first: each line tells of the latest one in which it took part.
    """
    found: dict[str, dict[Execution, dict[int, tuple[Recorded, LineMark]]]] = {}
    for recording in recorded:
        for mark in recording.marks:
            execution = book.of(mark.file)
            line = None if execution is None or not execution.cell else place(mark.number, mark.text, execution.text)
            if execution is None or line is None:
                continue
            cells = book.sharing(execution)
            if mark.runs is not None and recording.cell in cells:
                cells = [recording.cell]
            for cell in cells:
                texts = found.setdefault(cell, {})
                same = next((known for known in texts if known.text == execution.text), execution)
                texts.setdefault(same, {}).setdefault(line, (recording, mark))
    order = sorted(found, key=lambda cell: -_last(book, cell, found[cell]).number)
    return _bounded([_cell(book, cell, found[cell]) for cell in order])


def _last(book: CellBook, cell: str, texts: Iterable[Execution]) -> Execution:
    """Return the text that was run last of those with marks."""
    now = book.latest.get(cell)
    return max(texts, key=lambda one: (now is not None and one.text == now.text, one.number))


def _cell(book: CellBook, cell: str, texts: dict[Execution, dict[int, tuple[Recorded, LineMark]]]) -> dict[str, Any]:
    from cachelab.views.line_marks import made_here, told

    execution = _last(book, cell, texts)
    lines = sorted(texts[execution].items())
    made, again = made_here(mark for _line, (_recording, mark) in lines)
    return {
        "id": cell,
        "source": execution.text,
        "shared": len(book.sharing(execution)) - 1,
        "made": made,
        "again": again,
        "marks": [
            {
                "line": line,
                "letter": mark.letter,
                "seconds": mark.shown.seconds,
                "redundant": mark.shown.redundant_seconds,
                "said": told(mark),
                "name": recording.name,
                "at": list(mark.at),
                "rerun": book.ran_after(cell, recording.number),
            }
            for line, (recording, mark) in lines[:MOST_LINES]
        ],
    }


def _bounded(cells: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], int]:
    """Keep the cells that ran last, as long as they fit into a message."""
    kept, size = [], 0
    for cell in cells:
        more = len(json.dumps(cell))
        if len(cell["source"]) <= MOST_SOURCE and size + more <= MOST_BYTES:
            kept.append(cell)
            size += more
    return kept, len(cells) - len(kept)
