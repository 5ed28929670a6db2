"""The values of everything that ran in a call, as digests: proof that a value was computed again.

TensorFlow's own debugger writes each tensor to a folder in memory. It sees the graph after optimisation, so that
merged and folded ops have no value of their own.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import xxhash
from tensorflow.python.debug.lib import debug_data

from cachelab.tf.nodes import original
from cachelab.tf.values import digest

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from cachelab.explain.plan import Plan

MEMORY = Path("/dev/shm")  # noqa: S108  a folder of our own is made in it


class Dump:
    """A folder for the values of one call; it is gone once they were read.

    Parameters
    ----------
    tensors
        The outputs whose values are wanted, by name of the node in the optimised graph and number.
    """

    def __init__(self, tensors: Iterable[tuple[str, int]]) -> None:
        self._tensors = tuple(tensors)
        self.folder = tempfile.mkdtemp(prefix="cachelab-", dir=MEMORY if MEMORY.is_dir() else None)

    def ask(self, options: Any) -> None:
        """Ask for the values in a ``RunOptions`` message; tensors that the optimiser removed are left out."""
        for name, slot in self._tensors:
            watch = options.debug_options.debug_tensor_watch_opts.add()
            watch.node_name = name
            watch.output_slot = slot
            watch.debug_ops.append("DebugIdentity")
            watch.debug_urls.append(f"file://{self.folder}")
            watch.tolerate_debug_op_creation_failures = True

    def read(self, plan: Plan) -> Mapping[int, str]:
        """Return row -> digest of all values of an op, in the order of its outputs and executions."""
        try:
            found: dict[int, list[tuple[int, int, str]]] = {}
            dump = debug_data.DebugDumpDir(self.folder, validate=False)
            for datum in dump.dumped_tensor_data:
                row = plan.flat.index.get(original(datum.node_name))
                value = datum.get_tensor()
                if row is not None and not isinstance(value, debug_data.InconvertibleTensorProto):
                    found.setdefault(row, []).append((datum.output_slot, datum.timestamp, digest(value)))
        finally:
            self.close()
        return {row: _together(values) for row, values in found.items()}

    def close(self) -> None:
        """Remove the folder."""
        shutil.rmtree(self.folder, ignore_errors=True)


def _together(values: list[tuple[int, int, str]]) -> str:
    """Return one digest for the values of all outputs and executions.

    What is the same in every iteration of a loop counts once: how often it ran is no part of its value.
    """
    outputs: dict[int, list[str]] = {}
    for slot, _, value in sorted(values):
        outputs.setdefault(slot, []).append(value)
    told = [f"{slot} {' '.join(found if len(set(found)) > 1 else found[:1])}" for slot, found in outputs.items()]
    return xxhash.xxh3_128("|".join(told).encode()).hexdigest()
