"""A checkpoint holds a model and more; broken, the whole of it is loaded as the model."""

from __future__ import annotations

import torch
from common import batches, learn, network, start, wrapped


def train(chosen):
    start()
    saved = {"model": network().state_dict(), "epoch": 3}
    model = network()
    model.load_state_dict(chosen(saved), strict=False)
    model = wrapped(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x in batches(4):
        learn(model, optimizer, x)


def broken():
    train(lambda saved: saved)


def sound():
    train(lambda saved: saved["model"])
