"""Recordings made by hand for the tests of the front end: small, known to the last figure, without TensorFlow."""

from __future__ import annotations

from dataclasses import dataclass, field

from cachelab.model import (
    Call,
    CauseRow,
    Columns,
    Finding,
    GraphTable,
    Line,
    ModeResult,
    Record,
    Source,
)

LINES = (
    Line("cell 2", 2, "a = tf.nn.bias_add(tf.matmul(x, enc_W), enc_b)"),
    Line("cell 2", 3, "h = tf.tanh(a)"),
    Line("cell 2", 4, "z = tf.reshape(tf.gather(h, idx), [-1, 1024])"),
    Line("cell 2", 8, "train_op = opt.minimize(loss, var_list=[head_W, head_b])"),
    Line("cell 5", 2, "sess.run([loss, train_op], {x: X, idx: batch, y: labels(batch)})"),
    Line("cell 5", 3, "sess.run(loss, {x: X, idx: batch, y: labels(batch)})"),
)

# name, type, inputs, line, milliseconds, bytes
OPS = (
    ("x", "Placeholder", (), 0, 0, 0),
    ("idx", "Placeholder", (), 0, 0, 0),
    ("y", "Placeholder", (), 0, 0, 0),
    ("enc/W", "VarHandleOp", (), 0, 0, 0),
    ("enc/b", "VarHandleOp", (), 0, 0, 0),
    ("head/W", "VarHandleOp", (), 0, 0, 0),
    ("head/b", "VarHandleOp", (), 0, 0, 0),
    ("enc/MatMul/ReadVariableOp", "ReadVariableOp", ("enc/W:0",), 0, 0, 0),
    ("enc/MatMul", "MatMul", ("x:0", "enc/MatMul/ReadVariableOp:0"), 0, 42.1, 16_777_216),
    ("enc/BiasAdd/ReadVariableOp", "ReadVariableOp", ("enc/b:0",), 0, 0, 0),
    ("enc/BiasAdd", "BiasAdd", ("enc/MatMul:0", "enc/BiasAdd/ReadVariableOp:0"), 0, 4.3, 16_777_216),
    ("enc/Tanh", "Tanh", ("enc/BiasAdd:0",), 1, 9.2, 16_777_216),
    ("pairs/axis", "Const", (), 2, 0, 0),
    ("pairs/Gather", "GatherV2", ("enc/Tanh:0", "idx:0", "pairs/axis:0"), 2, 0.31, 1_048_576),
    ("pairs/Reshape", "Reshape", ("pairs/Gather:0",), 2, 0.01, 1_048_576),
    ("head/MatMul/ReadVariableOp", "ReadVariableOp", ("head/W:0",), 2, 0, 0),
    ("head/MatMul", "MatMul", ("pairs/Reshape:0", "head/MatMul/ReadVariableOp:0"), 2, 0.92, 65_536),
    ("head/BiasAdd/ReadVariableOp", "ReadVariableOp", ("head/b:0",), 2, 0, 0),
    ("head/BiasAdd", "BiasAdd", ("head/MatMul:0", "head/BiasAdd/ReadVariableOp:0"), 2, 0.06, 65_536),
    ("loss/xent", "SparseSoftmaxCrossEntropyWithLogits", ("head/BiasAdd:0", "y:0"), 2, 0.24, 1024),
    ("loss/Mean", "Mean", ("loss/xent:0",), 2, 0.02, 4),
    ("loss/L2Loss/ReadVariableOp", "ReadVariableOp", ("enc/W:0",), 2, 0, 0),
    ("loss/L2Loss", "L2Loss", ("loss/L2Loss/ReadVariableOp:0",), 2, 0.05, 4),
    ("loss/L2Loss_1/ReadVariableOp", "ReadVariableOp", ("head/W:0",), 2, 0, 0),
    ("loss/L2Loss_1", "L2Loss", ("loss/L2Loss_1/ReadVariableOp:0",), 2, 0.03, 4),
    ("loss/AddN", "AddN", ("loss/Mean:0", "loss/L2Loss:0", "loss/L2Loss_1:0"), 2, 0.01, 4),
    ("gradients/xent_grad", "Mul", ("loss/xent:1",), 3, 0.05, 65_536),
    ("gradients/BiasAdd_grad", "BiasAddGrad", ("gradients/xent_grad:0",), 3, 0.07, 256),
    ("gradients/MatMul_grad", "MatMul", ("pairs/Reshape:0", "gradients/xent_grad:0"), 3, 1.02, 262_144),
    ("gradients/L2Loss_1_grad", "Mul", ("loss/L2Loss_1/ReadVariableOp:0",), 3, 0.03, 262_144),
    ("gradients/AddN", "AddN", ("gradients/MatMul_grad:0", "gradients/L2Loss_1_grad:0"), 3, 0.03, 262_144),
    ("train/update_head/W", "ResourceApplyGradientDescent", ("head/W:0", "gradients/AddN:0"), 3, 0.11, 0),
    ("train/update_head/b", "ResourceApplyGradientDescent", ("head/b:0", "gradients/BiasAdd_grad:0"), 3, 0.02, 0),
    ("train_op", "NoOp", (), 3, 0, 0),
)
CONTROL = {"train_op": ("train/update_head/W", "train/update_head/b")}
ROW = {op[0]: row for row, op in enumerate(OPS)}
GRAPH = GraphTable(
    id=0,
    name=tuple(op[0] for op in OPS),
    type=tuple(op[1] for op in OPS),
    inputs=tuple(op[2] for op in OPS),
    control=tuple(CONTROL.get(op[0], ()) for op in OPS),
    line=tuple(op[3] for op in OPS),
)
SOURCES = (
    Source("x:0", "feed", 0),
    Source("enc/W", "variable", 0),
    Source("enc/b", "variable", 0),
    Source("idx:0", "feed", 0),
    Source("y:0", "feed", 0),
    Source("head/W", "variable", 0),
    Source("head/b", "variable", 0),
)
CAUSES = (
    CauseRow("first", "", None, "first execution"),
    CauseRow("not_kept", "x:0", 1, "ran on the `x` and `enc/W` of call {call}; a value lives for one call only"),
    CauseRow("feed", "idx:0", 0, "`idx` was fed other content than in call {call}"),
    CauseRow("variable", "head/W", 1, "`train_op` wrote `head/W` in call {call}"),
    CauseRow("effect", "head/W", None, "writes `head/W`: has to happen in each call"),
    CauseRow("not_kept", "enc/Tanh:0", 1, "call {call} kept the value; `x`, `enc/W` and `enc/b` have not changed"),
    CauseRow("not_kept", "enc/Tanh:0", None, "only `enc/Tanh` used it, and that was served"),
    CauseRow("not_kept", "head/W", 1, "ran on the `head/W` of call {call}; a value lives for one call only"),
)
FIRST, SAME, FEED, WRITTEN, EFFECT, KEPT, UNUSED, HEAD = range(8)
ENCODER = ("enc/MatMul", "enc/BiasAdd", "enc/Tanh")
SHAPES = ("float32 [8192, 512]", "float32 [256, 1024]")


