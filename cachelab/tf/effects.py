"""What an op type does besides computing: which resources it reads, writes or passes on, and what it draws.

``OpDef.is_stateful`` alone is unsound (see ``tensorflow-facts.md`` section 4): it is false for ref ``Assign`` or
``ReadFile``, and true for harmless reads. So types are listed here; a stateful type that is not listed is opaque.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from typing import Any

from tensorflow.core.framework import types_pb2
from tensorflow.python.framework import op_def_registry
from tensorflow.python.framework.auto_control_deps_utils import RESOURCE_READ_OPS

PASS_ON = frozenset(
    {
        "Identity", "IdentityN", "Switch", "Merge", "Enter", "Exit", "NextIteration", "_SwitchN", "RefIdentity",
        "RefSwitch", "RefMerge", "RefEnter", "RefExit", "RefNextIteration", "RefSelect", "MakeWeakResourceHandle",
        "DebugIdentity", "StopGradient", "PreventGradient", "Snapshot", "PlaceholderWithDefault",
    }
)  # fmt: skip
"""Types that pass a handle or a buffer on as it is."""

SHARES_BUFFER = PASS_ON | frozenset(
    {
        "Reshape", "Squeeze", "ExpandDims", "Bitcast", "EnsureShape", "CheckNumerics", "Slice", "StridedSlice",
        "Split", "SplitV", "Unpack", "Unstack", "Cast", "Concat", "ConcatV2", "Pack", "AddN", "AccumulateNV2",
        "BroadcastTo", "Tile", "Transpose", "Conj", "Real", "GuaranteeConst", "Sum", "Mean", "Max", "Min", "Prod",
        "Any", "All", "Reverse", "ReverseV2", "Pad", "PadV2", "MirrorPad", "SpaceToBatchND", "BatchToSpaceND",
        "Copy", "CopyHost", "QuantizeAndDequantizeV2", "ReadVariableXlaSplitND", "Print", "OptionalFromValue",
        "InvertPermutation", "SparseReshape", "TensorListFromTensor", "Roll", "Einsum", "EuclideanNorm",
        "MatrixBandPart", "BatchMatrixBandPart", "Select", "SelectV2", "CheckNumericsV2", "SparseReorder",
        "DebugGradientIdentity", "DebugIdentityV2", "TensorListSetItem", "TensorListPushBack", "TensorListGetItem",
        "TensorListPopBack", "TensorListSplit", "TensorListStack", "TensorListGather", "TensorListConcatV2",
        "TensorArrayWriteV3", "TensorArrayReadV3", "TensorArrayScatterV3", "TensorArraySplitV3", "TensorArrayGatherV3",
        "TensorArrayConcatV3", "OptionalGetValue",
    }
)  # fmt: skip
"""Types whose output may share the buffer of an input (sometimes, such as ``Slice`` along the first axis)."""

READS = frozenset(RESOURCE_READ_OPS) | frozenset(
    {
        "VarIsInitializedOp", "IsVariableInitialized", "LookupTableFindV2", "LookupTableFind", "LookupTableSizeV2",
        "LookupTableSize", "LookupTableExportV2", "LookupTableExport", "QueueSizeV2", "QueueSize",
        "QueueIsClosedV2", "QueueIsClosed", "IteratorToStringHandle", "IteratorGetDevice", "DisableCopyOnRead",
        "TensorArraySizeV3", "TensorArraySizeV2", "TensorArraySize", "TensorArrayReadV3", "TensorArrayGatherV3",
        "TensorArrayConcatV3", "ResourceAccumulatorNumAccumulated", "AccumulatorNumAccumulated",
        "ReaderNumRecordsProducedV2", "ReaderNumWorkUnitsCompletedV2", "ReaderSerializeStateV2",
        "IsResourceHandleRefCounting", "IsBoostedTreesEnsembleInitialized", "BarrierReadySize",
        "BarrierIncompleteSize", "TensorArrayGradV3", "TensorArrayGradWithShape", "ReadVariableXlaSplitND",
    }
)  # fmt: skip
"""Types that only read the resource they take."""

RANDOM = frozenset(
    {
        "RandomUniform", "RandomUniformInt", "RandomStandardNormal", "ParameterizedTruncatedNormal",
        "TruncatedNormal", "RandomShuffle", "Multinomial", "RandomGamma", "RandomPoisson", "RandomPoissonV2",
        "RandomCrop", "SampleDistortedBoundingBox", "SampleDistortedBoundingBoxV2", "Skipgram", "NegTrain",
        "StatefulRandomBinomial", "StatefulStandardNormal", "StatefulStandardNormalV2", "StatefulTruncatedNormal",
        "StatefulUniform", "StatefulUniformFullInt", "StatefulUniformInt", "RngReadAndSkip", "RngSkip",
        "NonDeterministicInts", "AnonymousSeedGenerator", "AnonymousRandomSeedGenerator", "DummySeedGenerator",
        "CudnnRNN", "CudnnRNNV2", "CudnnRNNV3", "FractionalMaxPool", "FractionalAvgPool", "RandomDataset",
        "RandomDatasetV2", "ExperimentalRandomDataset", "AllCandidateSampler", "FixedUnigramCandidateSampler",
        "LearnedUnigramCandidateSampler", "LogUniformCandidateSampler", "ThreadUnsafeUnigramCandidateSampler",
        "UniformCandidateSampler", "ShuffleDataset", "ShuffleDatasetV2", "ShuffleDatasetV3",
        "ShuffleAndRepeatDataset", "ShuffleAndRepeatDatasetV2", "GlobalShuffleDataset",
    }
)  # fmt: skip

STEPS = frozenset(
    {
        "IteratorGetNext", "IteratorGetNextSync", "IteratorGetNextAsOptional", "QueueDequeueV2",
        "QueueDequeueManyV2", "QueueDequeueUpToV2", "QueueDequeue", "QueueDequeueMany", "QueueDequeueUpTo",
        "ReaderReadV2", "ReaderReadUpToV2", "ReaderRead", "ReaderReadUpTo", "Unstage", "StagePeek", "StageSize",
        "MapUnstage", "MapUnstageNoKey", "MapPeek", "MapSize", "MapIncompleteSize", "OrderedMapUnstage",
        "OrderedMapUnstageNoKey", "OrderedMapPeek", "OrderedMapSize", "OrderedMapIncompleteSize",
        "BarrierTakeMany", "AccumulatorTakeGradient", "ResourceAccumulatorTakeGradient",
        "SparseAccumulatorTakeGradient", "TakeManySparseFromTensorsMap", "RecordInput",
        "MultiDeviceIteratorGetNextFromShard", "DatasetToSingleElement", "ReduceDataset",
        "ExperimentalDatasetToTFRecord", "DatasetToTFRecord",
    }
)  # fmt: skip
"""Types that take the next element of an iterator, queue or reader."""

FILES = frozenset(
    {
        "ReadFile", "MatchingFiles", "RestoreV2", "Restore", "RestoreSlice", "LoadAndRemapMatrix", "ImmutableConst",
        "GenerateVocabRemapping", "TextLineDataset", "TFRecordDataset", "TFRecordDatasetV2",
        "FixedLengthRecordDataset", "FixedLengthRecordDatasetV2", "MatchingFilesDataset", "CSVDataset",
        "CSVDatasetV2", "SqlDataset", "LMDBDataset", "LoadDataset", "SnapshotDataset", "SnapshotDatasetV2",
    }
)  # fmt: skip
"""Types whose value depends on what lies on disk."""

PYTHON = frozenset({"PyFunc", "EagerPyFunc", "PyFuncStateless"})
"""Types that run Python code. ``PyFuncStateless`` is only declared stateless: nobody checks it."""

BELIEVED = frozenset({"PyFuncStateless", "ReadFile", "MatchingFiles", "ImmutableConst"})
"""Of these, types that TensorFlow believes to be stateless: on constants they are folded, which runs them once."""

OUTWARD = frozenset(
    {
        "Print", "PrintV2", "Save", "SaveSlices", "SaveV2", "MergeV2Checkpoints", "WriteFile", "DeleteSessionTensor",
        "WriteSummary", "WriteScalarSummary", "WriteHistogramSummary", "WriteImageSummary", "WriteAudioSummary",
        "WriteRawProtoSummary", "WriteGraphSummary", "ImportEvent", "FlushSummaryWriter", "CloseSummaryWriter",
        "Stage", "MapStage", "OrderedMapStage", "StageClear", "MapClear", "OrderedMapClear", "DatasetToTFRecord",
        "ExperimentalDatasetToTFRecord", "SaveDataset", "SaveDatasetV2", "AddSparseToTensorsMap",
        "AddManySparseToTensorsMap", "DumpTensor", "Timestamp",
    }
)  # fmt: skip
"""Types with an effect that is no resource write: it has to happen, but does not change the op's own value."""

