"""What a caller asked for, in one value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cachelab.errors import OptionError
from cachelab.i18n import translate as _


@dataclass(frozen=True)
class Request:
    """The task and the options of :func:`cachelab.tf.per_example.per_example_gradients` and its siblings."""

    task: str
    method: str = "auto"
    jit: bool | str = "auto"
    chunk_size: int | str | None = None
    memory_budget: int = 1 << 30
    max_norm: Any = None

    def __post_init__(self) -> None:
        """Refuse chunk sizes that mean nothing."""
        size = self.chunk_size
        if not (size is None or size == "auto" or (isinstance(size, int) and size > 0)):
            raise OptionError(
                _("There is no chunk size {size!r}.").format(size=size), _("Give a positive number, `auto` or None.")
            )
