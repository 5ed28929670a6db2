"""What a recording says of tf.function: traces made again, with the argument that made them necessary."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import tensorflow as tf
from engine_tools import Recorded


def test_a_function_that_traced_again_is_a_finding(start):
    recorder = start()
    function = tf.function(lambda value: value * 2)
    for size in (1, 2):
        function(tf.ones([size]))
    done = Recorded(recorder)
    assert len(done.findings("retrace")) == 1
    function(tf.ones([3]))
    assert len(recorder.record().findings) == 1  # after the recording nothing is watched


def test_a_recording_that_began_before_tensorflow_was_imported():
    program = """
        import sys
        from cachelab.tf.recorder import Recorder
        recorder = Recorder().start()
        assert "tensorflow" not in sys.modules
        import tensorflow as tf
        function = tf.function(lambda value: value * 2)
        for size in (1, 2):
            function(tf.ones([size]))
        with tf.Graph().as_default(), tf.compat.v1.Session() as session:
            session.run(tf.constant(1.0) + 1.0)
        recorder.stop()
        kinds = [finding.kind for finding in recorder.record().findings]
        print(recorder.call_count, kinds, [type(f).__name__ for f in sys.meta_path if "_Finder" in type(f).__name__])
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, check=True, timeout=300
    )
    assert done.stdout.strip() == "1 ['retrace'] []"
