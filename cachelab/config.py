"""What ``%config CacheLab`` can set; also read from IPython's configuration files."""

from __future__ import annotations

from typing import Any

from traitlets import Bool, Enum, Int, TraitError, Unicode, Union, observe, validate
from traitlets.config import Configurable

from cachelab.errors import OptionError
from cachelab.model import MODES
from cachelab.options import MEMORY_BUDGET, TRACES, parse_bytes
from cachelab.session_state import choice


class CacheLab(Configurable):
    """Defaults of ``%%cachelab``; an option on the cell's first line wins over them."""

    trace = Enum(
        TRACES,
        default_value="auto",
        help="full: trace every call; light: derive what ran from the graph; off; auto: trace the first calls of each "
        "kind, then now and then.",
    ).tag(config=True)
    values = Bool(False, help="Keep the values of fetched tensors, to prove that values are equal.").tag(config=True)
    memory_budget = Union(
        [Int(min=0), Unicode()],
        default_value=MEMORY_BUDGET,
        help="Bytes (or a size such as '256MB') kept of feeds and variables for replays.",
    ).tag(config=True)
    mode = Enum(MODES, default_value="run", help="The mode in which recorded cells execute.").tag(config=True)
    keep = Int(16, min=1, help="How many recordings of cells are kept for %cachelab report and list.").tag(config=True)
    widget = Bool(True, help="Show the live widget below the record where a notebook can show it.").tag(config=True)

    @observe("mode")
    def _chosen(self, change: dict[str, Any]) -> None:
        choice.mode = change["new"]

    @validate("memory_budget")
    def _size(self, proposal: dict[str, int | str]) -> int:
        try:
            return parse_bytes(proposal["value"])
        except OptionError as error:
            raise TraitError(str(error)) from None
