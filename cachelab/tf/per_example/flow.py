"""Where the examples are in every tensor: a proof, op by op, that they stay apart.

Each tensor on the way from the inputs to the loss gets a state: ``FIXED`` (the same for whatever examples), ``SIZE``
(depends on their number only), a :class:`Layout` (which axis counts the examples) or :class:`Unproven`. An op
that mixes examples is an error that names it. Rules for op types are in a registry, see :func:`layout_rule`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import tensorflow as tf
from tensorflow.python.framework import tensor_util

from cachelab.errors import NotApplicableError
from cachelab.i18n import translate as _
from cachelab.tf.per_example.copying import ancestors, dependent
from cachelab.tf.per_example.custom_gradients import mixing_gradient, overridden
from cachelab.tf.per_example.extents import (
    EXAMPLES,
    Extent,
    Size,
    depends_on_examples,
    divide,
    mentions_examples,
    product,
)
from cachelab.tf.per_example.registry import Registry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence


class Kind(Enum):
    """States of tensors that do not depend on the values of the inputs."""

    FIXED = "fixed"
    SIZE = "size"


FIXED: Final = Kind.FIXED
SIZE: Final = Kind.SIZE
M: Final = Extent.of(EXAMPLES)


@dataclass(frozen=True)
class Layout:
    """Axis ``axis`` counts the examples; its index is ``(b * m + example) * after + a`` with ``b < before``.

    For a list of tensors (``TensorList``) it is the layout of the elements. ``iota``: the entries are the numbers
    0 to m - 1 of the examples themselves.
    """

    axis: int
    before: Size = 1
    after: Size = 1
    iota: bool = False

    @property
    def size(self) -> Size:
        """The size of the axis."""
        return self.before * M * self.after

    def moved(self, axis: int) -> Layout:
        """Return the same layout at another axis."""
        return Layout(axis, self.before, self.after)


@dataclass(frozen=True)
class Unproven:
    """The tensor depends on an op that no rule knows: examples may have been mixed."""

    op: str
    type: str


State = Kind | Layout | Unproven
Rule = "Callable[[Flow, tf.Operation], list[State]]"
_RULES = Registry()


def layout_rule(*op_types: str) -> Callable[[Any], Any]:
    """Register how an op type passes examples on: ``rule(flow, op) -> one state an output``.

    The rule is called when some input has a :class:`Layout` (or, for ops that create an axis of examples, a size).
    It returns states, or raises ``flow.couples(op)`` where the op mixes examples.

    Examples
    --------
    >>> @layout_rule("MyOp")
    ... def rows_stay_rows(flow, op):
    ...     return [flow.layout(op.inputs[0])]
    """

    def register(rule: Any) -> Any:
        for op_type in op_types:
            _RULES[op_type] = rule
        return rule

    return register


class CoupledError(NotApplicableError):
    """An op mixes the examples; ``op`` is its name."""

    def __init__(self, op: tf.Operation, how: str, todo: str = "") -> None:
        super().__init__(
            _(
                "Op `{op}` ({type}) couples the examples: {how}. It is then not proven that entry i of the result, and "
                "its gradient, depend on example i only."
            ).format(op=op.name, type=op.type, how=how),
            todo
            or _(
                "Take it out of the loss (for batch normalisation: use stored statistics), or, for per-example "
                'gradients, ask for `method="jacobian"`, which gives the gradient of each entry through the coupling.'
            ),
        )
        self.op = op.name

    def advising(self, todo: str) -> CoupledError:
        """Return the same error with other advice."""
        self.todo = todo
        self.args = (f"{self.found} {todo}",)
        return self


def not_proven(flow: Flow, todo: str) -> NotApplicableError:
    """Return the error that names the first op of which no rule proves that it keeps examples apart."""
    name, op_type = next(iter(flow.unproven.items()))
    return NotApplicableError(
        _("No layout rule proves that op `{op}` ({type}) keeps the examples apart: it is not proven.").format(
            op=name, type=op_type
        ),
        todo,
    )


class Flow:
    """The states of the tensors between ``inputs`` and the targets given to :meth:`run`.

    Parameters
    ----------
    inputs
        Tensor reference -> state at the start.
    batch
        The number of examples if it is known when the graph is built.

    ``rows_of_others``: a fixed tensor that meets the examples may have a row for each of them though their number is
    open. It has one row or as many rows as there are examples, or there is one example: then only the result shows
    whether it has another number of rows. ``met`` has the names of such tensors.
    """

    def __init__(self, inputs: dict[Any, State], batch: int | None = None) -> None:
        self.states: dict[Any, State] = dict(inputs)
        self.batch = batch
        self.draws: dict[Any, Layout] = {}  # random draws and constants that have rows of their own for the examples
        self.pins: dict[Any, None] = {}  # numbers made from the batch size, which copies keep
        self.own: dict[Any, tf.Operation] = {}  # sizes of axes of examples, which are a copy's own
        self.uncopyable: dict[str, str] = {}  # op name -> type, where neither is right
        self.unproven: dict[str, str] = {}
        self.mixing_gradients: dict[str, str] = {}  # op with a gradient of the user's own -> why that may mix examples
        self.rows_of_others = False
        self.met: list[str] = []
        self._shapes: dict[Any, list[Size]] = {}
        self._values: dict[Any, Any] = {}

    def run(self, targets: Sequence[tf.Tensor]) -> None:
        """Give a state to every tensor that ``targets`` depend on."""
        from cachelab.tf.per_example.batch_numbers import find_conflicts, note_numbers

        sources = [ref.deref() for ref in self.states]
        for op in dependent(ancestors(targets, sources), sources):
            states = self._step(op)
            for tensor, state in zip(op.outputs, states, strict=True):
                self.states.setdefault(tensor.ref(), state)
                if self.state(tensor) is SIZE and self._is_the_same(tensor):
                    self.states[tensor.ref()] = FIXED
            note_numbers(self, op)
            if any(isinstance(state, Layout) for state in states):
                self._note_iota(op)
                if overridden(op):
                    self.mixing_gradients.update(mixing_gradient(self, op))
        find_conflicts(self)

    def _is_the_same(self, tensor: tf.Tensor) -> bool:
        """Return whether sizes are known not to depend on the number of examples."""
        value = self.value(tensor)
        return value is not None and not any(depends_on_examples(size) for size in value.ravel())

    def _step(self, op: tf.Operation) -> list[State]:
        states = [self.state(tensor) for tensor in op.inputs]
        broken = next((state for state in states if isinstance(state, Unproven)), None)
        if broken is not None:
            return [broken] * len(op.outputs)
        if all(state is FIXED for state in states):
            return [FIXED] * len(op.outputs)
        rule = _RULES.get(op.type)
        if any(isinstance(state, Layout) for state in states):
            found = None if rule is None else self._asked(rule, op)
        elif getattr(rule, "creates", False):
            made = self._asked(rule, op)
            found = None if made is None else [SIZE if state is FIXED else state for state in made]
        else:
            found = [SIZE] * len(op.outputs)
        if found is None or any(isinstance(state, Layout) and _is_square(state) for state in found):
            self.unproven[op.name] = op.type
            return [Unproven(op.name, op.type)] * len(op.outputs)
        return found

    def _asked(self, rule: Any, op: tf.Operation) -> list[State] | None:
        """Return what a rule says; a rule that trips over a size that it can't know proves nothing."""
        try:
            return rule(self, op)
        except CoupledError:
            raise
        except (TypeError, ValueError, IndexError, AttributeError):
            return None

    def _note_iota(self, op: tf.Operation) -> None:
        """Remember the numbers 0 to m - 1 of the examples where they are used as values: copies would change them."""
        for tensor in op.inputs:
            state = self.state(tensor)
            if isinstance(state, Layout) and state.iota and not self._stays_iota(op, tensor):
                self.draws[tensor.ref()] = state.moved(state.axis)

    def _stays_iota(self, op: tf.Operation, tensor: tf.Tensor) -> bool:
        """Return whether ``op`` keeps the numbers of the examples as such, or takes rows of the batch by them."""
        if op.type in {"GatherNd", "GatherV2"} and tensor is not op.inputs[0]:
            return self.layout(op.inputs[0]) is not None
        kept = self.layout(op.outputs[0])
        return kept is not None and kept.iota

    def state(self, tensor: tf.Tensor) -> State:
        """Return the state of a tensor; what the walk did not reach is fixed."""
        return self.states.get(tensor.ref(), FIXED)

    def layout(self, tensor: tf.Tensor) -> Layout | None:
        """Return the layout of a tensor, ``None`` where it has none."""
        state = self.state(tensor)
        return state if isinstance(state, Layout) else None

    def layouts(self, tensors: Iterable[tf.Tensor]) -> list[Layout | None]:
        """Return the layouts of several tensors."""
        return [self.layout(tensor) for tensor in tensors]

    def couples(self, op: tf.Operation, how: str = "", todo: str = "") -> CoupledError:
        """Return the error that says that ``op`` mixes examples."""
        return CoupledError(op, how or _("it mixes entries along the axis that counts them"), todo)

    def sub_flow(self, inputs: dict[Any, State], values: dict[Any, Any]) -> Flow:
        """Return a flow for the body of a function called in this one."""
        flow = Flow(inputs, self.batch)
        flow._values.update(values)
        flow.rows_of_others, flow.met = self.rows_of_others, self.met
        return flow

    def accepts(self, tensor: tf.Tensor, axis: int, layout: Layout) -> bool:
        """Return whether a fixed operand may meet examples that lie along its ``axis``.

        It may if it is broadcast there, or has one entry an example: then copies for other examples take their part.
        """
        sizes = self.shape(tensor)
        if sizes is None:
            return False
        if self.same(sizes[axis], 1):
            return True
        if self.rows_of_others:
            self.met.append(tensor.name)
            return True
        if self.batch is None or not self.same(sizes[axis], layout.size):
            return False
        self.draws[tensor.ref()] = layout.moved(axis)
        return True

    def same(self, one: Size, other: Size) -> bool:
        """Return whether two sizes are surely equal."""
        return self.number(one) == self.number(other)

    def number(self, size: Size) -> Size:
        """Return ``size`` with the number of examples put in, where it is known."""
        if self.batch is None or not isinstance(size, Extent):
            return size
        count = size.symbols.count(EXAMPLES)
        rest = [Extent.of(symbol) for symbol in size.symbols if symbol != EXAMPLES]
        return product([size.factor * self.batch**count, *rest])

    def shape(self, tensor: tf.Tensor) -> list[Size] | None:
        """Return the sizes of the axes, as numbers where known; ``None`` if not even the rank is."""
        key = tensor.ref()
        if key not in self._shapes:
            if tensor.shape.rank is None:
                return None
            from cachelab.tf.per_example.sizes import derived_shape

            sizes: list[Size] = list(tensor.shape.as_list())
            layout = self.layout(tensor)
            if layout is not None and tensor.dtype is not tf.variant and layout.axis < len(sizes):
                sizes[layout.axis] = layout.size
            if None in sizes:
                derived = derived_shape(self, tensor)
                sizes = [new if old is None else old for old, new in zip(sizes, derived, strict=True)]
            # Along other axes the batch size is a number, which a copy has not as its own.
            own = None if layout is None else layout.axis
            self._shapes[key] = [
                Extent.unknown() if size is None or (axis != own and mentions_examples(size)) else size
                for axis, size in enumerate(sizes)
            ]
        return self._shapes[key]

    def value(self, tensor: tf.Tensor) -> np.ndarray | None:
        """Return a small integer tensor's value as an array of sizes, ``None`` if it can't be known."""
        key = tensor.ref()
        if key not in self._values:
            from cachelab.tf.per_example.sizes import derived_value

            constant = None
            if self.state(tensor) is FIXED and tensor.dtype.is_integer:
                constant = tensor_util.constant_value(tensor)
            self._values[key] = derived_value(self, tensor) if constant is None else np.asarray(constant).astype(object)
        return self._values[key]

    def relayout(self, sizes: Sequence[Size], layout: Layout, new: Sequence[Size]) -> Layout | None:
        """Return where the examples are after a reshape from ``sizes`` to ``new``, ``None`` if torn apart."""
        outer = self.number(product(sizes[: layout.axis]) * layout.before)
        block = self.number(outer * M)
        passed: Size = 1
        for axis, size in enumerate(new):
            before = divide(outer, self.number(passed))
            if before is None:
                return None
            passed = passed * size
            after = divide(self.number(passed), block)
            if after is not None:
                return Layout(axis, before, after)
        return None


def _is_square(layout: Layout) -> bool:
    """Return whether each example has as many entries on the axis as there are examples."""
    return mentions_examples(layout.before) or mentions_examples(layout.after)


def analyse(inputs: Sequence[tf.Tensor], targets: Sequence[tf.Tensor], batch: int | None = None) -> Flow:
    """Return the flow of examples from axis 0 of ``inputs`` to ``targets``.

    Raises
    ------
    CoupledError
        If an op on the way mixes examples.
    """
    from cachelab.tf.per_example import layout_rules  # noqa: F401  fills the registry

    flow = Flow({tensor.ref(): Layout(0) for tensor in inputs}, batch)
    flow.run(targets)
    return flow
