"""Ranks that the script spawns itself, as many as it is told: argparse, `mp.spawn`, a store of its own."""

import argparse

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.nn.parallel import DistributedDataParallel


def work(rank, args):
    dist.init_process_group("gloo", init_method=f"file://{args.store}", rank=rank, world_size=args.world_size)
    torch.manual_seed(rank)
    model = DistributedDataParallel(torch.nn.Linear(4, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        optimizer.zero_grad()
        model(torch.randn(8, 4)).pow(2).mean().backward()
        optimizer.step()
        if args.fails and rank == 1 and step == 1:
            raise ValueError("the batch is empty")
    dist.destroy_process_group()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--world-size", type=int, default=2)
    parser.add_argument("--store", required=True)
    parser.add_argument("--fails", action="store_true")
    given = parser.parse_args()
    mp.spawn(work, (given,), nprocs=given.world_size)
    print("done")
