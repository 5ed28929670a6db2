"""A recording whose replays are made by hand: what the browser shows can be compared with figures known here."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import Any

import face_samples

from cachelab.model import ModeResult, Record


@dataclass(frozen=True)
class FakeReplay:
    """What ``Recording.replay`` returns, as far as the explorer looks at it."""

    result: ModeResult
    record: Record | None


@dataclass(frozen=True)
class FakeAdvice:
    cut: str
    text: str
    saved_seconds: float
    bytes: int


class FakeRecording:
    """Answers ``replay`` from tables; ``slow`` seconds pass in steps that report and can be cancelled."""

    def __init__(self, slow: float = 0.0) -> None:
        self.record = face_samples.record(modes=False)
        self.slow = slow
        self.asked: list[tuple[str, tuple[str, ...]]] = []
        self.threads: list[str] = []

    def replay(self, mode: str, cuts: Any = None, progress: Any = None, cancel: Any = None) -> FakeReplay:
        self.asked.append((mode, tuple(cuts or ())))
        self.threads.append(threading.current_thread().name)
        for step in range(5):
            progress(step, 5, f"step {step}")
            time.sleep(self.slow / 5)
            if cancel.is_set():
                raise RuntimeError("cancelled")
        if mode == "memo":
            raise ValueError("<b>memo</b> broke")
        known = {result.mode: result for result in face_samples.record().modes}
        result = known.get(mode, ModeResult(mode, False, "No op is redundant: nothing to keep."))
        made = face_samples.record("variable", modes=False) if mode == "variable" else None
        return FakeReplay(result, made)

    def advise(self) -> list[FakeAdvice]:
        return [FakeAdvice("enc/Tanh:0", "keep `enc/Tanh`: saves 55 ms per call, holds 16.8 MB", 0.276, 16_777_216)]
