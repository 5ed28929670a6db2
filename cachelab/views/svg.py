"""Draws the picture of one call as SVG: a status is colour, shape and letter; everything of the user is escaped."""

from __future__ import annotations

import zlib
from html import escape
from typing import TYPE_CHECKING

from cachelab.i18n import translate as _
from cachelab.model import STATUSES
from cachelab.views import words
from cachelab.views.layout import Box, layered
from cachelab.views.picture import Picture, picked, picture
from cachelab.views.shapes import patterns, shape
from cachelab.views.sources import short
from cachelab.views.style import svg_stylesheet
from cachelab.views.tally import Tally

if TYPE_CHECKING:
    from cachelab.model import Record
    from cachelab.views.picture import View

_NODE, _SCOPE, _CHIP, _TITLE, _PAD = 34.0, 38.0, 18.0, 21.0, 9.0
_WIDE = 910.0
_CHIPS = 104.0
_LANE = 18.0
_LONGEST = 22
_ALONE = "cachelab-picture"

_IDLE = {
    "d": "fed", "m": "merged", "k": "folded", "u": "fused", "p": "not needed", "t": "branch not taken",
    "n": "not reached", "x": "unknown",
}  # fmt: skip


def svg(record: Record, call: int | None = None, *, tally: Tally | None = None) -> str:
    """Return the graph of one call as an SVG file of its own.

    Parameters
    ----------
    record
        The recording.
    call
        Number of the call; by default the one with most redundant op time.
    tally
        Sums of the record, if already made.

    Raises
    ------
    IndexError
        If there is no such call.
    """
    tally = tally or Tally(record)
    chosen = picked(record, tally) if call is None else (record.calls.index(record.entry(call)), call)
    if chosen is None:
        return _notice(_("Nothing was recorded."))
    shown = picture(record, tally, chosen[0])
    if not shown.leaves:
        return _notice(_("Call {n} lists nothing but placeholders, constants and reads.").format(n=chosen[1]))
    drawn = Drawing(record, shown)
    return drawn.markup(
        f'class="{_ALONE}" xmlns="http://www.w3.org/2000/svg"',
        f"<style>{svg_stylesheet(_ALONE)}.{_ALONE}{{background:var(--cl-page)}}</style>",
    )


def _notice(text: str) -> str:
    width = 8 * len(text) + 16
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="30"><rect width="100%" height="100%" '
        f'fill="#fff"/><text x="8" y="20" font-family="sans-serif" font-size="13">{escape(text)}</text></svg>'
    )


