"""A callback draws a sample of the model now and then; broken, it leaves it in eval mode."""

from __future__ import annotations

import torch
from common import batches, learn, start, wrapped
from torch import nn


def draw(model, back):
    mode = model.training
    model.eval()
    with torch.no_grad():
        model.module(torch.zeros(1, 8))
    if back:
        model.train(mode)


def train(back):
    start()
    model = wrapped(nn.Sequential(nn.Linear(8, 16), nn.Dropout(0.5), nn.Linear(16, 4)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    for number, x in enumerate(batches(6)):
        learn(model, optimizer, x)
        if number == 2:
            draw(model, back)


def broken():
    train(back=False)


def sound():
    train(back=True)
