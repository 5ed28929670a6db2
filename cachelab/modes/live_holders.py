"""How a live session holds kept values: as arrays that it feeds, as session handles, or in variables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import tensorflow as tf
from tensorflow.python.client import pywrap_tf_session as runtime

from cachelab.i18n import translate as _
from cachelab.modes import copying
from cachelab.modes.runner import aligned, own
from cachelab.modes.variable import Store as VariableStore
from cachelab.tf.trace import LABEL

if TYPE_CHECKING:
    from cachelab.modes.live_plan import LivePlan, Way
    from cachelab.modes.live_store import Store

tf1 = tf.compat.v1


@dataclass
class Issue:
    """What to run: tensors (the user's first, then those to keep), ops, and feeds by tensor reference."""

    fetches: list[Any]
    targets: list[Any]
    feeds: dict[Any, Any]


class Tracer:
    """Asks TensorFlow for op times of one run."""

    def __init__(self) -> None:
        options = tf1.RunOptions(trace_level=tf1.RunOptions.FULL_TRACE)
        self.pointers = (runtime.TF_NewBufferFromString(options.SerializeToString()), runtime.TF_NewBuffer())

    def seconds(self) -> dict[str, float]:
        """Return op -> seconds."""
        metadata = tf1.RunMetadata.FromString(bytes(runtime.TF_GetBuffer(self.pointers[1])))
        found: dict[str, float] = {}
        for device in metadata.step_stats.dev_stats:
            for node in device.node_stats:
                if LABEL.search(node.timeline_label):
                    found[node.node_name] = found.get(node.node_name, 0.0) + node.all_end_rel_nanos * 1e-9
        return found

    def close(self) -> None:
        """Free the buffers."""
        for pointer in self.pointers:
            runtime.TF_DeleteBuffer(pointer)


class Arrays:
    """Holds numpy arrays and feeds them; adds no op."""

    note = ""

    def __init__(self, session: Any) -> None:
        self.session = session

    def tracer(self) -> Tracer:
        """Return what measures the op times of one run."""
        return Tracer()

    def prepare(
        self, _plan: LivePlan, _way: Way, fetch_list: list[Any], target_list: list[Any], extra: list[str],
        values: dict[str, Any],
    ) -> Issue:  # fmt: skip
        """Return what to run: fetches that are served are left out of TensorFlow's hands by :meth:`finish`."""
        graph = self.session.graph
        fetches = [tensor for tensor in fetch_list if tensor.name not in values]
        fetches += [graph.get_tensor_by_name(name) for name in extra]
        feeds = {graph.get_tensor_by_name(name).ref(): value for name, value in values.items()}
        return Issue(fetches, target_list, feeds)

    def finish(self, found: list[Any], fetch_list: list[Any], values: dict[str, Any]) -> list[Any]:
        """Return the user's results, copies in the place of kept values."""
        rest = iter(found)
        return [own(values[tensor.name]) if tensor.name in values else next(rest) for tensor in fetch_list]

    def results(self, values: list[Any]) -> list[Any]:
        """Return results that are all served: copies, so that users can't change what is kept."""
        return [own(value) for value in values]

    def hold(self, _name: str, value: Any, *, shared: bool) -> tuple[Any, int]:
        """Return what to keep of a fetched value, and its bytes; a copy where the user has the array too."""
        kept = aligned(own(value) if shared else value)
        size = getattr(kept, "nbytes", None)
        if size is None or getattr(kept, "dtype", None) == object:
            size = sum(len(item) for item in getattr(kept, "flat", [kept]))
        return kept, int(size)

    def drop(self, store: Store) -> None:
        """Release what is kept."""


def holder_of(mode: str, session: Any) -> Any:
    """Return what holds the values of a live mode."""
    return Arrays(session)


__all__ = ["Arrays", "Issue", "Tracer", "VariableStore", "_", "copying", "holder_of"]
