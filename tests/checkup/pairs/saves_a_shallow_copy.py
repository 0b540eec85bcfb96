"""A thread writes a copy of the state; broken, a copy of the dict, whose tensors are those of the model."""

from __future__ import annotations

from common import Gate, batches, lose, start, train_by, wrapped_network


def train(copied):
    start()
    model = wrapped_network()
    gate = Gate()

    def after():
        if gate.count == 1:
            gate.save({"model": copied(model.state_dict()), "step": gate.count})
        gate.step()

    train_by(model, batches(5), lose, after=after)
    gate.close()


def broken():
    train(lambda state: dict(state))


def sound():
    train(lambda state: {name: tensor.clone() for name, tensor in state.items()})
