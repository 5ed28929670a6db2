"""Small pieces of HTML that all tables share; what comes from outside is escaped here."""

from __future__ import annotations

import re
from html import escape

from cachelab.views import words

_CODE = re.compile(r"`([^`]*)`")


def marked(text: str, limit: int = 600) -> str:
    """Return escaped text, cut at ``limit``, in which names in backticks are set as code."""
    text = text if len(text) <= limit else text[: limit - 1] + "…"
    return _CODE.sub(r"<code>\1</code>", escape(text))


def swatch(letter: str) -> str:
    """Return the mark of a status: colour, shape and letter."""
    shown = words.LETTERS[letter]
    return f'<span class="st {shown}" title="{escape(words.status_title(letter))}">{shown}</span>'


def bar(redundant: float, rest: float, width: str) -> str:
    """Return a bar of redundant and other op time; ``width`` as in CSS."""
    whole = (redundant + rest) or 1.0
    parts = (("R", redundant), ("C", rest))
    drawn = "".join(f'<i class="{k}" style="flex:{100 * v / whole:.4g} 0 0"></i>' for k, v in parts if v > 0)
    return f'<div class="bar" style="width:{width}">{drawn}</div>'


def quiet(text: str) -> str:
    """Return escaped text in the second ink."""
    return f'<span class="q">{escape(text)}</span>'


def block(title: str, content: str, note: str = "") -> str:
    """Return a titled part of the record."""
    said = f" <span>{escape(note)}</span>" if note else ""
    return f'<div class="blk"><h3>{escape(title)}{said}</h3>{content}</div>'


def head(*cells: tuple[str, str]) -> str:
    """Return a head row of (text, class) cells."""
    drawn = "".join(f'<th class="{kind}">{text}</th>' if kind else f"<th>{text}</th>" for text, kind in cells)
    return f"<thead><tr>{drawn}</tr></thead>"


def table(header: str, rows: list[str]) -> str:
    """Return a table of a head and ready-made rows."""
    return f"<table>{header}<tbody>{''.join(rows)}</tbody></table>"
