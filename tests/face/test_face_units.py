"""The TypeScript unit tests, the type check, and the bundle that is committed."""

from __future__ import annotations

import json
import re

from front_node import ROOT, esbuild, front_tools

LABEXT = ROOT / "labext"
BUNDLE = ROOT / "cachelab" / "static" / "widget.js"


def test_unit_tests_of_the_front_end_pass(node):
    files = sorted((ROOT / "tests" / "face").glob("*.test.ts"))
    done = node("--test", "--test-reporter=tap", *files)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert int(re.search(r"^# pass (\d+)", done.stdout, re.MULTILINE)[1]) >= 30
    assert "# fail 0" in done.stdout


def test_strict_types_hold(node):
    done = node(front_tools() / "typescript" / "bin" / "tsc", "--noEmit", folder=LABEXT)
    assert done.returncode == 0, done.stdout


def test_committed_bundle_is_what_the_sources_give(tmp_path):
    script = json.loads((LABEXT / "package.json").read_text())["scripts"]["build"]
    options = [part for part in script.split()[1:] if not part.startswith("--outfile")]
    out = tmp_path / "widget.js"
    done = esbuild(*options, f"--outfile={out}")
    assert done.returncode == 0, done.stderr
    assert out.read_bytes() == BUNDLE.read_bytes(), "run `jlpm build` in labext and commit cachelab/static/widget.js"


def test_lock_file_names_no_registry():
    assert "://" not in (LABEXT / "yarn.lock").read_text()
    assert not list(LABEXT.glob("package-lock.json"))


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
