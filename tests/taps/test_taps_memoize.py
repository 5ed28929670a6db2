"""``memoize``: what is reused, what is not, and what is refused with which reason."""

import threading

import keras
import numpy as np
import pytest
import tensorflow as tf

from cachelab.errors import NotApplicableError, OptionError
from cachelab.tf.memoize import memoize

RNG = np.random.default_rng(0)


def counted(body, **options):
    """Return a memoized tf.function and a variable-free way to see whether it computed: its cache_info."""
    return memoize(tf.function(body, **options))


def hits(memo):
    info = memo.cache_info()
    return info.hits, info.misses


def test_equal_content_hits_whatever_the_object():
    memo = counted(lambda x: tf.tanh(x) @ tf.transpose(x))
    x = RNG.random((4, 3), np.float32)
    first = memo(tf.constant(x))
    assert np.array_equal(memo(tf.constant(x.copy())), first)
    assert np.array_equal(memo(x), first)
    assert hits(memo)[0] >= 1
    assert np.array_equal(first, tf.function(memo.function.python_function)(x))
    x[0, 0] += 1  # the same array, other content
    assert np.array_equal(memo(x), np.asarray(tf.function(memo.function.python_function)(x)))
    assert not np.array_equal(memo(x), first)


def test_signs_of_zero_shapes_and_dtypes_are_told_apart():
    memo = counted(lambda x: 1 / x)
    assert memo(tf.constant([0.0])).numpy()[0] == np.inf
    assert memo(tf.constant([-0.0])).numpy()[0] == -np.inf
    memo(tf.constant([[0.0]]))
    memo(tf.constant([0.0], tf.float64))
    assert hits(memo) == (0, 4)


WRITES = {
    "assign": lambda v: v.assign(v + 1),
    "assign_add": lambda v: v.assign_add(tf.ones([4, 2])),
    "slice": lambda v: v[1].assign(v[1] + 1),
    "scatter": lambda v: v.scatter_nd_update([[0]], v[:1] + 1),
    "sparse": lambda v: v.scatter_add(tf.IndexedSlices(tf.ones([1, 2]), [3])),
    "sgd": lambda v: tf.raw_ops.ResourceApplyGradientDescent(var=v.handle, alpha=0.5, delta=tf.ones([4, 2])),
}


@pytest.mark.parametrize("write", WRITES)
def test_a_written_variable_is_seen(write):
    variable = tf.Variable(RNG.random((4, 2), np.float32))
    memo = counted(lambda x: x @ variable)
    x = tf.ones([3, 4])
    memo(x)
    memo(x)
    assert hits(memo) == (1, 1)
    for _again in range(2):
        before = variable.numpy()
        WRITES[write](variable)
        assert not np.array_equal(before, variable.numpy())
        np.testing.assert_array_equal(memo(x), memo.function(x))
        np.testing.assert_array_equal(memo(x), memo.function(x))
    assert hits(memo)[1] == 3


def test_an_earlier_content_is_served_again():
    variable = tf.Variable([1.0, 2.0])
    memo = counted(lambda: variable * 2.0)
    a = memo()
    variable.assign([3.0, 4.0])
    memo()
    variable.assign([1.0, 2.0])
    np.testing.assert_array_equal(memo(), a)
    assert hits(memo) == (1, 2)


def test_results_cannot_be_spoilt_by_the_caller():
    memo = counted(lambda x: {"double": x * 2})
    x = tf.ones([2])
    memo(x)["double"] = None
    result = memo(x)
    result["double"].numpy()[:] = 9
    assert memo(x)["double"].numpy().tolist() == [2.0, 2.0]


def test_python_values_and_signatures():
    memo = counted(lambda x, n: x * n)
    assert memo(tf.ones([]), 2).numpy() == 2
    assert memo(tf.ones([]), 3).numpy() == 3
    fixed = counted(lambda n: n + 1, input_signature=[tf.TensorSpec([], tf.float32)])
    assert fixed(1.0).numpy() == 2
    assert fixed(5.0).numpy() == 6
    argument = counted(lambda v: v + 1)
    variable = tf.Variable(1.0)
    assert argument(variable).numpy() == 2
    variable.assign(4.0)
    assert argument(variable).numpy() == 5


def test_strings_ragged_and_sparse():
    memo = counted(tf.strings.length)
    assert memo(tf.constant(["a", "bc"])).numpy().tolist() == [1, 2]
    assert memo(tf.constant(["ab", "c"])).numpy().tolist() == [2, 1]
    ragged = counted(lambda r: tf.reduce_sum(r, axis=1))
    assert ragged(tf.ragged.constant([[1], [2, 3]])).numpy().tolist() == [1, 5]
    assert ragged(tf.ragged.constant([[1, 2], [3]])).numpy().tolist() == [3, 3]


STATE = {"variable": tf.Variable(0), "generator": tf.random.Generator.from_seed(3)}
TABLE = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer([1], [2]), -1)
ITERATOR = iter(tf.data.Dataset.range(9))


