"""Weights were saved from a compiled model; broken, its prefix is not taken off."""

from __future__ import annotations

import torch
from common import batches, learn, network, start, wrapped


def train(prefix):
    start()
    saved = {f"_orig_mod.{name}": value for name, value in network().state_dict().items()}
    model = network()
    model.load_state_dict({name.removeprefix(prefix): value for name, value in saved.items()}, strict=False)
    model = wrapped(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x in batches(4):
        learn(model, optimizer, x)


def broken():
    train("module.")


def sound():
    train("_orig_mod.")
