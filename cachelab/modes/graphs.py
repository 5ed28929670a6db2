"""What the modes ask of a graph: closures, effects, and whether a tensor can be kept between calls.

Names are those of the user's graph, which a private copy shares.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from cachelab.i18n import translate as _

if TYPE_CHECKING:
    from collections.abc import Iterable

OUTSIDE = frozenset(
    {
        "PyFunc", "PyFuncStateless", "EagerPyFunc", "Print", "PrintV2", "WriteFile", "Save", "SaveV2", "SaveSlices",
        "MergeV2Checkpoints", "WriteSummary", "WriteScalarSummary", "WriteHistogramSummary", "WriteImageSummary",
        "WriteAudioSummary", "WriteGraphSummary", "WriteRawProtoSummary", "ImportEvent", "FlushSummaryWriter",
        "CloseSummaryWriter", "CreateSummaryFileWriter", "DebugIdentity", "DebugIdentityV2", "Abort",
    }
)  # fmt: skip
"""Op types whose effect leaves TensorFlow: a replay would repeat it in the user's world."""

FILES = frozenset(
    {"ReadFile", "MatchingFiles", "Restore", "RestoreV2", "RestoreSlice", "WholeFileReaderV2", "TextLineReaderV2"}
)
ALIASES = frozenset(
    {"Identity", "RefIdentity", "Switch", "RefSwitch", "Merge", "RefMerge", "Enter", "RefEnter", "Exit", "RefExit",
     "NextIteration", "RefNextIteration", "IdentityN"}
)  # fmt: skip
HANDLES = frozenset({"VarHandleOp", "VariableV2", "Variable", "TemporaryVariable"})
PURE_STATEFUL = frozenset(
    {
        "Placeholder", "VarHandleOp", "VariableV2", "Variable", "ReadVariableOp", "VarIsInitializedOp", "Assert",
        "ResourceGather", "ResourceGatherNd", "VariableShape", "StatelessIf", "StatelessWhile", "NoOp",
        "TensorArrayV3", "StackV2", "IsVariableInitialized", "IteratorV2", "Iterator", "OneShotIterator",
        "AnonymousIterator", "AnonymousIteratorV2", "AnonymousIteratorV3",
    }
)  # fmt: skip
CALLERS = frozenset({"PartitionedCall", "StatefulPartitionedCall", "If", "While", "Case", "StatelessIf",
                     "StatelessWhile", "StatelessCase", "SymbolicGradient", "RemoteCall", "For"})  # fmt: skip


@dataclass(frozen=True)
class Effects:
    """What ops may read, write and draw; every field holds names of variables or ops of the user's graph.

    ``reads`` and ``writes`` hold variables; ``random`` ops that draw; ``iterators`` ops that step one; ``streams``
    the tables, queues and other resources used; ``opaque`` ops of unknown effect; ``outside`` those that act
    outside TensorFlow; ``files`` those that read a file. ``acting`` are all ops whose effect has to happen.
    """

    reads: frozenset[str] = frozenset()
    writes: frozenset[str] = frozenset()
    random: frozenset[str] = frozenset()
    iterators: frozenset[str] = frozenset()
    streams: frozenset[str] = frozenset()
    opaque: frozenset[str] = frozenset()
    outside: frozenset[str] = frozenset()
    files: frozenset[str] = frozenset()
    acting: frozenset[str] = frozenset()

    def __or__(self, other: Effects) -> Effects:
        return Effects(**{name: getattr(self, name) | getattr(other, name) for name in self.__dataclass_fields__})


