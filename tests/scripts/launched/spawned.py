"""Ranks that torch.multiprocessing starts: each learns its rank from the call of its function."""

import sys

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def work(rank, world, store, fails):
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=world)
    torch.manual_seed(1)
    weight = torch.randn(4, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.1)
    for step in range(3):
        (weight * torch.randn(4)).sum().backward()
        dist.all_reduce(weight.grad)
        optimizer.step()
        optimizer.zero_grad()
        if fails and rank == 1 and step == 1:
            raise ValueError("the batch is empty")
    dist.destroy_process_group()


if __name__ == "__main__":
    mp.spawn(work, args=(2, sys.argv[1], len(sys.argv) > 2), nprocs=2)
    print("done")
