"""Gradients are averaged by name; broken, rank 1 has the names in the order of another dict."""

from __future__ import annotations

from common import alike_layers, average_named, train_with


def train(names_of):
    train_with(alike_layers(), lambda model, rank: average_named(model, names_of(model, rank)))


def broken():
    train(lambda model, rank: sorted(dict(model.named_parameters()), reverse=rank == 1))


def sound():
    train(lambda model, rank: sorted(dict(model.named_parameters())))