class Drawing:
    """Places and draws one picture.

    Parameters
    ----------
    record
        The recording.
    shown
        The picture.
    """

    def __init__(self, record: Record, shown: Picture) -> None:
        self.record, self.shown = record, shown
        self.at: dict[int, tuple[float, float, float, float]] = {}
        self.anchors: dict[int, float] = {}
        self.chips: dict[int, list[tuple[str, str, str]]] = {}
        self.uid = f"{zlib.crc32(repr((record.name, shown.call, shown.edges)).encode('utf-8', 'replace')):08x}"
        self.scopes: list[View] = []
        self.bottoms: dict[int, list[float]] = {}
        self.height = 0.0
        width, height = self._measure(shown.root, wrap=_WIDE)
        self._settle(shown.root, 0.0, 0.0)
        self.width, self.height = width + 8, height + 10

    # --- placing -----------------------------------------------------------------------------------------------

    def _measure(self, view: View, wrap: float | None = None) -> tuple[float, float]:
        """Return the size of a view, after placing its parts relative to it."""
        if not view.open:
            width, height = self._leaf_size(view)
            self.anchors[view.key] = height - 4 - (_NODE if view.node.kind == "op" else _SCOPE) / 2
            return width, height
        boxes = []
        for part in view.parts:
            width, height = self._measure(part, None if wrap is None else wrap - 2 * _PAD)
            boxes.append(Box(part.key, width, height, self.anchors[part.key]))
        layout = layered(boxes, self._lifted(view), wrap=wrap)
        root = view.parent is None
        dx, dy = (2.0, 2.0) if root else (_PAD, _TITLE)
        if len(layout.bands) > 1:
            dx = _LANE
        self.bottoms[view.key] = [bottom + dy for _top, bottom in layout.bands]
        for part in view.parts:
            box = layout.boxes[part.key]
            self.at[part.key] = (box.x + dx, box.y + dy, box.width, box.height)
        lines = sorted(self.at[part.key][1] + self.anchors[part.key] for part in view.parts)
        self.anchors[view.key] = lines[(len(lines) - 1) // 2] if lines else 0.0
        if root:
            return layout.width + 2 * dx, layout.height + 4
        return max(layout.width + 2 * dx, 7 * len(self._label(view)) + 150), layout.height + _TITLE + _PAD

    def _lifted(self, view: View) -> list[tuple[int, int]]:
        """Return the edges between the parts of ``view``, also those between leaves deep inside them."""
        part_of: dict[int, int] = {}

        def mark(part: View, key: int) -> None:
            part_of[part.key] = key
            for below in part.parts:
                mark(below, key)

        for part in view.parts:
            mark(part, part.key)
        return [(part_of[a], part_of[b]) for a, b in self.shown.edges if a in part_of and b in part_of]

    def _settle(self, view: View, x: float, y: float) -> None:
        """Make the positions below ``view``, which lies at ``x``, ``y``, absolute."""
        self.bottoms[view.key] = [bottom + y for bottom in self.bottoms[view.key]]
        for part in view.parts:
            px, py, width, height = self.at[part.key]
            self.at[part.key] = (px + x, py + y, width, height)
            if part.open:
                self.scopes.append(part)
                self._settle(part, px + x, py + y)

    def _leaf_size(self, view: View) -> tuple[float, float]:
        width = max(7.1 * len(self._label(view)) + 30, 5.7 * len(self._sub(view)) + 30)
        if view.node.kind != "op":
            width = max(width, 5.9 * (len(self._mix(view)) + len(words.seconds(view.seconds))) + 28)
        self.chips[view.key] = chips = self._fitting(self._chips(view), max(width, _CHIPS))
        chip_width = sum(self._chip_width(text) + 4 for text, *_rest in chips)
        height = _NODE if view.node.kind == "op" else _SCOPE
        return max(76.0, width, chip_width - 4), height + (_CHIP if chips else 0) + 4

    def _fitting(self, chips: list[tuple[str, str, str]], width: float) -> list[tuple[str, str, str]]:
        """Return the chips that fit, and one that stands for the rest."""
        fitting, used = list[tuple[str, str, str]](), 0.0
        for i, chip in enumerate(chips):
            used += self._chip_width(chip[0]) + 4
            if fitting and used - 4 > width:
                rest = chips[i:]
                return [*fitting, (f"+{len(rest)}", "", "\n".join(title for _text, _class, title in rest))]
            fitting.append(chip)
        return fitting

    # --- words -------------------------------------------------------------------------------------------------

    def _label(self, view: View) -> str:
        name = words.shorten(view.node.name, _LONGEST)
        return f"{name} ×{view.node.times}" if view.node.times > 1 else name

    def _sub(self, view: View) -> str:
        letter = view.letter
        if letter == "s":
            table = self.record.columns[self.shown.call.columns]
            row = table.op.index(view.node.rows[0])
            return _("served {size}").format(size=words.size(table.bytes[row])) if table.bytes[row] else _("served")
        if letter in _IDLE:
            return _(_IDLE[letter])
        if not letter:
            return ""
        return words.seconds(view.seconds) if view.seconds else STATUSES[letter]  # a time of 0 was not measured

    def _mix(self, view: View) -> str:
        return ", ".join(f"{view.letters[q]} {words.LETTERS[q]}" for q in words.ORDER if view.letters[q])

    def _chips(self, view: View) -> list[tuple[str, str, str]]:
        """Return (text, class, title) of the sources docked on a leaf: equal marks of one kind share a chip."""
        groups: dict[tuple[str, bool | None], list[str]] = {}
        scope = view.node.path if view.node.kind != "op" else view.node.path.rpartition("/")[0]
        again = self.shown.index > self.shown.call.index
        for row, same in view.sources.items():
            source = self.record.sources[row]
            name = short(source)
            if scope and name.startswith(scope + "/"):
                name = name[len(scope) + 1 :]
            groups.setdefault((source.kind, True if again else same), []).append(name)
        chips = []
        for (kind, same), names in groups.items():
            mark = {True: " =", False: " ≠", None: ""}[same]
            shown = [words.shorten(name, 14) for name in names[:2]]
            text = ", ".join(shown) + (f" +{len(names) - 2}" if len(names) > 2 else "") + mark  # noqa: PLR2004
            classes = ("F " if kind == "feed" else "") + ("new" if same is False else "")
            said = {True: _("as before"), False: _("new"), None: _("no earlier version known")}[same]
            chips.append((text, classes.strip(), f"{kind} {', '.join(names[:20])}: {said}"))
        if view.fetched:
            chips.append((_("fetched"), "", _("a fetch of this call")))
        return chips

    @staticmethod
    def _chip_width(text: str) -> float:
        return len(text) * 6.1 + 10

    # --- drawing -----------------------------------------------------------------------------------------------

    def markup(self, attributes: str = "", style: str = "") -> str:
        """Return the ``<svg>`` element."""
        shown = self.shown
        said = _("Graph of call {n}: {parts}").format(
            n=shown.index, parts=", ".join(self._spoken(view) for view in list(shown.leaves.values())[:60])
        )
        size = f"{self.width:.0f}", f"{self.height:.0f}"
        box = f'width="{size[0]}" height="{size[1]}" viewBox="0 0 {size[0]} {size[1]}"'
        parts = [
            f'<svg {attributes} {box} role="img" aria-label="{escape(said)}">',
            style,
            patterns(self.uid),
        ]
        parts += [self._scope_box(view) for view in self.scopes]
        parts += [self._edge(pair, kind) for pair, kind in sorted(shown.edges.items(), key=lambda item: item[1])]
        parts += [self._node(view) if view.node.kind == "op" else self._scope(view) for view in shown.leaves.values()]
        # Text outside of <text> is not drawn; it keeps the words apart where a front end strips all SVG tags.
        return " ·\n".join(part for part in parts if part) + "</svg>"

    def _spoken(self, view: View) -> str:
        state = STATUSES[view.letter] if view.letter else self._mix(view)
        return f"{view.node.label} {state}"

    def _scope_box(self, view: View) -> str:
        x, y, width, height = self.at[view.key]
        note = words.seconds(view.seconds) if view.seconds else ""
        if view.letters["r"]:
            said = _("{n} of {all} recomputed").format(n=view.letters["r"], all=sum(view.letters.values()))
            note = f"{said}, {note}" if note else said
        return (
            f'<rect class="box" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" rx="6"/>'
            f'<text class="bt" x="{x + 9:.1f}" y="{y + 14:.1f}">▾ {escape(self._label(view))}</text> '
            f'<text class="sub" x="{x + width - 9:.1f}" y="{y + 14:.1f}" text-anchor="end">{escape(note)}</text>'
        )

    def _body(self, view: View) -> tuple[float, float, float, float]:
        """Return where the box itself is, below its chips."""
        x, y, width, height = self.at[view.key]
        own = _NODE if view.node.kind == "op" else _SCOPE
        return x, y + height - own - 4, width - (0 if view.node.kind == "op" else 3), own

    def _edge(self, pair: tuple[int, int], kind: str) -> str:
        ax, ay, aw, ah = self._body(self.shown.leaves[pair[0]])
        bx, by, _bw, bh = self._body(self.shown.leaves[pair[1]])
        x1, y1, x2, y2 = ax + aw, ay + ah / 2, bx, by + bh / 2
        if x2 >= x1 - 1:
            bend = max(10.0, (x2 - x1) / 2)
            path = f"M{x1:.1f} {y1:.1f}C{x1 + bend:.1f} {y1:.1f} {x2 - bend:.1f} {y2:.1f} {x2 - 4:.1f} {y2:.1f}"
        else:
            # Backwards, or on to the next band: down between the bands and in from the left.
            parent = self.shown.leaves[pair[0]].parent
            bottoms = self.bottoms[parent.key] if parent else []
            below = next((bottom for bottom in bottoms if bottom >= ay + ah - 1), ay + ah)
            lane = below + (8 if by > below else 4)
            path = (
                f"M{x1:.1f} {y1:.1f}h4q6 0 6 6V{lane - 6:.1f}q0 6 -6 6H{x2 - 8:.1f}q-6 0 -6 {6 if y2 > lane else -6}"
                f"V{y2 - (6 if y2 > lane else -6):.1f}q0 {6 if y2 > lane else -6} 6 {6 if y2 > lane else -6}h4"
            )
        head = f"M{x2 - 6:.1f} {y2 - 3:.1f}l6 3l-6 3z"
        return f'<path class="e {kind}" d="{path}"/><path class="ah {kind}" d="{head}"/>'

    def _chip_row(self, view: View, x: float, y: float) -> str:
        drawn = []
        for text, classes, title in self.chips[view.key]:
            width = self._chip_width(text)
            rounding = 0 if "F" in classes.split() else 7
            drawn.append(
                f'<g class="chip {classes}"><title>{escape(title)}</title>: '
                f'<rect x="{x:.1f}" y="{y - 18:.1f}" width="{width:.1f}" height="14" rx="{rounding}"/>'
                f'<text x="{x + 5:.1f}" y="{y - 7.5:.1f}">{escape(text)}</text></g>'
            )
            x += width + 4
        return " ".join(drawn)

    def _node(self, view: View) -> str:
        x, y, width, height = self._body(view)
        letter = words.LETTERS[view.letter]
        inset = 13 if letter == "S" else 12 if letter in "FU" else 9
        title = f"{view.node.path}: {words.status_title(view.letter)}, {self._sub(view)}"
        return (
            f'<g class="n {letter}"><title>{escape(title)}</title>: {shape(letter, (x, y, width, height), self.uid)}'
            f'<text class="lt" x="{x + inset:.1f}" y="{y + 15:.1f}">{letter}</text> '
            f'<text x="{x + inset + 12:.1f}" y="{y + 15:.1f}">{escape(self._label(view))}</text> '
            f'<text class="sub" x="{x + inset + 12:.1f}" y="{y + 28:.1f}">{escape(self._sub(view))}</text></g>'
            f"{self._chip_row(view, x, y)}"
        )

    def _scope(self, view: View) -> str:
        x, y, width, height = self._body(view)
        idle = set(view.letters) <= set("ptn")
        total, at, bars = sum(view.letters.values()), x + 6, []
        for q in words.ORDER:
            if view.letters[q]:
                part = (width - 12) * view.letters[q] / total
                bars.append(
                    f'<rect class="m{words.LETTERS[q]}" x="{at:.1f}" y="{y + height - 7:.1f}" '
                    f'width="{max(1.0, part - 1):.1f}" height="4"/>'
                )
                at += part
        title = f"{view.node.path}: {total} ops, {self._mix(view)}"
        sign = "▸ " if view.node.kind == "scope" else ""
        time = "" if idle or not view.seconds else words.seconds(view.seconds)
        return (
            f'<g class="n {"P" if idle else "C"}"><title>{escape(title)}</title>: '
            f'<rect class="shadow" x="{x + 3:.1f}" y="{y + 3:.1f}" width="{width:.1f}" height="{height}" rx="5"/>'
            f'<rect class="b scope" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height}" rx="5"/>'
            f'<text class="bt" x="{x + 8:.1f}" y="{y + 14:.1f}">{sign}{escape(self._label(view))}</text> '
            f'<text class="sub" x="{x + 8:.1f}" y="{y + 27:.1f}">{escape(self._mix(view))}</text> '
            f'<text class="sub" x="{x + width - 7:.1f}" y="{y + 27:.1f}" text-anchor="end">{escape(time)}</text>'
            f"{''.join(bars)}</g>{self._chip_row(view, x, y)}"
        )
