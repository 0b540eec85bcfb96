"""Two threads that update a tensor of 16 numbers, one after the other in turn or both at once; what each call took."""

from __future__ import annotations

import json
import threading
import time

import torch

from breakrank_agent import step

CALLS, ROUNDS = 200, 10


def main() -> None:
    """Write down the seconds of a call, round by round: of the processor, and by the clock."""
    tensor = torch.zeros(16)
    taken: list[tuple[float, float]] = []
    met = threading.Barrier(2)

    def work(measures: bool) -> None:
        for _ in range(ROUNDS):
            met.wait()
            began, clock = time.thread_time(), time.perf_counter()
            for _ in range(CALLS):
                tensor.add_(1)
            if measures:
                taken.append(((time.thread_time() - began) / CALLS, (time.perf_counter() - clock) / CALLS))

    threads = [threading.Thread(target=work, args=(measures,)) for measures in (True, False)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with open("taken.json", "w") as file:
        json.dump(taken, file)
    step()
