"""What really happened in each call, observed beneath the recorder by means of its own.

``BaseSession._call_tf_sessionrun`` is replaced *before* the recorder hooks it, so that this lies between the recorder
and TensorFlow. Every run is traced fully, and with graph optimisation off every tensor that the call computes anyway
is fetched along in the very same run: fetching what is computed adds no op but the fetch itself. So the values are
those of the user's own run, not of a second one, and random draws and races can't blur them.
"""

from __future__ import annotations

import re
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from tensorflow.core.protobuf import config_pb2
from tensorflow.python.client import pywrap_tf_session as runtime
from tensorflow.python.client import session as session_module

if TYPE_CHECKING:
    from collections.abc import Iterator

runtime_of_sessions = session_module.tf_session
# What oneDNN puts before the types of the ops that it takes over, on processors that it likes.
ONEDNN = re.compile(r"^_Mkl(Native)?(?!Native)(?!Fused)")
LABEL = re.compile(r"(\S+) = (\w+)\(")
SWITCHES = {"Switch", "RefSwitch", "Enter", "RefEnter", "LoopCond", "NextIteration"}
SHARES = frozenset(
    [
        "PlaceholderWithDefault",
        "Identity",
        "Reshape",
        "Squeeze",
        "ExpandDims",
        "StridedSlice",
        "Slice",
        "Split",
        "SplitV",
        "Unpack",
        "EnsureShape",
        "StopGradient",
        "IdentityN",
        "TensorListSetItem",
        "TensorListGetItem",
        "TensorListPushBack",
        "TensorListPopBack",
        "Cast",
        "Merge",
        "Exit",
        "PreventGradient",
    ]
)


@dataclass
class Seen:
    """One call as it really was.

    ``executed``: (name, type) of top-level nodes -> number of executions, ``None`` if the call failed. ``nodes``:
    names of all executed nodes. ``values``: tensor name -> bytes. ``closure``: names of the ops that the call needs.
    ``partial``: it belongs to a partial run, whose values are known only as far as they are fetched.
    """

    session: int
    fetches: tuple[str, ...]
    targets: tuple[str, ...]
    feeds: dict[str, bytes]
    closure: set[str] = field(default_factory=set)
    executed: dict[tuple[str, str], int] | None = None
    nodes: set[str] = field(default_factory=set)
    values: dict[str, bytes] = field(default_factory=dict)
    results: list[Any] | None = None
    failed: bool = False
    partial: bool = False


def exact(value: Any) -> bytes:
    """Return dtype, shape and bytes of a value."""
    array = np.asarray(value)
    if array.dtype.hasobject:
        return repr((array.shape, array.ravel().tolist())).encode()
    return f"{array.dtype}{array.shape}".encode() + np.ascontiguousarray(array).tobytes()


def needed(graph: Any, fetches: list[str], targets: list[str], feeds: set[str]) -> set[str]:
    """Return the names of the ops that a call needs, by TensorFlow's rule: edges of fed tensors are cut."""
    pending = [graph.get_operation_by_name(name.rpartition(":")[0]) for name in fetches if name not in feeds]
    pending += [graph.get_operation_by_name(name) for name in targets]
    found: set[str] = set()
    while pending:
        operation = pending.pop()
        if operation.name in found:
            continue
        found.add(operation.name)
        pending += [tensor.op for tensor in operation.inputs if tensor.name not in feeds]
        for control in operation.control_inputs:
            if control.type in {"Placeholder", "PlaceholderV2"} and f"{control.name}:0" in feeds:
                continue
            pending.append(control)
    return found


