"""What a replay needs of one call."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cachelab.i18n import translate as _
from cachelab.material import CallMaterial

if TYPE_CHECKING:
    from cachelab.tf.events import Event
    from cachelab.tf.recorder import Recorder


def call_material(event: Event, recorder: Recorder) -> CallMaterial:
    """Return one call as TensorFlow saw it, with the reason if it can't be issued again."""
    feeds = {name: event.feeds[name] for name in event.names[2] if name in event.feeds}
    unreadable = event.unreadable
    if not unreadable and recorder.trace == "off":
        unreadable = _("it was recorded with trace='off', which keeps no values")
    missing = [name for name, digest in feeds.items() if recorder.store.get(digest) is None]
    if not unreadable and missing:
        unreadable = _("the value fed to `{name}` did not fit into the memory budget").format(name=missing[0])
    return CallMaterial(
        index=event.index,
        kind=event.kind,
        session=event.place.number,
        thread=event.thread,
        fetches=event.names[0],
        targets=event.names[1],
        feeds=feeds,
        results=event.results,
        failed=event.failed,
        failed_type=event.failed_type,
        linked=event.linked,
        handle=None if event.handle is None else event.handle.number,
        unreadable=unreadable,
        signature=-1 if event.plan is None else event.plan.id,
    )
