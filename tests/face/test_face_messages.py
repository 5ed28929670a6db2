"""What the kernel answers to the explorer and the side panel, without a browser."""

from __future__ import annotations

import gzip
import json
import threading
from types import SimpleNamespace

import face_samples
import pytest

from cachelab.errors import NotApplicableError
from cachelab.panel import Panel
from cachelab.recording import Recording
from cachelab.session_state import recordings
from cachelab.store import loads
from cachelab.views.explorer_data import compressed
from cachelab.views.replay_jobs import ReplayJobs

RESULT = next(mode for mode in face_samples.record().modes if mode.mode == "variable")


class Script:
    """A recording whose replays do what the test says; a mode that it does not know waits to be cancelled."""

    def __init__(self):
        self.started = threading.Event()

    def replay(self, mode, progress, cancel, cuts=None):
        progress(1, 5, f"cuts {cuts}")
        if mode == "variable":
            return SimpleNamespace(result=RESULT, record=face_samples.record("variable", modes=False))
        if mode == "memo":
            raise NotApplicableError("`idx` has 6 values.", "Feed it once.")
        self.started.set()
        assert cancel.wait(20)
        raise RuntimeError("stopped half way")


@pytest.fixture
def jobs():
    sent = []
    done = threading.Condition()

    def send(data, buffers=None):
        with done:
            sent.append((data, buffers))
            done.notify_all()

    made = ReplayJobs(Script(), send)

    def wait_for(kind):
        with done:
            assert done.wait_for(lambda: any(data["type"] == kind for data, _ in sent), 20), sent
        return next((data, buffers) for data, buffers in sent if data["type"] == kind)

    made.sent, made.wait_for = sent, wait_for
    return made


def test_replay_is_accepted_reports_and_sends_only_its_columns(jobs):
    jobs.receive({"type": "replay", "id": 7, "mode": "variable", "cuts": ["enc/Tanh:0"]})
    data, buffers = jobs.wait_for("result")
    assert [one["type"] for one, _ in jobs.sent] == ["accepted", "progress", "result"]
    assert jobs.sent[1][0]["text"] == "cuts ['enc/Tanh:0']"
    assert data["id"] == 7
    assert data["result"]["speedup"] == RESULT.speedup
    replay = json.loads(gzip.decompress(buffers[0]))
    assert set(replay) == {"columns", "calls", "causes", "shapes", "devices"}


def test_page_comes_as_html_with_the_record(jobs):
    jobs.recording.record = face_samples.record()
    jobs.receive({"type": "page", "id": 3})
    _data, buffers = jobs.wait_for("page")
    page = gzip.decompress(buffers[0]).decode()
    assert page.startswith("<!doctype html>")
    assert '<details id="record" open>' in page


def test_refusal_comes_back_as_found_and_remedy(jobs):
    jobs.receive({"type": "replay", "id": 1, "mode": "memo"})
    data, _buffers = jobs.wait_for("failed")
    assert data["text"] == "`idx` has 6 values. Feed it once."


def test_cancelled_replay_says_that_nothing_was_compared(jobs):
    jobs.receive({"type": "replay", "id": 1, "mode": "feed"})
    assert jobs.recording.started.wait(20)
    jobs.receive({"type": "cancel", "id": 1})
    data, _buffers = jobs.wait_for("cancelled")
    assert "your session is unchanged" in data["text"]


def test_messages_without_a_number_start_nothing(jobs):
    jobs.receive({"type": "replay", "id": "1", "mode": "variable"})
    jobs.receive({"type": "other", "id": 1})
    assert jobs.sent == []


def test_sent_bytes_are_the_recording_and_equal_each_time():
    record = face_samples.record()
    data = compressed(record)
    assert data == compressed(record)
    assert loads(gzip.decompress(data).decode()).calls[3].fetches == record.calls[3].fetches


@pytest.fixture
def panel():
    recordings.clear()
    was, recordings.open = recordings.open, True
    config = SimpleNamespace(mode="run")
    yield Panel(SimpleNamespace(user_ns={}, history_manager=None), SimpleNamespace(automatic=False, served={}), config)
    recordings.clear()
    recordings.open = was


class Comm:
    comm_id = "c"

    def __init__(self):
        self.sent = []

    def on_msg(self, callback):
        self.say = lambda **data: callback({"content": {"data": data}})

    def on_close(self, callback):
        self.closed = callback

    def send(self, data, buffers=None):
        self.sent.append((data, buffers))


def test_panel_tells_mode_and_recordings_and_sets_the_mode(panel):
    comm = Comm()
    recordings.add(Recording(record=face_samples.record()))
    panel._opened(comm, {})
    state = comm.sent[0][0]
    summary = face_samples.record().summary()
    assert state["mode"] == "off"
    assert state["recordings"][0]["share"] == pytest.approx(summary["redundant_share_of_op_seconds"])
    comm.say(type="mode", mode="memo")
    assert comm.sent[-1][0]["mode"] == panel.config.mode == "memo"
    assert panel.cells.automatic
    comm.say(type="mode", mode="off")
    assert comm.sent[-1][0]["mode"] == "off"
    comm.say(type="mode", mode="no such mode")
    assert panel.config.mode == "memo"
    assert not panel.cells.automatic


def test_panel_sends_a_recording_or_says_that_it_is_gone(panel):
    comm = Comm()
    panel._opened(comm, {})
    recordings.add(Recording(record=face_samples.record()))
    comm.say(type="recording", name="recording 3")
    data, buffers = comm.sent[-1]
    assert data == {"type": "recording", "name": "recording 3"}
    assert gzip.decompress(buffers[0])
    comm.say(type="recording", name="other")
    assert comm.sent[-1][0]["type"] == "gone"


def test_one_message_a_cell_goes_to_each_open_comm(panel):
    comm = Comm()
    panel._opened(comm, {})
    recordings.add(Recording(record=face_samples.record()))
    before = len(comm.sent)
    panel.post_run_cell(None)
    assert len(comm.sent) == before + 1
    comm.closed({})
    panel.post_run_cell(None)
    assert len(comm.sent) == before + 1


def test_panel_tells_the_calls_of_a_recording_and_what_its_cell_served(panel):
    comm = Comm()
    recordings.add(Recording(record=face_samples.record()))
    panel.cells.served["recording 3"] = SimpleNamespace(
        mode="memo", hits=5, misses=1, bytes=16, seconds_saved=0.25, skipped=2
    )
    panel._opened(comm, {})
    (row,) = comm.sent[0][0]["recordings"]
    record = face_samples.record()
    assert [one["first"] for one in row["log"]] == list(range(record.call_count))
    ran = [one for one in record.executions(1) if one.executed and not one.bookkeeping]
    assert row["log"][1]["seconds"] == pytest.approx(sum(one.seconds for one in ran))
    assert row["seconds"] == pytest.approx(row["redundant"] / row["share"])
    assert row["live"] == {"mode": "memo", "hits": 5, "misses": 1, "bytes": 16, "saved": 0.25, "skipped": 2}
    panel.post_run_cell(None)
    recordings.clear()
    panel.post_run_cell(None)
    assert panel.cells.served == {}