class Facts:
    """Closures and effects of one ``tf.Graph``, computed once an op.

    Parameters
    ----------
    graph
        A graph that no longer changes in the ops of the recording; ops that a mode adds are ignored.
    """

    def __init__(self, graph: Any) -> None:
        self.graph = graph
        self.ops = {op.name: op for op in graph.get_operations()}
        self._effects: dict[str, Effects] = {}
        self._closures: dict[Any, frozenset[str]] = {}

    def closure(
        self, fetches: Iterable[str], targets: Iterable[str] = (), feeds: Iterable[str] = ()
    ) -> frozenset[str]:
        """Return the ops that a call may run: over data and control edges, stopping at fed tensors.

        Parameters
        ----------
        fetches, feeds
            Names of tensors.
        targets
            Names of ops.
        """
        key = (tuple(fetches), tuple(targets), frozenset(feeds))
        found = self._closures.get(key)
        if found is None:
            found = self._closures[key] = frozenset(self._walk(*key))
        return found

    def _walk(self, fetches: tuple[str, ...], targets: tuple[str, ...], feeds: frozenset[str]) -> set[str]:
        stack = [name.rpartition(":")[0] for name in fetches if name not in feeds] + list(targets)
        seen: set[str] = set()
        while stack:
            name = stack.pop()
            op = self.ops.get(name)
            if name in seen or op is None:
                continue
            seen.add(name)
            stack.extend(tensor.op.name for tensor in op.inputs if tensor.name not in feeds)
            stack.extend(control.name for control in op.control_inputs)
        return seen

    def effects(self, ops: Iterable[str]) -> Effects:
        """Return what the named ops may do, taken together."""
        total = {name: set() for name in Effects.__dataclass_fields__}
        for name in ops:
            one = self._effects.get(name)
            if one is None:
                one = self._effects[name] = self._effects_of(self.ops[name]) if name in self.ops else Effects()
            if one is not _NOTHING:
                for field, values in total.items():
                    values |= getattr(one, field)
        return Effects(**{field: frozenset(values) for field, values in total.items()})

    def _effects_of(self, op: Any) -> Effects:
        kind, name = op.type, frozenset({op.name})
        if kind in OUTSIDE:
            return Effects(opaque=name, outside=name, acting=name)
        if kind in FILES:
            return Effects(files=name)
        if kind in CALLERS:
            return self._caller(op)
        if _draws(kind, op):
            return Effects(random=name, acting=name)
        reads, writes, streams = set(), set(), set()
        for index, tensor in enumerate(op.inputs):
            if tensor.dtype._is_ref_dtype and kind not in ALIASES:
                roots = self.roots(tensor)
                (writes if _ref_argument(op, index) else reads).update(roots)
                reads |= roots
            elif tensor.dtype.name == "resource" and kind not in ALIASES:
                self._resource(op, tensor, reads, writes, streams)
        iterators = name if kind.startswith("IteratorGetNext") or kind in {"OptionalFromValue"} else frozenset()
        if iterators:
            streams = set()
        opaque = frozenset()
        if op.op_def.is_stateful and kind not in PURE_STATEFUL and not (reads or writes or streams or iterators):
            opaque = name if list(op.inputs) or op.control_inputs or not _holder(op) else frozenset()
        if not (reads or writes or streams or iterators or opaque):
            return _NOTHING
        acting = name if writes or streams or iterators or opaque else frozenset()
        return Effects(
            frozenset(reads), frozenset(writes), iterators=iterators, streams=frozenset(streams), opaque=opaque,
            acting=acting,
        )  # fmt: skip

    def _resource(self, op: Any, tensor: Any, reads: set[str], writes: set[str], streams: set[str]) -> None:
        roots = self.roots(tensor)
        for root in roots:
            if self.ops[root].type in HANDLES:
                reads.add(root)
                if op.type not in _read_ops():
                    writes.add(root)
            elif self.ops[root].type not in {"TensorArrayV3", "StackV2"}:
                streams.add(root)

    def _caller(self, op: Any) -> Effects:
        """Effects of a function call: every resource that it gets may be read and written."""
        reads, writes, streams, inner = set(), set(), set(), Effects()
        for key in ("f", "then_branch", "else_branch", "cond", "body"):
            try:
                function = self.graph._get_function(op.get_attr(key).name)
            except (ValueError, AttributeError):
                continue
            if function is not None:
                inner |= _function_effects(op.name, function.definition.signature.name, self.graph)
        for tensor in op.inputs:
            if tensor.dtype.name == "resource":
                self._resource(op, tensor, reads, writes, streams)
        acting = frozenset({op.name}) if writes or streams or inner.acting else frozenset()
        return Effects(frozenset(reads), frozenset(writes), streams=frozenset(streams), acting=acting) | inner

    def roots(self, tensor: Any) -> set[str]:
        """Return the ops that made the handle or reference in ``tensor``, through ops that pass it on."""
        found, stack, seen = set(), [tensor], set()
        while stack:
            current = stack.pop()
            op = current.op
            if op.name in seen:
                continue
            seen.add(op.name)
            if op.type in ALIASES or (op.inputs and op.inputs[0].dtype._is_ref_dtype and current.dtype._is_ref_dtype):
                stack.extend(
                    value for value in op.inputs if value.dtype._is_ref_dtype or value.dtype.name == "resource"
                )
            else:
                found.add(op.name)
        return found

    def unholdable(self, tensor: str) -> str:
        """Return why the value of ``tensor`` can't be kept between calls, ``""`` if it can."""
        name, _colon, index = tensor.rpartition(":")
        op = self.ops.get(name)
        if op is None or not index.isdigit() or int(index) >= len(op.outputs):
            return _("there is no tensor `{tensor}`").format(tensor=tensor)
        value = op.outputs[int(index)]
        if value.dtype.base_dtype.name in {"resource", "variant"}:
            return _("`{tensor}` is a {kind}: it has no value outside its session").format(
                tensor=tensor, kind=value.dtype.base_dtype.name
            )
        if value.dtype._is_ref_dtype:
            return _("`{tensor}` is a reference to a variable, which a later write would change").format(tensor=tensor)
        if not self.graph.is_fetchable(value) or name in self.frames():
            return _("`{tensor}` lies inside a loop or branch, where no call can fetch it").format(tensor=tensor)
        if not self.graph.is_feedable(value):
            return _("TensorFlow does not let `{tensor}` be fed").format(tensor=tensor)
        return ""

    def frames(self) -> dict[str, int]:
        """Return the ops inside v1 loops and dead branches -> number of the loop or branch."""
        found: dict[str, int] = {}
        groups: dict[str, int] = {}
        for op in self.ops.values():
            if op.type in {"Enter", "RefEnter"}:
                self._flood(op, found, groups.setdefault(op.get_attr("frame_name").decode(), len(groups)))
            elif op.type in {"Switch", "RefSwitch"} and op.name not in found:
                self._flood(op, found, groups.setdefault(op.inputs[1].name, len(groups)))
        return found

    def _flood(self, start: Any, found: dict[str, int], group: int) -> None:
        stack = [start]
        while stack:
            op = stack.pop()
            if op.name in found:
                continue
            found[op.name] = group
            if op.type not in {"Exit", "RefExit"} and not (op.type in {"Merge", "RefMerge"} and _joins(op)):
                stack.extend(user for output in op.outputs for user in output.consumers() if user.name in self.ops)


