"""Where servers and kernels of tests listen, so that tests beside one another never take each other's address.

A port that the system called free is anyone's until a server takes it, seconds later: kernels, TensorFlow's servers and
outgoing connections all ask for such ports. Servers of tests listen where the system hands out none, kernels at files.
"""

from __future__ import annotations

import itertools
import random
import socket
import tempfile
from contextlib import suppress

from jupyter_client.manager import KernelManager
from traitlets.config import Config

# What Linux (from 32768), macOS and Windows (from 49152) hand out for port 0 lies above, known services lie below.
_PORTS = range(20_000, 32_000)
_FOLDER = tempfile.TemporaryDirectory(prefix="kernels")
_NUMBERS = itertools.count()


def free_port() -> int:
    """Return a port of this machine that nobody listens at and that nobody is given without asking for it."""
    while True:
        port = random.choice(_PORTS)
        with suppress(OSError), socket.socket() as probe:
            probe.bind(("127.0.0.1", port))
            return port


def at_a_file() -> Config:
    """Return the configuration of one kernel that is reached through the file system."""
    return Config({"KernelManager": {"transport": "ipc", "ip": f"{_FOLDER.name}/{next(_NUMBERS)}"}})


def start_kernel(env: dict[str, str]):
    """Start a Python kernel; returns its manager and a client that it has answered."""
    manager = KernelManager(kernel_name="python3", config=at_a_file())
    manager.start_kernel(env=env)
    client = manager.client()
    client.start_channels()
    client.wait_for_ready(timeout=120)
    return manager, client
