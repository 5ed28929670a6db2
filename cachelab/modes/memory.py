"""Whether a replay fits into memory: told beforehand, not by the system's killer."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from cachelab.i18n import translate as _

if TYPE_CHECKING:
    from cachelab.material import Material

MEMINFO = Path("/proc/meminfo")
COPIES = 2
"""Results are held twice: those of ``run`` and those of the mode."""


def available() -> int | None:
    """Return the bytes that can be had without swapping, ``None`` where the system does not say."""
    try:
        lines = MEMINFO.read_text().splitlines()
    except OSError:
        return None
    found = [line.split() for line in lines if line.startswith("MemAvailable:")]
    return int(found[0][1]) * 1024 if found else None


def needed(material: Material) -> int:
    """Return the bytes that a replay holds at most: results of all calls twice, and variables in each session."""
    held = material.values

    def size(digest: str | None) -> int:
        return int(getattr(held.get(digest), "nbytes", 0))

    results = sum(size(digest) for call in material.calls for digest in call.results)
    variables = sum(size(v.digest) for session in material.sessions.values() for v in session.initial.values())
    return COPIES * (results + 2 * variables)


def too_large(material: Material) -> str:
    """Return why a replay does not fit into memory, ``""`` if it does."""
    from cachelab.modes.comparison import bytes_text

    free, need = available(), needed(material)
    if free is None or need <= free:
        return ""
    return _(
        "Replay needs {need}, {free} are free. Your session is unchanged. Record fewer calls or fetch less in each."
    ).format(need=bytes_text(need), free=bytes_text(free))
