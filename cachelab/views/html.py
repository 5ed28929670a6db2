"""The persistent record: one static page fragment, with no script and no network, for any notebook front end.

Everything that comes from graphs, files and calls is escaped. Front ends that strip styles and pictures (untrusted
notebooks) still show text and tables that say the same, with a letter for each status.
"""

from __future__ import annotations

import re
from html import escape
from typing import TYPE_CHECKING

import numpy as np

from cachelab.i18n import plural
from cachelab.i18n import translate as _
from cachelab.model import STATUSES
from cachelab.views import headline, words
from cachelab.views.matrix import Matrix
from cachelab.views.picture import picked, picture
from cachelab.views.style import ROOT, stylesheet
from cachelab.views.svg import Drawing
from cachelab.views.tally import Tally

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cachelab.model import Record
    from cachelab.views.matrix import OpRow, SourceRow
    from cachelab.views.slots import Slot

_MOST_FINDINGS = 8
_DENSE = 12
_LETTERED = 0.3
_HEAVIEST = 10
_CODE = re.compile(r"`([^`]*)`")


def page(record: Record) -> str:
    """Return the record as a complete HTML document."""
    title = escape(f"CacheLab: {record.name}" if record.name else "CacheLab")
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        '<meta name="viewport" content="width=device-width"><style>'
        "html{color-scheme:light dark}body{margin:16px 24px;background:#fff}"
        "@media (prefers-color-scheme:dark){body{background:#111317}}</style></head>"
        f"<body>{fragment(record)}</body></html>\n"
    )


def fragment(record: Record) -> str:
    """Return the record as an HTML fragment for the output of a cell.

    Parameters
    ----------
    record
        The recording.

    Returns
    -------
    str
        A ``<section>`` with its style; under 300 kB for any recording.
    """
    return _Fragment(record).markup()


def marked(text: str, limit: int = 600) -> str:
    """Return escaped text in which ```name``` is set as code."""
    text = text if len(text) <= limit else text[: limit - 1] + "…"
    return _CODE.sub(r"<code>\1</code>", escape(text))


def swatch(letter: str, title: str = "") -> str:
    """Return the mark of a status: colour, shape and letter."""
    said = f"{words.status_title(letter)}{title}"
    return f'<span class="st {words.LETTERS[letter]}" title="{escape(said)}">{words.LETTERS[letter]}</span>'


def bar(redundant: float, rest: float, width: str) -> str:
    """Return a bar of redundant and other op time. A space inside keeps it apart where styles are stripped."""
    parts = [("R", redundant), ("C", rest)]
    whole = (redundant + rest) or 1.0
    drawn = "".join(f'<i class="{k}" style="flex:{100 * v / whole:.4g} 0 0"></i>' for k, v in parts if v > 0)
    return f'<div class="bar" style="width:{width}">{drawn}</div>'


def _none(text: str) -> str:
    return f'<span class="q">{text}</span>'


