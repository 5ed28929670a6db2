"""What forbids running n calls as one: effects, draws, and control flow that can't be vectorised."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tensorflow.python.framework import op_def_registry

from cachelab.i18n import translate as _

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import tensorflow as tf

RANDOM: Final = frozenset(
    {
        "Multinomial", "ParameterizedTruncatedNormal", "RandomGamma", "RandomPoisson", "RandomPoissonV2",
        "RandomShuffle", "RandomStandardNormal", "RandomUniform", "RandomUniformInt", "TruncatedNormal",
        "RngReadAndSkip", "RngSkip", "NonDeterministicInts", "StatefulRandomBinomial", "StatefulStandardNormal",
        "StatefulStandardNormalV2", "StatefulTruncatedNormal", "StatefulUniform", "StatefulUniformFullInt",
        "StatefulUniformInt", "LogUniformCandidateSampler", "UniformCandidateSampler",
        "LearnedUnigramCandidateSampler", "ThreadUnsafeUnigramCandidateSampler", "FixedUnigramCandidateSampler",
        "AllCandidateSampler", "RandomCrop", "SampleDistortedBoundingBox", "SampleDistortedBoundingBoxV2",
        "FractionalMaxPool", "FractionalAvgPool", "RandomDataset",
    }
)  # fmt: skip
"""Op types that draw from a stream: executing them again gives another value."""

_V1_CONTROL: Final = frozenset(
    {
        "Switch", "Merge", "Enter", "Exit", "NextIteration", "LoopCond", "RefSwitch", "RefMerge", "RefEnter",
        "RefExit", "RefNextIteration",
    }
)  # fmt: skip

_HARMLESS: Final = frozenset(
    {
        "VarHandleOp", "ReadVariableOp", "_ReadVariablesOp", "ResourceGather", "ResourceGatherNd", "VariableShape",
        "VarIsInitializedOp", "IsVariableInitialized", "VariableV2", "Variable", "TemporaryVariable", "Assert",
        "CheckNumerics", "CheckNumericsV2", "StatelessRandomGetAlg", "StatelessRandomGetKeyCounterAlg",
        "PartitionedCall", "StatefulPartitionedCall", "If", "StatelessIf", "While", "StatelessWhile", "Case",
        "StatelessCase", "Placeholder", "_Arg", "_Retval", "XlaSharding",
    }
)  # fmt: skip
"""Stateful by their op_def, yet executing them once for n calls changes nothing (calls: their bodies are checked)."""

_OPAQUE: Final = frozenset({"PyFunc", "EagerPyFunc", "PyFuncStateless", "SymbolicGradient"})
_FILE: Final = frozenset({"ReadFile", "MatchingFiles", "RestoreV2", "Restore", "RestoreSlice", "WholeFileReaderV2"})
_KINDS: Final = {"random": RANDOM, "control": _V1_CONTROL, "opaque": _OPAQUE, "file": _FILE, "": _HARMLESS}
_WORDS: Final = {"Iterator": "iterator", "Dataset": "iterator", "Queue": "queue", "Barrier": "queue"}
_REF_READS: Final = frozenset({"RefIdentity", "IsVariableInitialized"})


def kind_of_effect(op_type: str) -> str:
    """Return ``""`` for a pure op, or ``random``, ``write``, ``iterator``, ``queue``, ``opaque``, ``file``...

    ``op_def.is_stateful`` alone would be unsound both ways: it is false for ``Assign`` on reference variables
    and for file reads, and true for harmless reads of variables.
    """
    for kind, types in _KINDS.items():
        if op_type in types:
            return kind
    definition = op_def_registry.get(op_type)
    if definition is None:
        return "opaque"
    if op_type not in _REF_READS and any(arg.is_ref for arg in definition.input_arg):
        return "write"
    if not definition.is_stateful:
        return ""
    return next((kind for word, kind in _WORDS.items() if word in op_type), "write")


def reason(kind: str, op_name: str, op_type: str) -> str:
    """Return the sentence that says why an op of this kind keeps n calls from being one."""
    sentences = {
        "random": _("Random op `{op}` ({type}) draws anew in each call; one batched run would draw once."),
        "control": _(
            "Op `{op}` ({type}) is control flow of the first kind, which TensorFlow can't vectorise; "
            "build the graph after `tf.compat.v1.enable_control_flow_v2()`."
        ),
        "opaque": _("Op `{op}` ({type}) runs opaque Python code, which may have effects in each call."),
        "file": _("Op `{op}` ({type}) reads a file, which may change between the calls."),
        "iterator": _("Op `{op}` ({type}) takes the next element of an iterator in each call."),
        "queue": _("Op `{op}` ({type}) moves elements of a queue in each call."),
        "write": _("Op `{op}` ({type}) writes state in each call, which one batched run would do once."),
    }
    return sentences[kind].format(op=op_name, type=op_type)


def effects(ops: Iterable[tf.Operation], graph: tf.Graph) -> Iterator[tuple[str, str, str]]:
    """Yield (kind, op name, op type) of every op with an effect, function bodies included.

    An op of a body has the name of the op that calls it as a prefix.
    """
    checked: set[str] = set()
    for op in ops:
        kind = kind_of_effect(op.type)
        if kind:
            yield kind, op.name, op.type
        for name in function_names(op):
            yield from _body_effects(name, op.name, graph, checked)


def _body_effects(name: str, prefix: str, graph: tf.Graph, checked: set[str]) -> Iterator[tuple[str, str, str]]:
    pending = [(name, prefix)]
    while pending:
        name, prefix = pending.pop()
        if name in checked:
            continue
        checked.add(name)
        definition = function_def(graph, name)
        if definition is None:
            yield "opaque", prefix, name
            continue
        for node in definition.node_def:
            kind = kind_of_effect(node.op)
            if kind:
                yield kind, f"{prefix}/{node.name}", node.op
            pending.extend((called, f"{prefix}/{node.name}") for called in functions_in(node.attr))


def executed_types(ops: Iterable[tf.Operation], graph: tf.Graph) -> set[str]:
    """Return the types of ``ops`` and of all ops in the bodies of the functions that they call."""
    ops = list(ops)
    names = {name for op in ops for name in function_names(op)}
    return {op.type for op in ops} | {node.op for node in nodes_inside(names, graph)}


def nodes_inside(names: Iterable[str], graph: tf.Graph) -> Iterator[Any]:
    """Yield the node definitions in functions of ``graph``, and in the functions that these call in turn."""
    pending, seen = list(names), set()
    while pending:
        name = pending.pop()
        definition = None if name in seen else function_def(graph, name)
        seen.add(name)
        for node in () if definition is None else definition.node_def:
            yield node
            pending += functions_in(node.attr)


def function_def(graph: tf.Graph, name: str) -> Any:
    """Return the FunctionDef called ``name`` that ``graph`` or a graph around it knows, or ``None``."""
    while graph is not None:
        function = graph._get_function(name)
        if function is not None:
            return function.cached_definition
        graph = getattr(graph, "outer_graph", None)
    return None


def function_names(op: tf.Operation) -> list[str]:
    """Return the names of the functions that an op calls (body, branches, condition)."""
    return functions_in(op.node_def.attr)


def functions_in(attributes: Any) -> list[str]:
    """Return the names of the functions in the attributes of a node."""
    names = []
    for value in attributes.values():
        kind = value.WhichOneof("value")
        if kind == "func":
            names.append(value.func.name)
        elif kind == "list":
            names.extend(function.name for function in value.list.func)
    return names
