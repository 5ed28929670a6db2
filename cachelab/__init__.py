"""CacheLab: which TensorFlow work had been done before, why was it done again, and how to reuse it.

Everything public is listed in ``__all__`` and imported on first use: ``import cachelab`` and
``%load_ext cachelab`` import neither TensorFlow nor a plotting or widget library.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from cachelab._version import __version__

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

_HOMES: Final[dict[str, str]] = {
    "record": "cachelab.recording",
    "Recording": "cachelab.recording",
    "load": "cachelab.recording",
    "diff": "cachelab.recording",
    "last": "cachelab.recording",
    "explorer": "cachelab.recording",
    "Session": "cachelab.modes.live",
    "per_example_gradients": "cachelab.tf.per_example",
    "per_example_squared_norms": "cachelab.tf.per_example",
    "clipped_sum": "cachelab.tf.per_example",
    "derivatives": "cachelab.tf.per_example",
    "Tap": "cachelab.tf.taps",
    "memoize": "cachelab.tf.memoize",
    "explain_retrace": "cachelab.tf.retrace",
    "CacheLabError": "cachelab.errors",
    "NameNotFoundError": "cachelab.errors",
    "FormatError": "cachelab.errors",
    "OptionError": "cachelab.errors",
    "NotApplicableError": "cachelab.errors",
    "RecomputedError": "cachelab.errors",
}
"""Public name -> the module that defines it."""

__all__ = ["__version__", "load_ipython_extension", "unload_ipython_extension", *_HOMES]  # noqa: PLE0604


def __getattr__(name: str) -> Any:
    """Import a public name on first use (PEP 562)."""
    if name == "tf":
        return import_module("cachelab.tf")  # its own parts, which import TensorFlow, are found on first use too
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'cachelab' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(home), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def load_ipython_extension(shell: InteractiveShell) -> None:
    """Add ``%cachelab`` and ``%%cachelab`` to an IPython shell: ``%load_ext cachelab``."""
    from cachelab.extension import load

    load(shell)


def unload_ipython_extension(shell: InteractiveShell) -> None:
    """Leave the shell as it was before :func:`load_ipython_extension`: ``%unload_ext cachelab``."""
    from cachelab.extension import unload

    unload(shell)