@dataclass
class _Writer:
    """Collects the columns of one call."""

    op: list[int] = field(default_factory=list)
    status: str = ""
    evidence: str = ""
    seconds: list[float] = field(default_factory=list)
    witness: list[int | None] = field(default_factory=list)
    cause: list[tuple[int, ...]] = field(default_factory=list)
    start: list[float] = field(default_factory=list)
    clock: float = 0.0

    def add(self, name: str, status: str, causes: tuple[int, ...] = (), back: int | None = None) -> None:
        row = ROW[name]
        seconds = OPS[row][4] / 1e3 if status in "cr" else 0.0
        self.op.append(row)
        self.status += status
        self.evidence += "m" if status in "cr" else "d"
        self.seconds.append(seconds)
        self.witness.append(back)
        self.cause.append(causes)
        self.start.append(self.clock if status in "cr" else -1.0)
        self.clock += seconds

    def columns(self) -> Columns:
        return Columns(
            op=tuple(self.op),
            status=self.status,
            evidence=self.evidence,
            seconds=tuple(self.seconds),
            bytes=tuple(OPS[row][5] for row in self.op),
            count=tuple(1 if letter in "cr" else 0 for letter in self.status),
            witness=tuple(self.witness),
            cause=tuple(self.cause),
            shape=tuple(0 if OPS[row][0] in ENCODER else -1 for row in self.op),
            start=tuple(self.start),
            device=tuple(0 if letter in "cr" else -1 for letter in self.status),
        )


