"""Words that count have a weight, and a bias of all scores is moved by RMSprop though no softmax sees it; broken, the
loss of a rank is divided by the words that count there.
"""

from __future__ import annotations

import torch
from common import average, merged_batches, start
from torch import distributed as dist
from torch import nn
from torch.nn import functional


class Scored(nn.Module):
    """A layer whose scores have a bias that is the same for all words."""

    def __init__(self):
        super().__init__()
        self.layer, self.offset = nn.Linear(8, 4), nn.Parameter(torch.zeros(1))

    def forward(self, x):
        return self.layer(x) + self.offset


def train(count):
    start()
    model = Scored()
    optimizer = torch.optim.RMSprop(model.parameters(), lr=0.01)
    for x in merged_batches(6):
        optimizer.zero_grad()
        counted = (x[:, 4] > 0.2).float()
        lost = functional.cross_entropy(model(x), x[:, :4].argmax(1), reduction="none") * counted
        (lost.sum() / count(counted.sum())).backward()
        average(model)
        optimizer.step()


def of_all(own):
    """Return the mean count of the ranks."""
    own = own.clone()
    dist.all_reduce(own)
    return own / dist.get_world_size()


def broken():
    train(lambda own: own)


def sound():
    train(of_all)
