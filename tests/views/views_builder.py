"""Builds records by hand, op by op and call by call: the tests of the views need no TensorFlow."""

from functools import cache

from cachelab.model import Call, CauseRow, Columns, Finding, GraphTable, Line, Record, Source


class Builder:
    """Collects ops, sources and calls of one graph; ``record()`` freezes them."""

    def __init__(self, name="recording 3"):
        self.name = name
        self.ops = []
        self.row = {}
        self.lines = []
        self.sources = []
        self.causes = []
        self.columns = []
        self.calls = []
        self.findings = []
        self.modes = []

    def op(self, name, kind, *inputs, control=(), line=None):
        if line is not None:
            self.lines.append(Line("cell 2", line, f"{name} = ..."))
        self.row[name] = len(self.ops)
        self.ops.append(
            (
                name,
                kind,
                tuple(i if ":" in i else f"{i}:0" for i in inputs),
                control,
                len(self.lines) - 1 if line else -1,
            )
        )
        return name

    def source(self, name, kind):
        self.sources.append(Source(name, kind, 0))
        return len(self.sources) - 1

    def cause(self, kind, source="", back=None, text="", may=False):
        row = CauseRow(kind, source, back, text, may)
        if row not in self.causes:
            self.causes.append(row)
        return self.causes.index(row)

    def call(self, fetches, feeds, states, *, seconds=0.01, versions=(), repeat=1, **more):
        """``states``: op -> (letter, seconds, bytes, witness back, causes[, into[, evidence]])."""
        rows = sorted(states, key=self.row.get)
        full = [(*states[r], *(0.0, 0, None, (), None, "m")[len(states[r]) - 1 :]) for r in rows]
        columns = Columns(
            op=tuple(self.row[r] for r in rows),
            status="".join(s[0] for s in full),
            evidence="".join(s[6] for s in full),
            seconds=tuple(float(s[1]) for s in full),
            bytes=tuple(s[2] for s in full),
            count=tuple(1 if s[0] in "cr" else 0 for s in full),
            witness=tuple(s[3] for s in full),
            cause=tuple(tuple(s[4]) for s in full),
            into=tuple(-1 if s[5] is None else self.row[s[5]] for s in full),
        )
        if columns not in self.columns:
            self.columns.append(columns)
        index = self.calls[-1].index + self.calls[-1].repeat if self.calls else 0
        options = {"kind": "run", "graph": 0, "session": 0, "thread": 0, "line": -1, "start": 0.1 * index} | more
        self.calls.append(
            Call(
                index=index,
                fetches=tuple(fetches),
                feeds=tuple(feeds),
                seconds=seconds,
                columns=self.columns.index(columns),
                repeat=repeat,
                versions=tuple(versions),
                **options,
            )
        )
        return index

    def record(self):
        names, kinds, inputs, control, line = zip(*self.ops, strict=True) if self.ops else ((),) * 5
        return Record(
            name=self.name,
            environment={"tensorflow": "2.21.0", "optimizers": False},
            lines=tuple(self.lines),
            graphs=(GraphTable(0, names, kinds, inputs, control, line),),
            sources=tuple(self.sources),
            causes=tuple(self.causes),
            columns=tuple(self.columns),
            calls=tuple(self.calls),
            findings=tuple(self.findings),
            modes=tuple(self.modes),
        )


