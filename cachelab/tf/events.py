"""One call as the recorder notes it, and what a record is built from."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cachelab.explain.log import LoggedCall
    from cachelab.explain.plan import Plan
    from cachelab.tf.places import GraphPlace, SessionPlace
    from cachelab.tf.tracing import Tracing


@dataclass(slots=True)
class Event:
    """One call as noted: what :class:`LoggedCall` needs, and the trace still to be read.

    ``served`` names the fed tensors whose values a live session had kept; ``issued`` what TensorFlow was asked for.
    """

    index: int
    kind: str
    place: SessionPlace
    plan: Plan | None
    names: tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]
    feeds: dict[str, str]
    thread: int
    line: int
    trace: str
    tracing: Tracing | None = None
    began: int = 0
    ended: int | None = None
    start: float = 0.0
    seconds: float = 0.0
    metadata: bytes = b""
    outcome: Any = None
    measured: Any = None
    results: tuple[str | None, ...] = ()
    failed: str | None = None
    failed_type: str = ""
    handle: Handle | None = None
    linked: dict[str, tuple[int, str]] = field(default_factory=dict)
    unreadable: str = ""
    held: int = 0
    values: Mapping[int, str] = field(default_factory=dict)
    served: frozenset[str] = frozenset()
    issued: tuple[str, ...] = ()


@dataclass(slots=True)
class Handle:
    """An open partial run: what it declared, and what is still to come."""

    number: int
    plan: Plan | None
    fetches: set[str]
    steps: Any
    began: int = 0
    fed: dict[str, str] = field(default_factory=dict)
    ended: int | None = None
    unfinished: bool = True


@dataclass
class Parts:
    """What the record is built from."""

    calls: list[LoggedCall]
    graphs: dict[int, GraphPlace]
    sessions: dict[int, SessionPlace]
    events: list[Event]
    lines: Any
    unreadable: list[tuple[int, str]]
    tensorflow: str
    optimizers: bool
