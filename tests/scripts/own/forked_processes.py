"""Ranks that the script forks itself, by `multiprocessing.Process`; each finds its number in the environment."""

import os
import sys

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def work(rank, world):
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(world))
    dist.init_process_group("gloo", init_method=f"file://{sys.argv[1]}", rank=rank, world_size=world)
    torch.manual_seed(1)
    weight = torch.randn(4, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        (weight * torch.randn(4)).sum().backward()
        dist.all_reduce(weight.grad)
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    processes = [mp.get_context("fork").Process(target=work, args=(rank, 3)) for rank in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    print("done")
