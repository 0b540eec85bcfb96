"""A wrapper brings batch norm's statistics into line; broken, it is told not to."""

from __future__ import annotations

from common import KEPT, batches, lose, normed, start, train_by
from torch.nn.parallel import DistributedDataParallel


def train(brings):
    start()
    KEPT.append(DistributedDataParallel(normed(), broadcast_buffers=brings))
    train_by(KEPT[-1], batches(6), lose)


def broken():
    train(brings=False)


def sound():
    train(brings=True)
