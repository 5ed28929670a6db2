"""Ops that hand the buffer of a ref variable on: whoever takes their output sees what is written later."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from engine_tools import Recorded, plain_config, tf1

raw = tf.raw_ops
NOTHING, NO_AXES = np.zeros([0, 2], "f"), np.zeros([0], "i")
INDICES = np.array([[0], [1], [2], [3]], "int64")


def in_list(read):
    """Put a value in a list of tensors and take it out again."""
    kept = raw.TensorListReserve(element_shape=[2, 2], num_elements=1, element_dtype=tf.float32)
    kept = raw.TensorListSetItem(input_handle=kept, index=0, item=read)
    return raw.TensorListGetItem(input_handle=kept, index=0, element_shape=[2, 2], element_dtype=tf.float32)


def in_array(read):
    """Put a value in a TensorArray of control flow version 1 and take it out again."""
    made = raw.TensorArrayV3(size=1, dtype=tf.float32, clear_after_read=False)
    flow = raw.TensorArrayWriteV3(handle=made[0], index=0, value=read, flow_in=made[1])
    return raw.TensorArrayReadV3(handle=made[0], index=0, flow_in=flow, dtype=tf.float32)


def inside_function(read):
    """Hand a value through the body of a function."""
    return tf.function(tf.identity)(read)


MAKERS = {
    "Einsum": lambda read: raw.Einsum(inputs=[read], equation="ab->ab"),
    "MatrixBandPart": lambda read: raw.MatrixBandPart(input=read, num_lower=-1, num_upper=-1),
    "Select": lambda read: tf1.where(True, read, read),
    "SelectV2": lambda read: raw.SelectV2(condition=True, t=read, e=read),
    "CheckNumericsV2": lambda read: raw.CheckNumericsV2(tensor=read, message=""),
    "SparseReorder": lambda read: raw.SparseReorder(
        input_indices=INDICES, input_values=tf.reshape(read, [4]), input_shape=np.array([4], "int64")
    )[1],
    "list": in_list,
    "TensorArray": in_array,
    "function": inside_function,
    "Reshape": lambda read: tf.reshape(read, [4]),
    "Transpose": lambda read: tf.transpose(read, [0, 1]),
    "Pack": lambda read: tf.stack([read]),
    "Concat": lambda read: raw.ConcatV2(values=[read, NOTHING], axis=0),
    "Sum": lambda read: tf.reduce_sum(read, NO_AXES),
    "Slice": lambda read: tf.slice(read, [0, 0], [2, 2]),
    "Pad": lambda read: tf.pad(read, [[0, 0], [0, 0]]),
    "Tile": lambda read: tf.tile(read, [1, 1]),
    "AddN": lambda read: raw.AddN(inputs=[read]),
    "Gather": lambda read: tf.gather(read, [0, 1]),
    "Cumsum": tf.cumsum,
    "ClipByValue": lambda read: raw.ClipByValue(t=read, clip_value_min=-9.0, clip_value_max=9.0),
    "product with one": lambda read: read * 1.0,
}
SHARE = {"Einsum", "MatrixBandPart", "Select", "list", "Reshape", "function"}


@pytest.mark.parametrize("kind", MAKERS)
def test_what_shows_a_later_write_is_no_repetition(kind, graph, start):
    variable = tf1.get_variable("v", [2, 2], initializer=tf1.ones_initializer(), use_resource=False)
    made = MAKERS[kind](graph.get_tensor_by_name("v/read:0"))
    with tf.control_dependencies([made]):
        step = tf1.assign_add(variable, tf.fill([2, 2], 7.0)).op
    with tf1.Session(graph=graph, config=plain_config()) as session:
        session.run(variable.initializer)
        recorder = start(trace="full")
        first, second = session.run(made), session.run([made, step])[0]
        found = Recorded(recorder)
    shows_it = not np.array_equal(first, second)
    assert shows_it or kind not in SHARE, "TensorFlow has changed: this one shares no buffer any more"
    if shows_it:
        assert found.status(made.op.name)[1] == "computed"
        assert found.findings("race")
