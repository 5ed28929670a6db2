"""What the panel shows of live sessions, with the sessions themselves."""

from __future__ import annotations

import pytest

pytest.importorskip("tensorflow")

import numpy as np
import tensorflow as tf

from cachelab.live_figures import cell_row, clear, live_rows
from cachelab.modes.live import Session, open_sessions
from cachelab.modes.live_cells import activate

tf1 = tf.compat.v1
X = np.ones((300, 300), "float32")


@pytest.fixture
def graph():
    """A product that is worth keeping."""
    with tf.Graph().as_default() as graph:
        x = tf1.placeholder(tf.float32, [300, 300], name="x")
        heavy = x
        for _ in range(6):
            heavy = tf.matmul(heavy, x)
        yield graph, x, tf.identity(heavy, name="h")


def mine(names):
    return [row for row in live_rows(names) if row["name"]]


def test_an_open_session_is_listed_by_its_name_with_its_own_figures(graph):
    ops, x, h = graph
    with Session(graph=ops, memory_budget="1MB") as session:
        for _ in range(4):
            session.run(h, {x: X})
        info = session.cache_info()
        assert info.hits, "the product should have been served"
        (row,) = mine({"_": session, "sess": session, "other": 1})
        assert (row["name"], row["mode"], row["budget"]) == ("sess", "memo", 1_000_000)
        assert (row["hits"], row["misses"], row["bytes"], row["saved"]) == (
            info.hits, info.misses, info.bytes, info.seconds_saved,
        )  # fmt: skip
        clear(row["number"] + 1000)
        assert session.cache_info().bytes == info.bytes
        clear(row["number"])
        assert session.cache_info().bytes == 0
    assert mine({"sess": session}) == []
    assert session not in open_sessions()


def test_a_plain_session_is_listed_only_while_a_live_mode_has_it(graph):
    ops, x, h = graph
    with tf1.Session(graph=ops) as session:
        mode = activate("memo")
        try:
            for _ in range(4):
                session.run(h, {x: X})
            (row,) = mine({"sess": session})
        finally:
            mode.close()
        assert row["hits"] > 0
        assert mine({"sess": session}) == []
        told = cell_row(mode)
        assert {key: told[key] for key in ("mode", "hits", "misses", "bytes")} == {
            key: row[key] for key in ("mode", "hits", "misses", "bytes")
        }