OPS = [
    ("enc/MatMul", "MatMul", 42.1, 16_800_000, ("x", "enc/MatMul/ReadVariableOp")),
    ("enc/BiasAdd", "BiasAdd", 4.3, 16_800_000, ("enc/MatMul", "enc/BiasAdd/ReadVariableOp")),
    ("enc/Tanh", "Tanh", 9.2, 16_800_000, ("enc/BiasAdd",)),
    ("pairs/Gather", "GatherV2", 0.31, 1_050_000, ("enc/Tanh", "idx")),
    ("pairs/Reshape", "Reshape", 0.01, 1_050_000, ("pairs/Gather",)),
    ("head/MatMul", "MatMul", 0.92, 65_500, ("pairs/Reshape", "head/MatMul/ReadVariableOp")),
    ("head/BiasAdd", "BiasAdd", 0.06, 65_500, ("head/MatMul", "head/BiasAdd/ReadVariableOp")),
    ("loss/xent", "SparseSoftmaxCrossEntropyWithLogits", 0.24, 1024, ("head/BiasAdd", "y")),
    ("loss/Mean", "Mean", 0.02, 4, ("loss/xent",)),
    ("loss/L2Loss", "L2Loss", 0.05, 4, ("loss/L2Loss/ReadVariableOp",)),
    ("loss/L2Loss_1", "L2Loss", 0.03, 4, ("loss/L2Loss_1/ReadVariableOp",)),
    ("loss/AddN", "AddN", 0.01, 4, ("loss/Mean", "loss/L2Loss", "loss/L2Loss_1")),
    ("gradients/xent_grad", "Mul", 0.05, 65_500, ("loss/xent:1",)),
    ("gradients/BiasAdd_grad", "BiasAddGrad", 0.07, 256, ("gradients/xent_grad",)),
    ("gradients/MatMul_grad", "MatMul", 1.02, 262_000, ("pairs/Reshape", "gradients/xent_grad")),
    ("gradients/L2Loss_1_grad", "Mul", 0.03, 262_000, ("loss/L2Loss_1/ReadVariableOp",)),
    ("gradients/AddN", "AddN", 0.03, 262_000, ("gradients/MatMul_grad", "gradients/L2Loss_1_grad")),
    ("train/update_head/W", "ResourceApplyGradientDescent", 0.11, 0, ("head/W", "gradients/AddN")),
    ("train/update_head/b", "ResourceApplyGradientDescent", 0.02, 0, ("head/b", "gradients/BiasAdd_grad")),
]
READS = [
    ("enc/MatMul/ReadVariableOp", "enc/W"),
    ("enc/BiasAdd/ReadVariableOp", "enc/b"),
    ("head/MatMul/ReadVariableOp", "head/W"),
    ("head/BiasAdd/ReadVariableOp", "head/b"),
    ("loss/L2Loss/ReadVariableOp", "enc/W"),
    ("loss/L2Loss_1/ReadVariableOp", "head/W"),
]


def encoder():
    """The sketch's recording: frozen encoder, trained head; 4 training calls, then 2 loss calls."""
    b = Builder()
    for name in ("x", "idx", "y"):
        b.op(name, "Placeholder", line=1)
    for name in ("enc/W", "enc/b", "head/W", "head/b"):
        b.op(name, "VarHandleOp", line=2)
    for read, variable in READS:
        b.op(read, "ReadVariableOp", variable)
    for number, (name, kind, _ms, _bytes, inputs) in enumerate(OPS):
        b.op(name, kind, *inputs, line=4 + number)
    b.op("train_op", "NoOp", control=("train/update_head/W", "train/update_head/b"))
    x, idx, y = (b.source(f"{n}:0", "feed") for n in ("x", "idx", "y"))
    ew, eb, hw, hb = (b.source(n, "variable") for n in ("enc/W", "enc/b", "head/W", "head/b"))
    first = b.cause("first", text="no earlier call ran this op")
    kept = b.cause("not_kept", "", 1, "ran on the same inputs in call {call}; a value lives for one call only")
    fed = b.cause("feed", "idx:0", 0, "feed `idx:0` is new in call {call}")
    written = b.cause("variable", "head/W", 1, "`train_op` wrote `head/W` in call {call}")
    effect = b.cause("effect", "head/W", None, "writes `head/W`: has to happen in each call")
    digests = ["a1f0", "b7c2", "0c11", "e2d9", "4403", "d95e"]

    def went(name, call):  # the rule of the sketch, written out
        scope = name.split("/")[0]
        if scope in ("gradients", "train") and call >= 4:
            return "p", None, ()
        if scope == "train" or call == 0:
            return "c", None, [effect if scope == "train" else first]
        if scope == "enc" or name == "loss/L2Loss" or (name == "loss/L2Loss_1" and call == 5):
            return "r", 1, [kept]
        return "c", None, [written if name == "loss/L2Loss_1" else fed]

    for call in range(6):
        train, states = call < 4, {}
        for name, _kind, ms, size, _inputs in OPS:
            letter, back, why = went(name, call)
            ran = letter in "cr"
            seconds = ms * 1e-3 * (1.05, 1, 0.99, 1.01, 0.98, 0.99)[call]
            states[name] = (letter, seconds if ran else 0.0, size if ran else 0, back, why)
        for name, kind, *_ in b.ops:
            if kind == "Placeholder":
                states[name] = ("d", 0.0, 0, None, ())
            elif kind in ("VarHandleOp", "ReadVariableOp"):
                states[name] = ("c", 1e-6, 4, None, [first] if call == 0 else [fed])
        head = f"v{min(call, 4)}"
        b.call(
            ["loss/AddN:0", "train_op"] if train else ["loss/AddN:0"],
            ["x:0", "idx:0", "y:0"],
            states,
            seconds=sum(s[1] for s in states.values()) + 1.2e-3,
            versions=[
                *((x, "9f3c"), (idx, digests[call]), (y, digests[-1 - call]), (ew, "v0"), (eb, "v0")),
                *((hw, head), (hb, head)),
            ],
        )
    b.findings = [
        Finding("unneeded_feed", ("y:0",), 5, "`y:0` was fed in call 5, but no fetch needs it."),
        Finding("value_through_python", ("enc/Tanh:0",), None, "`enc/Tanh:0` travelled through Python."),
    ]
    return b


