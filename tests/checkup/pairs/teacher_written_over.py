"""A teacher is mapped from the file of the best model; broken, a better one is written over it."""

from __future__ import annotations

import os

import torch
from common import batches, start, train_by, wrapped_network


def train(replaces):
    rank, _ = start()
    model, path = wrapped_network(), f"best.{rank}.pt"
    torch.save(model.module.state_dict(), path)
    teacher = torch.load(path, mmap=True)
    steps = []

    def loss(model, x):
        return (model(x) - x @ teacher["0.weight"].t()[:, :4]).pow(2).mean()

    def after():
        steps.append(1)
        if len(steps) == 3:
            torch.save(model.module.state_dict(), f"{path}.new" if replaces else path)
            if replaces:
                os.replace(f"{path}.new", path)

    train_by(model, batches(6), loss, after=after)


def broken():
    train(replaces=False)


def sound():
    train(replaces=True)
