"""What appears below a recorded cell: the persistent record, then the live widget; or why nothing was recorded."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from IPython.display import display

from cachelab.i18n import translate as _

if TYPE_CHECKING:
    from IPython.core.interactiveshell import ExecutionResult, InteractiveShell

    from cachelab.cells import CellOptions
    from cachelab.config import CacheLab
    from cachelab.recording import Recording

LIVE_MODES = frozenset({"run", "memo", "feed"})
"""Modes under which the user's own session can run; all others replay what it did."""


class Shower:
    """Shows the recordings of a shell's cells."""

    def __init__(self, shell: InteractiveShell, config: CacheLab) -> None:
        self.shell = shell
        self.config = config

    def show(self, recording: Recording, options: CellOptions, result: ExecutionResult | None) -> None:
        """Show one finished recording as its options ask."""
        if not recording.call_count:
            if not options.quiet and not options.automatic:
                print(nothing_recorded(result))
            return
        comparison = None
        if options.mode not in LIVE_MODES and result is not None and result.success:
            cuts = {"cuts": list(options.cuts)} if options.cuts else {}
            comparison = recording.compare(["run", options.mode], **cuts)
        if options.quiet:
            return
        self.show_record(recording)
        if comparison is not None:
            display(comparison)
        self.show_widget(recording)

    def show_record(self, recording: Recording) -> None:
        """Show the record as one output; a terminal gets its text and is spared the making of the rest."""
        if set(self.shell.display_formatter.active_types) == {"text/plain"}:
            print(recording)
        else:
            display(recording._repr_mimebundle_(), raw=True)

    def show_widget(self, recording: Recording) -> None:
        """Show the live controls where a notebook can show them, as an output of their own.

        They are not in the record's own output: a saved notebook shows that one without kernel and network.
        """
        if not self.config.widget or getattr(self.shell, "kernel", None) is None:
            return
        widget = _widget(recording)
        if widget is not None:
            display(widget)


def _widget(recording: Recording) -> Any:
    try:
        from cachelab.recording import explorer

        return explorer(recording)
    except ImportError:  # ipywidgets or anywidget is not installed here: the record says it all without them.
        return None


def nothing_recorded(result: ExecutionResult | None) -> str:
    """Return a sentence that says why a cell has no run calls, as far as can be told."""
    error = None if result is None else result.error_before_exec or result.error_in_exec
    if error is not None:
        return _("nothing was recorded: the cell stopped with {error} before its first run call.").format(
            error=type(error).__name__
        )
    tensorflow: Any = sys.modules.get("tensorflow")
    if tensorflow is None:
        return _("nothing was recorded: TensorFlow is not imported, so no run call can have been made.")
    if tensorflow.executing_eagerly():
        return _(
            "nothing was recorded: this cell ran eagerly, op by op, without a call of a session or a function. "
            "Recorded are Session.run, eval, callables, partial_run, tf.function and train_on_batch."
        )
    return _(
        "nothing was recorded: no run call was made. Building a graph runs nothing; put %%cachelab on the cell that "
        "calls Session.run."
    )
