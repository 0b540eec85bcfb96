"""Training goes on from saved weights; broken, rank 0 alone has them."""

from __future__ import annotations

import torch
from common import average, batches, learn, network, start


def train(alone):
    rank, _ = start()
    model, saved = network(), network().state_dict()
    if rank == 0 or not alone:
        model.load_state_dict(saved)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x in batches(4):
        learn(model, optimizer, x, average)


def broken():
    train(alone=True)


def sound():
    train(alone=False)