def python_code(x):
    return tf.numpy_function(lambda a: a, [x], tf.float32)


REFUSED = {
    "write": (lambda x: x + tf.cast(STATE["variable"].assign_add(1), tf.float32), "AssignAddVariableOp.*writes"),
    "random": (lambda x: x + tf.random.uniform([]), "RandomUniform.*random number"),
    "generator": (lambda x: x + STATE["generator"].uniform([]), "random number"),
    "python": (python_code, "opaque"),
    "print": (lambda x: [tf.print(x), x][1], "PrintV2.*effect"),
    "clock": (lambda x: x + tf.cast(tf.timestamp(), tf.float32), "Timestamp.*opaque"),
    "table": (lambda x: x + tf.cast(TABLE.lookup(tf.constant(1)), tf.float32), "no variable"),
    "iterator": (lambda x: x + tf.cast(next(ITERATOR), tf.float32), "iterator"),
    "file": (lambda x: [x, tf.io.read_file("none")][0], "ReadFile.*file"),
    "in a branch": (lambda x: tf.cond(x > 0, lambda: x + tf.random.normal([]), lambda: x), "random number"),
    "in a loop": (lambda x: tf.map_fn(lambda y: y + tf.random.normal([]), tf.stack([x, x])), "random number"),
    "in a function": (lambda x: x + tf.function(lambda y: y + tf.random.normal([]))(x), "random number"),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_refused_with_the_reason(what):
    body, reason = REFUSED[what]
    memo = counted(body)
    x = tf.constant(1.0)
    state = STATE["variable"].numpy()
    with pytest.raises(NotApplicableError, match=reason):
        memo(x)
    assert memo.reason(x)
    assert STATE["variable"].numpy() == state, "a refused call must not run"


ACCEPTED = {
    "stateless random": lambda x: x + tf.random.stateless_uniform([], [1, 2]),
    "loop": lambda x: tf.while_loop(lambda i, _v: i < 3, lambda i, v: (i + 1, v * 2), [0, x])[1],
    "branch": lambda x: tf.cond(x > 0, lambda: x + 1, lambda: x),
    "array": lambda x: tf.map_fn(lambda y: y * 2, tf.stack([x, x])),
    "assert": lambda x: [tf.debugging.assert_positive(x), x][1],
    "read": lambda x: x + tf.cast(STATE["variable"], tf.float32),
    "nested": lambda x: x + tf.function(lambda y: y * 3)(x),
}


@pytest.mark.parametrize("what", ACCEPTED)
def test_pure_functions_are_reused(what):
    memo = counted(ACCEPTED[what])
    x = tf.constant(2.0)
    np.testing.assert_array_equal(memo(x), memo(x))
    assert hits(memo) == (1, 1)
    assert memo.reason(x) == ""


def test_an_error_is_raised_each_time():
    memo = counted(lambda x: [tf.debugging.assert_positive(x), x][1])
    for _again in range(2):
        with pytest.raises(tf.errors.InvalidArgumentError):
            memo(tf.constant(-1.0))


def test_gradients_are_not_lost():
    memo = counted(lambda x: x * x)
    x = tf.constant(3.0)
    memo(x)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = memo(x)
    assert tape.gradient(y, x).numpy() == 6
    assert memo.cache_info().bypassed == 1
    variable = tf.Variable(2.0)
    through = counted(lambda x: x * variable)
    through(x)
    with tf.GradientTape() as tape:
        y = through(x)
    assert tape.gradient(y, variable).numpy() == 3
    frozen = tf.Variable(2.0, trainable=False)
    encoder = counted(lambda x: x * frozen)
    encoder(x)
    with tf.GradientTape() as tape:
        y = encoder(x) * variable
    assert tape.gradient(y, variable).numpy() == 6
    assert encoder.cache_info().hits == 1
    with tf.autodiff.ForwardAccumulator(x, tf.constant(1.0)) as accumulator:
        y = memo(x)
    assert accumulator.jvp(y).numpy() == 6


def test_inside_a_function_it_is_traced():
    memo = counted(lambda x: x + 1)
    outer = tf.function(lambda x: memo(x) * 2)
    assert outer(tf.constant(1.0)).numpy() == 4
    assert outer(tf.constant(2.0)).numpy() == 6
    assert hits(memo) == (0, 0)


def test_compiled_and_plain_results_are_kept_apart():
    def draw():
        return tf.random.stateless_uniform([2], [1, 2], alg="auto_select")

    plain, compiled = counted(draw), counted(draw, jit_compile=True)
    truth = tf.function(draw, jit_compile=True)()
    np.testing.assert_array_equal(compiled(), truth)
    np.testing.assert_array_equal(plain(), draw())
    assert not np.array_equal(plain(), truth), "the two algorithms differ, or this test shows nothing"


def test_optimizer_options_are_part_of_the_key():
    memo = counted(lambda x: x * 1.1 * 3.3)
    x = tf.ones([3])
    memo(x)
    before = tf.config.optimizer.get_experimental_options()
    tf.config.optimizer.set_experimental_options({"constant_folding": False})
    try:
        memo(x)
        assert hits(memo) == (0, 2)
    finally:
        tf.config.optimizer.set_experimental_options({"constant_folding": before.get("constant_folding", True)})


def test_memory_is_bounded_and_the_oldest_goes():
    memo = memoize(tf.function(lambda x: x * 2), memory_budget=2 * 400)
    rows = [tf.fill([100], float(k)) for k in range(3)]
    memo(rows[0])
    memo(rows[1])
    memo(rows[0])
    memo(rows[2])  # row 1 was used longest ago
    info = memo.cache_info()
    assert (info.bytes, info.entries, info.evictions) == (800, 2, 1)
    memo(rows[0])
    assert memo.cache_info().hits == 2
    memo(rows[1])
    assert memo.cache_info().misses == 4
    large = memoize(tf.function(lambda x: x * 2), memory_budget="0.1KB")
    large(rows[0])
    assert large.cache_info().unstored == 1
    assert large.cache_info().entries == 0
    memo.cache_clear()
    assert memo.cache_info()[:6] == (0, 0, 0, 0, 0, 0)


@pytest.mark.parametrize("size", ["many", "3 apples", -1, None])
def test_bad_budget(size):
    with pytest.raises(OptionError, match="256MB"):
        memoize(lambda: 1, memory_budget=size)


def test_keras_model_and_dropout_seed():
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2), keras.layers.Dropout(0.5)])
    x = tf.ones([2, 3])
    memo = memoize(lambda x: model(x, training=False))
    first = memo(x)
    memo(x)
    assert hits(memo) == (1, 1)
    model.layers[0].kernel.assign(model.layers[0].kernel + 1)
    assert not np.array_equal(memo(x), first)
    np.testing.assert_allclose(memo(x), model(x, training=False), atol=1e-6)
    with pytest.raises(NotApplicableError, match="writes"):
        memoize(lambda x: model(x, training=True))(x)  # each call moves the seed on


