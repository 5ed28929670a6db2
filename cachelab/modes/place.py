"""The private place of a replay: a local copy of the graphs, and sessions with the recorded variable values.

Ops that a replay needs are added to the copy only. The user's graph, session and variables are never reached.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf
from tensorflow.python.framework import op_def_registry
from tensorflow.python.util import tf_decorator

from cachelab.material import UNINITIALIZED
from cachelab.modes.graphs import Facts
from cachelab.modes.traces import Reader
from cachelab.tf.effects import RANDOM
from cachelab.tf.logbook import optimized

if TYPE_CHECKING:
    from typing_extensions import Self

    from cachelab.material import GraphMaterial, Material, VariableMaterial

tf1 = tf.compat.v1
TIMEOUT_MS = 60_000
SEED = 20_231_115
"""Seed of random ops that have none, in private graphs only."""


def off(config: Any) -> Any:
    """Switch every graph optimisation off in a ``ConfigProto``, in place, and return it."""
    config.graph_options.optimizer_options.opt_level = -1
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    return config


def private_config(serialized: bytes, *, optimizers: bool, timeout_ms: int, pruned: bool = True) -> Any:
    """Return a local session's ``ConfigProto``: the recorded one without its cluster.

    Parameters
    ----------
    serialized
        The recorded session's ``ConfigProto``.
    optimizers
        Whether graph optimisation stays as recorded; otherwise it is switched off.
    timeout_ms
        Milliseconds after which a blocked call gives up with ``DeadlineExceededError``.
    pruned
        Whether ``place_pruned_graph`` stays as recorded. ``InteractiveSession`` sets it, and a handle of
        ``partial_run`` fails with it.
    """
    config = tf1.ConfigProto.FromString(serialized)
    config.ClearField("cluster_def")
    config.ClearField("isolate_session_state")
    config.ClearField("share_cluster_devices_in_session")
    del config.device_filters[:]
    if not pruned:
        config.graph_options.place_pruned_graph = False
    config.operation_timeout_in_ms = timeout_ms
    return config if optimizers else off(config)


def give_seeds(definition: Any) -> frozenset[str]:
    """Give random ops without a seed a fixed one, in place; return their names (bare names inside functions)."""
    found = set()
    nodes = [*definition.node, *(node for function in definition.library.function for node in function.node_def)]
    for at, node in enumerate(nodes):
        if node.op in RANDOM and "seed" in node.attr and not (node.attr["seed"].i or node.attr["seed2"].i):
            node.attr["seed"].i, node.attr["seed2"].i = SEED, at + 1
            found.add(node.name)
    return frozenset(found)


def unseeded_datasets(definition: Any) -> dict[str, list[int]]:
    """Return the shuffling datasets of a graph whose seeds are zero -> positions of the seeds among their inputs."""
    zeros = {n.name for n in definition.node if n.op == "Const" and not _content(n).any()}
    found = {}
    for node in definition.node:
        if node.op not in RANDOM or "Dataset" not in node.op:
            continue
        names = [argument.name for argument in op_def_registry.get(node.op).input_arg]
        seeds = [at for at, name in enumerate(names) if name in {"seed", "seed2"}]
        if seeds and all(node.input[at].removesuffix(":0") in zeros for at in seeds):
            found[node.name] = seeds
    return found


def _content(node: Any) -> Any:
    proto = node.attr["value"].tensor
    return tf.make_ndarray(proto) if proto.dtype == tf.int64.as_datatype_enum else np.ones(1)


def _seed_datasets(definition: Any, datasets: dict[str, list[int]]) -> None:
    """Give shuffling datasets fixed seeds, in place; their seeds are inputs."""
    for node in list(definition.node):
        for at in datasets.get(node.name, ()):
            seed = definition.node.add(name=f"cachelab_seed/{node.name}/{at}", op="Const")
            seed.attr["dtype"].type = tf.int64.as_datatype_enum
            seed.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(SEED + at, tf.int64))
            node.input[at] = seed.name


class HandleSession(tf1.Session):
    """A session whose tensor handles may die after it: TensorFlow's own would then run an op to free them."""

    def _register_dead_handle(self, handle: Any) -> None:
        if not self._closed:
            super()._register_dead_handle(handle)


