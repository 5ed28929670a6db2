"""Mode ``memo``: several values a cut, chosen by what the verdicts save within a memory budget."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from cachelab.modes import code
from cachelab.modes.feed import Feed

if TYPE_CHECKING:
    from cachelab.modes.keeping import Worth

DEFAULT_BUDGET = 1 << 30
"""Bytes that a replayed ``memo`` may hold where no budget is given."""
FEED_SECONDS = 3e-6
"""What feeding one more tensor costs; a cut that saves less is not worth it."""


class Memo(Feed):
    """Like ``feed``, but with as many values a cut as recur, the best per byte first."""

    name: ClassVar[str] = "memo"
    slots = None

    @property
    def budget(self) -> int | None:
        """Bytes that may be held."""
        return DEFAULT_BUDGET if self.memory_budget is None else self.memory_budget

    def worth_it(self, worth: Worth) -> bool:
        """Tell whether a cut saves more than feeding it costs."""
        return worth.saved > FEED_SECONDS

    def code(self) -> str:
        """Return code that keeps the cuts by the content of what they depend on."""
        return code.memo(self)
