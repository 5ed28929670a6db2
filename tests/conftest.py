"""What tests of several folders share: the project's cases, real programs that lie beside the checkout."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


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
