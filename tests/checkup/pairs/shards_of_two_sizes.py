"""Each rank cuts its shard into six batches; broken, the shards are of two sizes."""

from __future__ import annotations

import torch
from common import lose, start, train_by, wrapped_network


def train(sizes):
    rank, _ = start()
    samples = torch.randn(96, 8, generator=torch.Generator().manual_seed(2))
    shard = samples.split(sizes)[rank]
    train_by(wrapped_network(), shard.chunk(6), lose)


def broken():
    train([60, 36])


def sound():
    train([48, 48])
