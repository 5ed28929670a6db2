"""Whether the functions of a dataset write the variables that they capture.

They run when an iterator steps, or in a thread of the runtime long before (``prefetch``), and not when the op that
makes the dataset does. So what they write has no version that a call could know.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cachelab.tf.effects import PASS_ON, arguments, effects_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def is_dataset(op_type: str) -> bool:
    """Tell whether ops of a type make, or run through, a dataset."""
    return "Dataset" in op_type


def functions_write(node: Any, function: Callable[[str], Any]) -> bool:
    """Tell whether a function of a node, or one that it calls, may write a resource that it is given.

    Parameters
    ----------
    node
        The NodeDef of a dataset op.
    function
        Name -> FunctionDef, ``None`` if it is not known.
    """
    pending = list(_functions(node))
    seen: set[str] = set()
    while pending:
        name = pending.pop()
        if name in seen:
            continue
        seen.add(name)
        body = function(name)
        if body is None:
            return True
        for inner in body.node_def:
            called = list(_functions(inner))
            pending.extend(called)
            takes = any(argument.resource or argument.ref for argument in arguments(inner))
            if takes and not called and inner.op not in PASS_ON and not effects_of(inner.op).reads_only:
                return True
    return False


def _functions(node: Any) -> Iterator[str]:
    for value in node.attr.values():
        if value.HasField("func"):
            yield value.func.name
        yield from (function.name for function in value.list.func)