PURE_THOUGH_STATEFUL = frozenset(
    {
        "Assert", "CheckNumerics", "CheckNumericsV2", "GuaranteeConst", "GraphDefVersion", "StatelessRandomGetAlg",
        "DeepCopy", "DeviceIndex", "DtypeWithDefaultOp", "IsTensorFloat32Enabled", "TensorSliceDataset",
        "TensorDataset", "RangeDataset", "SparseTensorSliceDataset", "ListDataset", "_Arg", "_Retval",
        "GetSessionTensor", "SleepOp", "SleepIdentityOp", "CacheDatasetV2", "DummyMemoryCache",
        "CudnnRNNBackprop", "CudnnRNNBackpropV2", "CudnnRNNBackpropV3", "_VarHandlesOp",
    }
)  # fmt: skip

LOCAL_CREATORS = frozenset(
    {"TensorArrayV3", "TensorArrayV2", "TensorArray", "StackV2", "Stack", "TemporaryVariable", "TensorArrayGradV3",
     "TensorArrayGradWithShape"}
)  # fmt: skip
"""Types that make a resource which lives for one call only."""

VARIABLES = frozenset({"VarHandleOp", "VariableV2", "Variable", "AutoReloadVariable", "_XlaAotOnlyVarHandleOp"})

REF_PASS = frozenset({"RefIdentity", "RefSwitch", "RefMerge", "RefEnter", "RefExit", "RefNextIteration", "RefSelect"})

