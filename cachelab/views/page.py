"""A recording as one HTML page: the explorer, and the persistent record for readers without script; no network."""

from __future__ import annotations

import base64
import json
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cachelab.i18n import catalogue
from cachelab.i18n import translate as _
from cachelab.views import html
from cachelab.views.explorer_data import compressed

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cachelab.model import Record

BUNDLE = Path(__file__).parent.parent / "static" / "widget.js"

_STYLE = (
    "html{color-scheme:light dark}body{margin:16px 24px;background:#fff}"
    "#record>summary{font:13px sans-serif;margin:14px 0 8px;color:#56606d;cursor:pointer}"
    "@media (prefers-color-scheme:dark){body{background:#111317}#record>summary{color:#a3adba}}"
)
# The bundle stands in the page once, as text; the page hands it on so that it can be exported again. The static record
# is shut only when the explorer stands: a browser that can't run it shows the record.
_SCRIPT = (
    "const text=(id)=>document.getElementById(id).textContent;"
    'const m=await import("data:text/javascript;base64,"+text("bundle"));'
    'm.setCatalogue(JSON.parse(text("catalogue")));'
    'await m.mountPacked(document.getElementById("explorer"),text("recording"),text("bundle"));'
    'const record=document.getElementById("record");record.open=false;record.firstElementChild.hidden=false;'
)


def page(record: Record, replays: Iterable[Any] = ()) -> str:
    """Return the record as a complete HTML document.

    Parameters
    ----------
    record
        The recording.
    replays
        Modes that can be chosen in the page, as :meth:`cachelab.recording.Recording.replay` returned them.

    Returns
    -------
    str
        The page; what the explorer reads is gzipped in it.
    """
    title = escape(f"CacheLab: {record.name}" if record.name else "CacheLab")
    bundle = base64.b64encode(BUNDLE.read_bytes()).decode()
    data = base64.b64encode(compressed(record, replays)).decode()
    messages = json.dumps(catalogue(), ensure_ascii=True).replace("<", "\\u003c")
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{_STYLE}</style></head>'
        f'<body><main><div id="explorer"></div><details id="record" open>'
        f"<summary hidden>{escape(_('The record as text and tables'))}</summary>{html.fragment(record)}</details>"
        f'</main><script type="application/json" id="catalogue">{messages}</script>'
        f'<script type="text/plain" id="recording">{data}</script>'
        f'<script type="text/plain" id="bundle">{bundle}</script>'
        f'<script type="module">{_SCRIPT}</script></body></html>\n'
    )
