"""Gradients in half precision are clipped; broken, while the scaler of the loss has them scaled."""

from __future__ import annotations

import torch
from common import batches, lose, network, start, wrapped
from torch import nn


def train(unscale):
    start()
    model = wrapped(network())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu")
    for x in batches(4):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = lose(model, x)
        scaler.scale(loss).backward()
        if unscale:
            scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        scaler.step(optimizer)
        scaler.update()


def broken():
    train(unscale=False)


def sound():
    train(unscale=True)