@cache
def large(rows=55_000, calls=20, *, vary=False, scopes=40):
    """A large graph: ``scopes`` blocks of layers; the first call computes, the others recompute half of it."""
    import random

    rng = random.Random(7)
    kinds = ["Conv2D", "FusedBatchNormV3", "Relu", "AddV2", "Mul", "Identity", "ReadVariableOp", "Sigmoid"]
    names, types, inputs = ["images"], ["Placeholder"], [()]
    for row in range(1, rows):
        kind = kinds[row % len(kinds)]
        block = (row * scopes) // rows
        names.append(f"efficientnet/block{block}/layer_{(row // 24) % 60}/{kind}_{row}")
        types.append(kind)
        inputs.append((f"{names[row - 1]}:0",) if row % 7 else (f"{names[row - 1]}:0", f"{names[max(0, row - 5)]}:0"))
    graph = GraphTable(0, tuple(names), tuple(types), tuple(inputs), ((),) * rows, (-1,) * rows)
    causes = (
        CauseRow("first", "", None, "no earlier call ran this op"),
        CauseRow("not_kept", "", 1, "ran on the same inputs in call {call}; a value lives for one call only"),
        CauseRow("feed", "images:0", 0, "feed `images:0` is new in call {call}"),
    )

    def columns(first):
        letters = "".join("c" if first or row > rows // 2 else "r" for row in range(rows))
        return Columns(
            op=tuple(range(rows)),
            status=letters,
            evidence="m" * rows,
            seconds=tuple(rng.lognormvariate(-10, 1.5) for _ in range(rows)),
            bytes=tuple(rng.choice((4, 1024, 65536, 262144, 1048576)) for _ in range(rows)),
            count=(1,) * rows,
            witness=tuple(None if letter == "c" else 1 for letter in letters),
            cause=tuple((0,) if first else (2,) if letter == "c" else (1,) for letter in letters),
        )

    sets = [columns(first=True)] + [columns(first=False) for _ in range(calls - 1 if vary else 1)]
    log = [
        Call(
            k,
            "run",
            0,
            0,
            0,
            ("loss:0",),
            ("images:0",),
            -1,
            0.1 * k,
            0.09,
            min(k, len(sets) - 1),
            versions=((0, f"d{k:04d}"),),
        )
        for k in range(calls)
    ]
    return Record(
        "large",
        {"tensorflow": "2.21.0", "optimizers": True},
        (),
        (graph,),
        (Source("images:0", "feed", 0),),
        causes,
        tuple(sets),
        tuple(log),
    )


def statuses():
    """One op for each status, in two calls; the second one serves a value and fails."""
    b = Builder("every status")
    b.op("x", "Placeholder", line=1)
    names = {
        "c": "conv", "r": "again", "s": "served", "d": "given", "m": "twin", "k": "constant", "u": "bias", "p": "spare",
        "t": "branch", "n": "late", "x": "dark",
    }  # fmt: skip
    before = "x"
    for name in names.values():
        b.op(f"net/{name}", "Tanh", before, line=2)
        before = f"net/{name}"
    x = b.source("x:0", "feed")
    first, kept = (
        b.cause("first", text="no earlier call ran this op"),
        b.cause("not_kept", "", 1, "values live for one call only"),
    )
    states = {f"net/{n}": ("c", 2e-3, 4096, None, [first]) for n in names.values()}
    b.call(["net/dark:0"], ["x:0"], {"x": ("d",), **states}, versions=[(x, "aa01")], line=0)
    states = {
        f"net/{n}": (
            k,
            2e-3 if k in "cr" else 0.0,
            4096,
            1 if k in "rs" else None,
            [kept] if k == "r" else [],
            "net/conv" if k in "mu" else None,
        )
        for k, n in names.items()
    }
    b.call(
        ["net/dark:0"],
        ["x:0"],
        {"x": ("d",), **states},
        versions=[(x, "aa01")],
        line=0,
        failed="InvalidArgumentError: <b>shapes</b> must be equal",
        trace="missing",
    )
    return b


def loop(calls=10_000, *, entries=False):
    """A loop of equal calls after the first one: one entry with ``repeat``, or one entry a call (new feed each)."""
    b = Builder("loop")
    b.op("x", "Placeholder")
    b.op("W", "VarHandleOp")
    b.op("read", "ReadVariableOp", "W")
    b.op("h", "Tanh", "read", line=3)
    b.op("y", "Mul", "h", "x", line=4)
    x, w = b.source("x:0", "feed"), b.source("W", "variable")
    first, kept = (
        b.cause("first", text="no earlier call ran this op"),
        b.cause("not_kept", "", 1, "values live for one call only"),
    )
    fed = b.cause("feed", "x:0", 0, "feed `x:0` is new in call {call}")
    b.call(
        ["y:0"],
        ["x:0"],
        {"x": ("d",), "h": ("c", 1e-4, 4, None, [first]), "y": ("c", 2e-4, 4, None, [first])},
        versions=[(x, "d0"), (w, "v0")],
    )
    states = {"x": ("d",), "h": ("r", 1e-4, 4, 1, [kept]), "y": ("c", 2e-4, 4, None, [fed])}
    if not entries:
        b.call(["y:0"], ["x:0"], states, versions=[(x, "d1"), (w, "v0")], repeat=calls - 1)
        return b
    b.call(["y:0"], ["x:0"], states, versions=[(x, "d1"), (w, "v0")])
    template = b.calls.pop()
    from dataclasses import replace

    b.calls += [replace(template, index=k, versions=((x, f"d{k}"), (w, "v0"))) for k in range(1, calls)]
    return b


HOSTILE = [
    "<script>alert(1)</script>",
    "a\"b'c&d",
    "naïve/Größe/漢字 ×→",
    "${x}`code`{op}{0}",
    "a" * 300,
    "</style><b>",
    "s/" * 40 + "deep",
]


def hostile():
    """Names, texts, errors and file names that try to break out of HTML, SVG, DOT, mathtext and formats."""
    b = Builder("<img src=x onerror=alert(1)>")
    b.op("<ph>", "Placeholder", line=1)
    before = "<ph>"
    for name in HOSTILE:
        b.op(name, "<Type>&", before, line=2)
        before = name
    x = b.source("<ph>:0", "feed")
    kept = b.cause("not_kept", "<ph>:0", 1, "</td><script>alert(2)</script> {op} {nope}")
    first = b.cause("first", "", None, "first <i>")
    versions = [(x, "<svg onload=alert(3)>")]
    for call in range(2):
        state = ("r", 1e-3, 8, 1, [kept]) if call else ("c", 1e-3, 8, None, [first])
        b.call(
            [f"{HOSTILE[0]}:0"],
            ["<ph>:0"],
            {"<ph>": ("d",), **dict.fromkeys(HOSTILE, state)},
            versions=versions,
            line=0,
        )
    b.call(["<ph>:0"], [], {"<ph>": ("x",)}, failed="<script>alert(4)</script>\nmore")
    b.findings = [Finding("race", tuple(HOSTILE[:2]), 1, "<script>alert(5)</script> `a<b`")]
    return b
