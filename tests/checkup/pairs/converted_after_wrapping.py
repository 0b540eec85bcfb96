"""A model is converted there and back; broken, after it was wrapped, where that makes other parameters of them."""

from __future__ import annotations

import torch
from common import batches, lose, network, start, train_by, wrapped

torch.__future__.set_overwrite_module_params_on_conversion(True)


def broken():
    start()
    model = wrapped(network())
    model.double().float()
    train_by(model, batches(4), lose)


def sound():
    start()
    train_by(wrapped(network().double().float()), batches(4), lose)
