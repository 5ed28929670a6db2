"""Names of notebook cells for the files that IPython compiles them as. Never imports IPython itself."""

from __future__ import annotations

import re
import sys
from typing import Any, Final

_TERMINAL: Final = re.compile(r"<ipython-input-(\d+)-")


def cell_name(filename: str) -> str | None:
    """Return ``"cell 3"`` for the code of ``In[3]``, ``None`` if ``filename`` is not a cell of this shell."""
    match = _TERMINAL.match(filename)
    if match is not None:
        return f"cell {int(match[1])}"
    ipython: Any = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    # ipykernel names a cell's file by its hash; the compiler cache knows which prompt it belongs to.
    number = getattr(getattr(shell, "compile", None), "_filename_map", {}).get(filename)
    return None if number is None else f"cell {number}"
