"""The catalogue of user-facing text: English by default, translated through gettext."""

from __future__ import annotations

import gettext
from pathlib import Path

_catalogue = gettext.translation("cachelab", Path(__file__).parent / "locale", fallback=True)


def translate(message: str) -> str:
    """Return ``message`` in the user's language, or the message itself where no translation exists."""
    return _catalogue.gettext(message)


def plural(one: str, many: str, count: int) -> str:
    """Return the form of a message that fits ``count``, with ``{n}`` replaced by it."""
    return _catalogue.ngettext(one, many, count).format(n=count)


def catalogue() -> dict[str, str]:
    """Return all messages and their translations, for what is shown in a browser; empty for English."""
    messages: dict[object, str] = getattr(_catalogue, "_catalog", {})
    return {message: text for message, text in messages.items() if isinstance(message, str) and message}
