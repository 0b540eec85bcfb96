"""The weights of the lowest loss are kept for the end; broken, what is kept goes on with the training."""

from __future__ import annotations

import torch
from common import batches, learn, lose, network, start, wrapped


def train(keep):
    start()
    model = wrapped(network())
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    kept, lowest = None, float("inf")
    for x in batches(5):
        learn(model, optimizer, x)
        with torch.no_grad():
            loss = float(lose(model.module, torch.ones(4, 8)))
        if loss < lowest:
            kept, lowest = keep(model.module.state_dict()), loss
    model.module.load_state_dict(kept)


def broken():
    train(dict)


def sound():
    train(lambda state: {name: value.detach().clone() for name, value in state.items()})
