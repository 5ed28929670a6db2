"""``%cachelab SUBCOMMAND``, completion, configuration."""

from __future__ import annotations

import json

import pytest
from IPython.core.completer import provisionalcompleter
from IPython.core.error import UsageError

from cachelab.session_state import recordings


@pytest.fixture
def recorded(shell):
    """A shell with two recordings: ``cell 1`` of two calls and ``second`` of three."""
    shell.cell("%%cachelab --quiet\nrun(), run()")
    shell.cell("%%cachelab --quiet --name second\nrun(), run(), run()")
    return shell


def test_report_shows_the_last_or_the_named_recording(recorded):
    (last,) = recorded.cell("%cachelab report").outputs
    (named,) = recorded.cell("%cachelab report cell 1").outputs
    (short,) = recorded.cell("%cachelab report 1").outputs
    assert "text/plain" in last
    assert last != named
    assert named == short


def test_why_names_the_root_cause(recorded):
    said = recorded.cell("%cachelab why enc/h:0 --call 1").out
    assert "values live for one call only" in said
    assert "enc/h" in said
    assert said.count("\n") >= 1
    assert recorded.cell("%cachelab why enc/h:0 --call 0").out != said


def test_list_says_what_is_kept(recorded):
    assert recorded.cell("%cachelab list").out.splitlines() == [
        "cell 1: 2 calls, 2 ops executed, 1 recomputed",
        "second: 3 calls, 3 ops executed, 2 recomputed",
    ]


def test_diff_of_two_calls(recorded):
    said = recorded.cell("%cachelab diff 0 1").out
    assert "enc/h: computed -> recomputed" in said
    assert "the same sources" in recorded.cell("%cachelab diff 1 2").out


def test_diff_of_two_recordings(recorded):
    result = recorded.cell("%cachelab diff 'cell 1' second")
    assert result.success
    assert result.outputs


@pytest.mark.parametrize("ending", [".html", ".json", ".svg", ".dot", ".csv", ".trace.json"])
def test_export_by_ending(recorded, tmp_path, ending):
    path = tmp_path / f"out{ending}"
    assert recorded.cell(f"%cachelab export {path}").success
    text = path.read_text()
    assert "enc/h" in text
    if ending.endswith(".json"):
        assert json.loads(text)


def test_mode_is_shown_and_set(shell):
    assert shell.cell("%cachelab mode").out == "Recorded cells execute in mode run.\n"
    shell.cell("%cachelab mode partial_run")
    assert shell.cell("%cachelab mode").out == "Recorded cells execute in mode partial_run.\n"
    assert "partial_run" in shell.cell("%config CacheLab.mode").out


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("frobnicate", "no subcommand 'frobnicate'"),
        ("report nowhere", "no recording named 'nowhere'"),
        ("why nowhere:0", "nowhere"),
        ("why enc/h:0 --call 99", "99"),
        ("why", "required: tensor"),
        ("mode sideways", "invalid choice: 'sideways'"),
        ("compare sideways", "No mode 'sideways'"),
        ("diff 0 77", "77"),
        ("export there.xyz", "xyz"),
        ("export /nowhere/at/all.html", "/nowhere/at/all.html"),
        ("on please", "unrecognized arguments: please"),
    ],
)
def test_bad_lines_get_one_line_and_no_traceback(recorded, line, complaint):
    result = recorded.cell(f"%cachelab {line}")
    assert isinstance(result.error_in_exec, UsageError)
    assert complaint in result.err
    assert "Traceback" not in result.out + result.err


@pytest.mark.parametrize("line", ["report", "why x:0", "compare", "advise", "graph", "timeline", "export a.html"])
def test_without_a_recording_each_says_what_to_do(shell, line):
    assert "Put %%cachelab on the first line" in shell.cell(f"%cachelab {line}").err
    assert "Put %%cachelab on the first line" in shell.cell("%cachelab list").out


def test_help_lists_every_subcommand(shell):
    from cachelab.completion import SUBCOMMANDS
    from cachelab.magics import CacheLabMagics

    said = shell.cell("%cachelab help").out
    assert shell.cell("%cachelab").out == said
    assert {name.removeprefix("do_") for name in vars(CacheLabMagics) if name.startswith("do_")} == set(SUBCOMMANDS)
    assert [name for name in SUBCOMMANDS if name not in said] == []


def completions(shell, text):
    with provisionalcompleter():
        found = list(shell.ip.Completer.completions(text, len(text)))
    return sorted(text[: one.start] + one.text for one in found)


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("%cachelab wh", ["%cachelab why"]),
        ("x = 1\n%cachelab ex", ["x = 1\n%cachelab export"]),
        ("%cachelab mode p", ["%cachelab mode partial_run", "%cachelab mode per_example"]),
        ("%cachelab compare run j", ["%cachelab compare run joint"]),
        ("%%cachelab --mode m", ["%%cachelab --mode memo"]),
        ("%%cachelab --tr", ["%%cachelab --trace"]),
        ("%%cachelab --trace f", ["%%cachelab --trace full"]),
        ("%%cachelab --cut e", ["%%cachelab --cut enc/"]),
        ("%cachelab why e", ["%cachelab why enc/"]),
        ("%cachelab why enc/", ["%cachelab why enc/h:0"]),
        ("%cachelab why y --c", ["%cachelab why y --call"]),
        ("%cachelab report s", ["%cachelab report second"]),
    ],
)
def test_completion(recorded, typed, offered):
    assert completions(recorded, typed) == sorted(offered)


def test_completion_of_other_lines_is_left_alone(bare):
    before = completions(bare, "impo"), completions(bare, "%%tim"), completions(bare, "isinst")
    bare.load()
    after = completions(bare, "impo"), completions(bare, "%%tim"), completions(bare, "isinst")
    assert before == after
    assert "%%cachelab" in completions(bare, "%%cachel")


def test_a_record_block_in_the_notebook_is_listed_too(shell):
    shell.cell("import cachelab\nwith cachelab.record(name='block'):\n    run()")
    assert shell.cell("%cachelab list").out == "block: 1 call, 1 op executed, 0 recomputed\n"
    assert recordings.names() == ["block"]


def test_bad_configuration_is_refused(shell):
    shell.cell("%config CacheLab.memory_budget = 'much'")
    shell.cell("%config CacheLab.mode = 'sideways'")
    assert shell.cell("%config CacheLab.memory_budget").result == 268435456
    assert shell.cell("%config CacheLab.mode").result == "run"


def test_defaults_come_from_ipython_configuration_files(bare):
    bare.ip.config.CacheLab.trace = "light"
    bare.load()
    assert bare.cell("%config CacheLab.trace").result == "light"
