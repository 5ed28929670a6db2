"""A tap in functions: shapes, dtypes, structures, control flow, gradients, threads, and where it is refused."""

import threading

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

from cachelab.errors import NameNotFoundError, NotApplicableError, OptionError
from cachelab.tf.taps import Tap

VALUES = {
    "scalar": 3.0,
    "vector": [1.0, 2.0],
    "empty": np.zeros((0, 4), np.float32),
    "int": [[1, 2]],
    "bool": [True, False],
    "string": ["a", "bc"],
    "complex": [1 + 2j],
    "double": np.float64(0.1),
    "half": np.float16([1, 2]),
    "uint8": np.uint8([7]),
}
WAYS = {"function": tf.function, "eager": lambda body: body, "nested": lambda body: tf.function(tf.function(body))}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("what", VALUES)
def test_any_shape_and_dtype(way, what):
    tap = Tap()
    value = tf.constant(VALUES[what])
    result = WAYS[way](lambda x: tap("value", x))(value)
    assert tap["value"].dtype == value.numpy().dtype
    np.testing.assert_array_equal(tap["value"], value.numpy())
    np.testing.assert_array_equal(result, value)


@pytest.mark.parametrize("jit", [False, True], ids=["graph", "jit"])
def test_one_name_takes_other_shapes_dtypes_and_ranks(jit):
    tap = Tap(history=2)
    function = tf.function(lambda x: tap("x", x) + x, jit_compile=jit)
    values = [np.ones((2, 3), np.float32), np.ones(4, np.int32), np.ones((5, 3), np.float32), np.float64(2)]
    for step, value in enumerate(values, 1):
        function(tf.constant(value))
        np.testing.assert_array_equal(tap["x"], value)
        assert tap["x"].dtype == value.dtype
        assert tap.last("x").step == step
    assert [reading.step for reading in tap.history("x")] == [3, 4]
    assert [reading.value.shape for reading in tap.history("x")] == [(5, 3), ()]


def test_structures_ragged_and_sparse():
    tap = Tap()
    function = tf.function(lambda value: tap("value", value))
    function({"a": tf.ones([2]), "b": (tf.zeros([], tf.int32),)})
    assert tap["value"]["a"].tolist() == [1, 1]
    assert tap["value"]["b"][0] == 0
    for rows in ([[1], [2, 3]], [[4, 5, 6]]):
        function(tf.ragged.constant(rows))
        assert tap["value"].to_list() == rows
    dense = np.diag([1, 2, 3])
    function(tf.sparse.from_dense(dense))
    np.testing.assert_array_equal(tf.sparse.to_dense(tap["value"]), dense)


def test_gradients_with_gaps_and_slices():
    tap = Tap()
    table, unused = tf.Variable(tf.ones([5, 2])), tf.Variable(1.0)

    @tf.function
    def gradients(indices):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.gather(table, indices) ** 2)
        return tap("gradients", tape.gradient(loss, [table, unused]))

    gradients(tf.constant([1, 3]))
    slices, missing = tap["gradients"]
    assert missing is None
    assert slices.indices.numpy().tolist() == [1, 3]
    assert slices.values.numpy().tolist() == [[2, 2], [2, 2]]


