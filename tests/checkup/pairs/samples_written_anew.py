"""Samples are mapped from a file; broken, they are drawn anew into the same file."""

from __future__ import annotations

import os

import numpy as np
import torch
from common import lose, start, train_by, wrapped_network


def draw(path, seed, replaces):
    with open(f"{path}.new" if replaces else path, "wb") as file:
        np.save(file, np.random.default_rng(seed).random((64, 8), dtype=np.float32))
    if replaces:
        os.replace(f"{path}.new", path)
    return np.load(path, mmap_mode="r")


def train(replaces):
    rank, _ = start()
    path, model = f"samples.{rank}.npy", wrapped_network()
    kept = []
    for epoch in range(3):
        kept.append(draw(path, epoch, replaces))
        train_by(model, [torch.tensor(kept[0][i : i + 16]) for i in range(0, 64, 16)], lose)


def broken():
    train(replaces=False)


def sound():
    train(replaces=True)