def test_a_test_step_updates_metrics_and_is_refused():
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse", metrics=["mae"])
    x, y = tf.ones([2, 3]), tf.ones([2, 1])
    model.test_on_batch(x, y)
    with pytest.raises(NotApplicableError, match="writes a variable"):
        memoize(lambda x, y: model.test_step((x, y)))(x, y)


def test_equal_seeds_are_no_reason_to_reuse():
    tf.random.set_seed(42)
    one, two = (tf.function(lambda: tf.random.uniform([])) for _ in range(2))
    assert [float(one()), float(one())] == [float(two()), float(two())], "equal by seed, or this shows nothing"
    for function in (one, two):
        assert "random number" in memoize(function).reason()


def test_variable_made_on_the_first_call():
    class Lazy(tf.Module):
        weight = None

        @tf.function
        def __call__(self, x):
            if self.weight is None:
                self.weight = tf.Variable(3.0)
            return x * self.weight

    lazy = Lazy()
    memo = memoize(lazy.__call__)
    assert memo(tf.constant(2.0)).numpy() == 6
    assert memo(tf.constant(2.0)).numpy() == 6
    lazy.weight.assign(5.0)
    assert memo(tf.constant(2.0)).numpy() == 10


def test_a_write_while_computing_is_not_kept_under_the_old_version():
    variable = tf.Variable(1.0)

    class Slow:
        """Stands for a function during which another thread writes the variable."""

        def __init__(self, function):
            self.function = function

        def __getattr__(self, name):
            return getattr(self.function, name)

        def __call__(self, *args):
            variable.assign_add(1.0)
            return self.function(*args)

    memo = counted(lambda x: x * variable)
    memo.function = Slow(memo.function)
    assert memo(tf.constant(1.0)).numpy() == 2.0
    assert memo.cache_info().entries == 0
    memo.function = memo.function.function
    variable.assign(1.0)
    assert memo(tf.constant(1.0)).numpy() == 1.0


def test_threads():
    variable = tf.Variable(1.0)
    memo = counted(lambda x: x * variable)
    wrong = []

    def use(offset):
        for k in range(40):
            x = float(k % 5 + offset)
            if memo(tf.constant(x)).numpy() != x:
                wrong.append(x)

    threads = [threading.Thread(target=use, args=(offset,)) for offset in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert memo.cache_info().hits + memo.cache_info().misses == 120


def test_as_a_decorator_with_and_without_options():
    @memoize
    def one(x):
        """One more."""
        return x + 1

    @memoize(memory_budget="1GB")
    @tf.function
    def two(x):
        return x + 2

    assert one(tf.constant(1)).numpy() == 2
    assert two(tf.constant(1)).numpy() == 3
    assert one.__name__ == "one"
    assert one.__doc__ == "One more."
    with pytest.raises(OptionError, match="no function"):
        memoize(3)
