"""``%cachelab SUBCOMMAND`` and the options of ``%%cachelab``."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from IPython.core.error import UsageError
from IPython.core.magic import Magics, cell_magic, line_magic, magics_class
from IPython.core.magic_arguments import MagicArgumentParser, argument, magic_arguments
from IPython.display import display
from IPython.utils.process import arg_split

from cachelab.errors import CacheLabError
from cachelab.i18n import translate as _
from cachelab.model import MODES
from cachelab.options import TRACES
from cachelab.session_state import choice, recordings

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from cachelab.cells import CellRecorder
    from cachelab.config import CacheLab
    from cachelab.recording import Recording


@magics_class
class CacheLabMagics(Magics):
    """The magics of one shell.

    The subcommands are the methods ``do_...``.
    """

    def __init__(self, shell: InteractiveShell, cells: CellRecorder, config: CacheLab) -> None:
        super().__init__(shell)
        self.cells = cells
        self.defaults = config

    @line_magic("cachelab")
    def line(self, line: str) -> None:
        """Show and steer what CacheLab records.

        ::

          %cachelab on | off                  record every cell from now on, or no more
          %cachelab mode [MODE]               show or set the mode in which recorded cells execute, and new
                                              cachelab.Session() that are given none
          %cachelab record [OPTIONS]          record the rest of this cell (options of %%cachelab)
          %cachelab report [NAME]             the last (or named) recording
          %cachelab why TENSOR [--call K] [--of NAME]
                                              why it was computed, in the last call or call K
          %cachelab compare [MODE ...]        replay under other modes, compare results and times
          %cachelab advise                    what to keep between the calls
          %cachelab graph | timeline [NAME]   pictures
          %cachelab diff K L                  two calls of the last recording, or two recordings by name
          %cachelab list                      the recordings kept
          %cachelab export PATH               .html .json .svg .dot .csv .trace.json
          %cachelab help                      this text

        ``%%cachelab?`` has the options of recorded cells, ``%config CacheLab`` the defaults.
        """
        command, _space, rest = line.strip().partition(" ")
        if command in {"", "-h", "--help"}:
            command = "help"
        method = getattr(self, f"do_{command}", None)
        if method is None:
            import difflib

            known = [name.removeprefix("do_") for name in dir(self) if name.startswith("do_")]
            close = difflib.get_close_matches(command, known, 1)
            said = _("%cachelab has no subcommand {command!r}; ").format(command=command)
            if close:
                said += _("did you mean {close!r}? ").format(close=close[0])
            raise UsageError(said + _("%cachelab help lists them."))
        try:
            method(rest.strip())
        except CacheLabError as error:
            raise UsageError(str(error)) from None

    @magic_arguments("%cachelab")
    @argument(
        "--mode",
        choices=MODES,
        metavar="MODE",
        help="One of " + ", ".join(MODES) + ": how the cell executes, or is replayed and compared.",
    )
    @argument(
        "--cut", nargs="+", action="extend", default=[], metavar="TENSOR", help="Tensors whose values a mode keeps."
    )
    @argument("--trace", choices=TRACES, help="How often the runtime's own trace is taken.")
    @argument("--values", action="store_true", default=None, help="Keep fetched values, to prove that they are equal.")
    @argument("--name", nargs="+", default=[], help="Name of the recording; 'cell N' by default.")
    @argument("--quiet", action="store_true", help="Record and show nothing; %%cachelab report shows it later.")
    @argument("-h", "--help", action="store_true", help="Show this text and run nothing.")
    @cell_magic("cachelab")
    def cell(self, line: str, cell: str) -> None:
        """Run the cell and record every TensorFlow run call in it.

        Recorded are Session.run, partial_run, callables, Tensor.eval, Operation.run, train_on_batch and calls of
        concrete functions. The cell runs as an ordinary cell; the record appears below it.
        """
        # Reached only where another magic hands the cell over as text: as a cell it never comes here, see cell_header.
        self.cells.nested(lambda: self._begin(line), cell)

    def do_record(self, line: str) -> None:
        """Record the rest of this cell."""
        self._begin(line)

    def do_on(self, line: str) -> None:
        """Record every cell from now on."""
        self._parse("on", line)
        self.cells.automatic = True
        choice.mode = self.defaults.mode
        print(_("CacheLab records every cell from now on."))

    def do_off(self, line: str) -> None:
        """Record only cells with %%cachelab."""
        self._parse("off", line)
        self.cells.automatic = False
        choice.mode = "off"
        print(_("CacheLab records only cells that start with %%cachelab."))

    def do_mode(self, line: str) -> None:
        """Show or set the mode in which recorded cells execute."""
        chosen = self._parse("mode", line, ("mode", {"nargs": "?", "choices": MODES})).mode
        if chosen is not None:
            self.defaults.mode = choice.mode = chosen
        print(_("Recorded cells execute in mode {mode}.").format(mode=self.defaults.mode))

    def do_report(self, line: str) -> None:
        """Show the last (or named) recording."""
        recording = self._recording("report", line)
        from cachelab.show import Shower

        shower = Shower(self.shell, self.defaults)
        shower.show_record(recording)
        shower.show_widget(recording)

    def do_why(self, line: str) -> None:
        """Print why a tensor was computed."""
        asked = self._parse(
            "why", line, ("tensor", {}), ("--call", {"type": int}), ("--of", {"nargs": "+", "default": []})
        )
        print(recordings.find(" ".join(asked.of)).why(asked.tensor, call=asked.call))

    def do_compare(self, line: str) -> None:
        """Replay the last recording under other modes."""
        asked = self._parse("compare", line, ("modes", {"nargs": "*"}))
        for mode in asked.modes:
            if mode not in MODES:
                raise UsageError(_("No mode {mode!r}; choose from {modes}.").format(mode=mode, modes=", ".join(MODES)))
        display(recordings.find().compare(asked.modes or None))

    def do_advise(self, line: str) -> None:
        """Show what to keep between the calls."""
        advice = self._recording("advise", line).advise()
        if not advice:
            print(_("There is nothing to keep: no op was recomputed."))
        for one in advice:
            print(one)

    def do_graph(self, line: str) -> None:
        """Show the graph with statuses."""
        recording = self._recording("graph", line)
        if getattr(self.shell, "kernel", None) is None:
            print(recording.graph().source)  # A terminal shows no pictures; `dot` draws this one.
            return
        from IPython.display import SVG

        from cachelab.views.svg import svg

        display(SVG(svg(recording.record)))

    def do_timeline(self, line: str) -> None:
        """Draw what ran when."""
        figure = self._recording("timeline", line).plot_timeline().figure
        display(figure)
        from matplotlib import pyplot as plt

        plt.close(figure)  # Or the inline backend shows it a second time.

    def do_diff(self, line: str) -> None:
        """Compare two calls of the last recording, or two recordings by name."""
        asked = self._parse("diff", line, ("before", {}), ("after", {}))
        kept = {name for name in recordings.names() if name in {asked.before, asked.after}}
        if not kept and _is_number(asked.before) and _is_number(asked.after):
            from cachelab.calls import describe_difference

            print(describe_difference(recordings.find().record, int(asked.before), int(asked.after)))
            return
        from cachelab.recording import diff

        display(diff(recordings.find(asked.before), recordings.find(asked.after)))

    def do_list(self, line: str) -> None:
        """List the recordings that are kept."""
        self._parse("list", line)
        if not len(recordings):
            print(_("There is no recording yet. Put %%cachelab on the first line of a cell with run calls."))
        for recording in recordings:
            print(f"{recording.name}: {recording.headline()}")

    def do_export(self, line: str) -> None:
        """Write the last recording, by the ending of the path."""
        path = self._parse("export", line, ("path", {})).path
        try:
            recordings.find().export(path)
        except OSError as error:
            raise UsageError(
                _("{path} can't be written: {reason}.").format(path=path, reason=error.strerror or error)
            ) from None
        print(_("Wrote {path}.").format(path=path))

    def do_help(self, line: str) -> None:
        """List the subcommands."""
        self._parse("help", line)
        print(inspect.getdoc(self.line))

    def _begin(self, line: str) -> None:
        asked = self.cell.parser.parse_args(_words(line))
        if asked.help:
            print(inspect.cleandoc(self.cell.__doc__ or ""))
            return
        given: dict[str, Any] = {key: getattr(asked, key) for key in ("mode", "trace", "values")}
        self.cells.begin(
            self.cells.defaults(
                cuts=tuple(asked.cut),
                name=" ".join(asked.name),
                quiet=asked.quiet,
                **{key: value for key, value in given.items() if value is not None},
            )
        )

    def _recording(self, command: str, line: str) -> Recording:
        """Return the recording that a line names, the last one if it names none."""
        asked = self._parse(command, line, ("name", {"nargs": "*"}))
        return recordings.find(" ".join(asked.name))

    @staticmethod
    def _parse(command: str, line: str, *arguments: tuple[str, dict[str, Any]]) -> Any:
        parser = MagicArgumentParser(prog=f"%cachelab {command}")
        for name, options in arguments:
            parser.add_argument(name, **options)
        return parser.parse_args(_words(line))


def _words(line: str) -> list[str]:
    """Split a line as a shell does, but leave the backslashes of Windows paths alone."""
    words = arg_split(line, posix=False)
    return [word[1:-1] if len(word) > 1 and word[0] == word[-1] and word[0] in "'\"" else word for word in words]


def _is_number(text: str) -> bool:
    return text.removeprefix("-").isdigit()
