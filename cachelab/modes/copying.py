"""Builds the consumers of a cut a second time, on a kept value instead of the cut.

Only the ops between the cut and the fetches are copied: handles, random ops and everything else outside stay the
originals. The function library is left alone: copying it would replace the graph's function objects.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from cachelab.i18n import translate as _

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from cachelab.modes.graphs import Facts

tf1 = tf.compat.v1
KERNEL_STATE = frozenset({"VariableV2", "Variable", "TemporaryVariable", "OneShotIterator"})
_numbers = itertools.count()


def consumers(facts: Facts, cuts: Iterable[str], needed: frozenset[str]) -> frozenset[str]:
    """Return the ops of ``needed`` that depend on the data of a cut, and all of every v1 loop that one of them is in.

    Parameters
    ----------
    facts
        Of the graph.
    cuts
        Tensor names.
    needed
        Ops that the call may still run.
    """
    found: set[str] = set()
    members: dict[int | None, list[str]] = {}
    for name in needed:
        members.setdefault(facts.frame(name), []).append(name)
    stack = [user.name for cut in cuts for user in facts.graph.get_tensor_by_name(cut).consumers()]
    while stack:
        name = stack.pop()
        if name in found or name not in needed or name not in facts.ops:
            continue
        found.add(name)
        op = facts.ops[name]
        stack.extend(user.name for output in op.outputs for user in output.consumers())
        stack.extend(user.name for user in op._control_outputs)  # else they would wait for the original
        frame = facts.frame(name)
        if frame is not None:
            stack.extend(members.pop(frame, ()))
    return frozenset(found)


def uncopyable(facts: Facts, names: frozenset[str]) -> str:
    """Return why ops can't be built a second time without changing what they do, ``""`` if they can."""
    inner = facts.closure((), names)  # function bodies included
    random = {name for name in facts.effects(inner).random if any(_within(name, outer) for outer in names)}
    if random:
        return _("`{op}` draws random numbers after the cut; a copy would start its own stream (use `feed`)").format(
            op=min(random)
        )
    stateful = sorted(name for name in names if facts.ops[name].type in KERNEL_STATE)
    return _("`{op}` holds a state of its own").format(op=stateful[0]) if stateful else ""


def _within(name: str, outer: str) -> bool:
    return name == outer or name.startswith(f"{outer}/")


def copy(
    facts: Facts, names: frozenset[str], replace: Mapping[str, Any], keep: Iterable[str], scope: str
) -> tuple[str, dict[str, str]]:
    """Copy ops inside their graph, with cut tensors replaced.

    Parameters
    ----------
    facts
        Of the graph, which grows.
    names
        Ops to copy.
    replace
        Cut tensor name -> the tensor that takes its place.
    keep
        Fed tensor names, which stay the originals even where their op is copied.
    scope
        Name scope of the copies.

    Returns
    -------
    prefix, names
        What the copies' names start with, and name of a copy -> name of its original.
    """
    graph, definition = facts.graph, tf1.GraphDef()
    definition.versions.CopyFrom(graph.graph_def_versions)
    sources: dict[str, Any] = {name: graph.get_tensor_by_name(name) for name in keep}
    with graph.as_default(), tf.device(None):
        for name in sorted(names):
            node = definition.node.add()
            node.CopyFrom(facts.ops[name].node_def)
            node.attr.pop("_class", None)
            for given in node.input:
                _outside(facts, given, names, sources)
        sources.update(replace)
        wanted = {key: value for key, value in sources.items() if _used(definition, key)}
        prefix = f"{scope}/copy_{next(_numbers)}"
        tf.graph_util.import_graph_def(definition, input_map=wanted, name=prefix)
    return prefix, {f"{prefix}/{name}": name for name in names}


def _outside(facts: Facts, given: str, names: frozenset[str], sources: dict[str, Any]) -> None:
    """Map one input of a copied node to the original where its op is not copied."""
    if given.startswith("^"):
        if given[1:] not in names and given not in sources:
            sources[given] = _ordering(facts.ops[given[1:]])
        return
    tensor = given if ":" in given else f"{given}:0"
    if tensor.rpartition(":")[0] not in names:
        sources[tensor] = facts.graph.get_tensor_by_name(tensor)


def _ordering(op: Any) -> Any:
    """Return a tensor whose op runs no earlier than ``op``: its output, or a constant that waits for it."""
    if op.outputs:
        return op.outputs[0]
    with tf.control_dependencies([op]):
        return tf.identity(tf.constant(0))


def _used(definition: Any, key: str) -> bool:
    short = key.removesuffix(":0")
    return any(given in {key, short} for node in definition.node for given in node.input)