class _Fragment:
    def __init__(self, record: Record) -> None:
        self.record = record
        self.tally = Tally(record)
        self.matrix = Matrix(record, self.tally)

    def markup(self) -> str:
        said = escape(headline.counts(self.record, self.tally))
        parts = [f'<section class="{ROOT}" aria-label="{said}"><style>{stylesheet()}</style>', self._head()]
        if self.record.calls:
            wide = " wide" if len(self.matrix.slots) > _DENSE else ""
            parts += [
                self._figures(),
                self._graph(),
                f'<div class="two{wide}"><div class="blk">{self._matrix()}</div><div class="side">',
                f"<div>{self._calls()}</div><div>{self._causes()}{self._heaviest()}{self._modes()}{self._findings()}</div></div></div>",
            ]
        else:
            parts += [self._findings()]
        return "\n".join(parts) + "</section>"

    # --- head --------------------------------------------------------------------------------------------------

    def _head(self) -> str:
        facts = (
            [self.record.name, *headline.origin(self.record, self.tally)] if self.record.calls else [self.record.name]
        )
        line = " ".join(f"<span>{escape(fact)}</span>" for fact in facts if fact)
        return (
            f'<div class="head"><b>CacheLab</b> {line}</div>'
            f'<h2 class="hl">{marked(headline.headline(self.record, self.tally))}</h2>'
            f'<p class="say">{marked(headline.sentence(self.record, self.tally))}</p>'
        )

    def _figures(self) -> str:
        total, rest = self.tally.total, self.tally.total.op_seconds - self.tally.total.redundant_seconds
        note = _("op times are sums; placeholders and reads are not counted")
        hint = _("{n} executions of bookkeeping ops (placeholders, constants, variable reads, ...) are left out")
        figures = _("<b>{a}</b> of <b>{b}</b> <span class=q>op time redundant</span>").format(
            a=words.seconds(total.redundant_seconds), b=words.seconds(total.op_seconds)
        )
        executed = _("<b>{a}</b> of <b>{b}</b> <span class=q>op executions recomputed</span>").format(
            a=f"{total.recomputed:,}", b=f"{total.ran:,}"
        )
        wall = f"<b>{words.seconds(self.tally.wall_seconds)}</b> <span class=q>{_('wall time')}</span>"
        split = ""
        if total.op_seconds:
            split = (
                f'<div class="split"><div>{swatch("r")} {_("recomputed")} {words.seconds(total.redundant_seconds)}</div> '
                f"{bar(total.redundant_seconds, rest, 'auto')} <div>{_('computed')} {words.seconds(rest)} {swatch('c')}</div></div>"
            )
        return (
            f'<div class="figs"><div>{figures}</div> <div>{executed}</div> <div>{wall}</div> '
            f'<div class="q end" title="{escape(hint.format(n=f"{total.bookkeeping:,}"))}">{escape(note)}</div></div>{split}'
        )

    # --- graph -------------------------------------------------------------------------------------------------

    def _graph(self) -> str:
        chosen = picked(self.record, self.tally)
        if chosen is None:
            return ""
        shown = picture(self.record, self.tally, chosen[0])
        if not shown.leaves:
            return ""
        note = _("bars show each scope's mix of ops")
        if shown.compared:
            note = _("= same version as in the call before that used it, ≠ new; {note}").format(note=note)
        drawn = Drawing(self.record, shown).markup()
        return (
            f"<h3>{_('Call {n}').format(n=shown.index)} <span>{escape(note)}</span></h3>"
            f'<div class="scroll">{drawn}</div>'
        )

    # --- matrix ------------------------------------------------------------------------------------------------

    def _matrix(self) -> str:
        used = self.matrix.slots
        heads = "".join(
            f'<th class="c" title="{escape(self._slot_title(slot))}">{self._slot_head(slot)}</th>' for slot in used
        )
        lines = [self._source_row(row) for row in self.matrix.sources()[0]]
        left_out = self.matrix.sources()[1]
        if left_out:
            text = plural("… {n} more source", "… {n} more sources", left_out)
            lines.append(f'<tr><td class="q">{escape(text)}</td></tr>')
        seconds = words.seconds_column(float(s.sum()) for s in self.tally.op_seconds)
        for graph in self.matrix.graphs:
            if len(self.matrix.graphs) > 1:
                lines.append(f'<tr class="sc"><td class="q">{_("graph {n}").format(n=graph)}</td></tr>')
            lines += [self._op_row(row, seconds) for row in self.matrix.rows(graph)]
        dense = " dense" if len(used) > _DENSE else ""
        return (
            f"<h3>{_('Ops by call')} <span>{_('an unbroken source bar is an unchanged value')}</span></h3>"
            f'<div class="scroll"><table class="mx{dense}"><thead><tr><th>{_("sources, then ops")}</th>{heads}'
            f'<th class="r">{_("op time")}</th><th class="r">{_("redundant")}</th></tr></thead>'
            f"<tbody>{''.join(lines)}</tbody></table></div>{self._key()}"
        )

    def _key(self) -> str:
        """Return the marks that occur, with their names."""
        seen = {letter for graph, columns in self.tally.times for letter in set(self.tally.of(graph, columns).shown)}
        marks = " ".join(f"<span>{swatch(q)} {STATUSES[q]}</span>" for q in words.ORDER if q in seen)
        return f'<div class="key">{marks}</div>'

    @staticmethod
    def _slot_head(slot: Slot) -> str:
        if slot.omitted:
            return "…"
        return str(slot.first) if slot.calls == 1 else f"{slot.first}–<br>{slot.last}"

    @staticmethod
    def _slot_title(slot: Slot) -> str:
        if slot.omitted:
            return _("calls {label} are left out").format(label=slot.label)
        return (_("call {label}") if slot.calls == 1 else _("calls {label}, alike")).format(label=slot.label)

    def _source_row(self, row: SourceRow) -> str:
        name = ", ".join(row.names[:3]) + (f" +{len(row.names) - 3}" if len(row.names) > 3 else "")  # noqa: PLR2004
        cells = []
        for span in row.spans:
            wide = f' colspan="{span.slots}"' if span.slots > 1 else ""
            if span.label is None:
                cells.append(f"<td{wide}></td>")
                continue
            kind = "many" if span.many > 1 else "" if span.fresh else "on"
            title = f"{span.many} versions: {span.label}" if span.many > 1 else span.label
            text = f"{span.many:,}" if span.many > 1 else span.label[: 4 if span.slots == 1 else 12]
            if span.slots == 1 and len(self.matrix.slots) > _DENSE:
                text = ""
            cells.append(
                f'<td class="c v"{wide}><span class="ver {kind}" title="{escape(title)}">{escape(text)}</span></td>'
            )
        title = escape(f"{row.kind}: {', '.join(row.names[:40])}")
        return f'<tr><td class="m" title="{title}">{escape(name)}</td>{"".join(cells)}<td></td><td></td></tr>'

    def _op_row(self, row: OpRow, seconds) -> str:  # noqa: ANN001 - from words.seconds_column
        node = row.node
        single, is_open = node.kind == "op", bool(node.shown)
        cells = "".join(
            f'<td class="c">{"" if is_open or not cell else self._cell(cell, slot, single)}</td>'
            for cell, slot in zip(row.cells, self.matrix.slots, strict=True)
        )
        sign = "" if single else "▾ " if is_open else "▸ " if node.kind in {"scope", "group"} else ""
        count = "" if single or node.kind == "more" else f' <span class="q s0">{len(node.rows)}</span>'
        name = words.shorten(node.label, 34)
        top = ' class="sc"' if node.kind in {"scope", "group"} else ""
        indent = f' style="padding-left:{15 * row.depth}px"' if row.depth else ""
        redundant = seconds(row.redundant) if row.redundant else _none("–")
        return (
            f'<tr{top}><td class="m"{indent} title="{escape(node.path)}">{sign}{escape(name)}{count}</td>{cells}'
            f'<td class="r">{seconds(row.seconds)}</td><td class="r">{redundant}</td></tr>'
        )

    @staticmethod
    def _cell(cell: dict[str, int], slot: Slot, single: bool) -> str:
        if single or len(cell) == 1:
            letter, count = next(iter(cell.items()))
            return f'<b class="st {words.LETTERS[letter]}">{words.LETTERS[letter]}</b>'
        total = sum(cell.values())
        parts = "".join(
            f'<b class="st {words.LETTERS[q]}" style="flex-grow:{n}">{words.LETTERS[q] if n >= _LETTERED * total else ""}</b>'
            for q, n in list(cell.items())[:3]
        )
        said = ", ".join(f"{n} {words.LETTERS[q]}" for q, n in cell.items())
        return f'<div class="mix" title="{_("call {n}").format(n=slot.label)}: {said} / {total}">{parts}</div>'

    # --- lists -------------------------------------------------------------------------------------------------

    def _calls(self) -> str:
        figures = [self.tally.table(slot.call).figures for slot in self.matrix.slots]
        seconds = words.seconds_column(part.op_seconds for part in figures)
        wall = words.seconds_column(slot.call.seconds for slot in self.matrix.slots)
        top = max((part.op_seconds for part in figures), default=0.0) or 1.0
        several = any(slot.calls > 1 for slot in self.matrix.slots)
        rows = [
            f'<tr><th>#</th><th>{_("fetches")}</th><th class="r">{_("ran")}</th><th class="r">{_("recomputed")}</th>'
            f'<th class="r">{_("op time")}</th><th style="width:74px"></th><th class="r">{_("wall")}</th></tr>'
        ]
        for slot, part in zip(self.matrix.slots, figures, strict=True):
            if slot.omitted:
                text = plural("{n} call is left out", "{n} calls are left out", slot.calls)
                rows.append(f'<tr><td>…</td><td class="q" colspan="6">{escape(text)}</td></tr>')
                continue
            call = slot.call
            line = self.record.line(call.line)
            where = f"{line.file}:{line.number}: {line.text.strip()}" if line else ""
            kind = "" if call.kind == "run" else f' <span class="q">{escape(call.kind)}</span>'
            width = f"{64 * part.op_seconds / top:.1f}px"
            rows.append(
                f'<tr><td>{slot.label}</td><td class="m" title="{escape(where)}">'
                f"{escape(headline.fetch_names(call, 26))}{kind}</td>"
                f'<td class="r">{part.ran:,}</td><td class="r">{f"{part.recomputed:,}" if part.recomputed else _none("–")}</td>'
                f'<td class="r">{seconds(part.op_seconds)}</td>'
                f"<td>{bar(part.redundant_seconds, part.op_seconds - part.redundant_seconds, width)}</td>"
                f'<td class="r">{wall(call.seconds)}</td></tr>'
            )
            if call.failed is not None:
                reason = words.shorten(call.failed.strip().split("\n", 1)[0], 200)
                rows.append(f'<tr><td></td><td class="why" colspan="6"><b>{_("failed")}</b> {escape(reason)}</td></tr>')
        note = f" <span>{_('figures are for one call each')}</span>" if several else ""
        return f'<div class="blk"><h3>{_("Calls")}{note}</h3><table>{"".join(rows)}</table></div>'

    def _causes(self) -> str:
        if not self.tally.causes:
            return ""
        seconds = words.seconds_column(found.seconds for found in self.tally.causes)
        rows = [
            f'<tr><th></th><th>{_("cause")}</th><th class="r">{_("ran")}</th><th class="r">{_("op time")}</th><th></th></tr>'
        ]
        rows += [
            f'<tr><td>{swatch(found.letter)}</td><td class="m">{escape(found.kind or "–")}</td>'
            f'<td class="r">{found.ran:,}</td><td class="r">{seconds(found.seconds)}</td>'
            f'<td class="q">{marked(headline.cause_text(self.record, found))}</td></tr>'
            for found in self.tally.causes
        ]
        return f'<div class="blk"><h3>{_("Causes")}</h3><table>{"".join(rows)}</table></div>'

    def _heaviest(self) -> str:
        """Return the ops with most redundant op time and the lines that built them, folded."""
        rows = [
            (float(again[row]), graph, int(row))
            for graph, again in enumerate(self.tally.redundant_seconds)
            for row in np.argsort(-again, kind="stable")[:_HEAVIEST]
            if again[row] > 0 and self.tally.counted[graph][row]
        ]
        rows.sort(key=lambda found: (-found[0], found[1:]))
        if not rows:
            return ""
        seconds = words.seconds_column(found[0] for found in rows)
        lines = [f'<tr><th>{_("op")}</th><th>{_("built at")}</th><th class="r">{_("redundant")}</th></tr>']
        for time, graph, row in rows[:_HEAVIEST]:
            table = self.record.graphs[graph]
            line = self.record.line(table.line[row])
            where = f"{line.file}, {_('line')} {line.number}" if line else "–"
            lines.append(
                f'<tr><td class="m" title="{escape(table.name[row])}">{escape(words.shorten(table.name[row], 34))}</td>'
                f'<td class="q" title="{escape(line.text.strip() if line else "")}">{escape(words.shorten(where, 60))}</td>'
                f'<td class="r">{seconds(time)}</td></tr>'
            )
        title = _("Where the redundant ops were built")
        return f'<details class="blk"><summary>{title}</summary><table>{"".join(lines)}</table></details>'

    def _modes(self) -> str:
        if not self.record.modes:
            return ""
        heads = (_("mode"), _("wall"), _("speed"), _("held"), _("results"))
        rows = ["<tr>" + "".join(f"<th>{head}</th>" for head in heads) + "</tr>"]
        for result in self.record.modes:
            if not result.applicable:
                rows.append(
                    f'<tr><td class="m">{escape(result.mode)}</td><td class="q" colspan="4">'
                    f"{_('not applicable')}: {marked(result.reason)}</td></tr>"
                )
                continue
            proof = result.equality
            if result.equality == "close":
                proof += _(", within {d:.2g}").format(d=result.max_difference)
            reason = f": {marked(result.reason)}" if result.reason else ""
            rows.append(
                f'<tr><td class="m">{escape(result.mode)}</td><td>{words.seconds(result.seconds)}</td>'
                f"<td>{f'{result.speedup:.2f}×' if result.speedup else '–'}</td><td>{words.size(result.bytes_held)}</td>"
                f'<td class="q">{escape(proof)}{reason}</td></tr>'
            )
        return f'<div class="blk"><h3>{_("Modes")}</h3><table>{"".join(rows)}</table></div>'

    def _findings(self) -> str:
        found = self.record.findings
        if not found:
            return ""
        items = [
            f'<li><b>{number}</b><span>{marked(finding.text)} <span class="q">{escape(finding.kind)}'
            f"{'' if finding.call is None else ', ' + words.call_name(finding.call)}</span></span></li>"
            for number, finding in enumerate(found[:120], 1)
        ]
        html = f'<ol class="fd">{"".join(items[:_MOST_FINDINGS])}</ol>'
        if len(found) > _MOST_FINDINGS:
            rest = plural("{n} more finding", "{n} more findings", len(found) - _MOST_FINDINGS)
            html += f'<details><summary>{rest}</summary><ol class="fd">{"".join(items[_MOST_FINDINGS:])}</ol></details>'
        return f'<div class="blk"><h3>{_("Findings")}</h3>{html}</div>'


def lines(texts: Iterable[str]) -> str:
    """Return texts as paragraphs."""
    return "".join(f"<p>{marked(text)}</p>" for text in texts)
