from __future__ import annotations

from typing import Any

import front_node
import pytest


@pytest.fixture(scope="session")
def node() -> Any:
    """Return a function that runs the wheel's node and gives back the finished process."""
    return front_node.run_node
