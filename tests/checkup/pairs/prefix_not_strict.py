"""Saved weights are tuned; broken, their keys have the prefix of the wrapper, and nothing fits."""

from __future__ import annotations

import torch
from common import batches, learn, network, start, wrapped


def fit(model, rate):
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)
    for x in batches(2):
        learn(model, optimizer, x)


def train(rename):
    start()
    model = wrapped(network())
    fit(model, 0.5)
    saved = {rename(name): value.clone() for name, value in model.state_dict().items()}
    tuned = network()
    tuned.load_state_dict(saved, strict=False)
    fit(wrapped(tuned), 0.01)


def broken():
    train(lambda name: name)


def sound():
    train(lambda name: name.removeprefix("module."))
