"""The values of everything that ran in a call, as digests: proof that a value was computed again.

TensorFlow's own debugger writes each tensor to a folder in memory. It sees the graph after optimisation, so that
merged and folded ops have no value of their own.

The runtime prepares, and optimises, a signature anew for each other list of tensors and each other folder. Folding runs
ops that are declared stateless, such as ``numpy_function(stateful=False)``: that must not happen more often than
without us, so calls that follow each other share a folder, and their list stays the same.
"""

from __future__ import annotations

import itertools
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import xxhash
from tensorflow.python.debug.lib import debug_data

from cachelab.tf.nodes import original
from cachelab.tf.values import digest

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from cachelab.explain.plan import Plan

MEMORY = Path("/dev/shm")  # noqa: S108  a folder of our own is made in it


class Folders:
    """The folders of a recording: one, and more only while calls overlap. They are gone when it is."""

    def __init__(self) -> None:
        self._root = tempfile.TemporaryDirectory(prefix="cachelab-", dir=MEMORY if MEMORY.is_dir() else None)
        self._numbers = itertools.count()
        self._free: list[str] = []

    def take(self) -> str:
        """Return a folder that no call under way uses."""
        with suppress(IndexError):
            return self._free.pop()
        return str(Path(self._root.name, str(next(self._numbers))))

    def give_back(self, folder: str) -> None:
        """Empty a folder, for the next call."""
        shutil.rmtree(folder, ignore_errors=True)
        self._free.append(folder)


class Dump:
    """A folder for the values of one call; it is empty again once they were read.

    Parameters
    ----------
    tensors
        The outputs whose values are wanted, by name of the node in the optimised graph and number.
    folders
        Where to take the folder from.
    """

    def __init__(self, tensors: Iterable[tuple[str, int]], folders: Folders) -> None:
        self._tensors = tuple(tensors)
        self._folders = folders
        self.folder: str | None = folders.take()

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
        found: dict[int, list[tuple[int, int, str]]] = {}
        try:
            for datum in self._data():
                row = plan.flat.index.get(original(datum.node_name))
                value = datum.get_tensor()
                if row is not None and not isinstance(value, debug_data.InconvertibleTensorProto):
                    found.setdefault(row, []).append((datum.output_slot, datum.timestamp, digest(value)))
        finally:
            self.close()
        return {row: _together(values) for row, values in found.items()}

    def _data(self) -> Iterator[Any]:
        """Yield what was written: files in a folder for each device, beside graphs and the like."""
        root = Path(self.folder or "")
        for path in root.glob(f"{debug_data.METADATA_FILE_PREFIX}{debug_data.DEVICE_TAG}*/**/*"):
            if path.is_file() and not path.name.startswith(debug_data.METADATA_FILE_PREFIX):
                yield debug_data.DebugTensorDatum(str(root), str(path.relative_to(root)))

    def close(self) -> None:
        """Give the folder back."""
        if self.folder is not None:
            self._folders.give_back(self.folder)
            self.folder = None


def _together(values: list[tuple[int, int, str]]) -> str:
    """Return one digest for the values of all outputs and executions.

    What is the same in every iteration of a loop counts once: how often it ran is no part of its value.
    """
    outputs: dict[int, list[str]] = {}
    for slot, _, value in sorted(values):
        outputs.setdefault(slot, []).append(value)
    told = [f"{slot} {' '.join(found if len(set(found)) > 1 else found[:1])}" for slot, found in outputs.items()]
    return xxhash.xxh3_128("|".join(told).encode()).hexdigest()
