"""Plain or compiled by XLA: both run in the caller's own first calls, and the faster one stays."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from cachelab.i18n import translate as _

_ORDER: Final = (False, False, False, True, True, False, True)
"""Whether XLA runs, call by call. The first call of each kind traces or compiles, so that its time does not count."""


@dataclass
class Trial:
    """The trial for one batch size, as XLA compiles anew for each."""

    count: int
    times: dict[bool, list[float]] = field(default_factory=lambda: {False: [], True: []})

    @property
    def decided(self) -> bool:
        """Whether both have been timed."""
        return sum(map(len, self.times.values())) >= len(_ORDER)

    @property
    def xla(self) -> bool:
        """Whether the next call should be the compiled one."""
        if not self.decided:
            return _ORDER[sum(map(len, self.times.values()))]
        return self._best(xla=True) < self._best(xla=False)

    def _best(self, *, xla: bool) -> float:
        return min(self.times[xla][1:])

    def note(self, seconds: float, *, xla: bool) -> None:
        """Keep the time of a call; a trial that is over takes no more."""
        if not self.decided:
            self.times[xla].append(seconds)

    def __str__(self) -> str:
        """Return the outcome as a sentence."""
        if not self.decided:
            return _("XLA is tried in the fourth, fifth and seventh call and kept if it is faster.")
        return _("For {count} examples {plain:.3g} ms plain and {xla:.3g} ms with XLA.").format(
            count=self.count, plain=self._best(xla=False) * 1e3, xla=self._best(xla=True) * 1e3
        )
