"""Loads CacheLab into an IPython shell and takes it out again without a trace."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from cachelab.cell_header import transform
from cachelab.cells import CellRecorder
from cachelab.completion import cachelab_matcher
from cachelab.config import CacheLab
from cachelab.magics import CacheLabMagics
from cachelab.panel import Panel
from cachelab.session_state import choice, recordings
from cachelab.show import Shower

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

_EVENTS = ("pre_run_cell", "post_execute", "post_run_cell")
_PANEL_EVENTS = ("pre_run_cell", "post_run_cell")


@dataclass
class _Loaded:
    """What was added to a shell, and what stood there before."""

    config: CacheLab
    cells: CellRecorder
    magics: CacheLabMagics
    panel: Panel
    replaced: dict[str, Any] = field(default_factory=dict)


_loaded: WeakKeyDictionary[InteractiveShell, _Loaded] = WeakKeyDictionary()


def load(shell: InteractiveShell) -> None:
    """Add the magics, the transformation, the hooks, the completion and the configuration; once only."""
    if shell in _loaded:
        return
    config = CacheLab(parent=shell)
    cells = CellRecorder(shell, config, Shower(shell, config).show)
    magics = CacheLabMagics(shell, cells, config)
    panel = Panel(shell, cells, config)
    state = _loaded[shell] = _Loaded(config, cells, magics, panel)
    manager = shell.magics_manager
    state.replaced = {kind: manager.magics[kind].get("cachelab") for kind in ("line", "cell")}
    shell.register_magics(magics)
    shell.configurables.append(config)
    shell.input_transformers_cleanup.append(transform)
    for event in _EVENTS:
        shell.events.register(event, getattr(cells, event))
    for event in _PANEL_EVENTS:
        shell.events.register(event, getattr(panel, event))
    if shell.Completer is not None:
        shell.Completer.custom_matchers.append(cachelab_matcher)
    recordings.open = True
    panel.open()


def unload(shell: InteractiveShell) -> None:
    """Undo :func:`load`, also inside a recorded cell; nothing happens where it is not loaded."""
    state = _loaded.pop(shell, None)
    if state is None:
        return
    state.cells.close()
    state.panel.close()
    if shell.Completer is not None:
        _drop(shell.Completer.custom_matchers, cachelab_matcher)
    hooks = [(event, state.cells) for event in _EVENTS] + [(event, state.panel) for event in _PANEL_EVENTS]
    for event, owner in hooks:
        callback = getattr(owner, event)
        if callback in shell.events.callbacks[event]:
            shell.events.unregister(event, callback)
    _drop(shell.input_transformers_cleanup, transform)
    _drop(shell.configurables, state.config)
    _drop(shell.configurables, state.magics)
    manager = shell.magics_manager
    manager.registry.pop(CacheLabMagics.__name__, None)
    for kind, before in state.replaced.items():
        if before is None:
            manager.magics[kind].pop("cachelab", None)
        else:
            manager.magics[kind]["cachelab"] = before
    choice.mode = ""
    recordings.open = bool(_loaded)
    recordings.clear()


def _drop(items: list[Any], item: Any) -> None:
    if item in items:
        items.remove(item)
