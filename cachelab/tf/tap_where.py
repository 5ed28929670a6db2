"""Where a tap is called from: which Keras step or function, compiled by XLA or not, or a place that must not write.

All of this is known while Python runs, that is once per trace; nothing here adds an op.
"""

from __future__ import annotations

import functools
import itertools
import sys
import threading
import weakref
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Final

import tensorflow as tf
from tensorflow.python.eager.polymorphic_function import polymorphic_function
from tensorflow.python.framework import ops
from tensorflow.python.ops import control_flow_util

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

CALLS: Final = ("train", "test", "predict", "function", "eager", "graph")
"""What a value can be from: a Keras step, another ``tf.function``, eager code, a v1 graph."""

_STEPS: Final = {"train_step": "train", "test_step": "test", "predict_step": "predict"}
_SCRATCH: Final = frozenset({"compute_output_spec", "_maybe_symbolic_build", "_symbolic_build"})
_RECOMPUTING: Final = "inner_recompute_grad"
_PFOR: Final = ("parallel_for", "control_flow_ops.py")
_FUNCTION: Final = frozenset({"__call__", "_call", "_initialize", "get_concrete_function"})
_AUTOGRAPH_PREFIX: Final = "tf__"

_tokens: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
_tokens_lock = threading.Lock()
_numbers = itertools.count(1)


@dataclass(frozen=True, slots=True)
class Where:
    """The place a value comes from.

    ``call`` is one of :data:`CALLS`, ``owner`` the name of the model or function, ``token`` tells owners of one
    name apart; ``ref`` leads to the owner (model, function or v1 graph) while it lives.
    """

    call: str
    owner: str
    token: int
    ref: weakref.ref[Any] | None = field(default=None, compare=False)

    @property
    def graph(self) -> Any | None:
        """The v1 graph of call ``graph``, ``None`` elsewhere."""
        return self.ref() if self.call == "graph" and self.ref is not None else None

    @property
    def in_graph(self) -> bool:
        """Whether the place is in a v1 graph, where values are read through a session."""
        return self.call == "graph"

    @property
    def gone(self) -> bool:
        """Whether the owner lives no more."""
        return self.ref is not None and self.ref() is None


def token_of(owner: Any) -> int:
    """Return a number that stands for ``owner`` as long as the process lives; never given twice."""
    with _tokens_lock:
        found = _tokens.get(owner)
        if found is None:
            found = _tokens[owner] = next(_numbers)
        return found


def frames(start: int = 1) -> Iterator[tuple[str, FrameType]]:
    """Yield (function name without autograph's prefix, frame) from the caller outwards."""
    frame: FrameType | None = sys._getframe(start)
    while frame is not None:
        yield frame.f_code.co_name.removeprefix(_AUTOGRAPH_PREFIX), frame
        frame = frame.f_back


def must_not_write() -> str:
    """Return why this trace must not write a tap, ``""`` if it may.

    An export must not contain the tap; a symbolic build and the backward pass of ``tf.recompute_grad`` run the
    same Python again, but are not the step that a user asks about.
    """
    for name, frame in frames(2):
        if name in _SCRATCH:
            return "symbolic build"
        kind = _kind_of_file(frame.f_code.co_filename)
        if name == _RECOMPUTING and kind == "gradient":
            return "recomputation"
        if kind == "export":
            return kind
    return ""


def in_vectorized_map() -> bool:
    """Return whether the code is the body of ``tf.vectorized_map`` (pfor), traced once for all examples together."""
    return any(_kind_of_file(frame.f_code.co_filename) == "pfor" for _name, frame in frames(2))


@functools.cache
def _kind_of_file(file: str) -> str:
    """Return what code in a file of TensorFlow or Keras does: ``export``, ``pfor``, ``gradient``, or ``""``."""
    parts = PurePath(file).parts[-3:]
    if ("export" in parts[:-1] and "src" in parts[:-1]) or parts[-2:] == ("saved_model", "save.py"):
        return "export"
    if parts[-2:] == _PFOR:
        return "pfor"
    return "gradient" if parts[-2:] == ("ops", "custom_gradient.py") else ""


def here() -> Where:
    """Return the place from which the tap is called."""
    outermost: Any = None
    for name, frame in frames(2):
        if name in _STEPS:
            owner = _self_of(frame)
            if hasattr(owner, "train_step") and hasattr(owner, "optimizer"):
                title = str(getattr(owner, "name", type(owner).__name__))
                return Where(_STEPS[name], title, token_of(owner), weakref.ref(owner))
        elif name in _FUNCTION:
            owner = _self_of(frame)
            if isinstance(owner, polymorphic_function.Function):
                outermost = owner
    graph = base_graph()
    if graph is not None:
        return Where("graph", "", token_of(graph), weakref.ref(graph))
    if outermost is not None:
        return Where("function", function_name(outermost), token_of(outermost), weakref.ref(outermost))
    default = ops.get_default_graph() if not tf.executing_eagerly() else None
    return Where("eager", "", 0) if default is None else Where("function", str(getattr(default, "name", "")), 0)


def _self_of(frame: FrameType) -> Any:
    """Return the first argument of a frame's method; other locals are not touched."""
    names = frame.f_code.co_varnames
    return frame.f_locals.get(names[0]) if frame.f_code.co_argcount and names else None


def function_name(function: Any) -> str:
    """Return the Python name of what ``tf.function`` wrapped."""
    python = getattr(function, "python_function", function)
    return str(getattr(python, "__name__", "") or type(python).__name__)


def base_graph() -> Any | None:
    """Return the v1 graph that is being built, also from a function in it; ``None`` where TensorFlow is eager."""
    with tf.init_scope():
        return None if tf.executing_eagerly() else ops.get_default_graph()


def in_body_of_v1_graph() -> bool:
    """Return whether the place is inside a loop, branch or function of a v1 graph."""
    graph = base_graph()
    default = ops.get_default_graph() if graph is not None else None
    return graph is not default or (default is not None and default._get_control_flow_context() is not None)


def in_xla() -> bool:
    """Return whether this trace is compiled by XLA (``jit_compile=True``), where shapes of variables are fixed."""
    return not tf.executing_eagerly() and bool(control_flow_util.GraphOrParentsInXlaContext(ops.get_default_graph()))


def orders_writes() -> bool:
    """Return whether writes run by themselves here: in ``tf.function`` and eager code they do, in v1 graphs not."""
    return tf.executing_eagerly() or bool(ops.get_default_graph()._add_control_dependencies)


def replicas() -> int:
    """Return in how many replicas of a ``tf.distribute`` strategy this code runs at once."""
    context = tf.distribute.get_replica_context()
    return 1 if context is None else int(context.num_replicas_in_sync)