_NOT_WRITING_LOCAL = re.compile(r"TensorArray(Read|Gather|Concat|Size|Grad)|StackCloseV2|TensorArrayCloseV3")


@dataclass(frozen=True, slots=True)
class Effects:
    """What a type does, apart from its resource inputs.

    ``draws``: kind of source whose version is new with every execution (``""``: none). ``effect``: has to happen.
    ``reads_only``: a resource taken is only read. ``pure``: nothing of the kind.
    """

    draws: str
    effect: bool
    reads_only: bool


@functools.cache
def effects_of(op_type: str) -> Effects:
    """Return what ops of a type do besides computing; an unregistered or unlisted stateful type is opaque."""
    reads_only = op_type in READS
    if op_type in RANDOM:
        return Effects("random", effect=True, reads_only=False)
    if op_type in STEPS:
        return Effects("iterator", effect=True, reads_only=False)
    if op_type in FILES:
        return Effects("file", effect=False, reads_only=False)
    if op_type in PYTHON:
        return Effects("opaque", effect=True, reads_only=False)
    if op_type in OUTWARD:
        return Effects("opaque" if op_type == "Timestamp" else "", effect=True, reads_only=False)
    definition = op_def_registry.get(op_type)
    if definition is None:
        return Effects("opaque", effect=True, reads_only=False)
    if op_type in {"GetSessionHandle", "GetSessionHandleV2", "InplaceUpdate", "InplaceAdd", "InplaceSub", "Empty"}:
        return Effects("opaque", effect=True, reads_only=False)
    takes = any(argument.is_ref or argument.type == types_pb2.DT_RESOURCE for argument in definition.input_arg)
    makes = any(argument.is_ref or argument.type == types_pb2.DT_RESOURCE for argument in definition.output_arg)
    known = reads_only or takes or makes or op_type in PURE_THOUGH_STATEFUL or op_type in LOCAL_CREATORS
    known = known or op_type in PASS_ON or op_type in VARIABLES or op_type.startswith("TensorArray")
    if definition.is_stateful and not known:
        return Effects("opaque", effect=True, reads_only=False)
    # An op that changes a resource it takes and gives a value, such as a table export after a removal, gives a
    # value that its inputs don't determine.
    changes = takes and not reads_only and bool(definition.output_arg) and not makes
    local = op_type.startswith(("TensorArray", "Stack"))
    return Effects("effect" if changes and not local else "", effect=False, reads_only=reads_only)


@dataclass(frozen=True, slots=True)
class Argument:
    """One input of a node: its dtype is a resource, or it is a ref that the op may write."""

    resource: bool
    ref: bool


@functools.cache
def _fixed_arguments(op_type: str) -> tuple[Argument, ...] | None:
    definition = op_def_registry.get(op_type)
    if definition is None or any(a.number_attr or a.type_list_attr or a.type_attr for a in definition.input_arg):
        return None
    return tuple(Argument(a.type == types_pb2.DT_RESOURCE, a.is_ref) for a in definition.input_arg)


def arguments(node: Any) -> tuple[Argument, ...]:
    """Return what is known of each data input of a NodeDef; shorter than its inputs if the type is unknown."""
    fixed = _fixed_arguments(node.op)
    if fixed is not None:
        return fixed
    definition = op_def_registry.get(node.op)
    if definition is None:
        return ()
    found: list[Argument] = []
    for argument in definition.input_arg:
        found.extend(Argument(dtype == types_pb2.DT_RESOURCE, argument.is_ref) for dtype in _dtypes(argument, node))
    return tuple(found)


@functools.cache
def _single_outputs(op_type: str) -> tuple[str, ...] | None:
    definition = op_def_registry.get(op_type)
    if definition is None or any(a.number_attr or a.type_list_attr for a in definition.output_arg):
        return None
    return tuple(argument.name for argument in definition.output_arg)


def output_offsets(node: Any) -> dict[str, int]:
    """Return for each named output of a NodeDef the index of its first tensor."""
    names = _single_outputs(node.op)
    if names is not None:
        return {name: index for index, name in enumerate(names)}
    definition = op_def_registry.get(node.op)
    offsets: dict[str, int] = {}
    index = 0
    for argument in definition.output_arg if definition is not None else ():
        offsets[argument.name] = index
        index += len(_dtypes(argument, node))
    return offsets


def _dtypes(argument: Any, node: Any) -> list[int]:
    """Return the dtypes of the tensors that one argument of an op stands for."""
    if argument.type_list_attr:
        return list(node.attr[argument.type_list_attr].list.type)
    dtype = node.attr[argument.type_attr].type if argument.type_attr else argument.type
    return [dtype] * (node.attr[argument.number_attr].i if argument.number_attr else 1)


def writes_local(op_type: str) -> bool:
    """Tell whether a type changes the stack or TensorArray that it takes."""
    return not _NOT_WRITING_LOCAL.match(op_type)
