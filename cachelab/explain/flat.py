"""A graph as flat rows of ops: what each reads, writes and draws. Pure data, filled by ``cachelab.tf.flatten``.

Function bodies (cond, while and function calls of control flow version 2) are expanded into rows of their own,
so that one rule serves every kind of graph. A call op stays as a *hub* row: consumers of its outputs are led to
the rows that make them, through :attr:`FlatGraph.outputs`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

Ref = tuple[int, int]
"""A tensor: (row of the op, index of the output)."""

SELECT = "_Select"
"""Type of the virtual row that stands for one output of a conditional: predicate first, then a value a branch."""

LOOP_VAR = "_LoopVar"
"""Type of the virtual row that stands for one loop variable: initial value, value after the body, condition."""

ENTRY = "_Entry"
"""Type of the virtual row that orders a function body after the control inputs of its call."""

VIRTUAL = frozenset({SELECT, LOOP_VAR, ENTRY})
"""Types of rows that stand for no op."""

OUTSIDE = -1
"""Row of a tensor that comes from nowhere known (such as an unresolved function argument)."""


@dataclass(frozen=True, slots=True)
class Cell:
    """A place that keeps a value between ops or calls: a variable, a table, a queue, an iterator, a handle.

    ``kind``: ``variable``, ``iterator`` (iterators, queues, readers and tables) or ``opaque``.
    ``local``: lives within one call only (stacks, TensorArrays). ``key`` identifies the resource in a session.
    """

    kind: str
    name: str
    key: str
    local: bool = False
    row: int = OUTSIDE


@dataclass
class FlatGraph:
    """Rows of ops, parallel lists by row; it grows with the user's graph and rows keep their numbers.

    Attributes
    ----------
    name, type
        Name as shown, op type.
    inputs, control
        Data inputs as references, control inputs as rows.
    shown
        False for virtual rows, which stand for no op of the user's.
    reads, writes
        Row -> cells that the op reads or may write when it runs.
    draws
        Row -> kind of source (``random``, ``iterator``, ``opaque``, ``file``, ``effect``) whose version is new
        with every execution. The op has an effect, or its value can't be told from its inputs.
    effects
        Rows with an effect that has to happen in every call: writes to cells that outlive the call, draws,
        prints, Python code.
    seeded
        Rows that draw from a stream with a fixed seed.
    aliases
        Row -> cells whose buffer its outputs share (ref variables): consumers see later writes.
    takes
        Rows that take such a buffer when they run and pass it on as a plain tensor.
    replaces
        Rows whose write may give a ref variable another buffer.
    restless
        Cells that may be written at any time, also between calls: by a function of a dataset.
    outputs
        Hub row -> references that its outputs stand for.
    body
        Hub row -> rows of its body that run whenever it does (returned values apart).
    branches
        Hub row of a conditional -> for each branch the rows of its body.
    members
        Hub row -> all rows of its body.
    selects
        Virtual row of one output of a conditional -> hub row.
    frame
        Row -> loops that it lies in (hub rows or numbers of frames), outermost first.
    numbers
        Row of a constant -> its value, where that is a single integer.
    """

    id: int
    name: list[str] = field(default_factory=list)
    type: list[str] = field(default_factory=list)
    inputs: list[tuple[Ref, ...]] = field(default_factory=list)
    control: list[tuple[int, ...]] = field(default_factory=list)
    shown: list[bool] = field(default_factory=list)
    cells: list[Cell] = field(default_factory=list)
    reads: dict[int, tuple[int, ...]] = field(default_factory=dict)
    writes: dict[int, tuple[int, ...]] = field(default_factory=dict)
    draws: dict[int, str] = field(default_factory=dict)
    effects: set[int] = field(default_factory=set)
    seeded: set[int] = field(default_factory=set)
    aliases: dict[int, tuple[int, ...]] = field(default_factory=dict)
    takes: set[int] = field(default_factory=set)
    replaces: set[int] = field(default_factory=set)
    restless: set[int] = field(default_factory=set)
    outputs: dict[int, tuple[Ref, ...]] = field(default_factory=dict)
    body: dict[int, tuple[int, ...]] = field(default_factory=dict)
    branches: dict[int, tuple[frozenset[int], ...]] = field(default_factory=dict)
    members: dict[int, tuple[int, ...]] = field(default_factory=dict)
    selects: dict[int, int] = field(default_factory=dict)
    frame: dict[int, tuple[int, ...]] = field(default_factory=dict)
    numbers: dict[int, int] = field(default_factory=dict)
    index: dict[str, int] = field(default_factory=dict)

    def row(self, name: str, op_type: str, *, shown: bool = True) -> int:
        """Return the row called ``name``, a new one if there is none."""
        row = self.index.get(name)
        if row is None:
            row = len(self.name)
            self.index[name] = row
            self.name.append(name)
            self.type.append(op_type)
            self.inputs.append(())
            self.control.append(())
            self.shown.append(shown)
        else:
            self.type[row] = op_type
        return row

    def resolve(self, ref: Ref, feeds: frozenset[Ref] = frozenset()) -> Ref:
        """Follow a hub's output to the reference that it stands for, or to a fed tensor on the way."""
        while ref not in feeds:
            outputs = self.outputs.get(ref[0])
            if outputs is None or ref[1] >= len(outputs):
                break
            ref = outputs[ref[1]]
        return ref

    def tensor_name(self, ref: Ref) -> str:
        """Return the name of a tensor, such as ``enc/Tanh:0``."""
        return f"{self.name[ref[0]]}:{ref[1]}"
