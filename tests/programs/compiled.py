"""A loop with a function that torch compiles, and a thread beside it."""

from __future__ import annotations

import threading

import torch

from breakrank_agent import state, step


def main() -> None:
    def grow(value, by):
        return torch.relu(value * 2 + by).add_(1)

    total = torch.zeros(4)
    # A tensor that threads have touched is watched from here on.
    beside = threading.Thread(target=total.add_, args=(1,))
    beside.start()
    beside.join()
    compiled = torch.compile(grow, backend="eager")
    for _ in range(3):
        total.copy_(compiled(total, torch.ones(4)))
        step()
    state(total=total.tolist())
