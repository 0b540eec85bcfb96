"""Descriptors and sockets of another process, duplicated into ours through its pidfd."""

from __future__ import annotations

import ctypes
import os
import socket

#: The number of pidfd_getfd(2), on every architecture.
_PIDFD_GETFD = 438


def take(pid: int, descriptor: int) -> int:
    """Return a descriptor of another process, as one of ours. Raises `OSError` where the kernel forbids it."""
    process = os.pidfd_open(pid)
    try:
        ours = int(ctypes.CDLL(None, use_errno=True).syscall(_PIDFD_GETFD, process, descriptor, 0))
    finally:
        os.close(process)
    if ours < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return ours


def duplicate(pid: int, descriptor: int) -> socket.socket:
    """Return a socket of another process, as one of ours. Raises `OSError` where the kernel forbids it."""
    return socket.socket(fileno=take(pid, descriptor))
