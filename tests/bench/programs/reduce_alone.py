"""One all_reduce of one number after the other, each of them timed."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import torch
import torch.distributed as dist

SETTLING = 6


def main():
    dist.init_process_group("gloo")
    one, taken = torch.ones(1), []
    for _ in range(int(os.environ["BREAKRANK_STEPS"])):
        wall, processor = time.perf_counter(), time.thread_time()
        dist.all_reduce(one)
        taken.append([time.perf_counter() - wall, time.thread_time() - processor])
    Path("steps.json").write_text(json.dumps(taken[SETTLING:]))
    dist.barrier()
    dist.destroy_process_group()
