"""The persistent output of a recording as a MIME bundle: every front end finds one form that it can show."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cachelab import store
from cachelab.views import html, text

if TYPE_CHECKING:
    from cachelab.model import Record

MIME_TYPE = "application/vnd.cachelab.recording+json"


def mimebundle(record: Record) -> dict[str, Any]:
    """Return the recording as JSON (for CacheLab's own renderer), static HTML and plain text.

    Parameters
    ----------
    record
        The recording.

    Returns
    -------
    dict
        MIME type -> content; none of it needs a kernel or a network.
    """
    return {
        MIME_TYPE: store.to_json(record),
        "text/html": html.fragment(record),
        "text/plain": text.report(record),
    }
