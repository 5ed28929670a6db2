"""The facade: what a recording says in Python."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace

import pytest
import shell_fake_engine

import cachelab
from cachelab import errors
from cachelab.model import ModeResult
from cachelab.options import parse_bytes
from cachelab.recording import Recording


def recorded(*fetches):
    return Recording(shell_fake_engine.make_record(list(fetches)))


def test_a_with_block_records_and_nothing_after_it(engine):
    with cachelab.record(trace="light", values=True, name="mine", memory_budget="1MiB") as recording:
        engine.run("h:0")
        assert recording.call_count == 1, "an open recording may be read"
        engine.run("y:0")
    engine.run("y:0")
    assert [call.fetches for call in recording.calls] == [("h:0",), ("y:0",)]
    assert recording.name == recording.record.name == "mine"
    assert recording.material.values.budget == 1024**2


def test_an_error_in_the_block_passes_unchanged_and_takes_the_hooks_off(engine):
    error = KeyError("theirs")
    recording = cachelab.record()

    def block():
        with recording:
            engine.run()
            raise error

    with pytest.raises(KeyError) as caught:
        block()
    assert caught.value is error
    files = {entry.path.name for entry in caught.traceback}
    assert files == {"test_shell_recording.py"}, "no frame of CacheLab in the user's traceback"
    assert recording.call_count == 1


def test_recordings_nest(engine):
    with cachelab.record() as outer:
        engine.run()
        with cachelab.record() as inner:
            engine.run()
        engine.run()
    assert (outer.call_count, inner.call_count) == (3, 1)
    assert outer.name != inner.name


def test_calls_are_expanded_over_repeats():
    recording = recorded(*["h:0"] * 10_000)
    assert isinstance(recording.calls, tuple)
    assert recording.calls is recording.calls, "made once"
    assert len(recording.calls) == 10_000
    assert [call.index for call in recording.calls] == list(range(10_000))
    last = recording.calls[-1]
    assert last.index == 9_999
    assert last.op("enc/h").witness == 9_998
    assert last.op("enc/h:0").status == "recomputed"
    assert last.ops[1] == last.op("enc/h")
    assert not hasattr(last, "__dict__"), "10,000 of them are light"


def test_a_call_says_what_was_asked():
    call = recorded("enc/h:0", "enc/h:0").calls[1]
    assert (call.kind, call.fetches, call.feeds) == ("run", ("enc/h:0",), ("x:0",))
    assert call.needs == {"enc/h:0": ("x:0",)}
    assert (call.line.file, call.line.number, call.line.text) == ("cell 1", 2, "sess.run(h)")
    assert call.seconds == 0.6
    assert call.failed is None
    assert "call 1" in repr(call)
    assert "enc/h:0" in repr(call)


@pytest.mark.parametrize(("name", "found"), [("nowhere", "does not have"), ("y:0", "did not need")])
def test_an_op_that_is_not_there(name, found):
    with pytest.raises(errors.NameNotFoundError, match=found):
        recorded("h:0").calls[0].op(name)


def test_assert_not_recomputed_lists_ops_calls_and_causes():
    recording = recorded(*["h:0"] * 5)
    with pytest.raises(AssertionError) as caught:
        recording.assert_not_recomputed("enc/*")
    text = str(caught.value)
    assert "1 op was recomputed" in text
    assert "'enc/*'" in text
    assert "enc/h in call 1-4 as in call 0: same inputs as in call 0: values live for one call only" in text
    recording.assert_not_recomputed("x")  # a placeholder that was fed
    recorded("h:0").assert_not_recomputed("enc/*")


@pytest.mark.parametrize("pattern", ["Enc/*", "nowhere", "h"])
def test_an_assertion_that_could_never_fail_is_an_error(pattern):
    with pytest.raises(errors.NameNotFoundError, match="could never fail"):
        recorded("h:0", "h:0").assert_not_recomputed(pattern)


@pytest.mark.parametrize("trace", ["off", "missing"])
def test_an_assertion_without_a_trace_is_not_passed(trace):
    record = shell_fake_engine.make_record(["h:0"])
    blind = dataclasses.replace(record, calls=tuple(dataclasses.replace(call, trace=trace) for call in record.calls))
    with pytest.raises(errors.NotApplicableError, match="no trace of call 0"):
        Recording(blind).assert_not_recomputed("enc/*")


def test_bookkeeping_does_not_count_beside_other_ops():
    record = shell_fake_engine.make_record(["h:0", "h:0"])
    (graph,) = record.graphs
    named = dataclasses.replace(graph, name=("enc/x", "enc/h", "y"), type=("Tanh", "Identity", "Mul"))
    recording = Recording(dataclasses.replace(record, graphs=(named,)))
    recording.assert_not_recomputed("enc/*")  # the identity was recomputed, the other op was not
    with pytest.raises(errors.RecomputedError):
        recording.assert_not_recomputed("enc/h")


def test_a_tensor_name_will_do_as_a_pattern():
    with pytest.raises(errors.RecomputedError):
        recorded("h:0", "h:0").assert_not_recomputed("enc/h:0")


@pytest.mark.parametrize(
    ("options", "found"),
    [({"trace": "sometimes"}, "Choose one of: auto, full, light, off"), ({"memory_budget": "much"}, "'256MB'")],
)
def test_unknown_options_name_the_choices(engine, options, found):
    with pytest.raises(errors.OptionError, match=found):
        cachelab.record(**options)
    assert engine.OPEN == []


def test_a_saved_recording_comes_back(tmp_path):
    recording = recorded("h:0", "h:0", "h:0")
    path = tmp_path / "saved.json"
    recording.save(path)
    loaded = cachelab.load(path)
    assert loaded.summary() == recording.summary()
    assert loaded.calls[2].op("enc/h") == recording.calls[2].op("enc/h")
    assert loaded.why("enc/h", call=2).text == recording.why("enc/h", call=2).text
    assert loaded.material is None
    with pytest.raises(errors.NotApplicableError, match="read from a file"):
        loaded.start()


def test_html_is_written_and_returned(tmp_path):
    page = recorded("h:0").to_html(tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text(encoding="utf-8") == page
    assert "enc/h" in page


def test_the_bundle_has_every_form_and_obeys_include_and_exclude():
    recording = recorded("h:0", "h:0")
    bundle = recording._repr_mimebundle_()
    assert {"text/plain", "text/html"} < set(bundle)
    assert set(recording._repr_mimebundle_(include={"text/plain"})) == {"text/plain"}
    assert "text/html" not in recording._repr_mimebundle_(exclude={"text/html"})
    assert str(recording) == bundle["text/plain"]
    assert repr(recording) == "<cachelab.Recording 'fake': 2 calls, 2 ops executed, 1 recomputed>"


def test_outcomes_of_modes_are_kept_in_the_record(monkeypatch, tmp_path):
    results = [
        ModeResult("run", applicable=True, equality="reproduced"),
        ModeResult("joint", applicable=False, reason="x"),
    ]
    asked = []

    def compare(recording, modes, **options):
        asked.append((modes, options))
        return SimpleNamespace(replays=[SimpleNamespace(mode=result.mode, result=result) for result in results])

    monkeypatch.setattr("cachelab.modes.compare", compare, raising=False)
    recording = recorded("h:0")
    assert recording.record.modes == ()
    recording.compare(["run", "joint"], repeats=2)
    assert asked == [(["run", "joint"], {"repeats": 2})]
    assert recording.record.modes == tuple(results)
    assert [replay.mode for replay in recording.replays] == ["run", "joint"]
    recording.save(tmp_path / "saved.json")
    assert cachelab.load(tmp_path / "saved.json").record.modes == tuple(results)


def test_a_cell_in_a_replayed_mode_is_compared_after_it_ran(shell, monkeypatch):
    asked = []

    def compare(self, modes, **options):
        asked.append((self.call_count, modes, options))
        return SimpleNamespace(_repr_html_=lambda: "<table>the comparison</table>")

    monkeypatch.setattr(Recording, "compare", compare)
    assert shell.cell("%%cachelab --mode partial_run --cut enc/h:0\nrun(), run()").success
    assert asked == [(2, ["run", "partial_run"], {"cuts": ["enc/h:0"]})]
    shell.cell("%%cachelab --mode joint\nrun()\n1 / 0")
    assert len(asked) == 1, "a cell that failed is not repeated"


@pytest.mark.parametrize(
    ("size", "expected"),
    [(0, 0), (7, 7), ("7", 7), ("64k", 64000), ("1.5 MiB", 1572864), ("1GB", 10**9), ("2TiB", 2**41)],
)
def test_sizes(size, expected):
    assert parse_bytes(size) == expected


@pytest.mark.parametrize("size", [-1, "", "much", "1 XB", "-3MB", None, True, 1.5])
def test_sizes_that_are_none(size):
    with pytest.raises(errors.OptionError):
        parse_bytes(size)
