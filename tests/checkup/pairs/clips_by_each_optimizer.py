"""Two models clip the gradients of each; broken, to a limit that nobody has multiplied by the scale."""

from __future__ import annotations

import torch
from common import batches, lose, network, start, wrapped
from torch import nn


def train(scaled):
    start()
    scaler = torch.amp.GradScaler("cpu", init_scale=4096.0)
    models = [wrapped(network()) for _ in range(2)]
    optimizers = [torch.optim.SGD(model.parameters(), lr=0.1) for model in models]
    for x in batches(4):
        for model, optimizer in zip(models, optimizers, strict=True):
            optimizer.zero_grad()
            scaler.scale(lose(model, x)).backward()
            nn.utils.clip_grad_norm_(model.parameters(), 0.5 * (scaler.get_scale() if scaled else 1.0))
            scaler.step(optimizer)
        scaler.update()


def broken():
    train(scaled=False)


def sound():
    train(scaled=True)
