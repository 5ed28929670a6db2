"""When to trace a call, and how to ask TensorFlow for it without taking anything from the user."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tensorflow.core.protobuf import config_pb2
from tensorflow.python.client import pywrap_tf_session as runtime

if TYPE_CHECKING:
    from cachelab.tf.dumps import Dump

FIRST = 2
"""Calls of a signature that are traced fully before ``auto`` thins out."""

BRANCHING = 64
"""Likewise where what runs depends on values."""


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


class Tracing:
    """Arguments for one traced call, and the metadata that came of it.

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
        self._own: list[Any] = []
        self.options, self.metadata = options, metadata
        asked = config_pb2.RunOptions()
        if options is not None:
            asked.ParseFromString(runtime.TF_GetBuffer(options))
        self.traced = metadata is not None and asked.trace_level >= config_pb2.RunOptions.SOFTWARE_TRACE
        if metadata is not None or not trace:
            return  # the user's metadata get exactly what the user asked for
        # FULL_TRACE lists the same nodes, but opens a profiling session, of which a process can have one: a second
        # traced run at the same time, or under tf.profiler, would fail after its effects have happened.
        asked.trace_level = config_pb2.RunOptions.SOFTWARE_TRACE
        asked.output_partition_graphs = graph
        if dump is not None:
            dump.ask(asked)
            self.dump = dump
        self.options = runtime.TF_NewBufferFromString(asked.SerializeToString())
        self.metadata = runtime.TF_NewBuffer()
        self._own = [self.options, self.metadata]
        self.traced = True

    def result(self) -> bytes:
        """Return the serialized metadata."""
        return bytes(runtime.TF_GetBuffer(self.metadata)) if self.traced else b""

    def close(self) -> None:
        """Free the buffers that are ours."""
        for pointer in self._own:
            runtime.TF_DeleteBuffer(pointer)
        self._own = []
