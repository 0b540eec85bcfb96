"""A thread writes model and optimizer; broken, the model's tensors are copied, and the optimizer's are not."""

from __future__ import annotations

import copy

import torch
from common import Gate, batches, learn, start, wrapped_network


def train(copied):
    start()
    model = wrapped_network()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    gate = Gate()
    for x in batches(5):
        learn(model, optimizer, x)
        if gate.count == 2:
            state = copy.deepcopy(model.state_dict())
            gate.save({"model": state, "optimizer": copied(optimizer.state_dict())})
        gate.step()
    gate.close()


def broken():
    train(lambda state: state)


def sound():
    train(copy.deepcopy)
