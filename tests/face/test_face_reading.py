"""What the browser reads is what the model says, op for op, from plain and from packed files."""

from __future__ import annotations

import json
from dataclasses import replace

import face_samples
import pytest
from front_node import ROOT

from cachelab.model import STATUSES
from cachelab.store import to_json


def shared_columns():
    """Calls 2 to 5 share the columns of call 1, as a loop's calls do; the last entry stands for 40 equal calls."""
    record = face_samples.record()
    calls = [record.calls[0], *(replace(call, columns=1) for call in record.calls[1:])]
    calls[-1] = replace(calls[-1], repeat=40)
    return replace(record, calls=tuple(calls))


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("make", [face_samples.record, shared_columns])
def test_browser_reads_what_the_model_says(node, make, packed):
    record = make()
    done = node(ROOT / "tests" / "face" / "dump.ts", text=json.dumps(to_json(record, packed=packed)))
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    graph = record.graphs[0]
    expected = []
    for call in record.calls:
        for one in record.executions(call.index):
            row = graph.index[one.name]
            causes = [[cause.kind, cause.call, cause.text] for cause in one.causes]
            expected.append(
                [
                    call.index, one.name, one.type, list(graph.inputs[row]), one.status, one.evidence,
                    pytest.approx(one.seconds, rel=1e-3), one.bytes, one.count, one.witness, causes, one.shapes,
                    one.device, one.into or "",
                ]
            )  # fmt: skip
    assert seen["rows"] == expected
    summary = record.summary()
    assert dict(zip(STATUSES.values(), seen["counts"], strict=True)) == {
        name: summary[name] for name in STATUSES.values()
    }
    assert seen["seconds"] == pytest.approx([summary["op_seconds"][name] for name in STATUSES.values()], rel=1e-3)
    assert seen["calls"] == record.call_count
    assert seen["sources"] == [{"name": s.name, "kind": s.kind, "graph": s.graph} for s in record.sources]


def test_other_files_are_refused_with_a_remedy(node):
    for text, said in [
        ('{"format": "other"}', "not a CacheLab recording"),
        ('{"format": "cachelab.recording", "version": 9, "graphs": []}', "version 9"),
    ]:
        done = node(ROOT / "tests" / "face" / "dump.ts", text=text)
        assert done.returncode != 0
        assert said in done.stderr
