"""The command ``cachelab``: ``run`` a script and record it, ``show`` a saved recording, open the ``lab``."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cachelab._version import __version__
from cachelab.errors import CacheLabError
from cachelab.i18n import translate as _
from cachelab.model import MODES
from cachelab.options import MEMORY_BUDGET, TRACES, parse_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from cachelab.recording import Recording

_FAILED = 1

START = "00_start_here.ipynb"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status.

    Parameters
    ----------
    arguments
        ``sys.argv[1:]`` by default.

    Returns
    -------
    int
        0, or 1 if a file could not be read or written. Bad usage exits with 2; a script that is run ends the
        process as it would have without CacheLab.
    """
    parser = _parser()
    asked, rest = parser.parse_known_args(arguments)
    if rest and asked.command != "lab":
        parser.error(_("unrecognized arguments: {arguments}").format(arguments=" ".join(rest)))
    try:
        if asked.command == "run":
            return _run(asked, parser)
        if asked.command == "show":
            return _show(asked)
        return _lab(rest)
    except BrokenPipeError:  # `cachelab show ... | head` has seen enough.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _FAILED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="cachelab",
        description=_("Shows which TensorFlow ops were computed again across run calls, why, and how to reuse them."),
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"cachelab {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="{run,show,lab}")

    run = commands.add_parser(
        "run",
        help=_("record a Python script"),
        description=_("Run a script as `python script.py` would, and record its TensorFlow calls."),
        epilog=_("The report goes to stderr if that is a terminal, or if --report, --mode or --compare is given."),
        allow_abbrev=False,
    )
    modes = run.add_mutually_exclusive_group()
    modes.add_argument("--mode", choices=MODES, help=_("replay in this mode afterwards and compare"))
    modes.add_argument("--compare", action="store_true", help=_("replay in all applicable modes and compare"))
    run.add_argument("--html", metavar="OUT", help=_("write a page that needs no server"))
    run.add_argument("--json", metavar="OUT", help=_("write the recording for `cachelab show` and cachelab.load"))
    run.add_argument("--trace", choices=TRACES, default="auto", help=_("how often the runtime's own trace is taken"))
    run.add_argument("--values", action="store_true", help=_("keep fetched values"))
    run.add_argument("--memory-budget", default=MEMORY_BUDGET, metavar="SIZE", help=_("kept for replays, as in 1GB"))
    loud = run.add_mutually_exclusive_group()
    loud.add_argument("--report", action="store_true", help=_("print the report to stderr also in a pipe"))
    loud.add_argument("--quiet", action="store_true", help=_("print no report"))
    run.add_argument("script", help=_("the script"))
    run.add_argument("arguments", nargs=argparse.REMAINDER, metavar="...", help=_("the script's arguments"))

    show = commands.add_parser("show", help=_("print a saved recording"), allow_abbrev=False)
    show.add_argument("file", metavar="FILE.json")
    show.add_argument("--ops", action="store_true", help=_("one line per call and op"))
    show.add_argument("--tsv", action="store_true", help=_("the same, with tabs between the columns"))

    lab_help = _("open JupyterLab on the notebooks; further arguments are JupyterLab's")
    commands.add_parser("lab", help=lab_help, description=lab_help, allow_abbrev=False)
    return parser


def _run(asked: argparse.Namespace, parser: argparse.ArgumentParser) -> int:
    if not Path(asked.script).is_file():
        parser.error(_("there is no script {path}").format(path=asked.script))
    for path in (asked.html, asked.json):
        if path is not None:
            _check_writable(path, parser)
    try:
        budget = parse_bytes(int(asked.memory_budget) if str(asked.memory_budget).isdigit() else asked.memory_budget)
    except CacheLabError as error:
        parser.error(str(error))
    from cachelab.recording import record
    from cachelab.script import run_script

    recording = record(trace=asked.trace, values=asked.values, name=Path(asked.script).name, memory_budget=budget)
    trouble: list[str] = []

    def finish() -> None:
        recording.stop()
        trouble.extend(_deliver(recording, asked))

    recording.start()
    run_script(asked.script, asked.arguments, finish)
    return _FAILED if trouble else 0


