"""Timeline and matrix with matplotlib, drawn on the user's axes or on a figure of their own: never through pyplot."""

from __future__ import annotations

import io
import warnings
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from cachelab.errors import OptionError
from cachelab.i18n import translate as _
from cachelab.model import STATUSES
from cachelab.views import words
from cachelab.views.headline import slot_label
from cachelab.views.matrix import Matrix
from cachelab.views.picture import picked
from cachelab.views.tally import Tally

if TYPE_CHECKING:
    from cachelab.model import OpExecution, Record

COLOURS = {
    "c": "#4f5a69", "r": "#c94f00", "s": "#0064b0", "d": "#b9609a", "m": "#007a5a", "k": "#007a5a", "u": "#007a5a",
    "p": "#7b8490", "t": "#7b8490", "n": "#7b8490", "x": "#5e4a00",
}  # fmt: skip
HATCHES = {"r": "////", "k": "..", "u": "||", "m": "--", "x": "xx"}
_MOST_OPS = 40


@cache
def _classes() -> tuple[Any, Any]:
    """Return a figure and axes that a notebook shows although pyplot doesn't know them."""
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    class ShownFigure(Figure):
        def _repr_png_(self) -> bytes:
            stream = io.BytesIO()
            with warnings.catch_warnings():
                # A name in a script that the font lacks is drawn as boxes; that is no news to its author.
                warnings.filterwarnings("ignore", message="Glyph .* missing")
                self.savefig(stream, format="png")
            return stream.getvalue()

    class ShownAxes(Axes):
        def _repr_png_(self) -> bytes | None:
            return self.figure._repr_png_() if isinstance(self.figure, ShownFigure) else None

    return ShownFigure, ShownAxes


def _axes(width: float, height: float) -> Any:
    """Return axes of a new figure of that size in inches."""
    figure_class, axes_class = _classes()
    return figure_class(figsize=(width, height), layout="constrained").add_subplot(axes_class=axes_class)


def plot_timeline(record: Record, call: int | None = None, ax: Any = None) -> Any:
    """Draw when each op of a call ran.

    Parameters
    ----------
    record
        The recording.
    call
        Number of the call; by default the one with most redundant op time.
    ax
        Axes to draw on; by default those of a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        Time in ms against ops; at most 40 ops, those that took longest. Ops whose start was not measured are drawn
        one after the other, and the axis says so.

    Raises
    ------
    OptionError
        If there is no such call.
    """
    if call is None:
        chosen = picked(record, Tally(record))
        call = None if chosen is None else chosen[1]
    elif not -record.call_count <= call < record.call_count:
        raise OptionError(
            _("There is no call {n} in this recording of {all} calls.").format(n=call, all=record.call_count),
            _("Calls are numbered from 0."),
        )
    ops = [] if call is None else [op for op in record.executions(call) if op.executed and not op.bookkeeping]
    left_out = max(0, len(ops) - _MOST_OPS)
    ops = sorted(ops, key=lambda op: -op.seconds)[:_MOST_OPS]
    measured = bool(ops) and all(op.start is not None for op in ops)
    if measured:
        ops.sort(key=lambda op: op.start or 0.0)
    else:
        order = {name: i for i, name in enumerate(record.graphs[record.entry(call or 0).graph].name)} if ops else {}
        ops.sort(key=lambda op: order[op.name])
    ax = ax if ax is not None else _axes(8, 1.2 + 0.22 * max(1, len(ops)))
    starts = (
        [op.start or 0.0 for op in ops] if measured else np.concatenate([[0.0], np.cumsum([op.seconds for op in ops])])
    )
    for letter in "cr":
        rows = [i for i, op in enumerate(ops) if STATUSES[letter] == op.status]
        if rows:
            _bars(ax, rows, [ops[i] for i in rows], [starts[i] for i in rows], letter)
    ax.set_yticks(range(len(ops)), [_plain(words.shorten(op.name, 40)) for op in ops], fontsize=8)
    ax.invert_yaxis()
    note = "" if measured or not ops else _(" (starts not measured: one after the other)")
    ax.set_xlabel(_("ms") + note)
    if call is None:
        ax.set_title(_("Nothing was recorded."), fontsize=10, loc="left")
    else:
        more = _(", {n} shorter ops left out").format(n=left_out) if left_out else ""
        ax.set_title(
            _("Op time in call {n}{more}").format(n=call % record.call_count, more=more), fontsize=10, loc="left"
        )
        if ops:
            ax.legend(fontsize=8, loc="best")
    return ax


def _bars(ax: Any, rows: list[int], ops: list[OpExecution], starts: list[float], letter: str) -> None:
    ax.barh(
        rows, [op.seconds * 1e3 for op in ops], left=[start * 1e3 for start in starts], height=0.7,
        facecolor=COLOURS[letter] + "55", edgecolor=COLOURS[letter], hatch=HATCHES.get(letter),
        label=f"{words.LETTERS[letter]} {STATUSES[letter]}",
    )  # fmt: skip


def plot_matrix(record: Record, ax: Any = None) -> Any:
    """Draw the matrix op x call; each cell has the colour, the hatch and the letter of its status.

    Parameters
    ----------
    record
        The recording.
    ax
        Axes to draw on; by default those of a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        Ops or collapsed scopes against calls; alike calls share a column.
    """
    from matplotlib.patches import Rectangle

    tally = Tally(record)
    matrix = Matrix(record, tally)
    rows = [row for graph in matrix.graphs for row in matrix.rows(graph)]
    ax = ax if ax is not None else _axes(3.2 + 0.34 * max(4, len(matrix.slots)), 1 + 0.22 * max(3, len(rows)))
    for y, row in enumerate(rows):
        for x, cell in enumerate(row.cells):
            if row.node.shown or not cell:
                continue
            left, total = x + 0.05, sum(cell.values())
            for letter, count in cell.items():
                width = 0.9 * count / total
                ax.add_patch(
                    Rectangle(
                        (left, y - 0.4),
                        width,
                        0.8,
                        facecolor=COLOURS[letter] + ("ff" if letter == "s" else "33"),
                        edgecolor=COLOURS[letter],
                        hatch=HATCHES.get(letter),
                        linewidth=0.8,
                        linestyle=":" if letter in "ptn" else "-",
                    )
                )
                if width > 0.3:  # noqa: PLR2004 - room for a letter
                    colour = "#ffffff" if letter == "s" else "#1a222d"
                    ax.text(
                        left + width / 2, y, words.LETTERS[letter], ha="center", va="center", fontsize=7, color=colour
                    )
                left += width
    ax.set_xlim(0, max(1, len(matrix.slots)))
    ax.set_ylim(max(1, len(rows)) - 0.5, -0.5)
    ax.set_yticks(
        range(len(rows)),
        [
            _plain("  " * row.depth + ("▾ " if row.node.shown else "") + words.shorten(row.node.label, 34))
            for row in rows
        ],
        fontsize=8,
    )
    ax.set_xticks([x + 0.5 for x in range(len(matrix.slots))], [slot_label(slot) for slot in matrix.slots], fontsize=8)
    ax.tick_params(length=0)
    ax.xaxis.tick_top()
    ax.set_xlabel(_("call") if record.calls else _("Nothing was recorded."))
    for side in ax.spines.values():
        side.set_visible(False)
    return ax


def _plain(text: str) -> str:
    """Return text that matplotlib does not read as mathematics."""
    return text.replace("$", r"\$")
