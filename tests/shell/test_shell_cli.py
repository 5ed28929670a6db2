"""The command line: a script under ``cachelab run`` is the script, recorded."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import shell_fake_engine

import cachelab
from cachelab import cli
from cachelab.recording import Recording
from cachelab.views.text import OPS_HEADER

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
NOTEBOOKS = ROOT / "notebooks"
ENV = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(HERE)])}
DRIVER = "import sys, shell_fake_engine as f; f.install(); from cachelab.cli import main; sys.exit(main())"
WITH = [sys.executable, "-c", DRIVER, "run"]
PLAIN = [sys.executable]

SCRIPTS = {
    "prints": "import sys\nprint('out', sys.argv)\nprint('err', file=sys.stderr)",
    "names": "import sys\nprint(__name__, __file__, __package__, __spec__, __doc__, sys.path[0])\n"
    "import __main__\nprint(__main__.__dict__ is globals(), sorted(set(globals()) - {'__main__'}))",
    "docstring": '"""What it is."""\nprint(__doc__)',
    "imports its neighbour": "import neighbour\nprint(neighbour.VALUE)",
    "raises": "def f(x):\n    return 1 / x\n\nf(0)",
    "raises from": "try:\n    {}['a']\nexcept KeyError as error:\n    raise ValueError('no') from error",
    "raises in context": "try:\n    {}['a']\nexcept KeyError:\n    raise ValueError('no')",
    "syntax error": "x = (1,\ny = 2",
    "exits with 3": "import sys\nsys.exit(3)",
    "exits with text": "import sys\nsys.exit('bad luck')",
    "exits with nothing": "import sys\nprint('so far')\nsys.exit()",
    "own hook": "import sys\nsys.excepthook = lambda *e: print('hooked', e[0].__name__, e[2].tb_lineno)\n1 / 0",
    "at exit": "import atexit\natexit.register(print, 'bye')\nprint('hello')",
    "thread": "import threading, time\n"
    "threading.Thread(target=lambda: (time.sleep(0.2), print('late'))).start()\nprint('early')",
    "reads stdin": "print(input())",
    "pickles": "import pickle\nclass A: pass\nprint(type(pickle.loads(pickle.dumps(A()))))",
    "latin": "# -*- coding: latin-1 -*-\nprint(len('\xe9'))",
    "future": "from __future__ import annotations\ndef f(x: nowhere): ...\nprint(f.__annotations__)",
}


def take_interrupts():
    """Have a child take SIGINT as from a terminal, though who runs the tests in the background ignores it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def ends(command, path, *arguments, **options):
    ran = subprocess.run(
        [*command, str(path), *arguments],
        capture_output=True,
        text=True,
        env=ENV,
        input="typed\n",
        check=False,
        preexec_fn=take_interrupts,
        **options,
    )
    return ran.returncode, ran.stdout, ran.stderr


@pytest.mark.parametrize("source", SCRIPTS.values(), ids=SCRIPTS)
def test_a_script_ends_and_prints_as_without(tmp_path, source):
    (tmp_path / "neighbour.py").write_text("VALUE = 'next door'")
    script = tmp_path / "script.py"
    script.write_text(source, encoding="latin-1")
    assert ends(WITH, script, "--html", "x", "--", "-q") == ends(PLAIN, script, "--html", "x", "--", "-q")


def test_an_interrupted_script_ends_by_the_signal(tmp_path):
    script = tmp_path / "script.py"
    script.write_text("import os, signal, time\nos.kill(os.getpid(), signal.SIGINT)\ntime.sleep(60)")
    plain, recorded = ends(PLAIN, script), ends(WITH, script)
    assert plain[0] == -signal.SIGINT
    assert recorded == plain


def test_the_recording_is_written_whatever_the_end(tmp_path):
    script, out, page = tmp_path / "script.py", tmp_path / "out.json", tmp_path / "out.html"
    script.write_text("import shell_fake_engine as e\ne.run('h:0')\ne.run('h:0')\n1 / 0")
    code, printed, error = ends([*WITH, "--json", str(out), "--html", str(page)], script)
    assert (code, printed) == (1, "")
    assert error.endswith("ZeroDivisionError: division by zero\n")
    assert "cachelab" not in error
    assert cachelab.load(out).call_count == 2
    assert "enc/h" in page.read_text()


def test_the_report_is_asked_for_in_a_pipe(tmp_path):
    script = tmp_path / "script.py"
    script.write_text("import shell_fake_engine as e\nprint(e.run('h:0'))\ne.run('h:0')")
    assert ends(WITH, script) == (0, "42\n", "")
    code, printed, error = ends([*WITH, "--report"], script)
    assert (code, printed) == (0, "42\n")
    assert "enc/h" in error


