"""A front end without a browser: a real ipykernel, cells with ids, the comm."""

from __future__ import annotations

import os
import uuid
from contextlib import contextmanager
from pathlib import Path

from addresses import start_kernel

HERE = Path(__file__).parent


class Front:
    """A front end: sends cells with their ids, opens a comm, and keeps every message that the kernel sends."""

    def __init__(self, client):
        self.client, self.comm = client, uuid.uuid4().hex
        self.messages = []

    def send(self, kind, content, metadata=None):
        message = self.client.session.msg(kind, content, metadata=metadata)
        self.client.shell_channel.send(message)
        return message["header"]["msg_id"]

    def wait_idle(self, request):
        while True:
            message = self.client.get_iopub_msg(timeout=120)
            if message["msg_type"] == "comm_msg" and message["content"]["comm_id"] == self.comm:
                self.messages.append(message["content"]["data"])
            own = message["parent_header"].get("msg_id") == request
            if own and message["msg_type"] == "error":
                raise AssertionError("\n".join(message["content"]["traceback"]))
            if own and message["msg_type"] == "status" and message["content"]["execution_state"] == "idle":
                return

    def cell(self, code, name):
        content = {"code": code, "silent": False, "store_history": True, "user_expressions": {}, "allow_stdin": False}
        self.wait_idle(self.send("execute_request", content, {"cellId": name}))

    def open(self):
        content = {"comm_id": self.comm, "target_name": "cachelab", "data": {}}
        self.wait_idle(self.send("comm_open", content))

    def say(self, **data):
        self.wait_idle(self.send("comm_msg", {"comm_id": self.comm, "data": data}))

    def take(self):
        taken, self.messages = self.messages, []
        return taken


@contextmanager
def connected(folder):
    """Start a kernel that keeps its files in ``folder``; gives a front end, ends the kernel."""
    paths = [str(HERE.parent.parent), str(HERE), os.environ.get("PYTHONPATH", "")]
    env = {
        **os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths)), "IPYTHONDIR": str(folder),
        "TF_CPP_MIN_LOG_LEVEL": "3",
    }  # fmt: skip
    manager, client = start_kernel(env)
    try:
        yield Front(client)
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
