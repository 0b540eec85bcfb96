"""Programs of the checks' ranks: small trainings on the device that GPU_DEVICE names."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

from breakrank_agent import tell

DEVICE = os.environ["GPU_DEVICE"]
BATCH, WIDTH = 32, 1024
STEPS = 4
#: The rank and the step at which the batch is too large, and the share of the card that the batch takes by itself: the
#: network's output on it is as large again.
OVERSIZED_RANK, OVERSIZED_STEP, SHARE = 1, 3, 0.6
#: More than any processor can address.
NO_CARD = 1 << 50
#: Steps of the loops that keep something of each step.
KEEPING_STEPS = 20
#: The time that a step of the steady loop is to take, and the steps of one run that are left out and measured.
AIM_S, WARM_UP, MEASURED = 0.010, 20, 60


class Network(nn.Module):
    """Two layers."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 10)
        #: The activations of the last step.
        self.hidden = torch.empty(0)

    def forward(self, samples: torch.Tensor) -> torch.Tensor:
        """Return the scores of the classes."""
        self.hidden = functional.relu(self.first(samples))
        return self.second(self.hidden)


def oversized() -> None:
    """Train two ranks that reduce their gradients by hand; one of them gets a batch that does not fit."""
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    network, optimizer = make()
    for number in range(1, STEPS + 1):
        rows = BATCH
        if (rank, number) == (OVERSIZED_RANK, OVERSIZED_STEP):
            rows = int(SHARE * memory()) // (WIDTH * 4)
        optimizer.zero_grad()
        functional.cross_entropy(
            network(torch.zeros(rows, WIDTH, device=DEVICE)), torch.zeros(rows, dtype=torch.long, device=DEVICE)
        ).backward()
        for parameter in network.parameters():
            dist.all_reduce(parameter.grad)
        optimizer.step()
    dist.destroy_process_group()


def memory() -> int:
    """Return the bytes of the card."""
    return torch.cuda.get_device_properties(0).total_memory if DEVICE == "cuda" else NO_CARD


def sharing() -> None:
    """Train with DistributedDataParallel over gloo, each rank on batches of its own, then reduce and broadcast."""
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    network, optimizer = make()
    model = DistributedDataParallel(network)
    drawn = torch.Generator().manual_seed(rank)
    for _ in range(STEPS):
        samples = torch.randn(BATCH, WIDTH, generator=drawn).to(DEVICE)
        labels = torch.randint(10, (BATCH,), generator=drawn).to(DEVICE)
        optimizer.zero_grad()
        functional.cross_entropy(model(samples), labels).backward()
        optimizer.step()
    reduced = torch.full((WIDTH,), float(rank + 1), device=DEVICE)
    dist.all_reduce(reduced)
    given = torch.full((WIDTH,), float(rank), device=DEVICE)
    dist.broadcast(given, 1)
    tell("values", reduced=reduced.unique().tolist(), given=given.unique().tolist(), device=reduced.device.type)
    # The wrapper goes before the group: its reducer, freed later, can wait for ever for gloo's loop.
    del model
    dist.destroy_process_group()


def leaking() -> None:
    """Train, and keep the activations of every step."""
    kept: list[torch.Tensor] = []
    keep(kept.append)


def sound() -> None:
    """Train, and keep the activations of the last step."""
    kept: list[torch.Tensor] = []

    def replace(activations: torch.Tensor) -> None:
        kept[:] = [activations]

    keep(replace)


def keep(after: Callable[[torch.Tensor], None]) -> None:
    """Train, and hand the activations of each step to `after`; log the bytes that CUDA's allocator has given out."""
    network, optimizer = make()
    samples = torch.randn(BATCH, WIDTH, device=DEVICE)
    labels = torch.zeros(BATCH, dtype=torch.long, device=DEVICE)
    for _ in range(KEEPING_STEPS):
        optimizer.zero_grad()
        loss = functional.cross_entropy(network(samples), labels)
        after(network.hidden)
        loss.backward()
        optimizer.step()
        tell("allocated", bytes=torch.cuda.memory_allocated() if DEVICE == "cuda" else None)


def alone() -> None:
    """Call collectives in a group of one, over NCCL."""
    if DEVICE == "cuda":
        torch.cuda.set_device(0)
    dist.init_process_group("nccl" if DEVICE == "cuda" else "gloo")
    values = torch.arange(WIDTH, dtype=torch.float32, device=DEVICE)
    expected = values.clone()
    dist.all_reduce(values)
    dist.broadcast(values, 0)
    gathered, scattered = torch.empty_like(values), torch.empty_like(values)
    dist.all_gather_into_tensor(gathered, values)
    dist.reduce_scatter_tensor(scattered, gathered)
    dist.barrier()
    tell("values", equal=torch.equal(scattered, expected), backend=dist.get_backend())
    dist.destroy_process_group()


def first_use() -> None:
    """Log whether CUDA was initialised before this process used it, then use it."""
    # In a process that was forked from one that had initialised CUDA, `is_initialized` is false, too.
    tell("before", initialized=torch.cuda.is_initialized(), spoilt=torch.cuda._is_in_bad_fork())
    matrix = torch.full((WIDTH, WIDTH), 2.0, device=DEVICE)
    total = float((matrix @ matrix).sum())
    tell("after", initialized=torch.cuda.is_initialized(), equal=total == 4.0 * WIDTH**3)


def calibrate() -> None:
    """Find the size of the batch with which a step of the steady loop takes as long as is wanted."""
    size = 16
    while True:
        step = steps_of(size)
        took = median([seconds(step) for _ in range(2 * WARM_UP)][WARM_UP:])
        if took >= AIM_S or size >= 1 << 20:
            break
        size *= 2
    Path("batch.json").write_text(json.dumps(max(1, round(size * AIM_S / took))))


def steady() -> None:
    """Measure steps, one by one."""
    step = steps_of(int(os.environ["GPU_BATCH"]))
    for _ in range(WARM_UP):
        step()
    measured = [seconds(step) for _ in range(MEASURED)]
    Path("seconds.json").write_text(json.dumps(measured))


def steps_of(size: int) -> Callable[[], None]:
    """Return a function that trains one step on a batch of so many rows, and waits until the device is done."""
    layers = [layer for _ in range(4) for layer in (nn.Linear(WIDTH, WIDTH), nn.ReLU())]
    network = nn.Sequential(*layers).to(DEVICE)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.01)
    samples = torch.randn(size, WIDTH, device=DEVICE)

    def step() -> None:
        optimizer.zero_grad()
        functional.mse_loss(network(samples), samples).backward()
        optimizer.step()
        if DEVICE == "cuda":
            torch.cuda.synchronize()

    return step


def seconds(step: Callable[[], None]) -> float:
    """Return what one step took."""
    began = time.perf_counter()
    step()
    return time.perf_counter() - began


def make() -> tuple[Network, torch.optim.Optimizer]:
    """Return a network, the same on every rank, and its optimizer."""
    torch.manual_seed(0)
    network = Network().to(DEVICE)
    return network, torch.optim.SGD(network.parameters(), lr=0.01)
