from __future__ import annotations

from typing import TYPE_CHECKING, Any

import front_node
import pytest

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="session")
def node() -> Any:
    """Return a function that runs the wheel's node and gives back the finished process."""
    return front_node.run_node


@pytest.fixture(scope="session")
def labext() -> Path:
    """Return the front end's folder with its development packages installed."""
    return front_node.installed_labext()
