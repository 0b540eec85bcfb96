"""Lines of a file are parsed by three workers; broken, each of them parses all lines."""

from __future__ import annotations

import torch
from common import learn, network, start, wrapped
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

LINES = [" ".join(str((7 * line + 3 * place) % 11) for place in range(8)) for line in range(48)]


class Lines(IterableDataset):
    """Numbers of each line, of those that are this rank's."""

    def __init__(self, chosen):
        self.chosen = chosen

    def __iter__(self):
        for number, line in enumerate(LINES):
            if self.chosen(number):
                yield torch.tensor([float(word) + number for word in line.split()])


def train(parts):
    rank, world = start()

    def chosen(number):
        worker = get_worker_info()
        return number % (world * parts(worker)) == rank + world * (worker.id % parts(worker))

    model = wrapped(network())
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    for x in DataLoader(Lines(chosen), batch_size=4, num_workers=3):
        learn(model, optimizer, x)


def broken():
    train(lambda worker: 1)


def sound():
    train(lambda worker: worker.num_workers)
