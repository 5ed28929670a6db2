"""Plain or compiled by XLA: both run in the caller's own first calls, in turns, and the faster one stays."""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING, Final

from cachelab.i18n import translate as _

if TYPE_CHECKING:
    from collections.abc import Callable

_PLAIN_FIRST: Final = 3
"""Calls before XLA compiles, which takes as long as hundreds of calls: who calls once or twice need not wait for it."""
_CLEAR: Final = ((2, 1.5), (4, 1.1))
"""(timed calls of each kind, ratio of their times from which the outcome is taken as clear)."""
_MOST: Final = 10
"""Timed calls of each kind at most."""


@dataclass
class Trial:
    """The trial for one batch size, as XLA compiles anew for each.

    The first call of each kind traces or compiles, so that its time does not count.
    """

    count: int
    times: dict[bool, list[float]] = field(default_factory=lambda: {False: [], True: []})
    decided: bool = False
    """Whether it is clear which is faster: soon if by far, after more calls if not."""
    xla: bool = False
    """Whether the next call should be the compiled one."""

    def note(self, seconds: float, *, xla: bool) -> None:
        """Keep the time of a call; a trial that is over takes no more."""
        if self.decided:
            return
        self.times[xla].append(seconds)
        plain, compiled = len(self.times[False]), len(self.times[True])
        self.xla = _PLAIN_FIRST <= plain > compiled
        timed = min(plain, compiled) - 1
        if timed < _CLEAR[0][0]:
            return
        # Both, so that neither one lucky nor one disturbed call decides.
        ratios = [self._time(xla=True, kind=kind) / self._time(xla=False, kind=kind) for kind in (min, median)]
        clear = [limit for calls, limit in _CLEAR if timed >= calls][-1]
        self.decided = timed >= _MOST or min(ratios) >= clear or max(ratios) <= 1 / clear
        if self.decided:
            self.xla = sum(ratios) < len(ratios)

    def _time(self, *, xla: bool, kind: Callable[[list[float]], float] = min) -> float:
        return kind(self.times[xla][1:])

    def __str__(self) -> str:
        """Return the outcome as a sentence."""
        if not self.decided:
            return _("XLA is tried from the fourth call on, in turns with plain calls, and kept if it is faster.")
        return _("For {count} examples {plain:.3g} ms plain and {xla:.3g} ms with XLA.").format(
            count=self.count, plain=self._time(xla=False) * 1e3, xla=self._time(xla=True) * 1e3
        )
