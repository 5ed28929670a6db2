"""The record as text: for terminals, pipes, and front ends that show nothing else."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any

from cachelab.i18n import plural
from cachelab.i18n import translate as _
from cachelab.views import headline, words
from cachelab.views.matrix import Matrix
from cachelab.views.tally import Tally

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cachelab.model import OpExecution, Record

_STYLES = {
    "r": "bold bright_red", "s": "bold bright_blue", "d": "magenta", "m": "green", "k": "green", "u": "green",
    "p": "dim", "t": "dim", "n": "dim", "x": "yellow", "c": "",
}  # fmt: skip
_NAME = 34
_MOST_FINDINGS = 20

Span = tuple[str, str]
"""A piece of text and its rich style."""


def report(record: Record) -> str:
    """Return the whole record as plain text, without colour."""
    return "\n".join("".join(text for text, _style in line).rstrip() for line in _lines(record)) + "\n"


def show(record: Record, file: Any = None) -> None:
    """Print the record; in colour if ``file`` (standard output by default) is a terminal."""
    from rich.console import Console
    from rich.text import Text

    console = Console(file=file, highlight=False, soft_wrap=True)
    if not console.is_terminal:
        console.file.write(report(record))
        return
    for line in _lines(record):
        console.print(Text.assemble(*line), markup=False)


def _lines(record: Record) -> Iterator[list[Span]]:
    """Yield the lines of the report as spans."""
    tally = Tally(record)
    name = [(f"CacheLab  {record.name}", "dim")] if record.name else [("CacheLab", "dim")]
    if not record.calls:
        yield name
        yield [(headline.counts(record, tally), "bold")]
    else:
        yield [*name, ("".join(f"  {fact}" for fact in headline.origin(record, tally)), "dim")]
        yield [(headline.counts(record, tally), "bold")]
        said = headline.sentence(record, tally)
        if said:
            yield [(said.replace("`", ""), "")]
        yield from _calls(record, tally)
        yield from _causes(record, tally)
        yield from _matrix(record, tally)
    yield from _modes(record)
    yield from _findings(record)
    if record.calls:
        yield []
        yield [(f"{headline.time_note(record, tally)} ({tally.total.bookkeeping:,})", "dim")]


def _calls(record: Record, tally: Tally) -> Iterator[list[Span]]:
    matrix = Matrix(record, tally)
    shown = [slot for slot in matrix.slots if not slot.omitted]
    figures = [tally.table(slot.call).figures for slot in shown]
    op_time = words.seconds_column(part.op_seconds for part in figures)
    wall = words.seconds_column(slot.call.seconds for slot in shown)
    first = max(6, max(len(slot.label) for slot in matrix.slots) + 2)
    name = max(9, min(40, max(len(headline.fetch_names(slot.call, 40)) for slot in shown) + 2))
    yield []
    names = f"{_('call'):<{first}}{_('fetches'):<{name}}{_('ran'):>7}{_('recomputed'):>12}{_('redundant'):>11}"
    yield [(f"{names}{_('op time'):>12}{_('wall'):>12}", "dim")]
    rows = iter(figures)
    for slot in matrix.slots:
        if slot.omitted:
            yield [(f"{'…':<{first}}" + plural("{n} call is left out", "{n} calls are left out", slot.calls), "dim")]
            continue
        part = next(rows)
        again = (f"{part.recomputed:>12,}", _STYLES["r"]) if part.recomputed else (f"{'–':>12}", "dim")
        share = words.share(part.share) if part.op_seconds else "–"
        time = ("≈ " if part.op_seconds and headline.estimated(slot.call) else "") + op_time(part.op_seconds)
        yield [
            (f"{slot.label:<{first}}{headline.fetch_names(slot.call, name - 2):<{name}}{part.ran:>7,}", ""),
            again,
            (f"{share:>11}{time:>12}{wall(slot.call.seconds):>12}", ""),
        ]
        if slot.call.failed is not None:
            reason = words.first_line(slot.call.failed, 160)
            yield [(f"{'':<{first}}{_('failed')}: {reason}", "bold")]


def _causes(record: Record, tally: Tally) -> Iterator[list[Span]]:
    if not tally.causes:
        return
    seconds = words.seconds_column(found.seconds for found in tally.causes)
    yield []
    yield [(f"  {_('cause'):<13}{_('ran'):>7}{_('op time'):>12}", "dim")]
    for found in tally.causes:
        yield [
            (words.LETTERS[found.letter], _STYLES[found.letter]),
            (f" {found.kind or '–':<13}{found.ran:>7,}{seconds(found.seconds):>12}  ", ""),
            (headline.cause_text(record, found).replace("`", ""), "dim"),
        ]


def _matrix(record: Record, tally: Tally) -> Iterator[list[Span]]:
    if not any(listed.any() for listed in tally.listed):
        return
    matrix = Matrix(record, tally)
    seconds = words.seconds_column(float(s.sum()) for s in tally.op_seconds)
    wide = max(3, max(len(_head(slot.label)) for slot in matrix.slots) + 1)
    yield []
    heads = "".join(f"{'…' if slot.omitted else _head(slot.label):>{wide}}" for slot in matrix.slots)
    yield [(f"{_('ops by call'):<{_NAME}}{heads}{_('op time'):>12}{_('redundant'):>12}", "dim")]
    seen = set[str]()
    for graph in matrix.graphs:
        if len(matrix.graphs) > 1:
            yield [(_("graph {n}").format(n=graph), "dim")]
        for row in matrix.rows(graph):
            node = row.node
            sign = "" if node.kind == "op" else "▾ " if node.shown else "▸ "
            count = "" if node.kind in {"op", "more"} else f" {len(node.rows)}"
            line: list[Span] = [
                (f"{'  ' * row.depth}{sign}{words.shorten(node.label, 26)}{count} ".ljust(_NAME)[:_NAME], "")
            ]
            for cell in row.cells:
                letters = "" if node.shown else "".join(words.LETTERS[q] for q in cell)[: wide - 1]
                seen.update({} if node.shown else cell)
                line.append((f"{letters:>{wide}}", _STYLES[next(iter(cell))] if letters else ""))
            redundant = seconds(row.redundant)
            line.append((f"{seconds(row.seconds):>12}{redundant:>12}", ""))
            yield line
    key = "  ".join(f"{words.LETTERS[q]} {words.status_title(q).split(':')[0]}" for q in words.ORDER if q in seen)
    yield [(key, "dim")]


def _head(label: str) -> str:
    """Return a label short enough for a narrow column: the first call of several, with ``+``."""
    first, dash, _last = label.partition("–")
    return f"{first}+" if dash else first


def _modes(record: Record) -> Iterator[list[Span]]:
    if not record.modes:
        return
    yield []
    yield [(f"{_('mode'):<14}{_('wall'):>10}{_('speed'):>9}{_('held'):>11}  {_('results')}", "dim")]
    for result in record.modes:
        if not result.applicable:
            yield [(f"{result.mode:<14}{_('not applicable')}: {result.reason}", "")]
            continue
        speed = f"{result.speedup:.2f}×" if result.speedup else "–"
        held = words.size(result.bytes_held)
        figures = f"{result.mode:<14}{words.seconds(result.seconds):>10}{speed:>9}{held:>11}"
        yield [(f"{figures}  {words.proof(result)}", "")]


def _findings(record: Record) -> Iterator[list[Span]]:
    if not record.findings:
        return
    yield []
    yield [(_("findings"), "dim")]
    for number, found in enumerate(record.findings[:_MOST_FINDINGS], 1):
        where = found.kind + ("" if found.call is None else f", {words.call_name(found.call)}")
        yield [(f"{number:>3}  {found.text.replace('`', '')}  ", ""), (f"({where})", "dim")]
    rest = len(record.findings) - _MOST_FINDINGS
    if rest > 0:
        yield [("     " + plural("… {n} more finding", "… {n} more findings", rest), "dim")]


OPS_HEADER = ("call", "op", "type", "status", "evidence", "seconds", "bytes", "cause")


def ops_lines(record: Record, tsv: bool = False) -> Iterator[str]:
    """Yield one line per call and op, with a header: ``call op type status evidence seconds bytes cause``.

    Parameters
    ----------
    record
        The recording. Each of a row of equal calls has its own lines.
    tsv
        Separate by tabs, for other programs; otherwise by spaces, aligned.

    Yields
    ------
    str
        A line without its end. ``seconds`` is op time; ``cause`` the root cause as ``kind: text``.
    """
    if tsv:
        yield "\t".join(OPS_HEADER)
        for row in _op_rows(record):
            yield "\t".join(field.translate(_CONTROL) for field in row)
        return
    wide = (
        max(4, len(str(record.call_count))),
        max((len(name) for graph in record.graphs for name in graph.name), default=2),
        max((len(kind) for graph in record.graphs for kind in graph.type), default=4),
        11, 8, 10, 11,
    )  # fmt: skip
    for row in chain((OPS_HEADER,), _op_rows(record)):
        yield " ".join(f"{field.translate(_CONTROL):<{w}}" for field, w in zip(row, (*wide, 0), strict=True)).rstrip()


_CONTROL = {ord(char): " " for char in "\t\n\r\v\f"}


def _op_rows(record: Record) -> Iterator[tuple[str, ...]]:
    for index in range(record.call_count):
        for op in record.executions(index):
            yield (
                str(op.call), op.name, op.type, op.status, op.evidence, f"{op.seconds:.3e}" if op.seconds else "0",
                str(op.bytes), cause(op),
            )  # fmt: skip


def cause(op: OpExecution) -> str:
    """Return the root cause of an execution as ``kind: text``, ``""`` if it has none."""
    if not op.causes:
        return ""
    root = op.causes[0]
    return f"{root.kind}: {root.text}" + (" (may)" if root.may else "")