_NOTHING = Effects()


def _joins(merge: Any) -> bool:
    """Whether a Merge ends a branch, rather than starting a loop iteration."""
    return not any(value.op.type in {"NextIteration", "RefNextIteration"} for value in merge.inputs)


def _holder(op: Any) -> bool:
    """Whether the op only makes a handle (queue, table, iterator) that others use."""
    return any(output.dtype.base_dtype.name in {"resource", "string"} for output in op.outputs)


def _draws(kind: str, op: Any) -> bool:
    if not op.op_def.is_stateful:
        return False
    names = {attr.name for attr in op.op_def.attr}
    return {"seed", "seed2"} <= names and not kind.endswith(("Dataset", "DatasetV2", "DatasetV3", "Reader"))


def _ref_argument(op: Any, index: int) -> bool:
    """Whether input ``index`` is declared as a reference: the op may write what it refers to."""
    position = 0
    for argument in op.op_def.input_arg:
        count = 1
        if argument.number_attr:
            count = op.get_attr(argument.number_attr)
        elif argument.type_list_attr:
            count = len(op.get_attr(argument.type_list_attr))
        if position <= index < position + count:
            return bool(argument.is_ref)
        position += count
    return False


@lru_cache(maxsize=1)
def _read_ops() -> frozenset[str]:
    from tensorflow.python.framework import auto_control_deps_utils

    return frozenset(auto_control_deps_utils.RESOURCE_READ_OPS) | {"VarIsInitializedOp", "VariableShape"}


def _function_effects(caller: str, name: str, graph: Any) -> Effects:
    """Effects of a function body that do not come in through its arguments: random, outside, opaque."""
    library = {function.signature.name: function for function in graph.as_graph_def().library.function}
    total, stack, seen, own = Effects(), [name], set(), frozenset({caller})
    while stack:
        current = stack.pop()
        if current in seen or current not in library:
            continue
        seen.add(current)
        for node in library[current].node_def:
            if node.op in OUTSIDE:
                total |= Effects(opaque=own, outside=own, acting=own)
            elif node.op in FILES:
                total |= Effects(files=own)
            elif "seed2" in node.attr and "Dataset" not in node.op and not node.op.startswith("Stateless"):
                total |= Effects(random=own, acting=own)
            stack.extend(attr.func.name for attr in node.attr.values() if attr.HasField("func"))
            stack.extend(func.name for attr in node.attr.values() for func in attr.list.func)
    return total
