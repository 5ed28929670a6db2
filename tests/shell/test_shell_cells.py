"""A cell with ``%%cachelab`` is the same cell, recorded."""

from __future__ import annotations

import asyncio
import re

import pytest
from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell

from cachelab.session_state import recordings

BODIES = {
    "value": "run()\n1 + 1",
    "assignment": "a = run()\nb = a",
    "error on line 3": "run()\nx = 1\nx / 0",
    "error in a function": "def f():\n\n    return {}['key']\nrun()\nf()",
    "syntax error": "run()\nx = (1,\ny = 2",
    "semicolon hides the output": "run();",
    "await": "import asyncio\nawait asyncio.sleep(0, 'slept')",
    "future import": "from __future__ import annotations\ndef f(x: nowhere): ...\nrun()\nf.__annotations__",
    "future import below a comment": "# note\n\nfrom __future__ import (annotations,\n  division)  # why\nrun()\n1/0",
    "line magic": "run()\n%who_ls int",
    "shell command": "run()\nfound = !echo hello\nfound",
    "help": "run?",
    "system exit": "run()\nraise SystemExit(3)",
    "interrupt": "run()\nraise KeyboardInterrupt",
    "cell magic below": "%%capture taken\nprint('x', run())",
    "empty line first": "\n\nrun()\n1 / 0",
    "indented": "  run()\n  5",
}


def outcome(shell, text):
    """What a person sees of a cell, without what CacheLab adds below it."""
    result = shell.cell(text)
    printed = re.sub(r"<ipython-input-\d+-\w+>|(In|Out) ?\[\d+\]", "<cell>", result.out + result.err)
    # What replaces the header is seen where a traceback shows the lines around the fault, and only there.
    begin = r"get_ipython\(\)\.run_line_magic\('cachelab', '[^']*'\)"
    printed = re.sub(rf"; {begin}", "", printed)
    printed = re.sub(rf"^.*({begin}|# first).*$", "", printed, flags=re.MULTILINE)
    error = result.error_before_exec or result.error_in_exec
    lines = []
    traceback = getattr(error, "__traceback__", None)
    while traceback is not None:
        if traceback.tb_frame.f_code.co_filename.startswith("<ipython-input"):
            lines.append(traceback.tb_lineno)
        traceback = traceback.tb_next
    return printed, repr(result.result), type(error), getattr(error, "lineno", None), lines


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_the_cell_does_what_it_does_without(bare, body):
    # A comment stands where the header will, so that lines have the same numbers; cell magics can't follow one.
    plain = outcome(bare, body if body.startswith(("%%", " ")) else "# first\n" + body)
    shell = bare.load()
    assert outcome(shell, "%%cachelab --quiet\n" + body) == plain


def test_calls_of_the_cell_are_recorded_and_shown_below_it(shell):
    result = shell.cell("%%cachelab\nrun('h:0')\nrun('y:0')")
    assert result.success
    assert result.result == 42
    (bundle,) = result.outputs
    assert set(bundle) >= {"text/plain", "text/html"}
    recording = recordings.find()
    assert recording.name == "cell 1"
    assert [call.fetches for call in recording.calls] == [("h:0",), ("y:0",)]


def test_the_record_appears_also_below_a_cell_that_raises(shell):
    result = shell.cell("%%cachelab\nrun()\n1 / 0")
    assert isinstance(result.error_in_exec, ZeroDivisionError)
    assert len(result.outputs) == 1
    assert recordings.find().call_count == 1


def test_nothing_is_recorded_after_the_cell(shell, engine):
    shell.cell("%%cachelab\nrun()")
    assert engine.OPEN == []
    shell.cell("run()")
    assert recordings.find().call_count == 1


@pytest.mark.parametrize("end", ["raise KeyboardInterrupt", "raise SystemExit", "1 / 0", "await nothing", "x = ("])
def test_hooks_go_however_the_cell_ends(shell, engine, end):
    shell.cell("%%cachelab\nrun()\n" + end)
    assert engine.OPEN == []


def test_quiet_shows_nothing_and_remembers(shell):
    result = shell.cell("%%cachelab --quiet\nrun();")
    assert result.outputs == []
    assert result.out == result.err == ""
    assert shell.cell("%cachelab list").out.startswith("cell 1: 1 call")


@pytest.mark.parametrize(
    ("header", "complaint"),
    [
        ("--mode sideways", "invalid choice: 'sideways'"),
        ("--trace sometimes", "invalid choice: 'sometimes'"),
        ("--colour", "unrecognized arguments: --colour"),
        ("stray", "unrecognized arguments: stray"),
    ],
)
def test_a_usage_error_runs_nothing_and_stops_run_all(shell, header, complaint):
    result = shell.cell(f"%%cachelab {header}\nreached = True\nrun()")
    assert isinstance(result.error_in_exec, UsageError)
    assert result.err.startswith("UsageError: ")
    assert complaint in result.err
    assert "Traceback" not in result.out + result.err
    assert "reached" not in shell.ip.user_ns
    assert len(recordings) == 0


