"""The tables beside the matrix: calls, causes, where redundant ops were built, modes, findings."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

import numpy as np

from cachelab.i18n import plural
from cachelab.i18n import translate as _
from cachelab.views import headline, words
from cachelab.views.marks import bar, block, head, marked, quiet, swatch, table

if TYPE_CHECKING:
    from cachelab.model import ModeResult, Record
    from cachelab.views.matrix import Matrix
    from cachelab.views.slots import Slot
    from cachelab.views.tally import Figures, Tally

_OPEN_FINDINGS = 8
_MOST_FINDINGS = 120
_HEAVIEST = 10
_BAR = 64


def calls(record: Record, tally: Tally, matrix: Matrix) -> str:
    """Return a row for each call, or for calls that are alike."""
    figures = [tally.table(slot.call).figures for slot in matrix.slots]
    seconds = words.seconds_column(part.op_seconds for part in figures)
    wall = words.seconds_column(slot.call.seconds for slot in matrix.slots)
    top = max((part.op_seconds for part in figures), default=0.0) or 1.0
    header = head(
        ("#", ""),
        (_("fetches"), ""),
        (_("ran"), "r"),
        (_("recomputed"), "r"),
        (_("op time"), "r"),
        ("", "w"),
        (_("wall"), "r"),
    )
    rows = []
    for slot, part in zip(matrix.slots, figures, strict=True):
        if slot.omitted:
            text = plural("{n} call is left out", "{n} calls are left out", slot.calls)
            rows.append(f'<tr><td>…</td><td class="q" colspan="6">{escape(text)}</td></tr>')
            continue
        rows.append(
            f"{_call_start(record, slot, part)}"
            f'<td class="r">{_about(slot, part)}{seconds(part.op_seconds)}</td>'
            f"<td>{bar(part.redundant_seconds, part.op_seconds - part.redundant_seconds, _width(part, top))}</td>"
            f'<td class="r">{wall(slot.call.seconds)}</td></tr>'
        )
        if slot.call.failed is not None:
            reason = escape(words.first_line(slot.call.failed, 200))
            rows.append(f'<tr><td></td><td class="why" colspan="6"><b>{_("failed")}</b> {reason}</td></tr>')
    several = any(slot.calls > 1 for slot in matrix.slots)
    return block(_("Calls"), table(header, rows), _("figures are for one call each") if several else "")


def _about(slot: Slot, part: Figures) -> str:
    """Return the sign of an estimate where the op times of a call come from other calls."""
    return "≈ " if part.op_seconds and headline.estimated(slot.call) else ""


def _width(part: Figures, top: float) -> str:
    return f"{_BAR * part.op_seconds / top:.1f}px"


def _call_start(record: Record, slot: Slot, part: Figures) -> str:
    call = slot.call
    line = record.line(call.line)
    where = f"{line.file}, {line.number}: {line.text.strip()}" if line else ""
    kind = "" if call.kind == "run" else f" {quiet(call.kind)}"
    again = f"{part.recomputed:,}" if part.recomputed else quiet("–")
    return (
        f'<tr><td>{slot.label}</td><td class="m" title="{escape(where)}">'
        f"{escape(headline.fetch_names(call, 24))}{kind}</td>"
        f'<td class="r">{part.ran:,}</td><td class="r">{again}</td>'
    )


def causes(record: Record, tally: Tally) -> str:
    """Return a row for each kind of root cause."""
    if not tally.causes:
        return ""
    seconds = words.seconds_column(found.seconds for found in tally.causes)
    rows = [
        f'<tr><td>{swatch(found.letter)}</td><td class="m">{escape(found.kind or "–")}</td>'
        f'<td class="r">{found.ran:,}</td><td class="r">{seconds(found.seconds)}</td>'
        f'<td class="q">{marked(headline.cause_text(record, found))}</td></tr>'
        for found in tally.causes
    ]
    header = head(("", ""), (_("cause"), ""), (_("ran"), "r"), (_("op time"), "r"), ("", ""))
    return block(_("Causes"), table(header, rows))


def heaviest(record: Record, tally: Tally) -> str:
    """Return the ops with most redundant op time and the lines that built them, folded."""
    found = [
        (float(again[row]), graph, int(row))
        for graph, again in enumerate(tally.redundant_seconds)
        for row in np.argsort(-again, kind="stable")[:_HEAVIEST]
        if again[row] > 0 and tally.counted[graph][row]
    ]
    found.sort(key=lambda part: (-part[0], part[1:]))
    if not found:
        return ""
    seconds = words.seconds_column(part[0] for part in found)
    rows = []
    for time, graph, row in found[:_HEAVIEST]:
        name = record.graphs[graph].name[row]
        line = record.line(record.graphs[graph].line[row])
        where = _("{file}, line {n}").format(file=line.file, n=line.number) if line else "–"
        code = escape(line.text.strip()[:200]) if line else ""
        built = f'<td class="q" title="{code}">{escape(words.shorten(where, 60))}</td>'
        rows.append(
            f'<tr><td class="m" title="{escape(name[:300])}">{escape(words.shorten(name, 34))}</td>'
            f'{built}<td class="r">{seconds(time)}</td></tr>'
        )
    header = head((_("op"), ""), (_("built at"), ""), (_("redundant"), "r"))
    title = _("Where the redundant ops were built")
    return f'<details class="blk"><summary>{title}</summary>{table(header, rows)}</details>'


def modes(record: Record) -> str:
    """Return a row for each mode in which the recording was replayed."""
    if not record.modes:
        return ""
    header = head((_("mode"), ""), (_("wall"), "r"), (_("speed"), "r"), (_("held"), "r"), (_("results"), ""))
    return block(_("Modes"), table(header, [_mode(result) for result in record.modes]))


def _mode(result: ModeResult) -> str:
    name = f'<tr><td class="m">{escape(result.mode)}</td>'
    if not result.applicable:
        return f'{name}<td class="q" colspan="4">{_("not applicable")}: {marked(result.reason)}</td></tr>'
    speed = f"{result.speedup:.2f}×" if result.speedup else "–"
    proof = words.proof(result)
    return (
        f'{name}<td class="r">{words.seconds(result.seconds)}</td><td class="r">{speed}</td>'
        f'<td class="r">{words.size(result.bytes_held)}</td><td class="q">{marked(proof)}</td></tr>'
    )


def findings(record: Record) -> str:
    """Return the findings, those after the first few folded."""
    found = record.findings
    if not found:
        return ""
    items = []
    for number, finding in enumerate(found[:_MOST_FINDINGS], 1):
        where = finding.kind + ("" if finding.call is None else f", {words.call_name(finding.call)}")
        items.append(f"<li><b>{number}</b><span>{marked(finding.text)} {quiet(where)}</span></li>")
    html = f'<ol class="fd">{"".join(items[:_OPEN_FINDINGS])}</ol>'
    if len(found) > _OPEN_FINDINGS:
        rest = plural("{n} more finding", "{n} more findings", len(found) - _OPEN_FINDINGS)
        left_out = len(found) - _MOST_FINDINGS
        if left_out > 0:
            items.append(
                f"<li><b>…</b><span>{quiet(plural('{n} is left out', '{n} are left out', left_out))}</span></li>"
            )
        folded = "".join(items[_OPEN_FINDINGS:])
        html += f'<details><summary>{rest}</summary><ol class="fd">{folded}</ol></details>'
    return block(_("Findings"), html)
