"""A head has an optimizer of its own; broken, the gradients of the other one alone are zeroed."""

from __future__ import annotations

import torch
from common import batches, lose, network, start, wrapped


def train(both):
    start()
    model = wrapped(network())
    body = torch.optim.SGD(model.module[0].parameters(), lr=0.01)
    head = torch.optim.Adam(model.module[2].parameters(), lr=0.01)
    for x in batches(6):
        body.zero_grad(set_to_none=False)
        if both:
            head.zero_grad(set_to_none=False)
        lose(model, x).backward()
        body.step()
        head.step()


def broken():
    train(both=False)


def sound():
    train(both=True)