def test_options_reach_the_engine(shell, engine):
    seen = []
    shell.ip.user_ns["look"] = lambda: seen.append(engine.OPEN[0])
    shell.cell("%config CacheLab.memory_budget = '2MiB'\n%config CacheLab.trace = 'light'")
    shell.cell("%%cachelab --values --name my loop --quiet\nlook(), run()")
    shell.cell("%%cachelab --trace full --quiet\nlook(), run()")
    assert [(one.trace, one.values, one.memory_budget) for one in seen] == [
        ("light", True, 2 * 1024**2),
        ("full", False, 2 * 1024**2),
    ]
    assert recordings.names() == ["my loop", "cell 3"]


def test_variables_of_the_notebook_can_stand_in_the_header(shell):
    shell.cell("which = 'tuned'")
    shell.cell("%%cachelab --name {which} --quiet\nrun()")
    assert recordings.names() == ["tuned"]


def test_help_shows_the_options_and_runs_nothing(shell):
    result = shell.cell("%%cachelab --help\nreached = True")
    assert result.success
    for option in ("--mode", "--cut", "--trace", "--values", "--name", "--quiet"):
        assert option in result.out
    assert "%%cachelab" in result.out
    assert "reached" not in shell.ip.user_ns


def test_other_magics_below_and_above_are_recorded_too(shell):
    below = shell.cell("%%cachelab --name below --quiet\n\n%%capture taken\nprint(run(), run())")
    assert below.out == ""
    assert shell.ip.user_ns["taken"].stdout == "42 42\n"
    shell.cell("%%capture taken\n%%cachelab --name above --quiet\nprint(run())")
    assert shell.ip.user_ns["taken"].stdout == "42\n"
    assert [recording.call_count for recording in recordings] == [2, 1]


def test_a_cell_that_runs_a_recorded_cell_keeps_both_records(shell, engine):
    shell.cell(
        "%%cachelab --name outer --quiet\nrun()\n"
        "get_ipython().run_cell('%%cachelab --name inner --quiet\\nrun()')\n"
        "get_ipython().run_cell('   ')\nrun()"
    )
    assert {recording.name: recording.call_count for recording in recordings} == {"inner": 1, "outer": 3}


def test_a_silent_cell_is_closed_too(shell, engine):
    shell.ip.run_cell("%%cachelab --name hidden --quiet\nrun()", silent=True)
    assert engine.OPEN == []
    assert recordings.find("hidden").call_count == 1


def test_an_async_cell_in_a_running_loop(shell, engine):
    """As ipykernel runs it: the hook is called by the kernel, after the coroutine."""
    text = "%%cachelab --quiet\nimport asyncio\nrun()\nawait asyncio.sleep(0)\nrun()"

    async def kernel():
        transformed = shell.ip.transform_cell(text)
        result = await shell.ip.run_cell_async(text, store_history=True, transformed_cell=transformed)
        shell.ip.events.trigger("post_execute")
        shell.ip.events.trigger("post_run_cell", result)
        return result

    assert asyncio.run(kernel()).success
    assert recordings.find().call_count == 2
    assert engine.OPEN == []


def test_on_records_every_cell_until_off(shell):
    shell.cell("%cachelab on")
    assert len(shell.cell("run()").outputs) == 1
    assert shell.cell("x = 1").outputs == []
    assert "nothing was recorded" not in shell.cell("x = 1").out
    shell.cell("%%cachelab --quiet --name own\nrun()")
    shell.cell("%cachelab off")
    shell.cell("run()")
    assert recordings.names() == ["cell 2", "own"]
    assert [recording.call_count for recording in recordings] == [1, 1]


@pytest.mark.parametrize(
    ("body", "reason"),
    [("x = 1", "nothing was recorded: "), ("1 / 0", "nothing was recorded: the cell stopped with ZeroDivisionError")],
)
def test_a_cell_without_calls_says_why(shell, body, reason):
    result = shell.cell("%%cachelab\n" + body)
    assert reason in result.out
    assert result.outputs == []
    assert len(recordings) == 0


def test_a_fault_of_a_view_is_not_an_error_of_the_cell(shell, monkeypatch):
    def broken(self, include=None, exclude=None):
        raise RuntimeError("no view today")

    monkeypatch.setattr("cachelab.recording.Recording._repr_mimebundle_", broken)
    result = shell.cell("%%cachelab\nrun()")
    assert result.success
    assert result.result == 42
    assert result.err == "CacheLab could not show this recording: RuntimeError: no view today\n"
    assert recordings.find().call_count == 1


def test_the_oldest_recordings_leave(shell):
    shell.cell("%config CacheLab.keep = 2")
    for name in "abc":
        shell.cell(f"%%cachelab --quiet --name {name}\nrun()")
    assert recordings.names() == ["b", "c"]


def test_a_typed_header_waits_for_its_body(shell):
    """In a terminal, Enter after the header must not run the cell."""
    assert shell.ip.check_complete("%%cachelab")[0] == "incomplete"
    assert shell.ip.check_complete("%%cachelab\nrun()\n\n")[0] == "complete"


def test_the_transformation_leaves_other_cells_alone(shell):
    for text in ["x = 1\n", "%%cachelabel\nx\n", "x\n%%cachelab\n", "'%%cachelab'\n", "\n"]:
        assert shell.ip.transform_cell(text) == _without(text), text


def _without(text):
    from IPython.core.inputtransformer2 import TransformerManager

    return TransformerManager().transform_cell(text)


def test_display_goes_to_the_shell_that_ran_the_cell(shell):
    assert InteractiveShell.instance() is shell.ip
