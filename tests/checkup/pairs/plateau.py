"""The learning rate is halved when the validation loss stops falling; broken, each rank looks at its own loss."""

from __future__ import annotations

import torch
import torch.distributed as dist
from common import batches, learn, network, start, wrapped


def train(alone):
    rank, world = start()
    model = wrapped(network())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=0)
    for epoch in range(5):
        for x in batches(2):
            learn(model, optimizer, x)
        # The loss of rank 1 rises in the third epoch, and that of all ranks together does not.
        loss = torch.tensor(1.0 / (epoch + 1) + (0.3 if (rank, epoch) == (1, 2) else 0.0))
        if not alone:
            dist.all_reduce(loss)
            loss = loss / world - (0.2 if epoch == 2 else 0.0)
        scheduler.step(loss)


def broken():
    train(alone=True)


def sound():
    train(alone=False)
