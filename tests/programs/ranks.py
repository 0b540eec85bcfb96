"""Two ranks and the tensors that both touch, or that a collective works on: racy and clean variants.

Each function of `RACY` and `CLEAN` is one variant; a program runs several of them in turn, each with a file of its own.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from breakrank_agent import step

RANK = int(os.environ["RANK"])
OTHER = 1 - RANK


def shared(size: int = 4, name: str = "") -> torch.Tensor:
    """Map a vector that both ranks share."""
    return torch.from_file(name or "shared.bin", shared=True, size=size, dtype=torch.float32)


@contextmanager
def lock(name: str = "shared.lock", how: Callable[..., object] = fcntl.flock) -> Iterator[None]:
    """Hold a file lock, until the file is closed."""
    with open(name, "w") as file:
        how(file, fcntl.LOCK_EX)
        yield


# --- racy: memory that ranks share


def copied(w: torch.Tensor) -> None:
    w.copy_(w + 1)


def updated(w: torch.Tensor) -> None:
    w.sub_(1)


def read_and_written(w: torch.Tensor) -> None:
    w.sum() if RANK else w.fill_(1)


def column_and_row(w: torch.Tensor) -> None:
    m = w.view(2, 2)
    (m[:, 0] if RANK else m[1]).add_(1)


def two_locks(w: torch.Tensor) -> None:
    with lock(f"lock-{RANK}"):
        w.add_(1)


def both_after_a_barrier(w: torch.Tensor) -> None:
    dist.barrier()
    w.add_(1)


def torn_snapshot(w: torch.Tensor) -> None:
    parts = w.split(1)
    for part in parts:
        part.clone() if RANK else part.add_(1)


def before_the_root_knows(w: torch.Tensor) -> None:
    """A broadcast tells the others of its root, and the root of nobody."""
    if RANK:
        w.add_(1)
    dist.broadcast(torch.zeros(1), 0)
    if not RANK:
        w.sum()


def against_the_message(w: torch.Tensor) -> None:
    """A message orders its receiver after its sender, and not the other way round."""
    if RANK == 0:
        dist.send(torch.zeros(1), 1)
        w.add_(1)
    else:
        w.add_(1)
        dist.recv(torch.zeros(1), 0)


# --- racy: tensors that a collective works on, before the collective was waited for


def changed_under_way(w: torch.Tensor) -> None:
    t = torch.ones(4)
    work = dist.all_reduce(t, async_op=True)
    t.add_(1)
    work.wait()


def read_under_way(w: torch.Tensor) -> None:
    t = torch.ones(4)
    work = dist.all_reduce(t, async_op=True)
    t.sum()
    work.wait()


def input_changed_under_way(w: torch.Tensor) -> None:
    t, out = torch.ones(2), [torch.empty(2), torch.empty(2)]
    work = dist.all_gather(out, t, async_op=True)
    t.mul_(2)
    work.wait()


def two_at_once(w: torch.Tensor) -> None:
    t, word = torch.ones(4), torch.zeros(1)
    # Neither work of rank 0 is over before both are issued: a work that is seen to be complete counts as waited for.
    if RANK == 1:
        dist.recv(word, 0)
    works = [dist.all_reduce(t, async_op=True), dist.all_reduce(t, async_op=True)]
    if RANK == 0:
        dist.send(word, 1)
    for work in works:
        work.wait()


def changed_while_sent(w: torch.Tensor) -> None:
    t = torch.ones(4)
    work = dist.isend(t, OTHER) if RANK == 0 else dist.irecv(t, OTHER)
    t.add_(1)
    work.wait()


# --- clean


def under_a_lock(w: torch.Tensor) -> None:
    with lock():
        w.copy_(w + 1)


def under_a_record_lock(w: torch.Tensor) -> None:
    with lock("record.lock", fcntl.lockf):
        w.sub_(1)


def turns_by_barrier(w: torch.Tensor) -> None:
    for turn in range(3):
        if turn % 2 == RANK:
            w.add_(1)
        dist.barrier()


def turns_by_all_reduce(w: torch.Tensor) -> None:
    for turn in range(2):
        if turn == RANK:
            w.add_(1)
        dist.all_reduce(torch.zeros(1))


def turns_by_a_subgroup(w: torch.Tensor) -> None:
    group = dist.new_group([0, 1])
    for turn in range(2):
        if turn == RANK:
            w.add_(1)
        dist.barrier(group)


def from_the_root(w: torch.Tensor) -> None:
    if RANK == 0:
        w.add_(1)
    dist.broadcast(torch.zeros(1), 0)
    if RANK:
        w.sum()


def with_the_message(w: torch.Tensor) -> None:
    if RANK == 0:
        w.add_(1)
        dist.send(torch.zeros(1), 1)
    else:
        dist.recv(torch.zeros(1), 0)
        w.add_(1)


def elements_apart(w: torch.Tensor) -> None:
    w[2 * RANK : 2 * RANK + 2].add_(1)


def columns_apart(w: torch.Tensor) -> None:
    w.view(2, 2)[:, RANK].add_(1)


def two_readers(w: torch.Tensor) -> None:
    w.sum()


def waited_for(w: torch.Tensor) -> None:
    t, other = torch.ones(4), torch.ones(4)
    work = dist.all_reduce(t, async_op=True)
    other.add_(1)
    work.wait()
    t.add_(1)
    again = dist.all_reduce(t, async_op=True)
    again.wait()
    t.sum()


def received(w: torch.Tensor) -> None:
    t = torch.ones(4)
    work = dist.isend(t, OTHER) if RANK == 0 else dist.irecv(t, OTHER)
    t.sum() if RANK == 0 else None
    work.wait()
    t.add_(1)


def ordered_by_a_work(w: torch.Tensor) -> None:
    if RANK == 0:
        w.add_(1)
    work = dist.barrier(async_op=True)
    work.wait()
    if RANK:
        w.add_(1)


def read_by_its_root(w: torch.Tensor) -> None:
    t = torch.ones(4)
    work = dist.broadcast(t, 0, async_op=True)
    t.sum() if RANK == 0 else None
    work.wait()


def trained_by_ddp(w: torch.Tensor) -> None:
    model = DistributedDataParallel(torch.nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(2):
        optimizer.zero_grad()
        model(torch.ones(2, 4)).sum().backward()
        optimizer.step()


RACY = (
    *(copied, updated, read_and_written, column_and_row, two_locks, both_after_a_barrier, torn_snapshot),
    *(before_the_root_knows, against_the_message),
    *(changed_under_way, read_under_way, input_changed_under_way, two_at_once, changed_while_sent),
)
CLEAN = (
    *(under_a_lock, under_a_record_lock, turns_by_barrier, turns_by_all_reduce, turns_by_a_subgroup, from_the_root),
    *(with_the_message, elements_apart, columns_apart, two_readers, waited_for, received, ordered_by_a_work),
    *(read_by_its_root, trained_by_ddp),
)


def run(variants: tuple[Callable[[torch.Tensor], None], ...]) -> None:
    dist.init_process_group("gloo")
    tensors = [shared(name=f"{variant.__name__}.bin") for variant in variants]
    for variant, tensor in zip(variants, tensors, strict=True):
        dist.barrier()
        variant(tensor)
    dist.barrier()
    step()
    dist.destroy_process_group()


def racy() -> None:
    """Run some racy variants: a report has eight findings at the most, and several may be of one variant."""
    run(RACY[:5])


def racy_too() -> None:
    """Run more racy variants."""
    run(RACY[5:10])


def racy_by_collectives() -> None:
    """Run the other racy variants."""
    run(RACY[10:])


def clean() -> None:
    """Run all clean variants."""
    run(CLEAN)
