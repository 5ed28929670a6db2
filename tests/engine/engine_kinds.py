"""What the tests of kinds of programs share: a recording of a program, and ways to look at the record."""

from __future__ import annotations

import tensorflow as tf

from cachelab.tf.recorder import Recorder

tf1 = tf.compat.v1


def recorded(program, config=None, **options):
    """Return the record of ``program(session)`` on the current graph."""
    recorder = Recorder(**options).start()
    try:
        with tf1.Session(config=config) as session:
            program(session)
    finally:
        recorder.stop()
    return recorder.record()


def op(record, call, name):
    """Return one op of a call."""
    return next(found for found in record.executions(call) if found.name == name)


def causes(record, call, name):
    """Return kind, source and call of an op's causes."""
    return [(cause.kind, cause.source, cause.call) for cause in op(record, call, name).causes]


def kinds(record):
    """Return the kinds of all findings."""
    return [finding.kind for finding in record.findings]


def variable(name="v", value=1.0, *, resource=True):
    return tf1.get_variable(name, initializer=value, use_resource=resource)


def off():
    """Return a configuration without graph optimisation."""
    config = tf1.ConfigProto()
    config.graph_options.optimizer_options.opt_level = -1
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    return config
