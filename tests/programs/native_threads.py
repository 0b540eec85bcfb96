"""Trainings with threads that the kernel alone knows of."""

from __future__ import annotations

import ctypes

from small import train

LIBC = ctypes.CDLL(None)


def _begin(number):
    """Start a thread that waits for good, and give it a name."""
    thread = ctypes.c_ulong()
    assert LIBC.pthread_create(ctypes.byref(thread), None, LIBC.pause, None) == 0
    assert LIBC.pthread_setname_np(thread, b"waiter-%d" % number) == 0


def one_each_step():
    """Leak a thread at each step."""
    train(lambda number, model: _begin(number))


def one_for_all_steps():
    """Start a thread at the first step."""
    train(lambda number, model: _begin(number) if number == 1 else None)
