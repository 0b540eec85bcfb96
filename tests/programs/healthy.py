"""A sound job, drawn from the seed: uses of collectives by training, in shapes that look like a failure."""

from __future__ import annotations

import os
import random
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.join import Join
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset

RANK, WORLD = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
STEPS = int(os.environ["BREAKRANK_STEPS"])
#: Ten times the time of a proof that a rank waits.
LATE_S = 1.0


def any_job() -> None:
    """Do the job that the seed draws; the same on every rank."""
    draw = random.Random(int(os.environ["BREAKRANK_SEED"]))
    # Most jobs are quick, so that there can be many; a proof must not take the late ones for stuck.
    late = draw.choice([computes, sleeps]) if draw.random() < float(os.environ.get("HEALTHY_LATE", "0.05")) else None
    job = draw.choice(JOBS)
    when, who = draw.randint(1, STEPS), draw.randrange(WORLD)
    dist.init_process_group("gloo")
    torch.manual_seed(draw.randrange(1000))
    job(lambda number: late() if late is not None and (RANK, number) == (who, when) else None)
    dist.destroy_process_group()


def computes() -> None:
    """Come late, computing."""
    until = time.thread_time() + LATE_S
    while time.thread_time() < until:
        torch.ones(64, 64) @ torch.ones(64, 64)


def sleeps() -> None:
    """Come late, asleep."""
    time.sleep(LATE_S)


def batches(count: int = STEPS, workers: int = 0) -> DataLoader:
    """Return a loader of the rank's own batches."""
    generator = torch.Generator().manual_seed(RANK)
    features, targets = torch.randn(4 * count, 8, generator=generator), torch.randn(4 * count, 1, generator=generator)
    return DataLoader(TensorDataset(features, targets), batch_size=4, num_workers=workers)


def network() -> nn.Module:
    """Return the same small network on every rank."""
    return nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 1))


def loss_of(model: nn.Module, features: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Return the loss of a batch."""
    return nn.functional.mse_loss(model(features), targets)


def wrapped(late, workers: int = 0, buckets_mb: float = 25) -> None:
    """Train under DistributedDataParallel."""
    model = DistributedDataParallel(network(), bucket_cap_mb=buckets_mb)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for number, batch in enumerate(batches(workers=workers), 1):
        late(number)
        optimizer.zero_grad()
        loss_of(model, *batch).backward()
        optimizer.step()


def with_workers(late) -> None:
    """Train on batches that worker processes load."""
    wrapped(late, workers=1)


def in_buckets(late) -> None:
    """Train with a reduction for nearly every parameter, several of them pending."""
    wrapped(late, buckets_mb=1e-5)


def accumulated(late) -> None:
    """Step after every second backward pass, and reduce only then."""
    model = DistributedDataParallel(network())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for number, batch in enumerate(batches(2 * STEPS), 1):
        if number % 2:
            with model.no_sync():
                loss_of(model, *batch).backward()
        else:
            late(number // 2)
            loss_of(model, *batch).backward()
            optimizer.step()
            optimizer.zero_grad()


def uneven(late) -> None:
    """Train on one batch more on all ranks but the last, which joins in with nothing if it has no batch."""
    model = DistributedDataParallel(network())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with Join([model]):
        for number, batch in enumerate(batches(STEPS + (RANK < WORLD - 1)), 1):
            late(number)
            optimizer.zero_grad()
            loss_of(model, *batch).backward()
            optimizer.step()


def by_hand(late, average) -> None:
    """Train with gradients that are averaged by `average`."""
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for number, batch in enumerate(batches(), 1):
        optimizer.zero_grad()
        loss_of(model, *batch).backward()
        late(number)
        average(number, [parameter.grad for parameter in model.parameters()])
        optimizer.step()


def at_once(late) -> None:
    """Have all reductions pending, and wait for them in another order than they were issued in."""

    def average(number: int, gradients: list[torch.Tensor]) -> None:
        works = [dist.all_reduce(gradient, async_op=True) for gradient in gradients]
        for work in works[::-1] if RANK % 2 else works:
            work.wait()

    by_hand(late, average)


def in_groups(late) -> None:
    """Reduce each gradient in one of two groups, at once, and meet in a third with a time-out of its own."""
    groups = [dist.new_group(list(range(WORLD))) for _ in range(2)]
    third = dist.new_group([0, 1], timeout=timedelta(minutes=10))

    def average(number: int, gradients: list[torch.Tensor]) -> None:
        works = [dist.all_reduce(g, group=groups[i % 2], async_op=True) for i, g in enumerate(gradients)]
        for work in works:
            work.wait()
        if RANK in (0, 1):
            dist.barrier(group=third)

    by_hand(late, average)


def from_rank_0(late) -> None:
    """Let rank 0 do more than the others, and call the same collectives on other lines."""

    def average(number: int, gradients: list[torch.Tensor]) -> None:
        for gradient in gradients:
            if RANK == 0:
                dist.all_reduce(gradient)
            else:
                dist.all_reduce(gradient)
        settings = [{"number": number} if RANK == 0 else None]
        if RANK == 0:
            torch.save(settings, "settings.pt")
            dist.broadcast_object_list(settings, src=0)
        else:
            dist.broadcast_object_list(settings, src=0)

    by_hand(late, average)


def around(late) -> None:
    """Hand the gradients around in a ring, one message after the other."""

    def average(number: int, gradients: list[torch.Tensor]) -> None:
        for gradient in gradients:
            total, passing = gradient.clone(), gradient.clone()
            for _ in range(WORLD - 1):
                arriving = torch.empty_like(passing)
                sending = dist.isend(passing, (RANK + 1) % WORLD)
                dist.recv(arriving, (RANK - 1) % WORLD)
                sending.wait()
                total += arriving
                passing = arriving
            gradient.copy_(total)
            # The gradients are added up in another order on each rank, and so differ in the last bits.
            dist.broadcast(gradient, src=0)

    by_hand(late, average)


def gathered(late) -> None:
    """Gather the gradients on all ranks, and tell rank 0 alone how large they were."""

    def average(number: int, gradients: list[torch.Tensor]) -> None:
        for gradient in gradients:
            everybodys = [torch.empty_like(gradient) for _ in range(WORLD)]
            dist.all_gather(everybodys, gradient)
            gradient.copy_(torch.stack(everybodys).sum(0))
        sizes = [torch.zeros(1) for _ in range(WORLD)] if RANK == 0 else None
        dist.gather(gradients[0].norm().reshape(1), sizes, dst=0)

    by_hand(late, average)


JOBS = (wrapped, with_workers, in_buckets, accumulated, uneven, at_once, in_groups, from_rank_0, around, gathered)
