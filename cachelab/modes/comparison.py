"""A table of modes: what each did, how fast, what it holds, and whether its results are proved."""

from __future__ import annotations

import html
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cachelab.i18n import translate as _

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cachelab.modes.outcome import Replay

MILLISECOND = 1e-3
RIGHT = frozenset({2, 3, 4, 5, 6, 7, 8, 9})
"""Columns of numbers, set to the right."""


def seconds_text(seconds: float) -> str:
    """Return a time with its unit: µs below 1 ms, ms below 1 s."""
    if seconds < MILLISECOND:
        return f"{seconds * 1e6:.0f} µs"
    return f"{seconds * 1e3:.2f} ms" if seconds < 1 else f"{seconds:.2f} s"


def bytes_text(size: int) -> str:
    """Return a size with its unit, in powers of ten."""
    value = float(size)
    for unit in ("B", "kB", "MB"):
        if value < 1000:  # noqa: PLR2004 - powers of ten
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} GB"


@dataclass(frozen=True)
class Comparison:
    """Replays of one recording, side by side; prints as a table.

    Attributes
    ----------
    replays
        One :class:`~cachelab.modes.outcome.Replay` a mode, those that don't apply included.
    calls
        Number of calls in the recording.
    """

    replays: tuple[Replay, ...]
    calls: int

    def __iter__(self) -> Iterator[Replay]:
        return iter(self.replays)

    def __len__(self) -> int:
        return len(self.replays)

    def __getitem__(self, mode: str) -> Replay:
        """Return the replay of a mode."""
        for replay in self.replays:
            if replay.mode == mode:
                return replay
        raise KeyError(mode)

    @staticmethod
    def header() -> tuple[str, ...]:
        """Return the titles of the columns."""
        return (
            _("mode"), _("results"), _("wall time"), _("a call"), _("speedup"), _("setup"), _("pays from call"),
            _("executed"), _("recomputed"), _("reused"), _("held"), _("why"),
        )  # fmt: skip

    def rows(self) -> list[tuple[str, ...]]:
        """Return one tuple of texts a mode, as :meth:`header` names them."""
        found = []
        for replay in self.replays:
            result = replay.result
            if not replay.applicable:
                found.append((replay.mode, _("not applicable"), *([""] * 9), replay.reason))
                continue
            pays = "" if result.break_even is None or replay.mode == "run" else str(result.break_even)
            equality = result.equality
            if equality in {"close", "differs"}:
                equality += f" ({result.max_difference:.2g})"
            found.append((
                replay.mode, equality, seconds_text(result.seconds), seconds_text(result.seconds / max(self.calls, 1)),
                f"{result.speedup:.2f} ×", seconds_text(result.setup_seconds), pays, str(result.executed),
                str(result.recomputed), str(result.reused), bytes_text(result.bytes_held), replay.reason,
            ))  # fmt: skip
        return found

    def __str__(self) -> str:
        """Return the table as plain text."""
        rows = [self.header(), *self.rows()]
        widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]) - 1)]
        lines = []
        for row in rows:
            cells = [
                text.rjust(width) if column in RIGHT else text.ljust(width)
                for column, (text, width) in enumerate(zip(row, widths, strict=False))
            ]
            lines.append("  ".join([*cells, row[-1]]).rstrip())
        notes = [f"{replay.mode}: {note}" for replay in self.replays if replay.applicable for note in replay.notes]
        return "\n".join([*lines, *notes])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """Return the table as HTML that needs no script and no network."""
        cells = "".join(f'<th scope="col">{html.escape(title)}</th>' for title in self.header())
        body = []
        for replay, row in zip(self.replays, self.rows(), strict=True):
            kind = replay.equality.replace(" ", "-")
            data = "".join(
                f'<td style="text-align:{"right" if column in RIGHT else "left"}">{_marked(text)}</td>'
                for column, text in enumerate(row[1:], 1)
            )
            body.append(f'<tr class="cl-mode cl-{kind}"><th scope="row">{html.escape(row[0])}</th>{data}</tr>')
        notes = "".join(
            f"<li>{html.escape(replay.mode)}: {_marked(note)}</li>"
            for replay in self.replays
            if replay.applicable
            for note in replay.notes
        )
        caption = _("The recorded calls, executed in each mode: wall time of all {n} calls, median.").format(
            n=self.calls
        )
        return (
            f'<table class="cachelab-comparison" style="font-variant-numeric:tabular-nums">'
            f"<caption>{html.escape(caption)}</caption><thead><tr>{cells}</tr></thead><tbody>{''.join(body)}</tbody></table>"
            + (f"<ul>{notes}</ul>" if notes else "")
        )

    def _repr_mimebundle_(self, **_options: Any) -> dict[str, Any]:
        """Return plain text and HTML; JupyterLab would show JSON in the place of the table."""
        return {"text/plain": str(self), "text/html": self._repr_html_()}


def _marked(text: str) -> str:
    """Return escaped text with what stands between back quotes set as code."""
    parts = html.escape(text, quote=False).split("`")
    return "".join(f"<code>{part}</code>" if at % 2 and at < len(parts) - 1 else part for at, part in enumerate(parts))
