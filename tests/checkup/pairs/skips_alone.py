"""A scaler of the loss skips a step in which gradients overflow; broken, it goes by the gradients of its own rank."""

from __future__ import annotations

import torch
import torch.distributed as dist
from common import average, batches, lose, network, start


def train(agree):
    rank, _ = start()
    model, scaler = network(), torch.amp.GradScaler("cpu", init_scale=1024.0)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step, x in enumerate(batches(6)):
        optimizer.zero_grad()
        scaler.scale(lose(model, x) * (1e38 if (rank, step) == (1, 2) else 1.0)).backward()
        scaler.unscale_(optimizer)
        (found,) = scaler._found_inf_per_device(optimizer).values()
        if found:
            optimizer.zero_grad(set_to_none=False)
        agree(found)
        average(model)
        scaler.step(optimizer)
        scaler.update()


def broken():
    train(lambda found: None)


def sound():
    train(lambda found: dist.all_reduce(found, op=dist.ReduceOp.MAX))
