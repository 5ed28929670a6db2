"""What tests of the engine share: a configuration without optimisation, a finished recording, TensorFlow's trace."""

from __future__ import annotations

import tensorflow as tf

tf1 = tf.compat.v1


def plain_config():
    """Return a configuration under which every op of the graph runs under its own name."""
    config = tf1.ConfigProto()
    config.graph_options.optimizer_options.opt_level = -1
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    return config


class Recorded:
    """A finished recording, asked by op name."""

    def __init__(self, recorder):
        recorder.stop()
        self.recorder = recorder
        self.record = recorder.record()
        assert recorder.faults == []

    def op(self, call, name):
        found = [op for op in self.record.executions(call) if op.name == name]
        assert len(found) <= 1
        return found[0] if found else None

    def status(self, name):
        """Return the statuses of an op, call by call (``None``: not part of the call)."""
        return [op.status if (op := self.op(call, name)) else None for call in range(self.record.call_count)]

    def causes(self, call, name):
        return [(cause.kind, cause.source) for cause in self.op(call, name).causes]

    def findings(self, kind):
        return [finding for finding in self.record.findings if finding.kind == kind]


def ran(session, fetches, feeds=None):
    """Run with TensorFlow's own trace; return the value and the set of node names that it lists."""
    metadata = tf1.RunMetadata()
    options = tf1.RunOptions(trace_level=tf1.RunOptions.FULL_TRACE)
    value = session.run(fetches, feeds, options=options, run_metadata=metadata)
    return value, {node.node_name for device in metadata.step_stats.dev_stats for node in device.node_stats}
