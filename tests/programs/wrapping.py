"""Small training under DistributedDataParallel; the programs differ in the gradients that they reduce."""

from __future__ import annotations

import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

RANK = int(os.environ["RANK"])
STEPS = int(os.environ["BREAKRANK_STEPS"])


class Two(torch.nn.Module):
    """Two layers, of which the second is only used if somebody asks for it."""

    def __init__(self, second):
        super().__init__()
        self.used, self.spare, self.second = torch.nn.Linear(4, 1), torch.nn.Linear(4, 1), second

    def forward(self, features):
        """Return a number for each row."""
        return self.used(features) + (self.spare(features) if self.second else 0)


def train(model, steps=STEPS, pieces=1, wrap=lambda wrapped: wrapped, **options):
    """Train a model under the wrapper, each batch in some pieces, the last of which is reduced."""
    dist.init_process_group("gloo")
    wrapped = DistributedDataParallel(model, **options)
    optimizer = torch.optim.SGD(wrapped.parameters(), lr=0.1)
    generator = torch.Generator().manual_seed(RANK)
    called = wrap(wrapped)
    for _ in range(steps):
        optimizer.zero_grad()
        for piece in range(pieces):
            wrapped.require_backward_grad_sync = piece == pieces - 1
            called(torch.randn(4, 4, generator=generator)).sum().backward()
        optimizer.step()
    dist.barrier()
    del wrapped, called
    dist.destroy_process_group()


def spare_layer_unsaid():
    """Leave a layer unused, without telling the wrapper, and end the one step before it would complain."""
    train(Two(second=False), steps=1)


def spare_layer():
    """Leave a layer unused, and have the wrapper look for it."""
    train(Two(second=False), find_unused_parameters=True)


def accumulates():
    """Train with two pieces to a step."""
    train(Two(second=True), pieces=2)


def many_layers():
    """Train with more parameters than a record names."""
    train(torch.nn.Sequential(*(torch.nn.Linear(4, 4) for _ in range(150))))


def compiled():
    """Call the wrapper through torch's compiler, without any code being generated."""
    train(Two(second=True), wrap=lambda wrapped: torch.compile(wrapped, backend="eager"))
