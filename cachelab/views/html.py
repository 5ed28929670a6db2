"""The persistent record: one static page fragment, with no script and no network, for any notebook front end.

Everything that comes from graphs, files and calls is escaped. Front ends that strip styles and pictures (untrusted
notebooks) still show text and tables that say the same, with a letter for each status.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from cachelab.i18n import translate as _
from cachelab.views import headline, tables, words
from cachelab.views.grid import DENSE, grid
from cachelab.views.marks import bar, block, marked, quiet, swatch
from cachelab.views.matrix import Matrix
from cachelab.views.picture import picked, picture
from cachelab.views.style import ROOT, stylesheet
from cachelab.views.svg import Drawing
from cachelab.views.tally import Tally

if TYPE_CHECKING:
    from cachelab.model import Record


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
    tally = Tally(record)
    said = escape(headline.counts(record, tally))
    parts = [f'<section class="{ROOT}" aria-label="{said}"><style>{stylesheet()}</style>', _head(record, tally)]
    if record.calls:
        matrix = Matrix(record, tally)
        listed = any(rows.any() for rows in tally.listed)
        wide = " wide" if len(matrix.slots) > DENSE or not listed else ""
        title, note = _("Ops by call"), _("an unbroken source bar is an unchanged value")
        ops = block(title, grid(matrix, tally), note) if listed else ""
        parts += [
            _figures(record, tally),
            _graph(record, tally),
            f'<div class="two{wide}">{ops}<div class="side">',
            f"<div>{tables.calls(record, tally, matrix)}</div>",
            f"<div>{tables.causes(record, tally)}{tables.heaviest(record, tally)}",
            f"{tables.modes(record)}{tables.findings(record)}</div></div></div>",
        ]
    else:
        parts.append(tables.findings(record))
    return "\n".join(parts) + "</section>"


def _head(record: Record, tally: Tally) -> str:
    facts = [record.name, *(headline.origin(record, tally) if record.calls else ())]
    line = " ".join(f"<span>{escape(fact)}</span>" for fact in facts if fact)
    return (
        f'<div class="head"><b>CacheLab</b> {line}</div>'
        f'<h2 class="hl">{marked(headline.headline(record, tally))}</h2>'
        f'<p class="say">{marked(headline.sentence(record, tally), 2000)}</p>'
    )


def _figures(record: Record, tally: Tally) -> str:
    total = tally.total
    rest = total.op_seconds - total.redundant_seconds
    facts = [
        _of(words.seconds(total.redundant_seconds), words.seconds(total.op_seconds), _("op time redundant"))
        if total.op_seconds
        else "",
        _of(f"{total.recomputed:,}", f"{total.ran:,}", _("op executions recomputed")),
        f"<div><b>{words.seconds(tally.wall_seconds)}</b> {quiet(_('wall time'))}</div>",
    ]
    hint = _("{n} executions of bookkeeping ops (placeholders, constants, variable reads, ...) are left out")
    note = headline.time_note(record, tally)
    figures = (
        f'<div class="figs">{" ".join(fact for fact in facts if fact)} '
        f'<div class="q end" title="{escape(hint.format(n=f"{total.bookkeeping:,}"))}">{escape(note)}</div></div>'
    )
    if not total.op_seconds:
        return figures
    again = f"{_('recomputed')} {words.seconds(total.redundant_seconds)}"
    return (
        f'{figures}<div class="split"><div>{swatch("r")} {again}</div> '
        f"{bar(total.redundant_seconds, rest, 'auto')} "
        f"<div>{_('computed')} {words.seconds(rest)} {swatch('c')}</div></div>"
    )


def _of(part: str, whole: str, what: str) -> str:
    return f"<div>{_('{a} of {b}').format(a=f'<b>{part}</b>', b=f'<b>{whole}</b>')} {quiet(what)}</div>"


def _graph(record: Record, tally: Tally) -> str:
    chosen = picked(record, tally)
    shown = None if chosen is None else picture(record, tally, chosen[0])
    if shown is None or not shown.leaves:
        return ""
    note = _("bars show each scope's mix of ops")
    if shown.compared:
        note = _("= same version as in the call before that used it, ≠ new; {note}").format(note=note)
    title = _("Call {n}").format(n=shown.index)
    return f'<h3>{title} <span>{escape(note)}</span></h3><div class="scroll">{Drawing(record, shown).markup()}</div>'
