"""The live explorer: an anywidget over the bundle that ``labext`` builds, and the same as a page without a kernel.

The recording goes to the browser once, as gzipped JSON in a binary buffer; a replay adds the columns of what it
executed and nothing else. Replays run in a thread, so that the kernel goes on answering.
"""

from __future__ import annotations

import base64
import html
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anywidget
import traitlets

from cachelab.views.explorer_data import compressed, record_of
from cachelab.views.replay_jobs import ReplayJobs

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

BUNDLE = Path(__file__).parent.parent / "static" / "widget.js"


def explorer(recording: Any, replays: Iterable[Any] = ()) -> ExplorerWidget:
    """Return the live explorer of a recording.

    Parameters
    ----------
    recording
        A :class:`cachelab.recording.Recording`, or anything with ``record`` and ``replay``; a plain
        :class:`cachelab.model.Record` is shown without replays.
    replays
        What :meth:`Recording.replay` returned earlier; their modes can be chosen at once.

    Returns
    -------
    ExplorerWidget
        Displays itself at the end of a cell.
    """
    return ExplorerWidget(recording, replays)


class ExplorerWidget(anywidget.AnyWidget):
    """The explorer as a Jupyter widget.

    Parameters
    ----------
    recording
        As for :func:`explorer`.
    replays
        As for :func:`explorer`.

    Attributes
    ----------
    data
        The recording in format ``cachelab.recording``, gzipped.
    catalogue
        Translations: English template -> text.
    """

    _esm = BUNDLE
    data = traitlets.Bytes().tag(sync=True)
    catalogue = traitlets.Dict().tag(sync=True)

    def __init__(self, recording: Any, replays: Iterable[Any] = (), **options: Any) -> None:
        super().__init__(**options)
        self.on_msg(self._receive)
        self.show(recording, replays)

    def show(self, recording: Any, replays: Iterable[Any] = ()) -> None:
        """Show another recording in the same place."""
        self.jobs = ReplayJobs(recording, self.send)
        self.data = compressed(record_of(recording), replays)

    def _receive(self, _widget: Any, message: Mapping[str, Any], _buffers: Any) -> None:
        self.jobs.receive(message)


def explorer_page(recording: Any, replays: Iterable[Any] = ()) -> str:
    """Return one HTML page with the explorer; it needs no kernel and no network.

    Parameters
    ----------
    recording
        A recording or a :class:`cachelab.model.Record`.
    replays
        As for :func:`explorer`: modes that can be chosen in the page.

    Returns
    -------
    str
        The page; the recording in it is gzipped.
    """
    record = record_of(recording)
    # The bundle stands in the page once, as text; the page hands it on so that it can be exported again.
    bundle = base64.b64encode(BUNDLE.read_bytes()).decode()
    data = base64.b64encode(compressed(record, replays)).decode()
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f"<title>CacheLab: {html.escape(record.name)}</title>"
        '<meta name="viewport" content="width=device-width"><style>body{margin:16px;background:#fff}'
        "@media (prefers-color-scheme:dark){body{background:#111317}}</style></head>"
        f'<body><main id="explorer"></main><script type="text/plain" id="recording">{data}</script>'
        f'<script type="text/plain" id="bundle">{bundle}</script><script type="module">'
        "const text=(id)=>document.getElementById(id).textContent;"
        'const m=await import("data:text/javascript;base64,"+text("bundle"));'
        'await m.mountPacked(document.getElementById("explorer"),text("recording"),text("bundle"));'
        "</script></body></html>"
    )
