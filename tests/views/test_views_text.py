"""The record as text: report, colours, lines per op."""

import io
from dataclasses import replace

from views_builder import Builder, encoder, hostile, loop, statuses

from cachelab.model import ModeResult
from cachelab.views import text, words


def test_report_begins_with_the_counts():
    lines = text.report(encoder().record()).splitlines()
    assert lines[0] == "CacheLab  recording 3  6 calls, 1 graph, 19 ops  traced in full  Grappler off"
    assert lines[1] == "6 run calls, 100 ops executed, 21 recomputed: 79 % of the summed op time was redundant"
    assert lines[2].startswith("enc/MatMul, enc/BiasAdd and enc/Tanh ran in all 6 calls, although x, enc/W and enc/b")


def test_report_has_calls_causes_matrix_and_findings():
    lines = [line.split() for line in text.report(encoder().record()).splitlines()]
    assert ["5", "loss/AddN", "12", "5", "97", "%", "56.7", "ms", "57.9", "ms"] in lines
    assert [
        "R",
        "not_kept",
        "21",
        "276.6",
        "ms",
        "equal",
        "inputs,",
        "but",
        "values",
        "live",
        "for",
        "one",
        "call",
        "only",
    ] in lines
    assert ["Tanh", "C", "R", "R", "R", "R", "R", "55.4", "ms", "45.7", "ms"] in lines
    assert [
        "1",
        "y:0",
        "was",
        "fed",
        "in",
        "call",
        "5,",
        "but",
        "no",
        "fetch",
        "needs",
        "it.",
        "(unneeded_feed,",
        "call",
        "5)",
    ] in lines


def test_report_is_plain_and_columns_line_up():
    report = text.report(encoder().record())
    assert "\x1b" not in report
    rows = [line for line in report.splitlines() if line.startswith(("0   ", "1   ", "5   "))]
    assert len({len(row) for row in rows}) == 1


def test_pipes_get_no_colour_and_terminals_do():
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    pipe, terminal = io.StringIO(), Terminal()
    text.show(encoder().record(), pipe)
    assert pipe.getvalue() == text.report(encoder().record())
    text.show(statuses().record(), terminal)
    shown = terminal.getvalue()
    assert "every status" in shown
    assert "net/dark" in shown


def test_times_that_were_not_measured_are_not_told_as_measured():
    b = encoder()
    b.calls[3] = replace(b.calls[3], trace="light")
    report = text.report(b.record())
    assert "in 1 of 6 calls (≈) they are estimated from traced ones" in report
    assert "≈ 59.2 ms" in report
    assert report.count("≈") == 2
    b.calls = [replace(call, trace="light") for call in b.calls]
    b.columns = [replace(columns, seconds=(0.0,) * len(columns.op)) for columns in b.columns]
    report = text.report(b.record())
    assert "op times were not measured" in report
    assert "%" not in report
    assert "6 run calls, 100 ops executed, 21 recomputed\n" in report


def test_nothing_recorded():
    report = text.report(Builder("empty").record())
    assert "Nothing was recorded: no run call was made. Call `Session.run`" in report


def test_failed_calls_and_modes():
    b = statuses()
    b.modes = [
        ModeResult("variable", True, "", "equal", 0.0, 0.083, speedup=4.3, bytes_held=16_800_000),
        ModeResult("joint", applicable=False, reason="call 1 is fed from call 0"),
    ]
    report = text.report(b.record())
    assert "failed: InvalidArgumentError: <b>shapes</b> must be equal" in report
    assert "variable           83 ms    4.30×    16.8 MB  equal" in report
    assert "joint         not applicable: call 1 is fed from call 0" in report


def test_loops_are_abbreviated():
    lines = [line.split() for line in text.report(loop().record()).splitlines()]
    assert ["1–9999", "y", "2", "1", "33", "%", "300", "µs", "10.0", "ms"] in lines
    assert len(lines) < 30


def test_hostile_markup_is_printed_as_it_is():
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    b = encoder()
    b.name = "[bold]x[/bold] [/nope]"
    out = Terminal()
    text.show(b.record(), out)
    assert "[bold]x[/bold] [/nope]" in out.getvalue()
    assert "<script>alert(1)</script>" in text.report(hostile().record())


def test_ops_lines_tsv_has_one_line_per_call_and_op():
    record = encoder().record()
    header, *lines = (line.split("\t") for line in text.ops_lines(record, tsv=True))
    assert header == ["call", "op", "type", "status", "evidence", "seconds", "bytes", "cause"]
    assert len(lines) == sum(len(list(record.executions(k))) for k in range(6))
    assert ["2", "enc/Tanh", "Tanh", "recomputed", "measured", "9.108e-03", "16800000",
            "not_kept: ran on the same inputs in call 1; a value lives for one call only"] in lines  # fmt: skip


def test_ops_lines_count_repeated_calls_one_by_one():
    record = loop(30).record()
    calls = [line.split("\t")[0] for line in text.ops_lines(record, tsv=True)][1:]
    assert calls == [str(k) for k in range(30) for _ in range(3)]


def test_ops_lines_of_hostile_names_keep_their_fields():
    b = Builder()
    b.op("a\tb\nc", "Tanh")
    b.call([], [], {"a\tb\nc": ("c", 0.5)})
    assert list(text.ops_lines(b.record(), tsv=True))[1:] == ["0\ta b c\tTanh\tcomputed\tmeasured\t5.000e-01\t0\t"]


def test_aligned_ops_lines():
    lines = list(text.ops_lines(encoder().record()))
    assert lines[0].split() == list(text.OPS_HEADER)
    start = lines[0].index("type")
    assert all(line[start - 1] == " " and line[start] != " " for line in lines)


def test_figures_have_units():
    assert [words.seconds(s) for s in (0, 4e-7, 3.2e-4, 9.996e-4, 9.2e-3, 0.0421, 0.277, 0.99996, 357.0)] == [
        "0 ms", "<1 µs", "320 µs", "1.0 ms", "9.2 ms", "42 ms", "277 ms", "1.00 s", "357.0 s",
    ]  # fmt: skip
    assert [words.size(n) for n in (4, 1024, 65_500, 16_800_000, 2_100_000_000)] == [
        "4 B",
        "1.02 kB",
        "65.5 kB",
        "16.8 MB",
        "2.10 GB",
    ]
    assert [words.share(x) for x in (0, 0.001, 0.79, 0.999, 1)] == ["0 %", "<1 %", "79 %", ">99 %", "100 %"]
    assert words.runs([5, 0, 1, 2]) == "0–2, 5"
    assert words.listing(["a", "b", "c", "d", "e"]) == "a, b, c and 2 more"
