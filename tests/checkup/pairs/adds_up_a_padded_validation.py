"""A sampler fills up the shares of a validation; broken, the ranks add them up as they are."""

from __future__ import annotations

import torch
import torch.distributed as dist
from common import learn, network, start, wrapped
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


def summed(errors, count):
    total = errors.sum()
    dist.all_reduce(total)


def collected(errors, count):
    every = [torch.empty_like(errors) for _ in range(dist.get_world_size())]
    dist.all_gather(every, errors)
    torch.stack(every, 1).flatten()[:count].sum()


def train(add_up):
    rank, world = start()
    samples = torch.randn(64 + 17, 8)
    held_out = TensorDataset(samples[64:])
    model = wrapped(network())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x in samples[:64][rank::world].split(8):
        learn(model, optimizer, x)
    with torch.no_grad():
        loader = DataLoader(held_out, batch_size=4, sampler=DistributedSampler(held_out, shuffle=False))
        add_up(torch.cat([(model(x) - x[:, :4].sin()).pow(2).mean(1) for (x,) in loader]), len(held_out))


def broken():
    train(summed)


def sound():
    train(collected)
