"""The same in a real ipykernel and in a terminal's IPython."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from addresses import start_kernel

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
ENV = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(HERE)]), "IPYTHONDIR": ""}
SETUP = "import shell_fake_engine as engine; engine.install(); run = engine.run"


class Kernel:
    def __init__(self, client, manager):
        self.client, self.manager = client, manager

    def cell(self, code, **options):
        """Run a cell and return the reply and the output messages."""
        outputs = []

        def hook(message):
            if message["msg_type"] in {"stream", "display_data", "execute_result", "error"}:
                outputs.append((message["msg_type"], message["content"]))

        reply = self.client.execute_interactive(code, output_hook=hook, timeout=60, **options)
        return reply["content"], outputs

    def value(self, expression):
        reply, _outputs = self.cell("", user_expressions={"it": expression}, silent=True)
        return eval(reply["user_expressions"]["it"]["data"]["text/plain"])


@pytest.fixture(scope="module")
def kernel(tmp_path_factory):
    env = {**ENV, "IPYTHONDIR": str(tmp_path_factory.mktemp("ipython"))}
    manager, client = start_kernel(env)
    one = Kernel(client, manager)
    assert one.cell(SETUP)[0]["status"] == "ok"
    assert one.cell("%load_ext cachelab\n%config CacheLab.widget = False")[0]["status"] == "ok"
    yield one
    client.stop_channels()
    manager.shutdown_kernel(now=True)


def test_outputs_come_in_order_below_the_cell(kernel):
    reply, outputs = kernel.cell("%%cachelab\nprint('first')\nrun()\nrun()")
    assert reply["status"] == "ok"
    assert [kind for kind, _content in outputs] == ["stream", "execute_result", "display_data"]
    assert outputs[1][1]["data"] == {"text/plain": "42"}
    assert {"text/plain", "text/html"} <= set(outputs[2][1]["data"])


def test_an_error_stops_run_all_and_names_the_line(kernel):
    reply, outputs = kernel.cell("%%cachelab\nrun()\n\n1 / 0")
    assert reply["status"] == "error"
    assert reply["ename"] == "ZeroDivisionError"
    kinds = [kind for kind, _content in outputs]
    assert kinds == ["error", "display_data"]
    assert "line 4" in "".join(outputs[0][1]["traceback"])


def test_a_usage_error_stops_run_all(kernel):
    reply, _outputs = kernel.cell("%%cachelab --mode sideways\nreached = True")
    assert reply["status"] == "error"
    assert reply["ename"] == "UsageError"
    assert kernel.value("'reached' in globals()") is False


def test_top_level_await(kernel):
    reply, outputs = kernel.cell("%%cachelab\nimport asyncio\nrun()\nawait asyncio.sleep(0.01, 'slept')")
    assert reply["status"] == "ok"
    assert [kind for kind, _content in outputs] == ["execute_result", "display_data"]
    assert outputs[0][1]["data"] == {"text/plain": "'slept'"}
    assert kernel.value("len(engine.OPEN)") == 0


# ipykernel itself ends an interrupted `await` only when what it waits for is done.
@pytest.mark.parametrize("wait", ["import time; time.sleep(50)", "import asyncio; await asyncio.sleep(1)"])
def test_an_interrupted_cell_keeps_its_record_and_no_hooks(kernel, wait):
    code = "%%cachelab --name interrupted\nrun()\nprint('running', flush=True)\n" + wait
    waiting = kernel.client.execute(code)
    kinds = []
    while True:
        message = kernel.client.get_iopub_msg(timeout=60)
        if message["parent_header"].get("msg_id") != waiting:
            continue
        kinds.append(message["msg_type"])
        if message["msg_type"] == "stream" and "running" in message["content"]["text"]:
            kernel.manager.interrupt_kernel()
        if message["msg_type"] == "status" and message["content"]["execution_state"] == "idle":
            break
    assert "error" in kinds
    assert "display_data" in kinds
    assert kernel.value("len(engine.OPEN)") == 0
    assert kernel.value("__import__('cachelab').last('interrupted').call_count") == 1


def test_cells_are_named_by_their_prompt(kernel):
    reply, _outputs = kernel.cell("%%cachelab --quiet\nrun()")
    assert kernel.value("__import__('cachelab').last().name") == f"cell {reply['execution_count']}"


def test_pages_that_were_reloaded_do_not_pile_up_and_the_last_is_answered(kernel):
    client = kernel.client
    pages = [f"page {k}" for k in range(12)]

    def send(kind, **content):
        client.shell_channel.send(client.session.msg(kind, content))

    for page in pages:
        send("comm_open", comm_id=page, target_name="cachelab", data={})
    held = kernel.value("[one for one in get_ipython().kernel.comm_manager.comms if one.startswith('page')]")
    assert held == pages[-len(held) :]
    assert 0 < len(held) < len(pages)
    send("comm_msg", comm_id=pages[-1], data={"type": "state"})
    while True:
        message = client.get_iopub_msg(timeout=60)
        if message["msg_type"] == "comm_msg" and message["content"]["comm_id"] == pages[-1]:
            assert message["content"]["data"]["mode"] == "off"
            return


def test_a_terminal_shows_the_text(tmp_path):
    cells = [SETUP, "%load_ext cachelab", "%%cachelab\nrun()\nrun()\n\n", "%cachelab list", "%unload_ext cachelab"]
    typed = "\n".join(cells) + "\n"
    ran = subprocess.run(
        [sys.executable, "-m", "IPython", "--simple-prompt", "--no-banner", "--colors=nocolor"],
        input=typed,
        capture_output=True,
        text=True,
        env={**ENV, "IPYTHONDIR": str(tmp_path)},
        check=False,
    )
    assert "cell 3: 2 calls, 2 ops executed, 1 recomputed" in ran.stdout
    assert "enc/h" in ran.stdout
    assert "Out[3]: 42" in ran.stdout
    assert "Traceback" not in ran.stdout + ran.stderr
