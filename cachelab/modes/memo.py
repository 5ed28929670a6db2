"""Mode ``memo``: several values a cut, chosen by what the verdicts save within a memory budget."""

from __future__ import annotations

from typing import ClassVar

from cachelab.modes import code
from cachelab.modes.cuts import op_of, saving
from cachelab.modes.feed import Feed

DEFAULT_BUDGET = 1 << 30
"""Bytes that a replayed ``memo`` may hold where no budget is given."""
FEED_SECONDS = 3e-6
"""What feeding one more tensor costs; a cut that saves less is not worth it."""


class Memo(Feed):
    """Like ``feed``, but with as many values a cut as recur, the best per byte first."""

    name: ClassVar[str] = "memo"
    slots = None

    def choose(self, cuts: dict[int, tuple[str, ...]]) -> dict[int, tuple[str, ...]]:
        """Return the cuts that save most time a byte, as many as fit in the budget.

        Bytes are those of all distinct values that a cut takes in the recording.
        """
        if self.cuts is not None:
            return cuts
        budget = DEFAULT_BUDGET if self.memory_budget is None else self.memory_budget
        chosen: dict[int, tuple[str, ...]] = {}
        for graph, tensors in cuts.items():
            ranked = sorted(((*self._value(graph, tensor), tensor) for tensor in tensors), reverse=True)
            for _density, saved, size, tensor in ranked:
                if size <= budget and (saved > FEED_SECONDS or len(ranked) == 1):
                    budget -= size
                    chosen[graph] = (*chosen.get(graph, ()), tensor)
        return chosen or cuts

    def _value(self, graph: int, tensor: str) -> tuple[float, float, int]:
        """Return seconds saved per byte, seconds saved, and bytes of a cut over the recording."""
        saved, size, tokens = 0.0, 0, {}
        for call in self.script.calls:
            token = self.script.same_as(op_of(tensor), call.index)
            if token is None or self.script.record.entry(call.index).graph != graph:
                continue
            if token in tokens:
                saved += saving(self.script, call, tensor)
            else:
                at = self.script.position(op_of(tensor), call.index)
                tokens[token] = self.script.columns(call.index).bytes[at] if at is not None else 0
        size = sum(tokens.values())
        return saved / max(size, 1), saved, size

    def code(self) -> str:
        """Return code that keeps the cuts by the content of what they depend on."""
        return code.memo(self)
