"""The TypeScript unit tests, the type check, and the bundle that is committed."""

from __future__ import annotations

import re
import subprocess

from front_node import ROOT

BUNDLE = ROOT / "cachelab" / "static" / "widget.js"


def test_unit_tests_of_the_front_end_pass(node):
    files = sorted((ROOT / "tests" / "face").glob("*.test.ts"))
    done = node("--test", "--test-reporter=tap", *files)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert int(re.search(r"^# pass (\d+)", done.stdout, re.MULTILINE)[1]) >= 30
    assert "# fail 0" in done.stdout


def test_strict_types_hold(node, labext):
    done = node(labext / "node_modules" / "typescript" / "bin" / "tsc", "--noEmit", folder=labext)
    assert done.returncode == 0, done.stdout


def test_committed_bundle_is_what_the_sources_give(node, labext, tmp_path):
    script = re.search(r'"build": "esbuild (.*?)"', (labext / "package.json").read_text())[1]
    out = tmp_path / "widget.js"
    options = [part for part in script.split() if not part.startswith("--outfile")]
    # The package's postinstall puts the native program in the place of its wrapper, where scripts may run.
    program = labext / "node_modules" / "esbuild" / "bin" / "esbuild"
    native = not program.read_bytes().startswith(b"#!")
    arguments = [program, *options, f"--outfile={out}"]
    done = (
        subprocess.run(arguments, cwd=labext, capture_output=True, text=True, check=False)
        if native
        else node(*arguments, folder=labext)
    )
    assert done.returncode == 0, done.stderr
    assert out.read_bytes() == BUNDLE.read_bytes(), "run `npm run build` in labext and commit cachelab/static/widget.js"


def test_bundle_is_small_and_names_neither_places_nor_paths():
    text = BUNDLE.read_text()
    assert len(text) < 1_000_000
    assert "sourceMappingURL" not in text
    assert not re.search(r"/(home|root|work|Users)/", text)
    addresses = set(re.findall(r"https?://[^\s\"'`)]+", text))
    assert addresses <= {"http://www.w3.org/2000/svg"}, addresses
    assert not re.search(r"\b(fetch|XMLHttpRequest|WebSocket|importScripts|sendBeacon|EventSource)\s*\(", text)
    assert ".innerHTML" not in text
    assert not re.search(r"\beval\(|new Function\(", text)


def test_files_of_the_front_end_can_be_read_in_one_sitting():
    long = {
        path.name: n for path in (ROOT / "labext" / "src").rglob("*.ts") if (n := path.read_text().count("\n")) > 340
    }
    assert not long


def test_bookkeeping_types_are_those_of_the_model():
    from cachelab.model import BOOKKEEPING, MODES, STATUSES

    text = (ROOT / "labext" / "src" / "shared" / "statuses.ts").read_text()
    listed = set(" ".join(re.findall(r'^    "([^"]+)"', text, re.MULTILINE)).split())
    assert listed == set(BOOKKEEPING)
    assert re.findall(r'code: "(\w)".*name: "(\w+)"', text) == list(STATUSES.items())
    app = (ROOT / "labext" / "src" / "shared" / "app.ts").read_text()
    modes = re.findall(r'"(\w+)"', " ".join(re.findall(r"MO(?:DES|RE): readonly string\[\] = (\[.*\])", app)))
    assert sorted(modes) == sorted(MODES)
