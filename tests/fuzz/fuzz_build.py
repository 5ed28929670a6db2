"""Builds the graph of a random program with TensorFlow 1's own functions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf

v1 = tf.compat.v1

from tensorflow.python.ops import control_flow_util  # noqa: E402

if TYPE_CHECKING:
    from fuzz_programs import Instruction, Program

SHAPE = (3, 3)
NO_GRADIENT = (AssertionError, AttributeError, LookupError, NotImplementedError, TypeError, ValueError)
"""What TensorFlow raises for ops that it can't derive, or not across the two kinds of control flow."""
UNARY = (
    tf.tanh, tf.negative, tf.square, tf.sigmoid, tf.identity, tf.transpose, tf.nn.relu, tf.stop_gradient, tf.nn.softmax,
    lambda t: tf.reshape(tf.reshape(t, [9]), SHAPE), lambda t: tf.concat([t[1:3, :], t[0:1, :]], 0), tf.abs,
)  # fmt: skip
BINARY = (
    tf.add, tf.subtract, tf.multiply, tf.maximum, lambda a, b: 0.3 * tf.matmul(a, b), tf.add, tf.multiply,
    lambda a, b: tf.where(a > b, a, b),
)  # fmt: skip


class Built:
    """The graph of a program and what its calls can name.

    ``values``: number -> tensor [3, 3] or op; ``tensors``: all tensors [3, 3] in order; ``extra``: further outputs
    of ops with several (so that one of them can be fed).
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        self.graph = tf.Graph()
        self.values: dict[int, Any] = {}
        self.tensors: list[Any] = []
        self.placeholders: list[Any] = []
        self.variables: list[Any] = []
        self.writes: list[Any] = []
        self.extra: list[Any] = []
        self.initializers: list[Any] = []
        self.python_calls: dict[str, int] = {}
        self.unseeded = False
        self.ordered_only = 0
        with self.graph.as_default():
            if program.graph_seed is not None:
                v1.set_random_seed(program.graph_seed)
            for instruction in program.instructions:
                self._add(instruction)
            self.init = tf.group(v1.global_variables_initializer(), *self.initializers, name="init_all")

    # --- choices ---------------------------------------------------------------------------------------------------

    def tensor(self, number: int) -> Any:
        """Return the tensor with that number, another one if there is none."""
        value = self.values.get(number)
        if isinstance(value, tf.Tensor) and value.shape == SHAPE and value.dtype == tf.float32:
            return value
        if not self.tensors:
            return self._keep(-1, tf.constant(np.eye(3, dtype="f")))
        return self.tensors[number % len(self.tensors)]

    def variable(self, number: int) -> Any:
        """Return a variable, a new one if there is none."""
        if not self.variables:
            self._variable(use_resource=bool(number % 2))
        return self.variables[number % len(self.variables)]

    def fetchable(self, number: int) -> Any:
        """Return what a call that fetches ``number`` fetches."""
        if number in self.values:
            return self.values[number]
        every = list(self.values.values())
        return every[number % len(every)]

    def feedable(self, number: int) -> Any:
        """Return what a call that feeds ``number`` feeds, ``None`` if that can't be fed."""
        pool = self.tensors + self.extra
        tensor = pool[number % len(pool)]
        if tensor.op.type == "Placeholder" or not self.graph.is_feedable(tensor) or tensor.dtype._is_ref_dtype:
            return None
        return tensor

    def _keep(self, number: int, tensor: Any) -> Any:
        if number >= 0:
            self.values[number] = tensor
        if isinstance(tensor, tf.Tensor):
            self.tensors.append(tensor)
        return tensor

    def _variable(self, *, use_resource: bool) -> Any:
        index = len(self.variables)
        initial = np.linspace(-1, 1, 9, dtype="f").reshape(SHAPE) * (index + 1)
        variable = v1.get_variable(f"v{index}", initializer=tf.constant(initial), use_resource=use_resource)
        self.variables.append(variable)
        return variable

    # --- instructions ----------------------------------------------------------------------------------------------

    def _add(self, i: Instruction) -> None:
        made = getattr(self, f"_{i.kind}")(i)
        if isinstance(made, tf.Tensor):
            self._keep(i.number, made)
        elif isinstance(made, tf.Operation):
            self.values[i.number] = made

    def _placeholder(self, i: Instruction) -> Any:
        tensor = v1.placeholder(tf.float32, SHAPE, name=f"x{len(self.placeholders)}")
        self.placeholders.append(tensor)
        return tensor

    def _const(self, i: Instruction) -> Any:
        return tf.constant(np.full(SHAPE, 0.1 * (i.pick[0] % 7), "f"))

    def _unary(self, i: Instruction) -> Any:
        return UNARY[i.pick[0] % len(UNARY)](self.tensor(i.uses[0]))

    def _binary(self, i: Instruction) -> Any:
        return BINARY[i.pick[0] % len(BINARY)](self.tensor(i.uses[0]), self.tensor(i.uses[1]))

    def _split(self, i: Instruction) -> Any:
        first, second = tf.split(self.tensor(i.uses[0]), [1, 2], axis=1)
        self.extra += [first, second]
        return tf.concat([second, first], axis=1)

    def _stack(self, i: Instruction) -> Any:
        rows = tf.unstack(self.tensor(i.uses[0]), axis=0)
        self.extra += rows[1:]
        return tf.stack([rows[2], rows[0], tf.tanh(rows[1])], axis=0)

    def _resource(self, i: Instruction) -> Any:
        return self._variable(use_resource=True).read_value()

    def _ref(self, i: Instruction) -> Any:
        variable = self._variable(use_resource=False)
        return variable + 1.0 if i.pick[0] % 2 else tf.identity(variable)

    def _read(self, i: Instruction) -> Any:
        variable = self.variable(i.uses[0])
        ways = (
            variable.read_value, lambda: variable * 2.0, lambda: tf.tanh(variable), variable.value,
            lambda: variable + self.tensor(i.uses[1]), lambda: tf.gather(variable, [2, 0, 1]),
        )  # fmt: skip
        with tf.control_dependencies(self._before(i)):
            made = ways[i.pick[1] % len(ways)]()
        return made if not made.dtype._is_ref_dtype else tf.identity(made)

    def _before(self, i: Instruction) -> list[Any]:
        """Return ops to wait for: often a write, sometimes any value, sometimes nothing."""
        if i.pick[2] % 3 == 0:
            return []
        if i.pick[2] % 3 == 1 and self.writes:
            return [self.writes[i.pick[3] % len(self.writes)]]
        return [self.tensor(i.uses[2]).op]

    def _write(self, made: Any) -> Any:
        op = made if isinstance(made, tf.Operation) else made.op
        self.writes.append(op)
        return op

    def _assign(self, i: Instruction) -> Any:
        variable, value = self.variable(i.uses[0]), self.tensor(i.uses[1])
        with tf.control_dependencies(self._before(i)):
            way = (v1.assign, v1.assign_add, v1.assign_sub)[i.pick[1] % 3]
            made = way(variable, 0.5 * value)
            self._write(made)
            if i.pick[0] % 2:
                return made.op
            return tf.identity(made)

    def _twin(self, i: Instruction) -> Any:
        """Reach a resource variable through a second handle op of the same shared name."""
        variable = self.variable(i.uses[0])
        if "Resource" not in type(variable).__name__:
            return self._read(i)
        handle = tf.raw_ops.VarHandleOp(dtype=tf.float32, shape=SHAPE, shared_name=variable.op.get_attr("shared_name"))
        with tf.control_dependencies(self._before(i)):
            if i.pick[0] % 2:
                return tf.ensure_shape(tf.raw_ops.ReadVariableOp(resource=handle, dtype=tf.float32), SHAPE)
            return self._write(tf.raw_ops.AssignAddVariableOp(resource=handle, value=0.1 * self.tensor(i.uses[1])))

    def _slice(self, i: Instruction) -> Any:
        variable, value = self.variable(i.uses[0]), self.tensor(i.uses[1])
        with tf.control_dependencies(self._before(i)):
            return self._write(variable[i.pick[0] % 3].assign(value[0]))

    def _default(self, i: Instruction) -> Any:
        return v1.placeholder_with_default(self.tensor(i.uses[0]), SHAPE)

    def _count(self, i: Instruction) -> Any:
        counter = v1.get_variable(f"n{i.number}", initializer=np.int32(0), use_resource=bool(i.pick[0] % 2))
        taken = counter.count_up_to(10_000) if not i.pick[0] % 2 else counter.assign_add(1)
        with tf.control_dependencies(self._before(i)):
            self._write(taken)
            return tf.cast(tf.identity(taken), tf.float32) + self.tensor(i.uses[0])

    def _generator(self, i: Instruction) -> Any:
        state = v1.get_variable(f"rng{i.number}", initializer=np.arange(3, dtype=np.int64), use_resource=True)
        drawn = tf.raw_ops.StatefulUniform(
            resource=state.handle, algorithm=np.int64(1), shape=np.array(SHAPE, np.int32), dtype=tf.float32
        )
        return drawn + self.tensor(i.uses[0])

    def _accumulator(self, i: Instruction) -> Any:
        accumulator = v1.ConditionalAccumulator(tf.float32, SHAPE, shared_name=f"acc{i.number}")
        applied = accumulator.apply_grad(self.tensor(i.uses[0]), local_step=10_000)
        self._write(applied)
        with tf.control_dependencies([applied]):  # so that there is something to take
            return tf.reshape(accumulator.take_grad(1), SHAPE)

    def _stage(self, i: Instruction) -> Any:
        name = f"stage{i.number}"
        put = tf.raw_ops.Stage(values=[self.tensor(i.uses[0])], shared_name=name)
        self._write(put)
        with tf.control_dependencies([put]):
            (taken,) = tf.raw_ops.Unstage(dtypes=[tf.float32], shared_name=name)
            return tf.ensure_shape(taken, SHAPE)

    def _scatter(self, i: Instruction) -> Any:
        variable, value = self.variable(i.uses[0]), self.tensor(i.uses[1])
        with tf.control_dependencies(self._before(i)):
            way = v1.scatter_update if i.pick[1] % 2 else v1.scatter_add
            made = way(variable, [i.pick[0] % 3], 0.1 * value[:1])
            return self._write(made)

    def _sgd(self, i: Instruction) -> Any:
        return self._minimize(i, v1.train.GradientDescentOptimizer(0.1))

    def _adam(self, i: Instruction) -> Any:
        return self._minimize(i, v1.train.AdamOptimizer(0.1))

    def _minimize(self, i: Instruction, optimizer: Any) -> Any:
        variable = self.variable(i.uses[0])
        loss = tf.reduce_sum(tf.square(self.tensor(i.uses[1]) - variable))
        try:
            return self._write(optimizer.minimize(loss, var_list=[variable]))
        except NO_GRADIENT:
            return self._write(optimizer.minimize(tf.reduce_sum(tf.square(variable)), var_list=[variable]))

    def _control(self, i: Instruction) -> Any:
        with tf.control_dependencies(self._before(i)):
            return tf.identity(self.tensor(i.uses[0])) if i.pick[0] % 2 else tf.tanh(self.tensor(i.uses[0]))

    def _gradient(self, i: Instruction) -> Any:
        y, x = self.tensor(max(i.uses)), self.tensor(min(i.uses))
        try:
            found = tf.gradients(tf.reduce_sum(tf.square(y)), x)[0]
        except NO_GRADIENT:
            found = None
        return tf.identity(found) if isinstance(found, tf.Tensor) else tf.square(y)

    def _random(self, i: Instruction) -> Any:
        seed = (None, 3, 5)[i.pick[0] % 3]
        self.unseeded |= seed is None and self.program.graph_seed is None
        way = (tf.random.uniform, tf.random.normal, tf.random.truncated_normal)[i.pick[1] % 3]
        drawn = way(SHAPE, seed=seed)
        return drawn if i.pick[2] % 2 else drawn + self.tensor(i.uses[0])

    def _stateless(self, i: Instruction) -> Any:
        return tf.random.stateless_uniform(SHAPE, seed=[i.pick[0], 1]) * self.tensor(i.uses[0])

    def _iterator(self, i: Instruction) -> Any:
        data = tf.data.Dataset.range(1000)
        if i.pick[0] % 2:
            iterator = v1.data.make_one_shot_iterator(data)
        else:
            iterator = v1.data.make_initializable_iterator(data)
            self.initializers.append(iterator.initializer)
        element = tf.cast(iterator.get_next(), tf.float32)
        self.ordered_only += 1
        return self.tensor(i.uses[0]) + element

    def _queue(self, i: Instruction) -> Any:
        queue = tf.queue.FIFOQueue(500, tf.float32, shapes=[SHAPE])
        fill = np.arange(40 * 9, dtype="f").reshape(40, *SHAPE) * 0.01
        self.initializers.append(queue.enqueue_many([tf.constant(fill)]))
        with tf.control_dependencies(self._before(i)):
            taken = queue.dequeue()
        self.values[1000 + i.number] = queue.enqueue(self.tensor(i.uses[0]))
        if i.pick[0] % 3 == 0:
            return taken + tf.cast(queue.size(), tf.float32)
        return taken

    def _table(self, i: Instruction) -> Any:
        table = tf.lookup.experimental.MutableHashTable(tf.int64, tf.float32, default_value=-1.0)
        keys = tf.constant([[0, 1, 2]] * 3, tf.int64)
        insert = table.insert(keys[0], self.tensor(i.uses[0])[0])
        self._write(insert)
        self.values[1000 + i.number] = insert
        with tf.control_dependencies(self._before(i)):
            return table.lookup(keys) + self.tensor(i.uses[1])

    def _python(self, i: Instruction) -> Any:
        name = f"py{i.number}"
        counts = self.python_calls
        counts[name] = 0

        def count(value: Any) -> Any:
            counts[name] += 1
            return value * np.float32(2)

        with v1.name_scope(f"{name}_"):
            made = tf.numpy_function(count, [self.tensor(i.uses[0])], tf.float32, stateful=bool(i.pick[0] % 2))
        self.values[2000 + i.number] = made.op
        return tf.ensure_shape(made, SHAPE)

    # --- structure -------------------------------------------------------------------------------------------------

    def _flow(self, i: Instruction) -> bool:
        return bool(i.pick[3] % 2)

    def _inner(self, i: Instruction, value: Any, way: int) -> Any:
        """Return one of several things that a branch or a loop body does.

        Function bodies can't capture ref variables, so there these are left to the old kind of control flow.
        """
        variable = self.variable(i.uses[0])
        is_ref = "Resource" not in type(variable).__name__
        if way == 0 or (way in {1, 2, 3} and is_ref and v1.get_default_graph().building_function):
            return tf.tanh(value)
        if way == 1:
            return value * 0.5 + variable
        if way == 2:  # a write inside
            made = v1.assign_add(variable, tf.ones(SHAPE))
            with tf.control_dependencies([made.op]):
                return tf.identity(value)
        if way == 3:
            return value + variable.read_value()
        if way == 4:
            # Iterations run side by side, so even a seeded stream is dealt out in no fixed order.
            self.unseeded |= self.program.graph_seed is None or i.kind == "while"
            return value + tf.random.uniform(SHAPE)
        return value - self.tensor(i.uses[2])

    def _cond(self, i: Instruction) -> Any:
        a, b = self.tensor(i.uses[0]), self.tensor(i.uses[1])
        self.variable(i.uses[0])
        predicate = tf.reduce_sum(a) > 0.5
        before = control_flow_util.ENABLE_CONTROL_FLOW_V2
        control_flow_util.ENABLE_CONTROL_FLOW_V2 = self._flow(i)
        try:
            return v1.cond(
                predicate,
                lambda: self._inner(i, b, i.pick[0] % 6),
                lambda: self._inner(i, tf.square(a), i.pick[1] % 6),
            )
        finally:
            control_flow_util.ENABLE_CONTROL_FLOW_V2 = before

    def _switch_case(self, i: Instruction) -> Any:
        a, b = self.tensor(i.uses[0]), self.tensor(i.uses[1])
        self.variable(i.uses[0])
        index = tf.cast(tf.abs(tf.reduce_sum(a)), tf.int32) % 3
        before = control_flow_util.ENABLE_CONTROL_FLOW_V2
        control_flow_util.ENABLE_CONTROL_FLOW_V2 = True
        try:
            return tf.switch_case(
                index,
                [
                    lambda: self._inner(i, b, i.pick[0] % 6),
                    lambda: self._inner(i, a, i.pick[1] % 6),
                    lambda: tf.negative(b),
                ],
            )
        finally:
            control_flow_util.ENABLE_CONTROL_FLOW_V2 = before

    def _while(self, i: Instruction) -> Any:
        start = self.tensor(i.uses[0])
        self.variable(i.uses[0])
        trips = tf.cast(tf.abs(tf.reduce_sum(self.tensor(i.uses[1]))), tf.int32) % 3 if i.pick[2] % 2 else 2
        before = control_flow_util.ENABLE_CONTROL_FLOW_V2
        control_flow_util.ENABLE_CONTROL_FLOW_V2 = self._flow(i)
        try:
            return v1.while_loop(
                lambda k, _: k < trips,
                lambda k, acc: (k + 1, tf.ensure_shape(self._inner(i, 0.5 * acc, i.pick[0] % 6), SHAPE)),
                [tf.constant(0), start],
                parallel_iterations=1 + i.pick[1] % 3,
            )[1]
        finally:
            control_flow_util.ENABLE_CONTROL_FLOW_V2 = before

    def _nested(self, i: Instruction) -> Any:
        """Return a loop with a conditional in it, which may write."""
        start, other = self.tensor(i.uses[0]), self.tensor(i.uses[1])
        self.variable(i.uses[0])
        before = control_flow_util.ENABLE_CONTROL_FLOW_V2
        control_flow_util.ENABLE_CONTROL_FLOW_V2 = self._flow(i)
        try:
            return v1.while_loop(
                lambda k, _: k < 2,
                lambda k, acc: (
                    k + 1,
                    v1.cond(
                        tf.reduce_sum(acc) > tf.cast(k, tf.float32),
                        lambda: tf.ensure_shape(self._inner(i, 0.5 * acc, i.pick[0] % 4), SHAPE),
                        lambda: tf.ensure_shape(self._inner(i, acc - other, i.pick[1] % 4), SHAPE),
                    ),
                ),
                [tf.constant(0), start],
            )[1]
        finally:
            control_flow_util.ENABLE_CONTROL_FLOW_V2 = before

    def _map(self, i: Instruction) -> Any:
        before = control_flow_util.ENABLE_CONTROL_FLOW_V2
        control_flow_util.ENABLE_CONTROL_FLOW_V2 = self._flow(i)
        other = self.tensor(i.uses[1])
        try:
            if i.pick[0] % 2:
                return tf.ensure_shape(tf.map_fn(lambda row: tf.tanh(row) + other[0], self.tensor(i.uses[0])), SHAPE)
            return tf.ensure_shape(tf.scan(lambda acc, row: 0.5 * acc + row, self.tensor(i.uses[0])), SHAPE)
        finally:
            control_flow_util.ENABLE_CONTROL_FLOW_V2 = before

    def _call(self, i: Instruction) -> Any:
        inner_way = (0, 1, 3, 5)[i.pick[0] % 4]
        variable = self.variable(i.uses[0])
        if "Resource" not in type(variable).__name__:
            inner_way = 0

        @tf.function(autograph=False)
        def helper(value: Any) -> Any:
            if inner_way == 5:
                variable.assign_add(tf.ones(SHAPE))
                return value + 1.0
            return self._inner(i, value, inner_way)

        with tf.control_dependencies(self._before(i)):
            return tf.identity(helper(self.tensor(i.uses[1])))

    def _array(self, i: Instruction) -> Any:
        array = tf.TensorArray(tf.float32, size=2, element_shape=SHAPE, clear_after_read=False)
        array = array.write(0, self.tensor(i.uses[0])).write(1, self.tensor(i.uses[1]))
        return array.read(0) + tf.reduce_sum(array.stack(), axis=0)

    def _sparse(self, i: Instruction) -> Any:
        sparse = tf.sparse.from_dense(tf.nn.relu(self.tensor(i.uses[0])))
        if i.pick[0] % 2:
            return tf.ensure_shape(tf.sparse.to_dense(sparse), SHAPE)
        return tf.ensure_shape(tf.sparse.sparse_dense_matmul(sparse, self.tensor(i.uses[1])), SHAPE)

    def _string(self, i: Instruction) -> Any:
        text = tf.strings.join([tf.strings.as_string(self.tensor(i.uses[0]), precision=3), tf.constant("0")])
        return tf.strings.to_number(text)

    def _guard(self, i: Instruction) -> Any:
        tensor = self.placeholders[i.uses[0] % len(self.placeholders)] if self.placeholders else self.tensor(i.uses[0])
        check = v1.debugging.assert_less(tf.reduce_max(tensor), 90.0, message="guard")
        with tf.control_dependencies([check, *self._before(i)]):
            return tf.identity(self.tensor(i.uses[1]))