class PrivateSession(HandleSession):
    """A session of a replay. Of what TensorFlow deprecates it says nothing: the user's own calls were told.

    TensorFlow's ``deprecation.silence`` is no way to that: it holds for all threads, and stays on if an error passes.
    """

    partial_run_setup = tf_decorator.unwrap(tf1.Session.partial_run_setup)[1]
    partial_run = tf_decorator.unwrap(tf1.Session.partial_run)[1]


class PrivateGraph:
    """A private copy of one recorded graph.

    Attributes
    ----------
    graph
        The ``tf.Graph``; a mode may add ops to it.
    facts
        Closures and effects of the user's ops in it.
    unseeded
        Random ops that the user gave no seed. Here they have one, so that two replays draw the same numbers; they
        are not the numbers of the recording.
    """

    def __init__(self, material: GraphMaterial, *, remote: bool, optimized: bool) -> None:
        definition = tf1.GraphDef.FromString(material.graph_def)
        if remote:
            for node in [*definition.node, *(node for f in definition.library.function for node in f.node_def)]:
                node.device = ""
        shuffles = unseeded_datasets(definition)
        _seed_datasets(definition, shuffles)
        unseeded = give_seeds(definition)
        self.graph = tf.Graph()
        self.graph.seed = material.seed
        with self.graph.as_default():
            tf1.import_graph_def(definition, name="")
        self.facts = Facts(self.graph, optimized=optimized)
        self.reader = Reader(self.facts)
        self.unseeded = frozenset(
            name for name in self.facts.drawing() if any(name == bare or name.endswith(f"/{bare}") for bare in unseeded)
        )
        self.unseeded |= shuffles.keys()
        self._setters: dict[str, tuple[Any, Any]] = {}
        self._destroyers: dict[str, Any] = {}

    def tensor(self, name: str) -> Any:
        """Return a tensor of the user's graph by its name."""
        return self.graph.get_tensor_by_name(name)

    def op(self, name: str) -> Any:
        """Return an op of the user's graph by its name."""
        return self.graph.get_operation_by_name(name)

    def setter(self, variable: VariableMaterial) -> tuple[Any, Any]:
        """Return (placeholder, op) that set a variable, built once from raw ops."""
        found = self._setters.get(variable.op)
        if found is None:
            reference = self.op(variable.op).outputs[0]
            with self.graph.as_default(), tf.name_scope("cachelab_restore"), tf.device(None):
                value = tf1.placeholder(_dtype(variable.dtype))
                if variable.is_ref:
                    op = tf.raw_ops.Assign(ref=reference, value=value, validate_shape=False).op
                else:
                    op = tf.raw_ops.AssignVariableOp(resource=reference, value=value)
            found = self._setters[variable.op] = (value, op)
        return found

    def destroyer(self, variable: VariableMaterial) -> Any:
        """Return the op that makes a resource variable uninitialised again."""
        found = self._destroyers.get(variable.op)
        if found is None:
            with self.graph.as_default(), tf.name_scope("cachelab_restore"):
                found = tf.raw_ops.DestroyResourceOp(resource=self.op(variable.op).outputs[0], ignore_lookup_error=True)
            self._destroyers[variable.op] = found
        return found


