"""Nodes of TensorFlow's optimised graph, and what their names, types and labels tell of the user's ops."""

from __future__ import annotations

import re
from functools import cache
from typing import NamedTuple

from tensorflow.python.framework import op_def_registry

LABEL = re.compile(r"(\S+) = (\w+)\((.*)\)\s*$", re.DOTALL)
REWRITTEN = re.compile(
    r"^(?P<scope>.*/)?ArithmeticOptimizer/[A-Za-z]+_(?:Leaf_\d+_)?(?P<op>[^/]+)$|^(?P<root>.+)/unary_ops_composition$"
)
"""Names that the optimiser gives to a node which takes the place of an op: its name is in them."""

LOWERED = re.compile(r"/(then|else|cond|body|branch\d+)/_\d+(?=/)")

ARGUMENT = re.compile(r"_arg_(?P<op>.+)_(?P<port>\d+)_\d+")
"""The name of a node that stands for a fed tensor."""


class Node(NamedTuple):
    """A node of the optimised graph: type and names of its data inputs."""

    type: str
    inputs: tuple[str, ...]


def original(name: str) -> str:
    """Return the shown name of the op that a node of the optimised graph stands for, if its name tells."""
    match = REWRITTEN.match(name)
    if match:
        name = match["root"] or (match["scope"] or "") + match["op"]
    return LOWERED.sub(r"/\1", name)


@cache
def kind_of(node_type: str) -> str:
    """Return the type of the op that a node computes: oneDNN runs ``MatMul`` as ``_MklNativeMatMul``."""
    for prefix in ("_MklNative", "_Mkl"):
        bare = node_type.removeprefix(prefix)
        if bare != node_type and op_def_registry.get(bare) is not None:
            return bare
    return node_type


def parse(label: str) -> Node:
    """Return type and data inputs of a timeline label ``name = Type(inputs, ^control)``."""
    match = LABEL.search(label)
    if match is None:
        return Node("", ())
    inputs = [item.strip() for item in match[3].split(",")]
    return Node(kind_of(match[2]), tuple(item for item in inputs if item and not item.startswith("^")))


def fed_tensor(name: str) -> str | None:
    """Return the fed tensor that a node stands for, such as ``x:0``; ``None`` if it stands for none."""
    match = ARGUMENT.fullmatch(name)
    return None if match is None else f"{match['op']}:{match['port']}"
