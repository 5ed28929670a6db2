"""A recorder of plain ``Session.run`` calls for tests of the modes, independent of the real one.

Keys are coarse but sound: feeds by content, variables by the last call that may have written them.
"""

from __future__ import annotations

import time
from types import SimpleNamespace

import numpy as np
import tensorflow as tf

from cachelab import material as m
from cachelab import model
from cachelab.modes.graphs import Facts
from cachelab.tf.hooks import unobserved

tf1 = tf.compat.v1


def digest(value):
    array = np.asarray(value)
    return f"{array.dtype}{array.shape}{array.tolist() if array.dtype == object else array.tobytes().hex()}"


class MiniRecorder:
    """Wraps one session: ``run`` like the session's, and ``recording()`` for the modes."""

    def __init__(self, session, name="mini"):
        self.session, self.graph, self.name = session, session.graph, name
        self.facts = Facts(self.graph)
        self.store = m.ValueStore(budget=1 << 30)
        self.calls, self.traces, self.seconds = [], [], []
        self.initial = self._variables()

    def _variables(self):
        found = {}
        for variable in tf1.global_variables() if False else self.graph.get_collection("variables"):
            resource = hasattr(variable, "handle") and variable.handle.dtype == tf.resource
            op = (variable.handle if resource else variable._variable).op
            read = variable._graph_element.name if resource else variable._snapshot.name
            try:
                value = self.session.run(self.graph.get_tensor_by_name(read))
                key = digest(value)
                self.store.put(key, np.asarray(value))
            except tf.errors.FailedPreconditionError:
                key = m.UNINITIALIZED
            found[op.name] = m.VariableMaterial(op.name, read, not resource, variable.dtype.base_dtype.name, key)
        return found

    def run(self, fetches, feed=None):
        flat = tf.nest.flatten(fetches)
        elements = [self.graph.as_graph_element(item) for item in flat]
        tensors = list(dict.fromkeys(e.name for e in elements if isinstance(e, tf.Tensor)))
        targets = list(dict.fromkeys(e.name for e in elements if isinstance(e, tf.Operation)))
        feeds = {self.graph.as_graph_element(k).name: v for k, v in (feed or {}).items()}
        arrays = {k: np.asarray(v, self.graph.get_tensor_by_name(k).dtype.as_numpy_dtype) for k, v in feeds.items()}
        for array in arrays.values():
            self.store.put(digest(array), array)
        metadata = tf1.RunMetadata()
        start = time.perf_counter()
        options = tf1.RunOptions(trace_level=tf1.RunOptions.FULL_TRACE)
        failed, failed_type, results, answer = None, "", (), None
        try:
            values = self.session.run(
                [*tensors, *(self.graph.get_operation_by_name(t) for t in targets)], arrays, options, metadata
            )
            named = dict(zip(tensors, values, strict=False))
            for value in named.values():
                self.store.put(digest(value), np.asarray(value))
            results = tuple(digest(named[t]) for t in tensors)
            answer = [named.get(e.name) for e in elements]
        except tf.errors.OpError as error:
            failed, failed_type = str(error), type(error).__name__
        self.seconds.append(time.perf_counter() - start)
        self.traces.append({n.name: n for n in nodes_of(metadata.step_stats)})
        self.calls.append(
            m.CallMaterial(len(self.calls), "run", 0, 0, tuple(tensors), tuple(targets),
                           {k: digest(v) for k, v in arrays.items()}, results, failed, failed_type)
        )  # fmt: skip
        if failed:
            raise RuntimeError(failed)
        return answer if isinstance(fetches, list | tuple) else answer[0]

    def recording(self):
        material = m.Material(self.store)
        material.graphs[0] = m.GraphMaterial(0, self.graph.as_graph_def(add_shapes=False).SerializeToString())
        config = self.session._config.SerializeToString() if self.session._config else b""
        material.sessions[0] = m.SessionMaterial(0, 0, "", config, True, self.initial, self._variables())
        material.calls = self.calls
        return SimpleNamespace(record=self._record(), material=material)

    def _record(self):
        ops = self.graph.get_operations()
        table = model.GraphTable(
            0, tuple(o.name for o in ops), tuple(o.type for o in ops),
            tuple(tuple(t.name for t in o.inputs) for o in ops),
            tuple(tuple(c.name for c in o.control_inputs) for o in ops), (-1,) * len(ops),
        )  # fmt: skip
        written, seen, columns, calls = {}, {}, [], []
        for call, trace, seconds in zip(self.calls, self.traces, self.seconds, strict=True):
            closure = self.facts.closure(call.fetches, call.targets, call.feeds)
            writes = self.facts.effects(closure).writes
            rows, letters, times, witnesses = [], "", [], []
            for row, op in enumerate(ops):
                if op.name not in closure:
                    continue
                rows.append(row)
                node = trace.get(op.name)
                own = self.facts.closure([f"{op.name}:0"] if op.outputs else (), [] if op.outputs else [op.name], call.feeds)
                effects = self.facts.effects(own)
                fed = {t.name: call.feeds[t.name] for n in own if n in self.facts.ops
                       for t in self.facts.ops[n].inputs if t.name in call.feeds}  # fmt: skip
                unique = effects.restless or effects.acting or effects.reads & writes
                key = (op.name, tuple(sorted(fed.items())), tuple((v, written.get(v)) for v in sorted(effects.reads)))
                witness = None
                if node is None or node.type != op.type:
                    letters += "k"
                elif unique or key not in seen:
                    letters += "c"
                else:
                    letters, witness = letters + "r", call.index - seen[key]
                if node is not None and not unique:
                    seen[key] = call.index
                times.append(node.seconds if node else 0.0)
                witnesses.append(witness)
            for variable in writes:
                written[variable] = call.index
            n = len(rows)
            columns.append(
                model.Columns(tuple(rows), letters, "m" * n, tuple(times), (0,) * n, (1,) * n, tuple(witnesses), ((),) * n)
            )
            calls.append(
                model.Call(call.index, "run", 0, 0, 0, call.fetches, tuple(call.feeds), -1, 0.0, seconds, call.index,
                           call.failed)
            )  # fmt: skip
        return model.Record(self.name, {}, (), (table,), (), (), tuple(columns), tuple(calls))
