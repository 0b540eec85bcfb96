"""All ranks map the weights that rank 0 has written; broken, rank 0 writes the next ones into the same file."""

from __future__ import annotations

import torch
import torch.distributed as dist
from common import batches, lose, start, train_by, wrapped_network


def train(name_of):
    rank, _ = start()
    model, steps = wrapped_network(), []
    if rank == 0:
        torch.save(model.module.state_dict(), name_of(0))
    dist.barrier()
    anchor = torch.load(name_of(0), mmap=True)

    def loss(model, x):
        return lose(model, x) + 0.01 * (model.module[0].weight - anchor["0.weight"]).pow(2).mean()

    def after():
        steps.append(1)
        if rank == 0 and len(steps) == 2:
            torch.save(model.module.state_dict(), name_of(2))
        dist.barrier()

    train_by(model, batches(6), loss, after=after)


def broken():
    train(lambda step: "last.pt")


def sound():
    train(lambda step: f"step-{step}.pt")
