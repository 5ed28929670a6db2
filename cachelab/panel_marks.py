"""Sends the marks of code lines to the front ends that want them: all once, then those of cells where they changed."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from cachelab.cell_marks import Origin, Recorded, cell_marks, marks_of
from cachelab.i18n import translate as _
from cachelab.session_state import recordings

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from cachelab.cell_marks import CellBook
    from cachelab.recording import Recording
    from cachelab.views.line_marks import LineMark


class MarksFeed:
    """The marks of one shell's cells.

    Parameters
    ----------
    book
        What was executed under which number.
    origins
        Name of a recording -> where it comes from.
    """

    def __init__(self, book: CellBook, origins: Mapping[str, Origin]) -> None:
        self._book = book
        self._origins = origins
        self._wanted: dict[str, Any] = {}
        self._sent: dict[str, dict[str, Any]] = {}
        self._known: dict[str, tuple[Any, Sequence[LineMark]]] = {}

    def subscribe(self, one: Any) -> None:
        """Send a front end all marks, and from now on every change."""
        self.send_changes()
        self._wanted[one.comm_id] = one
        cells, left_out = self._now()
        self._sent = {cell["id"]: cell for cell in cells}
        one.send({"type": "marks", "all": True, "cells": cells, "gone": [], "left_out": left_out})

    def leave(self, one: Any) -> None:
        """Send a front end nothing more."""
        self._wanted.pop(one.comm_id, None)

    def send_changes(self) -> None:
        """Send what changed since the last message, if anybody wants it and anything did."""
        if not self._wanted:
            return
        try:
            cells, left_out = self._now()
        except Exception as error:  # noqa: BLE001 - the user's cell has run: this must not look like a fault of it
            what = f"{type(error).__name__}: {error}"
            print(_("CacheLab could not mark the lines of the cells: {error}").format(error=what), file=sys.stderr)
            return
        changed = [cell for cell in cells if self._sent.get(cell["id"]) != cell]
        gone = sorted(set(self._sent) - {cell["id"] for cell in cells})
        self._sent = {cell["id"]: cell for cell in cells}
        if changed or gone:
            message = {"type": "marks", "all": False, "cells": changed, "gone": gone, "left_out": left_out}
            for one in tuple(self._wanted.values()):
                one.send(message)

    def _now(self) -> tuple[list[dict[str, Any]], int]:
        kept = list(recordings)
        for name in set(self._known) - {recording.name for recording in kept}:
            del self._known[name]
        return cell_marks(self._book, [self._recorded(recording) for recording in reversed(kept)])

    def _recorded(self, recording: Recording) -> Recorded:
        return Recorded(recording.name, self._origins.get(recording.name, Origin()), self._marks(recording))

    def _marks(self, recording: Recording) -> Sequence[LineMark]:
        if recording.material is None:  # It was read from a file: its cells are those of another session.
            return ()
        record = recording.record
        known = self._known.get(recording.name)
        if known is None or known[0] is not record:
            known = self._known[recording.name] = (record, marks_of(record))
        return known[1]
