"""Runs the cases: each script once plainly and once under ``cachelab run``, in children of one process."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from cases_zygote import Zygote

from cachelab import store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from cases_seen import Seen

ROOT = Path(__file__).resolve().parents[2]


def folder() -> Path:
    """Return the folder of the cases: ``CACHELAB_CASES``, or ``shared/cases`` beside the checkout."""
    asked = os.environ.get("CACHELAB_CASES")
    if asked:
        return Path(asked).resolve()
    beside = [place / "shared" / "cases" for place in (ROOT.parent, ROOT.parent.parent)]
    return next((place for place in beside if place.is_dir()), beside[0])


@pytest.fixture(scope="session")
def cases() -> Path:
    """Return the folder of the cases; without it there is nothing that these tests could prove."""
    place = folder()
    if not list(place.glob("[0-9][0-9]_*.py")):
        pytest.fail(
            f"The cases are not in {place}. Put the folder shared/cases beside the checkout, or set CACHELAB_CASES "
            "to where it is: without it nothing is proved here.",
            pytrace=False,
        )
    return place


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

    def run(number: str, normal: Callable[[str], str] = str, probe: str = "") -> Seen:
        (script,) = cases.glob(f"{number}_*.py")
        output, warnings = {}, {}
        for way in ("plain", "recorded"):
            out, err, saved = (tmp_path / f"{way}.{ending}" for ending in ("out", "err", "json"))
            options = ["run", "--json", str(saved)] if way == "recorded" else []
            asked = probe if way == "plain" else ""
            status = zygote.run([*options, str(script)], recorded=way == "recorded", out=out, err=err, probe=asked)
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
