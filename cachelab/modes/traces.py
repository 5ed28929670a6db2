"""What ran in a traced replay, in names of the user's graph."""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from cachelab.explain.closure import Signature
from cachelab.explain.plan import make_plan
from cachelab.tf.nodes import LOWERED, kind_of
from cachelab.tf.trace import TraceReader
from cachelab.tf.twins import Twins

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from cachelab.modes.graphs import Facts

Names = tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]
"""Fetched tensors, target ops and fed tensors (kept values included) of one run, by name in the user's graph."""


class Execution(NamedTuple):
    """Executions of one op in one run: op time in seconds (a sum), how many, bytes of the outputs."""

    seconds: float
    count: int
    bytes: int


@dataclass
class Ran:
    """One run of TensorFlow: the recorded calls that it served, and what became of their ops.

    ``executed``: op -> :class:`Execution`. ``fates``: op that did not run -> (status letter, op that it went into
    or ``""``).
    """

    calls: tuple[int, ...]
    executed: dict[str, Execution] = field(default_factory=dict)
    fates: dict[str, tuple[str, str]] = field(default_factory=dict)


class Reader:
    """Reads traces of runs over one graph; equal runs share a :class:`~cachelab.tf.trace.TraceReader`.

    Parameters
    ----------
    facts
        Of the graph.
    """

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self._twins = Twins(facts.flat, facts.graph)
        self._readers: dict[Any, TraceReader] = {}
        self._numbers = itertools.count()

    def read(self, metadata: Any, names: Names | None, copies: Mapping[str, str], ran: Ran, session: int = 0) -> None:
        """Note in ``ran`` what a ``RunMetadata`` says.

        Parameters
        ----------
        metadata
            Of a traced run with ``output_partition_graphs``.
        names
            What was run, in names of the user's graph; ``None`` where it was not made of the user's ops.
        copies
            Name of a copied op -> name of its original.
        ran
            Where to note it.
        session
            The recorded session, as each may optimise in its own way.
        """
        if copies:
            rename(metadata, copies)
        if names is None:
            nodes = [node.node_name for device in metadata.step_stats.dev_stats for node in device.node_stats]
            ran.executed.update({name: Execution(0.0, 1, 0) for name in nodes if not name.startswith("_")})
            return
        reader = self._reader(names, (bool(copies), session))
        if not reader.has_graph:
            reader.graph(metadata.partition_graphs)
        found = reader.read(metadata.step_stats)
        if found is None:
            return
        outcome, measured = found
        name = self.facts.flat.name
        for row in outcome.ran:
            ran.executed[name[row]] = Execution(
                measured.seconds.get(row, 0.0), measured.count.get(row, 1), measured.bytes.get(row, 0)
            )
        for row, (letter, into) in outcome.fates.items():
            ran.fates[name[row]] = (letter, name[into] if into >= 0 else "")

    def wants_graph(self, names: Names | None, copies: Mapping[str, str], session: int) -> bool:
        """Whether the optimised graph of such a run is not known yet."""
        return names is not None and not self._reader(names, (bool(copies), session)).has_graph

    def _reader(self, names: Names, kind: tuple[bool, int]) -> TraceReader:
        key = (*names, *kind)
        reader = self._readers.get(key)
        if reader is None:
            flat = self.facts.flat
            fetches, targets, feeds = names
            signature = Signature(
                tuple(self._reference(name) for name in fetches),
                tuple(flat.index[name] for name in targets),
                frozenset(self._reference(name) for name in feeds),
            )
            plan = make_plan(next(self._numbers), flat, signature)
            reader = self._readers[key] = TraceReader(plan, self._twins)
        return reader

    def _reference(self, tensor: str) -> tuple[int, int]:
        name, _colon, output = tensor.rpartition(":")
        return self.facts.flat.index[name], int(output)

    def of_log(self, nodes: Iterable[tuple[str, str]], calls: tuple[int, ...]) -> Ran:
        """Return what ran, from (node, op type) pairs of the executor's log; nodes of another type don't count."""
        flat, ran = self.facts.flat, Ran(calls)
        for node, kind in nodes:
            name = LOWERED.sub(r"/\1", node)
            row = flat.index.get(name)
            if row is not None and flat.type[row] == kind_of(kind):
                before = ran.executed.get(name, Execution(0.0, 0, 0))
                ran.executed[name] = before._replace(count=before.count + 1)
        return ran


def rename(metadata: Any, copies: Mapping[str, str]) -> None:
    """Give copied nodes the names of their originals, in a ``RunMetadata`` and in place."""
    prefix = re.escape(next(iter(copies)).rpartition(next(iter(copies.values())))[0])
    pattern = re.compile(rf"(?<![\w/.]){prefix}")
    for device in metadata.step_stats.dev_stats:
        for node in device.node_stats:
            node.node_name = pattern.sub("", node.node_name)
            node.timeline_label = pattern.sub("", node.timeline_label)
    for partition in metadata.partition_graphs:
        for node in partition.node:
            node.name = pattern.sub("", node.name)
            node.input[:] = [pattern.sub("", name) for name in node.input]
