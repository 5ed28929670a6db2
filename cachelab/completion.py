"""Tab completion of ``%cachelab`` and ``%%cachelab``: subcommands, options, modes, recordings, tensors."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from IPython.core.completer import SimpleCompletion, context_matcher

from cachelab.model import MODES
from cachelab.options import TRACES
from cachelab.session_state import recordings

if TYPE_CHECKING:
    from IPython.core.completer import CompletionContext

SUBCOMMANDS: Final = (
    "on",
    "off",
    "mode",
    "record",
    "report",
    "why",
    "compare",
    "advise",
    "graph",
    "timeline",
    "diff",
    "list",
    "export",
    "help",
)
_CELL_OPTIONS: Final = ("--mode", "--cut", "--trace", "--values", "--name", "--quiet", "--help")
_OPTIONS: Final = {"record": _CELL_OPTIONS, "why": ("--call", "--of")}
_ENDINGS: Final = (".html", ".json", ".svg", ".dot", ".csv", ".trace.json")
_LINE: Final = re.compile(r"\s*(%{1,2})cachelab\s+(.*)$", re.DOTALL)


def candidates(text: str) -> list[str] | None:
    """Return what can stand at the end of a line, ``None`` if the line is not ours.

    Parameters
    ----------
    text
        The line up to the cursor.
    """
    match = _LINE.match(text)
    if match is None:
        return None
    words = match[2].split(" ")
    fragment, words = words[-1], [word for word in words[:-1] if word]
    if match[1] == "%%":
        words.insert(0, "record")
    found = _after(words, fragment) if words else SUBCOMMANDS
    return [name for name in found if name.startswith(fragment)]


def _after(words: list[str], fragment: str) -> tuple[str, ...] | list[str]:
    command, last = words[0], words[-1]
    if fragment.startswith("-"):
        return _OPTIONS.get(command, ())
    if last in {"--mode", "mode"} or command == "compare":
        return MODES
    if last == "--trace":
        return TRACES
    if last == "--of" or command in {"report", "diff", "graph", "timeline", "advise"}:
        return [name if " " not in name else name.removeprefix("cell ") for name in recordings.names()]
    if command == "why" or last == "--cut":
        return _tensors(fragment)
    if command == "export" and "." not in fragment:
        return [fragment + ending for ending in _ENDINGS] if fragment else []
    return ()


def _tensors(fragment: str) -> list[str]:
    """Return the recorded graphs' tensors that start with a text, one level of the name scopes at a time."""
    if not len(recordings):
        return []
    found: dict[str, None] = {}
    for graph in recordings.find().record.graphs:
        for name in graph.name:
            if not name.startswith(fragment.partition(":")[0]):
                continue
            scope, slash, _rest = name[len(fragment) :].partition("/")
            found[f"{fragment}{scope}/" if slash else f"{name}:0"] = None
    return sorted(found)


@context_matcher()
def cachelab_matcher(context: CompletionContext) -> dict[str, Any]:
    """Complete a line that starts with the magic; say nothing on any other."""
    line = context.text_until_cursor
    return {
        "completions": [SimpleCompletion(text=name, type="cachelab") for name in candidates(line) or ()],
        "matched_fragment": re.split(r"\s", line)[-1],
        "suppress": True,
    }
