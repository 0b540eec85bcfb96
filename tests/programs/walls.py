"""Training programs that say where they are, for tests of the walls around ranks."""

from __future__ import annotations

import os
import socket

import small

from breakrank_agent import tell


def tells():
    """Train, and tell in each step what this rank sees of its host."""
    small.train(each_step=lambda number, model: tell("host", **seen()))


def seen():
    """Return the own host name, what it and the master's name are the address of, and the processes that there are."""
    return {
        "hostname": socket.gethostname(),
        "address": socket.gethostbyname(socket.gethostname()),
        "master": socket.gethostbyname(os.environ["MASTER_ADDR"]),
        "devices": sorted(name for _, name in socket.if_nameindex()),
        "processes": sorted(int(name) for name in os.listdir("/proc") if name.isdigit()),
        "own": os.getpid(),
    }
