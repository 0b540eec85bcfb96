"""Training programs that log their view of the host, for tests of isolated ranks."""

from __future__ import annotations

import os
import socket

import small

from breakrank_agent import tell


def tells():
    """Train, and log this rank's view of its host in each step."""
    small.train(each_step=lambda number, model: tell("host", **seen()))


def seen():
    """Return this rank's host name, the addresses of that name and of the master's, and the processes of the host."""
    return {
        "hostname": socket.gethostname(),
        "address": socket.gethostbyname(socket.gethostname()),
        "master": socket.gethostbyname(os.environ["MASTER_ADDR"]),
        "devices": sorted(name for _, name in socket.if_nameindex()),
        "processes": sorted(int(name) for name in os.listdir("/proc") if name.isdigit()),
        "own": os.getpid(),
    }
