"""Training goes on from saved weights; broken, rank 0 alone has them."""

from __future__ import annotations

from common import network, train_averaged


def restored(loads):
    model, saved = network(), network().state_dict()
    if loads:
        model.load_state_dict(saved)
    return model


def broken():
    train_averaged(lambda rank: restored(rank == 0))


def sound():
    train_averaged(lambda rank: restored(True))