class Place:
    """Private graphs and the way to open private sessions on them.

    Parameters
    ----------
    material
        What was kept of the recording.
    optimizers
        Whether graph optimisation stays as recorded.
    timeout_ms
        Milliseconds after which a blocked call gives up.
    pruned
        Whether ``place_pruned_graph`` stays as recorded.
    """

    def __init__(
        self, material: Material, *, optimizers: bool = True, timeout_ms: int = TIMEOUT_MS, pruned: bool = True
    ) -> None:
        self.material = material
        self.pruned = pruned
        self.optimizers = optimizers
        self.timeout_ms = timeout_ms
        remote = {session.graph for session in material.sessions.values() if session.target}
        used = {material.sessions[call.session].graph for call in material.calls}
        rewritten = {s.graph for s in material.sessions.values() if optimizers and optimized(s.config)}
        self.graphs = {
            key: PrivateGraph(graph, remote=key in remote, optimized=key in rewritten)
            for key, graph in material.graphs.items()
            if key in used
        }
        self.session_ids = sorted({call.session for call in material.calls})
        for session_id in self.session_ids:  # before any session sees the graph: growing it later costs
            session = material.sessions[session_id]
            for variable in session.initial.values():
                if variable.digest not in {None, UNINITIALIZED}:
                    self.graphs[session.graph].setter(variable)

    def graph_of(self, session: int) -> PrivateGraph:
        """Return the private graph of a recorded session."""
        return self.graphs[self.material.sessions[session].graph]

    def open(self) -> Sessions:
        """Open new private sessions, one a recorded session, with the recorded initial variable values."""
        return Sessions(self)


class Sessions:
    """Open private sessions, by recorded session id; a context manager that closes them."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.idle_feeds: dict[Any, bool] = {}
        """Way to run a call -> whether its optimised graph, one for each session, was seen to leave feeds unused."""
        self._open: dict[int, Any] = {}
        for session_id in place.session_ids:
            recorded = place.material.sessions[session_id]
            config = private_config(
                recorded.config, optimizers=place.optimizers, timeout_ms=place.timeout_ms, pruned=place.pruned
            )
            self._open[session_id] = PrivateSession(graph=place.graph_of(session_id).graph, config=config)
        self.restore(fresh=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def __getitem__(self, session: int) -> Any:
        return self._open[session]

    def close(self) -> None:
        """Close the sessions."""
        for session in self._open.values():
            session.close()

    def restore(self, *, fresh: bool = False) -> None:
        """Give every variable its recorded initial value; ``fresh`` sessions hold none yet.

        A ref variable that was uninitialised keeps its value in a session that is not fresh: TensorFlow has
        no op that takes it away.
        """
        for session_id, session in self._open.items():
            recorded = self.place.material.sessions[session_id]
            graph = self.place.graph_of(session_id)
            targets, feed = [], {}
            for variable in recorded.initial.values():
                lost = variable.digest is None or self.place.material.values.get(variable.digest) is None
                if variable.digest == UNINITIALIZED or lost:  # a lost value is written before it is read, or refused
                    if not (fresh or variable.is_ref):
                        targets.append(graph.destroyer(variable))
                    continue
                value, op = graph.setter(variable)
                feed[value] = self.place.material.values.get(variable.digest)
                targets.append(op)
            if targets:
                session.run(targets, feed)

    def variables(self) -> dict[tuple[int, str], Any]:
        """Return (session, variable) -> value now, ``None`` where it holds none, of all recorded variables."""
        values: dict[tuple[int, str], Any] = {}
        for session_id, session in self._open.items():
            recorded = self.place.material.sessions[session_id]
            graph = self.place.graph_of(session_id)
            for variable in {**recorded.initial, **recorded.final}.values():
                values[session_id, variable.op] = _read(session, graph, variable)
        return values


def _dtype(name: str) -> Any:
    """Return a dtype by its name or by the number of its enum, which for references lies 100 higher."""
    return tf.as_dtype(int(name) if name.isdigit() else name).base_dtype


def _read(session: Any, graph: PrivateGraph, variable: VariableMaterial) -> Any:
    if not variable.read:
        return None
    try:
        value = session.run(graph.tensor(variable.read))
    except (tf.errors.OpError, KeyError, ValueError):
        return None
    return value.copy() if hasattr(value, "copy") else value
