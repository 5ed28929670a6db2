"""Which lines of which notebook cells carry a mark: a recording knows ``cell 7, line 3``, the notebook knows cell ids.

Cells are told apart by Jupyter's cell ids, so that moving a cell changes nothing. Of a cell that was edited and run
again the text that was run last and has marks counts. A mark is placed only where the text of the line agrees.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from cachelab.model import Record
    from cachelab.views.line_marks import LineMark

UNKNOWN = "?"
"""What ids begin with that stand for the number of an execution."""
MOST_EXECUTIONS = 2_000
MOST_LINES = 300
MOST_SOURCE = 40_000
MOST_BYTES = 400_000
_CELL = re.compile(r"cell (\d+)$")
_MAGIC = re.compile(r"get_ipython\(\)\.run_(?:line|cell)_magic\(['\"](\w+)")


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
        self._inside: dict[int, Execution] = {}
        self.latest: dict[str, Execution] = {}

    def note(self, number: int, cell: str, text: str) -> None:
        """Note that a cell starts to run."""
        execution = self._by_number[number] = Execution(number, cell, text)
        if cell:
            self.latest.pop(cell, None)
            self.latest[cell] = execution
        while len(self._by_number) > MOST_EXECUTIONS:
            gone = self._by_number.pop(next(iter(self._by_number)))
            self._inside.pop(gone.number, None)
            if self.latest.get(gone.cell) is gone:
                del self.latest[gone.cell]

    def note_inside(self, number: int, outer: int) -> None:
        """Note that code which runs inside of execution ``outer`` is named after ``number`` as well."""
        execution = self._by_number.get(outer)
        if execution is not None and number != outer:
            self._inside[number] = execution

    def origin(self, number: int, record: Record) -> Origin:
        """Return where a recording comes from that ended in execution ``number``."""
        execution = self._by_number.get(number)
        files = {line.file for line in record.lines}
        where = {file: self.of(file) for file in sorted(files)}
        return Origin("" if execution is None else execution.cell, number, where)

    def of(self, file: str) -> tuple[Execution, ...]:
        """Return the executions that a recording may name ``cell 7``."""
        match = _CELL.match(file)
        if match is None:
            return ()
        number = int(match[1])
        known = self._by_number.get(number)
        if known is None and (text := self._history(number)):
            known = Execution(number, f"{UNKNOWN}{number}", text)
        return tuple(one for one in (known, self._inside.get(number)) if one is not None)

    def ran_after(self, cell: str, number: int) -> bool:
        """Tell whether a cell ran again after its execution ``number``."""
        now = self.latest.get(cell)
        return now is not None and now.number > number

    def sharing(self, execution: Execution) -> list[str]:
        """Return the cells whose text is that of ``execution``: IPython knows code by its text, not by its cell."""
        same = [one.cell for one in self.latest.values() if one.text == execution.text]
        return [execution.cell, *(cell for cell in same if cell != execution.cell)]


@dataclass(frozen=True)
class Origin:
    """Where a recording comes from.

    ``cell`` ran it, in the execution ``number``. ``where`` says which executions each file name of the recording
    (``cell 7``) could mean when it ended: code that runs inside of a cell may get the number of the next one.
    """

    cell: str = ""
    number: int = 0
    where: Mapping[str, tuple[Execution, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class Recorded:
    """A recording with its marks."""

    name: str
    origin: Origin
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
    if at < len(lines) and (lines[at] == wanted or _is_magic(lines[at], wanted)):
        return at + 1
    same = [i for i, line in enumerate(lines) if line == wanted]
    return min(same, key=lambda i: abs(i - at)) + 1 if same else None


def _is_magic(typed: str, run: str) -> bool:
    """Tell whether ``run`` is what IPython makes of a typed line with a magic."""
    magic = _MAGIC.search(run)
    return magic is not None and f"%{magic[1]}" in typed


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
        The recordings, latest first. A line that made ops tells of the one that recomputed most executions of them, of
        those since its cell ran last; a line that issued calls, or whose ops were never recomputed, of the latest one.
    """
    found: dict[str, dict[Execution, dict[int, tuple[Recorded, LineMark]]]] = {}
    for recording in recorded:
        for mark in recording.marks:
            placed = _placed(recording.origin, mark)
            if placed is None:
                continue
            execution, line = placed
            cells = book.sharing(execution)
            if mark.runs is not None and recording.origin.cell in cells:
                cells = [recording.origin.cell]
            for cell in cells:
                texts = found.setdefault(cell, {})
                same = next((known for known in texts if known.text == execution.text), execution)
                lines = texts.setdefault(same, {})
                known = lines.get(line)
                if known is None or _tells_more(book, cell, (recording, mark), known):
                    lines[line] = (recording, mark)
    order = sorted(found, key=lambda cell: -_last(book, cell, found[cell]).number)
    return _bounded([_cell(book, cell, found[cell]) for cell in order])


def _tells_more(
    book: CellBook, cell: str, earlier: tuple[Recorded, LineMark], later: tuple[Recorded, LineMark]
) -> bool:
    """Tell whether a line shows an earlier mark although there is a later one: it recomputed more of the same ops."""
    rerun = [book.ran_after(cell, recording.origin.number) for recording, _mark in (earlier, later)]
    return rerun[0] == rerun[1] and later[1].runs is None and earlier[1].again > later[1].again


def _placed(origin: Origin, mark: LineMark) -> tuple[Execution, int] | None:
    """Return the execution and line of its text that a mark is of; ``None`` if there is none, or more than one."""
    places = [(one, place(mark.number, mark.text, one.text)) for one in origin.where.get(mark.file, ()) if one.cell]
    found = [(one, line) for one, line in places if line is not None]
    return found[0] if len(found) == 1 else None


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
                "rerun": book.ran_after(cell, recording.origin.number),
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
