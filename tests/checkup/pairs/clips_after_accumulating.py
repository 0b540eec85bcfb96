"""Gradients of several batches are clipped together; broken, the scaler unscales them when it steps, which is later."""

from __future__ import annotations

import torch
from common import batches, lose, network, start, wrapped


def train(early):
    start()
    model = wrapped(network())
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    scaler = torch.amp.GradScaler("cpu")
    for number, x in enumerate(batches(6), 1):
        scaler.scale(lose(model, x) / 2).backward()
        if number % 2 == 0:
            if early:
                scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()


def broken():
    train(early=False)


def sound():
    train(early=True)