def test_the_same_object_comes_back_and_gradients_pass():
    tap = Tap()
    seen = []

    @tf.function
    def gradient(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            square = x * x
            tapped = tap("square", square)
            seen.append(tapped is square)
            y = tapped * 3
        return tape.gradient(y, x)

    assert gradient(tf.constant(2.0)).numpy() == 12
    assert seen == [True]
    assert tap["square"] == 4
    x = tf.Variable(5.0)
    with tf.GradientTape() as outer, tf.GradientTape() as tape:
        y = tf.function(lambda: tap("cube", x**3))()
        first = tape.gradient(y, x)
    assert first.numpy() == 75
    assert outer.gradient(first, x).numpy() == 30
    assert tap.last("cube").step == 1, "the gradient must not run the function again"


def test_control_flow():
    tap = Tap(history=4)

    @tf.function
    def run(x):
        if x > 0:
            tap("positive", x)
        for _step in tf.range(3):
            x = tap("loop", x * 2)
        return x

    run(tf.constant(-1.0))
    with pytest.raises(NameNotFoundError, match="before any step"):
        tap["positive"]
    run(tf.constant(1.0))
    assert tap["positive"] == 1
    assert [float(reading.value) for reading in tap.history("loop")] == [-8, 2, 4, 8]
    assert tap.steps("loop") == 6


def test_the_recomputed_forward_pass_is_not_what_is_kept():
    tap = Tap()
    v = tf.Variable(np.ones(64, np.float32))
    block = tf.recompute_grad(lambda x: tap("drop", tf.nn.dropout(x * v, 0.5)))

    def step():
        with tf.GradientTape() as tape:
            y = block(tf.ones([64]))
            loss = tf.reduce_sum(y)
        return y, tape.gradient(loss, v)

    for count, way in enumerate((step, tf.function(step)), 1):
        y, gradient = way()
        assert not np.array_equal(gradient, y), "the backward pass drew another mask, or this shows nothing"
        np.testing.assert_array_equal(tap["drop"], y)
        assert tap.steps("drop") == count


def test_functions_of_one_name_are_told_apart():
    tap = Tap()

    def make(factor):
        return tf.function(lambda x: tap("x", x * factor))

    double, triple = make(2), make(3)
    double(1.0)
    triple(1.0)
    double(2.0)
    assert tap["x"] == 4
    assert tap.last("x", model=triple).value == 3
    assert tap.last("x", model=double).step == 2


def test_history_is_asked_for_beforehand():
    tap = Tap(history=2)
    tf.function(lambda x: tap("x", x))(1.0)
    assert len(tap.history("x")) == 1
    assert tap.history("x", 1)[0].value == 1
    with pytest.raises(OptionError, match=r"history=5"):
        tap.history("x", 5)
    for bad in (0, -1, 1.5, "3"):
        with pytest.raises(OptionError, match="whole number"):
            Tap(history=bad)


def test_reader_and_writers_in_threads():
    tap = Tap(history=4)
    work = tf.function(lambda x: tap("pair", (x, x * 2, tf.fill([tf.cast(x, tf.int32) % 7], x))))
    work(tf.constant(0.0))
    torn, reads, stop = [], [], threading.Event()

    def read():
        while not stop.is_set():
            for reading in tap.history("pair"):
                one, two, many = reading.value
                reads.append(reading.step)
                if two != 2 * one or many.shape != (int(one) % 7,) or not (many == one).all():
                    torn.append(reading)

    def write(offset):
        for k in range(100):
            work(tf.constant(float(1000 * offset + k)))

    reader = threading.Thread(target=read)
    writers = [threading.Thread(target=write, args=(k,)) for k in range(3)]
    for thread in (reader, *writers):
        thread.start()
    for thread in writers:
        thread.join()
    stop.set()
    reader.join()
    assert not torn
    assert len(set(reads)) > 2
    assert tap.steps("pair") == 301


def test_refused_with_what_to_do():
    import keras

    tap = Tap()
    with pytest.raises(NotApplicableError, match="layer"):
        tap("x", keras.Input((2,)))
    with pytest.raises(Exception, match=r"tf\.map_fn"):
        tf.vectorized_map(lambda x: tap("x", x), tf.ones([3]))
    with pytest.raises(Exception, match="inside a function"):
        tf.function(lambda x: Tap()("x", x))(1.0)
    with pytest.raises(OptionError, match="name"):
        tap(tf.ones([2]), "x")
    with pytest.raises(OptionError, match="no tensor"):
        tap("x", ())
    with pytest.raises(Exception, match="as many sizes"):
        tf.function(lambda x: tap("x", x, shape=(3,)), jit_compile=True)(tf.ones([2, 2]))
    with pytest.raises(OptionError, match="train"):
        tap.last("x", call="training")


def test_map_fn_and_datasets_write_each_element():
    tap = Tap(history=3)
    tf.function(lambda x: tf.map_fn(lambda row: tap("row", row), x))(tf.constant([1.0, 2.0, 3.0]))
    assert [float(reading.value) for reading in tap.history("row")] == [1, 2, 3]
    list(tf.data.Dataset.range(3).map(lambda x: tap("element", x * 2)))
    assert tap["element"] == 4


@pytest.mark.parametrize("signature", [None, [tf.TensorSpec([], tf.float32)]], ids=["free", "signature"])
@pytest.mark.parametrize("called_before", [False, True])
def test_never_in_a_saved_module(tmp_path, signature, called_before):
    tap = Tap()

    class Module(tf.Module):
        def __init__(self):
            super().__init__()
            self.tap, self.weight = tap, tf.Variable(2.0)

        @tf.function(input_signature=signature)
        def scale(self, x):
            return self.tap("x", x * self.weight)

    module = Module()
    assert len(module.variables) == 1
    if called_before:
        module.scale(tf.constant(1.0))
        assert tap["x"] == 2
    tf.saved_model.save(module, str(tmp_path))
    stored = saved_model_pb2.SavedModel()
    stored.ParseFromString((tmp_path / "saved_model.pb").read_bytes())
    definition = stored.meta_graphs[0].graph_def
    nodes = [*definition.node, *(node for function in definition.library.function for node in function.node_def)]
    ops = {node.op for node in nodes}
    assert "Mul" in ops or not (called_before or signature)
    assert not [op for op in ops if "TensorList" in op or op.startswith("AssignAdd")]
    if "Mul" in ops:
        assert tf.saved_model.load(str(tmp_path)).scale(tf.constant(3.0)).numpy() == 6
    assert module.scale(tf.constant(3.0)).numpy() == 6
    assert tap["x"] == 6


def test_a_concrete_function_to_be_exported_is_traced_with_the_tap_off(tmp_path):
    tap = Tap()
    module = tf.Module()
    module.weight = tf.Variable(2.0)

    def scale(x):
        return tap("x", x * module.weight)

    spec = tf.TensorSpec([], tf.float32)
    signatures = tf.function(scale).get_concrete_function(spec)
    with pytest.raises(NotApplicableError, match=r"tap\.off"), Tap.clear_errors():
        tf.saved_model.save(module, str(tmp_path / "a"), signatures=signatures)
    with tap.off():
        signatures = tf.function(scale).get_concrete_function(spec)
    tf.saved_model.save(module, str(tmp_path / "b"), signatures=signatures)
    signature = tf.saved_model.load(str(tmp_path / "b")).signatures["serving_default"]
    assert signature(x=tf.constant(3.0))["output_0"].numpy() == 6


def test_fresh_values_of_variables_and_views():
    tap = Tap()
    v = tf.Variable([1.0, 2.0])
    tf.function(lambda: tap("v", v))()
    v.assign_add([1.0, 1.0])
    v[0].assign(9.0)
    assert tap["v"].tolist() == [1.0, 2.0]
    array = tap["v"]
    array[:] = 0
    assert tap["v"].tolist() == [1.0, 2.0]
    assert np.asarray(tap.last("v")).tolist() == [1.0, 2.0]
