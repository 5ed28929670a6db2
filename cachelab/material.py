"""What a replay needs of a recording: graphs, feeds, results, variable values. No TensorFlow here.

Values are numpy arrays kept once per content digest in a :class:`ValueStore` within a memory budget;
over it only the digest stays, and what needed the value can't be replayed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

UNINITIALIZED = "uninitialized"
"""Digest of a variable that held no value."""


@dataclass
class ValueStore:
    """Arrays by content digest, within ``budget`` bytes. ``dropped`` counts values that did not fit."""

    budget: int
    held: int = 0
    dropped: int = 0
    arrays: dict[str, Any] = field(default_factory=dict)

    def put(self, digest: str, array: Any, *, copy: bool = True) -> bool:
        """Keep ``array`` under ``digest``; return whether it is held."""
        if digest in self.arrays:
            return True
        size = int(array.nbytes)
        if self.held + size > self.budget:
            self.dropped += 1
            return False
        self.arrays[digest] = array.copy() if copy else array
        self.held += size
        return True

    def get(self, digest: str | None) -> Any:
        """Return the array with ``digest``, or ``None`` where it is not held."""
        return None if digest is None else self.arrays.get(digest)


@dataclass
class GraphMaterial:
    """One graph: its serialized GraphDef as of the last recorded call, versions and function library included."""

    id: int
    graph_def: bytes = b""
    seed: int | None = None


@dataclass
class VariableMaterial:
    """One variable: how to reach it by ops that exist in the user's graph, and its value at a moment.

    ``op`` is the ``VarHandleOp`` or ``VariableV2`` op; ``read`` a tensor whose fetch gives the value (``""``: none);
    ``is_ref`` tells the two kinds apart; ``digest`` names the value in the store, ``UNINITIALIZED``, or ``None`` if
    it could not be read. ``shared_name``/``container`` identify the resource in its session.
    """

    op: str
    read: str
    is_ref: bool
    dtype: str
    digest: str | None
    shared_name: str = ""
    container: str = ""


@dataclass
class SessionMaterial:
    """One session: its graph, target (``""`` is in process), serialized ConfigProto, variables before and after.

    ``born`` tells whether the session was created during the recording: then random streams, iterators and
    queues are known from their start. ``initial`` holds the value of each variable of the closures before the
    first recorded call that writes it (or at the end where none does); ``final`` at the end of the recording or
    just before the session closed.
    """

    id: int
    graph: int
    target: str
    config: bytes
    born: bool
    initial: dict[str, VariableMaterial] = field(default_factory=dict)
    final: dict[str, VariableMaterial] = field(default_factory=dict)


@dataclass
class CallMaterial:
    """One call as TensorFlow saw it: flat tensor and op names, digests of feeds and results.

    ``kind`` as in :class:`cachelab.model.Call`. ``feeds`` maps tensor name -> digest of the value; ``fetches`` are
    tensor names, in order and with repeats removed as TensorFlow removes them; ``targets`` op names; ``results`` are
    digests in the order of ``fetches`` (empty if the call failed). ``linked`` maps a fed tensor to the (call,
    fetched tensor) that gave the very value. ``handle`` numbers the partial_run handle. ``unreadable`` is why
    the call can't be issued again ("" if it can). ``signature`` numbers equal (graph, fetches, targets, fed tensors).
    """

    index: int
    kind: str
    session: int
    thread: int
    fetches: tuple[str, ...]
    targets: tuple[str, ...]
    feeds: dict[str, str]
    results: tuple[str | None, ...] = ()
    failed: str | None = None
    failed_type: str = ""
    linked: dict[str, tuple[int, str]] = field(default_factory=dict)
    handle: int | None = None
    unreadable: str = ""
    signature: int = -1


@dataclass
class Material:
    """All that is kept of a recording for replays; never written to JSON."""

    values: ValueStore
    graphs: dict[int, GraphMaterial] = field(default_factory=dict)
    sessions: dict[int, SessionMaterial] = field(default_factory=dict)
    calls: list[CallMaterial] = field(default_factory=list)