def _deliver(recording: Recording, asked: argparse.Namespace) -> list[str]:
    """Write and print what was asked for; return what failed, none of which may change how the script ends."""
    trouble: list[str] = []
    comparisons: list[Any] = []

    def attempt(work: Callable[[], Any]) -> None:
        try:
            work()
        except OSError as error:
            what = _("{path} can't be written: {reason}")
            trouble.append(what.format(path=error.filename, reason=error.strerror or error))
        except Exception as error:  # noqa: BLE001 - see above
            what = _("the recording could not be delivered: {error}")
            trouble.append(what.format(error=f"{type(error).__name__}: {error}"))

    if recording.call_count and (asked.mode or asked.compare):
        wanted = ["run", asked.mode] if asked.mode and asked.mode != "run" else None
        attempt(lambda: comparisons.append(recording.compare(wanted)))
    if asked.json:
        attempt(lambda: recording.save(asked.json))
    if asked.html:
        attempt(lambda: recording.to_html(asked.html))
    stream = sys.stderr
    if stream is None or stream.closed:
        return trouble
    sys.stdout.flush()
    if (asked.report or asked.mode or asked.compare or stream.isatty()) and not asked.quiet:
        nothing = _("nothing was recorded: no run call was made.")
        attempt(lambda: print(recording if recording.call_count else nothing, *comparisons, sep="\n", file=stream))
    for text in trouble:
        print(f"cachelab: {text}", file=stream)
    return trouble


def _check_writable(path: str, parser: argparse.ArgumentParser) -> None:
    """Find out before a long script runs that its result could not be written."""
    folder = Path(path).absolute().parent
    if Path(path).is_dir():
        parser.error(_("{path} is a directory, not a file to write").format(path=path))
    if not folder.is_dir():
        parser.error(_("{path} can't be written: there is no directory {folder}").format(path=path, folder=folder))
    if not os.access(path if Path(path).exists() else folder, os.W_OK):
        parser.error(_("{path} can't be written: permission denied").format(path=path))


def _show(asked: argparse.Namespace) -> int:
    from cachelab.recording import load
    from cachelab.views.text import ops_lines

    try:
        recording = load(asked.file)
    except OSError as error:
        return _complain(_("{path} can't be read: {reason}").format(path=asked.file, reason=error.strerror or error))
    except CacheLabError as error:
        return _complain(str(error))
    if not (asked.ops or asked.tsv):
        print(recording)
        return 0
    for line in ops_lines(recording.record, asked.tsv):
        print(line)
    sys.stdout.flush()
    return 0


def _lab(arguments: list[str]) -> int:
    folder = _notebooks()
    if folder is None:
        return _complain(_("the notebooks are not installed; get them from the project's repository"))
    command = [sys.executable, "-m", "jupyterlab", *(arguments or [str(folder / START)])]
    os.chdir(folder)
    os.execv(sys.executable, command)  # noqa: S606 - JupyterLab takes this process over, signals included
    return _FAILED  # never reached: execv does not come back


def _notebooks() -> Path | None:
    """Return the folder of the notebooks: the checkout's own, or a copy here of the installed ones, to work in."""
    checkout = Path(__file__).parent.parent / "notebooks"
    if (checkout / START).is_file():
        return checkout
    installed = Path(sys.prefix) / "share" / "cachelab" / "notebooks"
    if not (installed / START).is_file():
        return None
    folder = Path.cwd() / "cachelab-notebooks"
    folder.mkdir(exist_ok=True)
    for notebook in sorted(installed.glob("*.ipynb")):
        if not (folder / notebook.name).exists():  # what the user made of an earlier copy stays
            shutil.copyfile(notebook, folder / notebook.name)
    return folder


def _complain(text: str) -> int:
    print(f"cachelab: {text}", file=sys.stderr)
    return _FAILED
