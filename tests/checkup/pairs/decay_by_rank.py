"""Two groups of parameters decay apart; broken, the second decays more on rank 1."""

from __future__ import annotations

import torch
from common import batches, learn, network, start, wrapped


def train(more):
    rank, _ = start()
    model = wrapped(network())
    weights = [p for p in model.parameters() if p.dim() > 1]
    vectors = [p for p in model.parameters() if p.dim() == 1]
    groups = [{"params": weights, "weight_decay": 0.1}, {"params": vectors, "weight_decay": more * rank}]
    optimizer = torch.optim.AdamW(groups, lr=0.01)
    for x in batches(4):
        learn(model, optimizer, x)


def broken():
    train(more=0.01)


def sound():
    train(more=0)