def test_a_script_without_calls_says_so(tmp_path):
    script = tmp_path / "script.py"
    script.write_text("x = 1")
    assert ends([*WITH, "--report"], script) == (0, "", "nothing was recorded: no run call was made.\n")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ([], "the following arguments are required"),
        (["fly"], "invalid choice: 'fly'"),
        (["run"], "required: script"),
        (["run", "{tmp}/missing.py"], "there is no script"),
        (["run", "--mode", "sideways", "{tmp}/script.py"], "invalid choice: 'sideways'"),
        (["run", "--trace", "always", "{tmp}/script.py"], "invalid choice: 'always'"),
        (["run", "--mode", "memo", "--compare", "{tmp}/script.py"], "not allowed with"),
        (["run", "--memory-budget", "much", "{tmp}/script.py"], "'much' is none"),
        (["run", "--json", "{tmp}/no/such/out.json", "{tmp}/script.py"], "there is no directory"),
        (["run", "--html", "{tmp}", "{tmp}/script.py"], "is a directory"),
        (["run", "--htm", "x", "{tmp}/script.py"], "unrecognized arguments: --htm"),
        (["show"], "required: FILE.json"),
    ],
)
def test_bad_usage_ends_with_2_and_runs_nothing(tmp_path, capsys, arguments, complaint):
    (tmp_path / "script.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    with pytest.raises(SystemExit) as end:
        cli.main([argument.format(tmp=tmp_path) for argument in arguments])
    assert end.value.code == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert complaint in printed.err
    assert not (tmp_path / "ran").exists()


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "saved.json"
    Recording(shell_fake_engine.make_record(["h:0"] * 4)).save(path)
    return str(path)


def test_show_prints_the_report(saved, capsys):
    assert cli.main(["show", saved]) == 0
    assert "recomputed" in capsys.readouterr().out


def test_show_ops_prints_one_line_per_call_and_op(saved, capsys):
    assert cli.main(["show", saved, "--ops", "--tsv"]) == 0
    header, *lines = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert header == list(OPS_HEADER)
    assert [line[:5] for line in lines[:4]] == [
        ["0", "x", "Placeholder", "fed", "measured"],
        ["0", "enc/h", "Tanh", "computed", "measured"],
        ["1", "x", "Placeholder", "fed", "measured"],
        ["1", "enc/h", "Tanh", "recomputed", "measured"],
    ]
    assert len(lines) == 8
    assert lines[7][5:] == ["5.000e-01", "4", "not_kept: same inputs as in call 2: values live for one call only"]
    assert cli.main(["show", saved, "--ops"]) == 0
    aligned = capsys.readouterr().out.splitlines()
    assert len(aligned) == 9
    assert len({line.index("Tanh") for line in aligned if "Tanh" in line}) == 1


@pytest.mark.parametrize(
    ("content", "complaint"),
    [(None, "can't be read"), ("{", "json"), ('{"format": "other"}', "format"), ("[]", "")],
)
def test_show_says_what_is_wrong_with_a_file(tmp_path, capsys, content, complaint):
    path = tmp_path / "broken.json"
    if content is not None:
        path.write_text(content)
    assert cli.main(["show", str(path)]) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("cachelab: ")
    assert complaint.lower() in printed.err.lower()
    assert printed.err.count("\n") == 1


def test_show_stops_quietly_when_its_reader_does(saved):
    command = f"{sys.executable} -m cachelab show {saved} --ops | true"
    ran = subprocess.run(["bash", "-c", command], capture_output=True, text=True, env=ENV, check=False)
    assert ran.stderr == ""


def test_lab_hands_over_to_jupyterlab(tmp_path):
    stand_in = tmp_path / "jupyterlab"
    stand_in.mkdir()
    (stand_in / "__init__.py").touch()
    (stand_in / "__main__.py").write_text("import os, sys\nprint(os.getcwd(), sys.argv[1:])\nsys.exit(7)")
    env = {**ENV, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])}
    for given, passed in [([], [str(NOTEBOOKS / "00_start_here.ipynb")]), (["x.ipynb", "--port", "1"],) * 2]:
        ran = subprocess.run(
            [sys.executable, "-m", "cachelab", "lab", *given], capture_output=True, text=True, env=env, check=False
        )
        assert (ran.returncode, ran.stdout, ran.stderr) == (7, f"{NOTEBOOKS} {passed}\n", "")


def test_the_command_imports_no_tensorflow(tmp_path):
    script = tmp_path / "script.py"
    script.write_text("import sys\nprint('tensorflow' in sys.modules, 'IPython' in sys.modules)")
    assert ends(WITH, script) == (0, "False False\n", "")
