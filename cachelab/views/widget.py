"""The live explorer: an anywidget over the bundle that ``labext`` builds.

The recording goes to the browser once, as gzipped JSON in a binary buffer; a replay adds the columns of what it
executed and nothing else. Replays run in a thread, so that the kernel goes on answering.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anywidget
import traitlets

from cachelab.i18n import catalogue
from cachelab.views.explorer_data import compressed, record_of, replays_of
from cachelab.views.page import BUNDLE
from cachelab.views.replay_jobs import ReplayJobs

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


def explorer(recording: Any, replays: Iterable[Any] | None = None) -> ExplorerWidget:
    """Return the live explorer of a recording.

    Parameters
    ----------
    recording
        A :class:`cachelab.recording.Recording`, or anything with ``record`` and ``replay``; a plain
        :class:`cachelab.model.Record` is shown without replays.
    replays
        What :meth:`Recording.replay` returned earlier; their modes can be chosen at once. By default those that the
        recording keeps.

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

    def __init__(self, recording: Any, replays: Iterable[Any] | None = None, **options: Any) -> None:
        super().__init__(**{"catalogue": catalogue(), **options})
        self.on_msg(self._receive)
        self.show(recording, replays)

    def show(self, recording: Any, replays: Iterable[Any] | None = None) -> None:
        """Show another recording in the same place."""
        self.jobs = ReplayJobs(recording, self.send)
        self.data = compressed(record_of(recording), replays_of(recording) if replays is None else replays)

    def _receive(self, _widget: Any, message: Mapping[str, Any], _buffers: Any) -> None:
        self.jobs.receive(message)
