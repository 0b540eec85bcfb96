"""All-reduces from threads that Python did not start, as the autograd engine's is on a card."""

from __future__ import annotations

import ctypes
import os
import threading

import torch
import torch.distributed as dist

LIBRARY = ctypes.CDLL(None)
BODY = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)
LIBRARY.pthread_create.argtypes = (ctypes.c_void_p, ctypes.c_void_p, BODY, ctypes.c_void_p)
LIBRARY.pthread_join.argtypes = (ctypes.c_ulong, ctypes.c_void_p)


def in_a_thread_of_no_python(do):
    """Call `do` in a new thread of the C library's, and wait for it."""
    body = BODY(lambda _: do())
    thread = ctypes.c_ulong()
    LIBRARY.pthread_create(ctypes.byref(thread), None, body, None)
    LIBRARY.pthread_join(thread, None)


class Reduced(torch.autograd.Function):
    """The identity function; its gradient is reduced twice."""

    @staticmethod
    def forward(context, value):
        return value.clone()

    @staticmethod
    def backward(context, gradient):
        for _ in range(2):
            in_a_thread_of_no_python(lambda: dist.all_reduce(gradient))
        return gradient


def main():
    """Reduce once from a thread of Python's, outside of any step; then train."""
    dist.init_process_group("gloo")
    thread = threading.Thread(target=lambda: dist.all_reduce(torch.ones(1)))
    thread.start()
    thread.join()
    weight = torch.ones(2, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.1)
    for _ in range(int(os.environ["BREAKRANK_STEPS"])):
        optimizer.zero_grad()
        Reduced.apply(weight).sum().backward()
        optimizer.step()
    dist.destroy_process_group()
