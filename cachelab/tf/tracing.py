"""When to trace a call, and how to ask TensorFlow for it without taking anything from the user."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tensorflow.core.protobuf import config_pb2
from tensorflow.python.client import pywrap_tf_session as runtime

from cachelab.tf import hooks

if TYPE_CHECKING:
    from cachelab.tf.dumps import Dump

FIRST = 2
"""Calls of a signature that are traced fully before ``auto`` thins out."""

BRANCHING = 64
"""Likewise where what runs depends on values."""

LEVEL = config_pb2.RunOptions.SOFTWARE_TRACE
"""FULL_TRACE lists the same nodes, but opens a profiling session, of which a process can have one: a second traced run
at the same time, or under tf.profiler, would fail after its effects have happened."""


def wanted(mode: str, number: int, *, conditional: bool) -> bool:
    """Tell whether call ``number`` of a signature is traced: in ``auto`` the first ones, then 4, 8, 16, ..."""
    if mode == "full":
        return True
    if mode != "auto":
        return False
    if number < (BRANCHING if conditional else FIRST):
        return True
    if conditional:
        return number % 16 == 0
    return number & (number - 1) == 0


def trace_options(*, graph: bool, timeout_ms: int = 0) -> Any:
    """Return ``RunOptions`` that ask for a trace, and for the optimised ``graph`` too."""
    return config_pb2.RunOptions(trace_level=LEVEL, output_partition_graphs=graph, timeout_in_ms=timeout_ms)


class Tracing:
    """Arguments for one traced call, and the metadata that came of it.

    Users who pass a ``RunMetadata`` of their own, as ``MonitoredSession`` always does, find in it what they asked
    for and nothing else.

    Parameters
    ----------
    options, metadata
        The user's own (pointers to serialized messages, or ``None``).
    trace
        Whether a trace is wanted.
    graph
        Whether the optimised graph is wanted too.
    dump
        Where the values of everything that runs are wanted, if they are.
    """

    def __init__(self, options: Any, metadata: Any, *, trace: bool, graph: bool, dump: Dump | None = None) -> None:
        self.dump: Dump | None = None
        self.options, self.metadata = options, metadata
        self._own: list[Any] = []
        self._theirs: config_pb2.RunOptions | None = None
        asked = config_pb2.RunOptions()
        if options is not None:
            asked.ParseFromString(runtime.TF_GetBuffer(options))
        self.traced = trace or (metadata is not None and asked.trace_level >= LEVEL)
        if not self.traced:
            return
        if metadata is not None:
            self._theirs = config_pb2.RunOptions()
            self._theirs.CopyFrom(asked)
        asked.trace_level = max(asked.trace_level, LEVEL)
        asked.output_partition_graphs |= graph
        if dump is not None:
            dump.ask(asked)
            self.dump = dump
        self.options = runtime.TF_NewBufferFromString(asked.SerializeToString())
        self._own.append(self.options)
        if metadata is None:
            self.metadata = runtime.TF_NewBuffer()
            self._own.append(self.metadata)

    def result(self) -> bytes:
        """Return the serialized metadata; the user's own then hold only what was asked for."""
        if not self.traced:
            return b""
        data = bytes(runtime.TF_GetBuffer(self.metadata))
        if self._theirs is not None:
            hooks.give_back(self.metadata, _reduced(data, self._theirs))
        return data

    def close(self) -> None:
        """Free the buffers that are ours."""
        for pointer in self._own:
            runtime.TF_DeleteBuffer(pointer)
        self._own = []


def _reduced(data: bytes, asked: config_pb2.RunOptions) -> bytes:
    """Return metadata without what was not asked for."""
    wanted_trace = asked.trace_level >= LEVEL
    if wanted_trace and asked.output_partition_graphs:
        return data
    metadata = config_pb2.RunMetadata()
    metadata.ParseFromString(data)
    if not wanted_trace:
        metadata.ClearField("step_stats")
    if not asked.output_partition_graphs:
        metadata.ClearField("partition_graphs")
    return metadata.SerializeToString()
