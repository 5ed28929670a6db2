"""Errors that say what was asked, what was found, what it means and what to do next."""

from __future__ import annotations


class CacheLabError(Exception):
    """An error of CacheLab: a sentence on what was asked and found, and one on what to do next.

    Parameters
    ----------
    found
        What was asked and what was found, as one or two sentences.
    todo
        What the reader can do next.
    """

    def __init__(self, found: str, todo: str = "") -> None:
        super().__init__(f"{found} {todo}".strip())
        self.found = found
        self.todo = todo


class NameNotFoundError(CacheLabError, KeyError):
    """A tensor, op or recording of that name does not exist."""

    __str__ = Exception.__str__


class FormatError(CacheLabError, ValueError):
    """A saved recording can't be read: broken, of another format or of an unknown version."""


class OptionError(CacheLabError, ValueError):
    """An option or mode that does not exist, or a value that it can't take."""


class NotApplicableError(CacheLabError, ValueError):
    """What was asked can't be done truthfully on this graph or recording; the message says why."""


class RecomputedError(CacheLabError, AssertionError):
    """``assert_not_recomputed`` found ops that were computed again."""
