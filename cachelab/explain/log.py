"""The raw log of calls: what the recorder notes while calls happen, before any verdict."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cachelab.explain.flat import Ref
    from cachelab.explain.plan import Plan


@dataclass(frozen=True, eq=False)
class Outcome:
    """Which ops of a plan ran in a call, and what became of the others.

    ``ran``: executed rows. ``fates``: row -> (status letter, row that it went into or -1) for rows that did not
    run. ``evidence``: row -> letter where it differs from ``default``. ``complete``: a full trace says so.
    """

    ran: frozenset[int]
    fates: Mapping[int, tuple[str, int]]
    default: str
    evidence: Mapping[int, str] = field(default_factory=dict)
    complete: bool = False

    @cached_property
    def untaken(self) -> frozenset[int]:
        """Rows of which a trace shows that their branch was not taken."""
        return frozenset(r for r, (letter, _) in self.fates.items() if letter == "t" and r not in self.evidence)


@dataclass(frozen=True, slots=True)
class Measured:
    """What a trace measured, by row: op seconds, output bytes, executions, start (s), shapes, device."""

    seconds: Mapping[int, float]
    bytes: Mapping[int, int]
    count: Mapping[int, int]
    start: Mapping[int, float] = field(default_factory=dict)
    shape: Mapping[int, str] = field(default_factory=dict)
    device: Mapping[int, str] = field(default_factory=dict)


@dataclass(slots=True)
class LoggedCall:
    """One call as it happened.

    ``began`` and ``ended`` number the starts and ends of all calls in one sequence; a call whose span covers the
    start of another overlaps it. The pieces of a partial run share ``handle``, ``plan`` and the span of the handle.
    ``scope`` names the place of the variables (a session, or a remote container); ``shared`` tells that others may
    write there unseen; ``opaque`` that what ran is hidden, so that it may have written anything.
    ``values`` are digests of what ran, by row; ``optimized`` tells whether graph optimisation was on.
    ``config`` numbers device and optimiser settings. ``served`` tells that a live session stood in for some ops.
    """

    index: int
    kind: str
    plan: Plan | None
    session: int
    scope: str
    config: int
    thread: int
    feeds: Mapping[Ref, str]
    began: int
    ended: int
    start: float
    seconds: float
    line: int
    outcome: Outcome | None = None
    measured: Measured | None = None
    failed: str | None = None
    failed_rows: frozenset[int] = frozenset()
    shared: bool = False
    handle: int | None = None
    trace: str = "off"
    results: tuple[str | None, ...] = ()
    values: Mapping[int, str] = field(default_factory=dict)
    fetches: tuple[str, ...] = ()
    fed: tuple[str, ...] = ()
    graph: int = 0
    opaque: bool = False
    optimized: bool = True
    served: bool = False
