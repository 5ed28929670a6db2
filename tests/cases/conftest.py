"""Runs the cases: each script once plainly and once under ``cachelab run``, in children of one process."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from cases_zygote import Zygote

from cachelab import store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from cases_seen import Seen

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def zygote() -> Iterator[Zygote]:
    """Return the process that starts the scripts."""
    process = Zygote(ROOT)
    yield process
    process.close()


@pytest.fixture
def seen(cases: Path, zygote: Zygote, tmp_path: Path) -> Callable[..., Seen]:
    """Return a function that runs a case both ways, checks its output and returns what was recorded."""
    from cases_seen import Seen

    def run(number: str, normal: Callable[[str], str] = str, probe: str = "", tries: int = 1, wanted: str = "") -> Seen:
        (script,) = cases.glob(f"{number}_*.py")
        output, warnings = {}, {}
        for way in ("plain", "recorded"):
            out, err, saved = (tmp_path / f"{way}.{ending}" for ending in ("out", "err", "json"))
            options = ["run", "--json", str(saved)] if way == "recorded" else []
            asked = probe if way == "plain" else ""
            for _ in range(tries):  # of a script that asks for what threads of TensorFlow may do in either order
                status = zygote.run([*options, str(script)], recorded=way == "recorded", out=out, err=err, probe=asked)
                if status == 0 and wanted in out.read_text():
                    break
            assert status == 0, f"{way}: exit status {status}\n{out.read_text()}\n{err.read_text()[-3000:]}"
            output[way] = out.read_text()
            warnings[way] = [line for line in err.read_text().splitlines() if line.startswith("WARNING:tensorflow")]
        assert output["recorded"].splitlines()[-1] == "OK"
        assert normal(output["recorded"]) == normal(output["plain"])
        assert warnings["recorded"] == warnings["plain"]  # the lines that they name too
        record = Seen(store.load(tmp_path / "recorded.json"))
        record.sound()
        if probe:
            record.probed = json.loads((tmp_path / "plain.probe").read_text())
        return record

    return run
