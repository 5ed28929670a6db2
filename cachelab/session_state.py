"""What a notebook session remembers: its latest recordings, by name, and the mode that was chosen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cachelab.errors import NameNotFoundError
from cachelab.i18n import translate as _

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cachelab.recording import Recording


class RecordingList:
    """The latest recordings, by name; the oldest leave when there are more than ``keep``.

    Nothing is kept while no notebook extension is loaded (:attr:`open`): a script's recordings are its own.
    """

    def __init__(self, keep: int = 16) -> None:
        self.keep = keep
        self.open = False
        self._named: dict[str, Recording] = {}

    def add(self, recording: Recording) -> None:
        """Remember a recording under its name, as the latest."""
        if not self.open:
            return
        self._named.pop(recording.name, None)
        self._named[recording.name] = recording
        while len(self._named) > self.keep:
            del self._named[next(iter(self._named))]

    def clear(self) -> None:
        """Forget all recordings."""
        self._named.clear()

    def __iter__(self) -> Iterator[Recording]:
        return iter(tuple(self._named.values()))

    def __len__(self) -> int:
        return len(self._named)

    def names(self) -> list[str]:
        """Return the names, oldest first."""
        return list(self._named)

    def find(self, name: str = "") -> Recording:
        """Return the named recording, or the latest one.

        Raises
        ------
        NameNotFoundError
            No recording of that name is kept, or none at all.
        """
        if not self._named:
            raise NameNotFoundError(
                _("There is no recording yet."), _("Put %%cachelab on the first line of a cell with run calls.")
            )
        if not name:
            return next(reversed(self._named.values()))
        found = self._named.get(name) or self._named.get(f"cell {name}")
        if found is None:
            raise NameNotFoundError(
                _("There is no recording named {name!r}.").format(name=name),
                _("These are kept: {names}.").format(names=", ".join(map(repr, self._named))),
            )
        return found


@dataclass
class Choice:
    """The mode chosen last, by ``%cachelab mode``, ``%config`` or JupyterLab's switch; ``off`` and ``""`` are none."""

    mode: str = ""


recordings = RecordingList()
"""The one list of this process: notebooks have one shell."""

choice = Choice()
"""What new live sessions go by that are given no mode."""
