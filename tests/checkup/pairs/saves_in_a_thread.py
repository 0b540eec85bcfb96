"""A thread writes checkpoints while training goes on; broken, of the living parameters."""

from __future__ import annotations

import copy

from common import Gate, batches, lose, start, train_by, wrapped_network


def train(copies):
    start()
    model = wrapped_network()
    gate = Gate()

    def after():
        if gate.count == 2:
            state = model.state_dict()
            gate.save(copy.deepcopy(state) if copies else state)
        gate.step()

    train_by(model, batches(5), lose, after=after)
    gate.close()


def broken():
    train(copies=False)


def sound():
    train(copies=True)
