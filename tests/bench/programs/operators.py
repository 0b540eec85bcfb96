"""Two threads that update a tensor of 16 numbers, one after the other in turn or both at once; each call is timed.

The least cost of seeing each operator (`seen`), and of also having the threads move in turn (`in_turn`), is measured
without an agent.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from breakrank_agent import step

CALLS, ROUNDS = 200, 10


class Seen(TorchDispatchMode):
    """Sees each operator and does nothing about it."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


class InTurn(TorchDispatchMode):
    """Has two threads move in turn: one waits for its lock and releases the other's."""

    def __init__(self, own, other):
        super().__init__()
        self._own, self._other = own, other

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self._own.acquire()
        result = func(*args, **(kwargs or {}))
        self._other.release()
        return result


def main() -> None:
    _work_in([contextlib.nullcontext(), contextlib.nullcontext()])


def seen() -> None:
    _work_in([Seen(), Seen()])


def in_turn() -> None:
    first, second = threading.Lock(), threading.Lock()
    second.acquire()
    _work_in([InTurn(first, second), InTurn(second, first)])


def _work_in(modes: list[contextlib.AbstractContextManager[object]]) -> None:
    """Write the seconds of a call, round by round: of the processor, and by the clock."""
    tensor = torch.zeros(16)
    taken: list[tuple[float, float]] = []
    met = threading.Barrier(2)

    def work(mode: contextlib.AbstractContextManager[object], measures: bool) -> None:
        for _ in range(ROUNDS):
            met.wait()
            with mode:
                began, clock = time.thread_time(), time.perf_counter()
                for _ in range(CALLS):
                    tensor.add_(1)
                spent = time.thread_time() - began, time.perf_counter() - clock
            if measures:
                taken.append((spent[0] / CALLS, spent[1] / CALLS))

    threads = [threading.Thread(target=work, args=pair) for pair in zip(modes, (True, False), strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with open("taken.json", "w") as file:
        json.dump(taken, file)
    step()