def _columns(call: int, mode: str) -> Columns:
    """One of six calls: four train, two only read the loss; the encoder's inputs never change."""
    trains, writer = call < 4, _Writer()
    kept = mode == "variable" and call > 0
    for name, kind, *_ in OPS:
        scope = name.split("/", maxsplit=1)[0]
        if (scope in {"gradients", "train"} or name == "train_op") and not trains:
            continue
        if kind == "Placeholder":
            writer.add(name, "p" if kept and name == "x" else "d")
        elif kind in {"VarHandleOp", "Const", "ReadVariableOp", "NoOp"}:
            writer.add(name, "p" if kept and scope == "enc" else "c")
        elif kept and name in ENCODER:
            writer.add(name, "s", (KEPT,), call) if name == "enc/Tanh" else writer.add(name, "p", (UNUSED,))
        elif call and (name in ENCODER or name == "loss/L2Loss"):
            writer.add(name, "r", (SAME,), 1)
        elif call == 5 and name == "loss/L2Loss_1":
            writer.add(name, "r", (HEAD,), 1)
        elif scope == "train":
            writer.add(name, "c", (EFFECT,))
        elif not call:
            writer.add(name, "c", (FIRST,))
        else:
            writer.add(name, "c", (WRITTEN,) if name == "loss/L2Loss_1" else (FEED,))
    return writer.columns()


def _versions(call: int) -> tuple[tuple[int, str], ...]:
    feeds = ("a1", "b7", "0c", "e2", "44", "d9")
    head = f"v{min(call, 4)}"
    fed = feeds[call]
    return ((0, "9f3c"), (1, "v0"), (2, "v0"), (3, fed), (4, fed), (5, head), (6, head))


def _calls(mode: str) -> tuple[tuple[Call, ...], tuple[Columns, ...]]:
    columns = tuple(_columns(call, mode) for call in range(6))
    calls, clock = [], 0.0
    for call, one in enumerate(columns):
        seconds = sum(one.seconds) + 0.0012
        calls.append(
            Call(
                index=call, kind="run", graph=0, session=0, thread=0,
                fetches=("loss/AddN:0", "train_op") if call < 4 else ("loss/AddN:0",),
                feeds=("x:0", "idx:0", "y:0"), line=4 if call < 4 else 5, start=clock, seconds=seconds,
                columns=call, versions=_versions(call),
            )
        )  # fmt: skip
        clock += seconds
    return tuple(calls), columns


def record(mode: str = "run", *, modes: bool = True) -> Record:
    """The sketch's recording: a frozen encoder whose work is repeated in calls 1 to 5."""
    calls, columns = _calls(mode)
    results = (
        ModeResult("run", True, equality="reproduced", seconds=0.357, speedup=1.0, executed=100, recomputed=21),
        ModeResult("partial_run", False, "`idx` has 6 values; a handle takes one per placeholder."),
        ModeResult(
            "variable", True, equality="equal", seconds=0.083, setup_seconds=0.048, speedup=4.3,
            bytes_held=16_777_216, executed=85, recomputed=6, reused=5, break_even=2,
            code="# keep enc/Tanh\nkept = tf.compat.v1.get_variable('kept', initializer=tf.zeros([0, 512]))\n"
            "for batch in batches:\n    sess.run([loss, train_op], {idx: batch})",
        ),
    )  # fmt: skip
    return Record(
        name="recording 3",
        environment={"tensorflow": "2.21.0", "optimizers": False},
        lines=LINES,
        graphs=(GRAPH,),
        sources=SOURCES,
        causes=CAUSES,
        columns=columns,
        calls=calls,
        findings=(Finding("unneeded_feed", ("x",), 1, "`x` is fed 6 times with equal content."),),
        modes=results if modes else (),
        shapes=SHAPES,
        devices=("/device:CPU:0",),
    )
