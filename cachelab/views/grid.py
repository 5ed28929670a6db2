"""The matrix op x call as an HTML table: it stays readable where a front end strips styles."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from cachelab.i18n import plural
from cachelab.i18n import translate as _
from cachelab.model import STATUSES
from cachelab.views import words
from cachelab.views.marks import quiet, swatch

if TYPE_CHECKING:
    from collections.abc import Callable

    from cachelab.views.matrix import Matrix, OpRow, SourceRow, Span
    from cachelab.views.slots import Slot
    from cachelab.views.tally import Tally

DENSE = 9
"""Number of calls above which cells are narrow and the matrix has the whole width."""

_LETTERED = 0.3
_NAMES = 3
_LONGEST = 34


def grid(matrix: Matrix, tally: Tally) -> str:
    """Return the matrix with its key.

    Parameters
    ----------
    matrix
        What to show.
    tally
        Sums of the record, for the times.
    """
    used = matrix.slots
    heads = "".join(f'<th class="c" title="{escape(_title(slot))}">{_head(slot)}</th>' for slot in used)
    rows, left_out = matrix.sources()
    lines = [_source_row(row, dense=len(used) > DENSE) for row in rows]
    if left_out:
        text = plural("… {n} more source", "… {n} more sources", left_out)
        lines.append(f"<tr><td>{quiet(text)}</td></tr>")
    seconds = words.seconds_column(float(sums.sum()) for sums in tally.op_seconds)
    for graph in matrix.graphs:
        if len(matrix.graphs) > 1:
            lines.append(f'<tr class="sc"><td>{quiet(_("graph {n}").format(n=graph))}</td></tr>')
        lines += [_op_row(row, used, seconds) for row in matrix.rows(graph)]
    dense = " dense" if len(used) > DENSE else ""
    return (
        f'<div class="scroll"><table class="mx{dense}"><thead><tr><th>{_("sources, then ops")}</th>{heads}'
        f'<th class="r">{_("op time")}</th><th class="r">{_("redundant")}</th></tr></thead>'
        f"<tbody>{''.join(lines)}</tbody></table></div>{_key(tally)}"
    )


def _key(tally: Tally) -> str:
    """Return the marks that occur, with their names."""
    seen = {letter for graph, columns in tally.times for letter in tally.of(graph, columns).shown}
    marks = " ".join(f"<span>{swatch(q)} {STATUSES[q]}</span>" for q in words.ORDER if q in seen)
    return f'<div class="key">{marks}</div>'


def _head(slot: Slot) -> str:
    if slot.omitted:
        return "…"
    return str(slot.first) if slot.calls == 1 else f"{slot.first}–<br>{slot.last}"


def _title(slot: Slot) -> str:
    if slot.omitted:
        return _("calls {label} are left out").format(label=slot.label)
    return (_("call {label}") if slot.calls == 1 else _("calls {label}, alike")).format(label=slot.label)


def _source_row(row: SourceRow, *, dense: bool) -> str:
    more = len(row.names) - _NAMES
    name = ", ".join(row.names[:_NAMES]) + (f" +{more}" if more > 0 else "")
    title = escape(f"{row.kind}: {', '.join(row.names[:40])}")
    cells = "".join(_span(span, dense=dense) for span in row.spans)
    return (
        f'<tr><td class="m" title="{title}">{escape(words.shorten(name, _LONGEST))}</td>{cells}<td></td><td></td></tr>'
    )


def _span(span: Span, *, dense: bool) -> str:
    wide = f' colspan="{span.slots}"' if span.slots > 1 else ""
    if span.label is None:
        return f"<td{wide}></td>"
    title = span.label
    text = "" if dense and span.slots == 1 else span.label[: 3 if span.slots == 1 else 12]
    kind = "" if span.fresh else " on"
    if span.many > 1:
        title = _("{n} versions: {label}").format(n=span.many, label=span.label)
        text, kind = "", " many"
    return f'<td class="c v"{wide}><span class="ver{kind}" title="{escape(title[:300])}">{escape(text)}</span></td>'


def _op_row(row: OpRow, slots: tuple[Slot, ...], seconds: Callable[[float], str]) -> str:
    node = row.node
    single, is_open = node.kind == "op", bool(node.shown)
    cells = "".join(
        f'<td class="c">{"" if is_open or not cell else _cell(cell, slot)}</td>'
        for cell, slot in zip(row.cells, slots, strict=True)
    )
    sign = "▾ " if is_open else "▸ " if node.kind in {"scope", "group"} else ""
    count = "" if single or node.kind == "more" else f' <span class="q s0">{len(node.rows)}</span>'
    top = ' class="sc"' if node.kind in {"scope", "group"} else ""
    indent = f' style="padding-left:{15 * row.depth}px"' if row.depth else ""
    redundant = seconds(row.redundant) if row.redundant else quiet("–")
    return (
        f'<tr{top}><td class="m"{indent} title="{escape(node.path[:300])}">{sign}'
        f"{escape(words.shorten(node.label, _LONGEST))}{count}</td>{cells}"
        f'<td class="r">{seconds(row.seconds)}</td><td class="r">{redundant}</td></tr>'
    )


def _cell(cell: dict[str, int], slot: Slot) -> str:
    if len(cell) == 1:
        shown = words.LETTERS[next(iter(cell))]
        return f'<b class="st {shown}">{shown}</b>'
    total = sum(cell.values())
    # Two parts fit: what matters most, and the largest of the others; the title tells all.
    main = next(iter(cell))
    other = max((letter for letter in cell if letter != main), key=cell.__getitem__)
    parts = []
    for letter in (main, other):
        shown = words.LETTERS[letter]
        wide = cell[letter] >= _LETTERED * (cell[main] + cell[other])
        kind, text = (shown, shown) if wide else (f"{shown} tiny", "")
        parts.append(f'<b class="st {kind}" style="flex-grow:{cell[letter]}">{text}</b>')
    said = ", ".join(f"{count} {STATUSES[letter]}" for letter, count in cell.items())
    return f'<div class="mix" title="{escape(_title(slot))}: {said} ({total})">{"".join(parts)}</div>'
