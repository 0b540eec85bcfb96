"""The gradients of a model are zeroed through the model; broken, through a copy that is kept for averages."""

from __future__ import annotations

import copy

import torch
from common import batches, lose, network, start, wrapped


def train(chosen):
    start()
    model = wrapped(network())
    average = copy.deepcopy(model.module)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    for x in batches(5):
        chosen(model, average).zero_grad()
        lose(model, x).backward()
        optimizer.step()


def broken():
    train(lambda model, average: average)


def sound():
    train(lambda model, average: model)