class Observer:
    """Observes all calls of sessions on one graph."""

    def __init__(self, graph: Any, *, values: bool, trace: bool = True) -> None:
        self.graph = graph
        self.values = values
        self.trace = trace
        self.calls: list[Seen] = []
        self._sessions: dict[int, int] = {}
        library = graph.as_graph_def().library
        self.bodies = {node.name for function in library.function for node in function.node_def}
        self._blurred = _shares_variable(graph)
        self._hidden = _in_control_flow(graph)
        self._handle_closure: set[str] = set()
        self.unfinished = False
        self._extra: dict[Any, tuple[set[str], list[str], list[Any]]] = {}

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Observe while this is open."""
        original = session_module.BaseSession._call_tf_sessionrun
        observer = self

        def _call_tf_sessionrun(self: Any, *arguments: Any) -> Any:
            if self.graph is not observer.graph:
                return original(self, *arguments)
            return observer._run(self, original, arguments)

        partial = session_module.BaseSession._call_tf_sessionprun
        setup = runtime_of_sessions.TF_SessionPRunSetup_wrapper

        def _call_tf_sessionprun(self: Any, handle: Any, feeds: Any, fetches: Any) -> Any:
            return observer._piece(self, partial, handle, feeds, fetches)

        def set_up(session: Any, feeds: Any, fetches: Any, targets: Any) -> Any:
            # What a handle may write counts from its set-up on; nothing can be fetched along.
            names = [_tensor_name(tensor) for tensor in fetches]
            seen = Seen(-1, tuple(names), (), {}, partial=True)
            given = {_tensor_name(tensor) for tensor in feeds}
            seen.closure = needed(observer.graph, names, [runtime.TF_OperationName(t) for t in targets], given)
            observer.calls.append(seen)
            observer._handle_closure = seen.closure
            return setup(session, feeds, fetches, targets)

        session_module.BaseSession._call_tf_sessionrun = _call_tf_sessionrun
        session_module.BaseSession._call_tf_sessionprun = _call_tf_sessionprun
        runtime_of_sessions.TF_SessionPRunSetup_wrapper = set_up
        try:
            yield
        finally:
            session_module.BaseSession._call_tf_sessionrun = original
            session_module.BaseSession._call_tf_sessionprun = partial
            runtime_of_sessions.TF_SessionPRunSetup_wrapper = setup

    def _piece(self, session: Any, original: Any, handle: Any, feeds: Any, fetches: Any) -> Any:
        names = [_tensor_name(tensor) for tensor in fetches]
        given = {_tensor_name(tensor): exact(value) for tensor, value in feeds.items()}
        number = self._sessions.setdefault(id(session), len(self._sessions))
        seen = Seen(number, tuple(names), (), given, closure=self._handle_closure, partial=True)
        self.calls.append(seen)
        try:
            seen.results = list(original(session, handle, feeds, fetches))
        except BaseException:
            seen.failed = self.unfinished = True
            raise
        for name, value in zip(names, seen.results, strict=True):
            if name.rpartition(":")[0] not in self._blurred:
                seen.values[name] = exact(value)
        return seen.results

    def _plan(self, fetches: list[str], targets: list[str], feeds: set[str]) -> tuple[set[str], list[str], list[Any]]:
        key = (tuple(fetches), tuple(targets), frozenset(feeds))
        known = self._extra.get(key)
        if known is None:
            closure = needed(self.graph, fetches, targets, feeds)
            names: list[str] = []
            outputs: list[Any] = []
            if self.values:
                for name in sorted(closure - self._hidden):
                    for tensor in self.graph.get_operation_by_name(name).outputs:
                        numeric = tensor.dtype.is_numpy_compatible and tensor.dtype.name not in {"resource", "variant"}
                        if numeric and not tensor.dtype._is_ref_dtype and tensor.name not in feeds:
                            names.append(tensor.name)
                            outputs.append(tensor._as_tf_output())
            known = self._extra[key] = (closure, names, outputs)
        return known

    def _run(self, session: Any, original: Any, arguments: tuple[Any, ...]) -> Any:
        options, feeds, fetches, targets, metadata = arguments
        names = [_tensor_name(tensor) for tensor in fetches]
        target_names = [runtime.TF_OperationName(target) for target in targets]
        given = {_tensor_name(tensor): exact(value) for tensor, value in feeds.items()}
        seen = Seen(
            self._sessions.setdefault(id(session), len(self._sessions)), tuple(names), tuple(target_names), given
        )
        self.calls.append(seen)
        seen.closure, more, outputs = self._plan(names, target_names, set(given))
        own = self.trace and metadata is None
        if own:
            options = runtime.TF_NewBufferFromString(
                config_pb2.RunOptions(trace_level=config_pb2.RunOptions.FULL_TRACE).SerializeToString()
            )
            metadata = runtime.TF_NewBuffer()
        try:
            found = original(session, options, feeds, [*fetches, *outputs], targets, metadata)
            if metadata is not None:
                self._note(seen, runtime.TF_GetBuffer(metadata))
        except BaseException:
            seen.failed = True
            raise
        finally:
            if own:
                runtime.TF_DeleteBuffer(options)
                runtime.TF_DeleteBuffer(metadata)
        given_back = list(found[: len(fetches)])
        seen.results = [np.array(value) for value in given_back]  # the buffer of a ref variable goes on changing
        seen.values = {name: exact(value) for name, value in zip(more, found[len(fetches) :], strict=True)}
        for name in list(seen.values):
            if name.rpartition(":")[0] in self._blurred:
                del seen.values[name]
        return given_back

    @staticmethod
    def _note(seen: Seen, data: bytes) -> None:
        parsed = config_pb2.RunMetadata()
        parsed.ParseFromString(data)
        seen.executed = {}
        for device in parsed.step_stats.dev_stats:
            for node in device.node_stats:
                seen.nodes.add(node.node_name)
                match = LABEL.search(node.timeline_label)
                if match is not None:
                    key = (node.node_name, ONEDNN.sub("", match[2]))
                    seen.executed[key] = seen.executed.get(key, 0) + 1


def _tensor_name(output: Any) -> str:
    return f"{runtime.TF_OperationName(output.oper)}:{output.index}"


def _shares_variable(graph: Any) -> set[str]:
    """Return ops whose output may be the very buffer of a ref variable: a fetch of it may see a later write."""
    found: set[str] = set()
    changed = True
    while changed:
        changed = False
        for operation in graph.get_operations():
            if operation.name in found:
                continue
            refs = any(tensor.dtype._is_ref_dtype for tensor in [*operation.outputs, *operation.inputs])
            shares = operation.type in SHARES and (refs or any(tensor.op.name in found for tensor in operation.inputs))
            if shares or any(tensor.dtype._is_ref_dtype for tensor in operation.outputs):
                found.add(operation.name)
                changed = True
    return found


def _in_control_flow(graph: Any) -> set[str]:
    """Return ops that may be dead or run several times: what lies between a switch and its merge can't be fetched."""
    found: set[str] = set()
    changed = True
    while changed:
        changed = False
        for operation in graph.get_operations():
            if operation.name in found:
                continue
            repeats = any(tensor.op.type in {"Enter", "RefEnter", "NextIteration"} for tensor in operation.inputs)
            inside = operation.type in SWITCHES or operation._control_flow_context is not None or repeats
            if operation.type in {"Merge", "Exit", "RefMerge", "RefExit"} and not inside:
                continue
            inside = inside or any(tensor.op.name in found for tensor in operation.inputs)
            if inside or any(control.name in found for control in operation.control_inputs):
                found.add(operation.name)
                changed = True
    return found
