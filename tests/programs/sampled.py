"""Training of which only some steps and elements are looked at: broken in between, each beside a sound twin."""

from __future__ import annotations

import collections
import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

STEPS = int(os.environ["BREAKRANK_STEPS"])
KEPT = []
LAST = collections.deque(maxlen=60)


def train(after, model=None):
    """Train, and call `after` with the step and the network at the end of each step, before the optimizer's."""
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    network = model or torch.nn.Linear(8, 4)
    replica = DistributedDataParallel(network)
    optimizer = torch.optim.SGD(replica.parameters(), lr=0.1)
    samples = torch.Generator().manual_seed(dist.get_rank())
    for step in range(1, STEPS + 1):
        optimizer.zero_grad()
        replica(torch.randn(4, 8, generator=samples)).square().mean().backward()
        after(step, network)
        optimizer.step()
    # PyTorch 2.13 may hang where the wrapper goes before the process does: see ../e2e/test_hangs.py.
    KEPT.append(replica)
    dist.destroy_process_group()


@torch.no_grad()
def nan_at_35(step, network):
    """Have one weight of each rank be none."""
    if step == 35:
        network.weight[0, 0] = float("nan")


def turns_nan():
    """Broken: a weight is NaN from step 35 on."""
    train(nan_at_35)


def overflows_when_summed():
    """Hold finite numbers whose sum is not finite in their dtype."""
    network = torch.nn.Linear(8, 4)
    network.register_parameter("wide", torch.nn.Parameter(torch.full((4,), 3e38)))
    forward = network.forward
    network.forward = lambda batch: forward(batch) + 0 * network.wide
    train(lambda step, network: None, network)


@torch.no_grad()
def apart_at_27(step, network):
    """Move a weight of rank 1."""
    if step == 27 and dist.get_rank() == 1:
        network.bias[0] += 1


def parts():
    """Broken: rank 1 parts at step 27."""
    train(apart_at_27)


def keeps():
    """Broken: keep a tensor of each step."""
    train(lambda step, network: KEPT.append(torch.zeros(64)))


def keeps_some():
    """Keep the tensors of the last 60 steps."""
    train(lambda step, network: LAST.append(torch.zeros(64)))


def laid_out_otherwise():
    """Broken: reduce a large matrix that lies transposed on rank 1."""
    reduce(dist.get_rank)


def laid_out_alike():
    """Reduce a large matrix that lies transposed on all ranks."""
    reduce(lambda: 1)


def reduce(transposed):
    """Train, and reduce a matrix of 40,000 elements in each step."""

    def after(step, network):
        matrix = torch.rand(200, 200, generator=torch.Generator().manual_seed(step + dist.get_rank()))
        if transposed():
            matrix = matrix.t()
        dist.all_reduce(matrix)
        gathered = torch.empty(2 * 40_000)
        dist.all_gather_into_tensor(gathered, matrix.flatten())
        part = torch.empty(20_000)
        dist.reduce_scatter_tensor(part, matrix.flatten())
        dist.broadcast(gathered, 0)

    train(after)
