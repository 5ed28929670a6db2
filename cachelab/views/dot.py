"""The graph of one call as a ``graphviz.Digraph``: an object that needs no ``dot`` until it is rendered."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cachelab.i18n import translate as _
from cachelab.model import STATUSES
from cachelab.views import words
from cachelab.views.picture import picked, picture
from cachelab.views.sources import short
from cachelab.views.tally import Tally

if TYPE_CHECKING:
    from cachelab.model import Record
    from cachelab.views.picture import Picture, View

_WHOLE = 60
_LOOKS = {
    "c": {"color": "#4f5a69", "fillcolor": "#eaebed"},
    "r": {"color": "#c94f00", "fillcolor": "#f9e9e0", "penwidth": "1.6", "fontcolor": "#843300"},
    "s": {
        "color": "#0064b0",
        "fillcolor": "#0064b0",
        "fontcolor": "#ffffff",
        "style": "filled,rounded",
        "penwidth": "2.4",
    },
    "d": {"color": "#b9609a", "fillcolor": "#f7ecf3", "shape": "cds"},
    "m": {"color": "#007a5a", "fillcolor": "#ffffff", "peripheries": "2"},
    "k": {"color": "#007a5a", "fillcolor": "#e0efeb", "shape": "note"},
    "u": {"color": "#007a5a", "fillcolor": "#e0efeb", "shape": "box3d"},
    "p": {"color": "#7b8490", "style": "dotted"},
    "t": {"color": "#7b8490", "style": "dashed"},
    "n": {"color": "#7b8490", "style": "dashed", "shape": "underline"},
    "x": {"color": "#5e4a00", "style": "dashed", "penwidth": "1.5"},
}


def digraph(record: Record, call: int | None = None, *, most: int = _WHOLE) -> Any:
    """Return the ops that one call needed, with their statuses, as DOT.

    Parameters
    ----------
    record
        The recording.
    call
        Number of the call; by default the one with most redundant op time.
    most
        Above this number of ops name scopes are collapsed, so that ``dot`` can lay the graph out in seconds.

    Returns
    -------
    graphviz.Digraph
        ``.source`` is the text; ``.render`` needs a ``dot`` binary.

    Raises
    ------
    IndexError
        If there is no such call.
    """
    import graphviz

    tally = Tally(record)
    graph = graphviz.Digraph(
        "cachelab",
        graph_attr={"rankdir": "LR", "fontname": "Helvetica", "fontsize": "11", "labelloc": "t"},
        node_attr={
            "shape": "box",
            "style": "filled",
            "fillcolor": "#ffffff",
            "fontname": "Helvetica",
            "fontsize": "10",
        },
        edge_attr={"color": "#8a94a2", "arrowsize": "0.6"},
    )
    chosen = picked(record, tally) if call is None else (record.calls.index(record.entry(call)), call)
    if chosen is None:
        graph.attr(label=graphviz.escape(_("Nothing was recorded.")))
        return graph
    shown = picture(record, tally, chosen[0], most=most, whole=most)
    graph.attr(label=graphviz.escape(f"{record.name} {words.call_name(shown.index)}".strip()))
    _Writer(record, shown).write(graph, shown.root)
    for (a, b), kind in shown.edges.items():
        looks = {"S": {"color": "#0064b0", "penwidth": "2.4"}, "P": {"style": "dotted"}}.get(kind, {})
        graph.edge(f"n{a}", f"n{b}", **looks)
    return graph


class _Writer:
    def __init__(self, record: Record, shown: Picture) -> None:
        self.record, self.shown = record, shown
        self._sources: dict[int, str] = {}

    def write(self, graph: Any, view: View) -> None:
        """Write the parts of ``view``: open scopes as clusters, leaves as nodes with their sources."""
        import graphviz

        for part in view.parts:
            if part.open:
                with graph.subgraph(name=f"cluster_{part.key}") as inner:
                    inner.attr(label=graphviz.escape(part.node.label), color="#b9c0ca", style="rounded")
                    self.write(inner, part)
                continue
            graph.node(f"n{part.key}", graphviz.escape(self._label(part)), **self._looks(part))
            for row, same in part.sources.items():
                self._source(graph, row)
                mark = {True: "=", False: "≠", None: ""}[same]
                graph.edge(f"s{row}", f"n{part.key}", label=mark, color="#b9c0ca")

    def _source(self, graph: Any, row: int) -> None:
        import graphviz

        if row not in self._sources:
            source = self.record.sources[row]
            self._sources[row] = source.name
            color = "#b9609a" if source.kind == "feed" else "#56606d"
            label = graphviz.escape(f"{short(source)}\n{source.kind}")
            graph.node(f"s{row}", label, shape="ellipse", color=color, style="solid")

    @staticmethod
    def _label(view: View) -> str:
        mix = ", ".join(f"{view.letters[q]} {STATUSES[q]}" for q in words.ORDER if view.letters[q])
        state = STATUSES[view.letter] if view.letter else mix
        time = f", {words.seconds(view.seconds)}" if view.seconds else ""
        return f"{view.node.label}\n{state}{time}"

    @staticmethod
    def _looks(view: View) -> dict[str, str]:
        if view.letter:
            return dict(_LOOKS[view.letter])
        main = "r" if view.letters["r"] else "s" if view.letters["s"] else "c"
        return {"shape": "folder", "color": _LOOKS[main]["color"]}
