"""Every way to a collective and to a message, on three ranks, each once or as often as the test says."""

from __future__ import annotations

import datetime
import os
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from torch.distributed.distributed_c10d import _coalescing_manager
from torch.nn.parallel import DistributedDataParallel

from breakrank_agent import step

RANK, WORLD = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])


def ones(*shape):
    """Return a tensor that tells its rank."""
    return torch.ones(*shape) * (RANK + 1)


def main():
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=77))
    results = [*from_python(), *asynchronous(), *messages(), *subgroups(), *from_functional(), *from_ddp()]
    Path(f"results-{RANK}.txt").write_text("\n".join(map(str, results)))
    dist.barrier()
    dist.monitored_barrier()
    dist.destroy_process_group()


def from_python():
    """Issue collectives that Python asks for and waits for."""
    one, parts = ones(2, 3), ones(WORLD * 2)
    dist.all_reduce(one, op=dist.ReduceOp.MAX)
    dist.broadcast(one, 1)
    # The content of the tensor on a rank that is not the root is no result.
    product = one.clone()
    dist.reduce(product, 2, op=dist.ReduceOp.PRODUCT)
    gathered = [torch.empty(2) for _ in range(WORLD)]
    dist.all_gather(gathered, ones(2))
    whole = torch.empty(WORLD * 2)
    dist.all_gather_into_tensor(whole, ones(2))
    to_root = [torch.empty(2) for _ in range(WORLD)] if RANK == 0 else None
    dist.gather(ones(2), to_root, 0)
    share = torch.empty(2)
    dist.scatter(share, [ones(2) * i for i in range(WORLD)] if RANK == 1 else None, 1)
    piece = torch.empty(2)
    dist.reduce_scatter_tensor(piece, parts, op=dist.ReduceOp.MIN)
    listed = torch.empty(2)
    dist.reduce_scatter(listed, [ones(2) for _ in range(WORLD)])
    exchanged = torch.empty(WORLD)
    dist.all_to_all_single(exchanged, ones(WORLD))
    uneven = torch.empty(WORLD * (RANK + 1), dtype=torch.int64)
    dist.all_to_all_single(uneven, torch.arange(WORLD * (WORLD + 1) // 2), [RANK + 1] * WORLD, [1, 2, 3])
    named = [None] * WORLD
    dist.all_gather_object(named, {"rank": RANK})
    told = [RANK]
    dist.broadcast_object_list(told, 2)
    reduced = product if RANK == 2 else None
    return one, reduced, gathered, whole, to_root, share, piece, listed, exchanged, uneven, named, told


def asynchronous():
    """Issue collectives that Python waits for later, or never waits for."""
    first, second, third, fourth = ones(4), ones(4), ones(4), ones(4)
    works = [dist.all_reduce(first, async_op=True), dist.broadcast(second, 0, async_op=True)]
    for work in reversed(works):
        work.wait()
    dist.all_reduce(third, async_op=True).get_future().wait()
    work = dist.all_reduce(fourth, async_op=True)
    while not work.is_completed():
        pass
    coalesced = [ones(2), ones(3)]
    with _coalescing_manager():
        for tensor in coalesced:
            dist.all_reduce(tensor)
    return first, second, third, fourth, coalesced


def messages():
    """Send messages between ranks: around the ring, from any source, and in a batch."""
    got, batched, anyones = torch.zeros(2), torch.zeros(2), torch.zeros(1)
    after, before = (RANK + 1) % WORLD, (RANK - 1) % WORLD
    if RANK == 0:
        dist.send(ones(2), after, tag=5)
        dist.recv(got, before, tag=5)
        dist.recv(anyones, tag=7)  # another tag: with that of the exchange below, it could take that message
    else:
        dist.recv(got, before, tag=5)
        dist.send(ones(2), after, tag=5)
        if RANK == 1:
            dist.send(ones(1), 0, tag=7)
    exchange = [dist.P2POp(dist.isend, ones(2), after), dist.P2POp(dist.irecv, batched, before)]
    for work in dist.batch_isend_irecv(exchange):
        work.wait()
    return got, batched, anyones


def subgroups():
    """Issue collectives in a part of the world, whose roots are named by their rank in the world."""
    pair = dist.new_group([1, 2])
    value = ones(2)
    if RANK in (1, 2):
        dist.broadcast(value, 2, group=pair)
        dist.all_reduce(value, group=pair)
    return [value]


def from_functional():
    """Issue functional collectives, which call from C++."""
    largest = functional.all_reduce(ones(2), "max", dist.group.WORLD)
    gathered = functional.all_gather_tensor(ones(2), 0, dist.group.WORLD)
    return largest + 0, gathered + 0


def from_ddp():
    """Issue the broadcasts of DDP's constructor, and the all-reduces of its reducer."""
    torch.manual_seed(RANK)
    model = DistributedDataParallel(torch.nn.Linear(2, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(2):
        optimizer.zero_grad()
        model(ones(2)).sum().backward()
        optimizer.step()
    return list(model.parameters())


def twice():
    """Take the world down, and set it up again.

    Each time the ranks meet at another place: at the same port one could still reach the store of the time before.
    """
    for times in (1, 2):
        meeting = f"file://{os.getcwd()}/meeting-{times}"
        dist.init_process_group("gloo", init_method=meeting, rank=RANK, world_size=WORLD)
        for _ in range(times):
            dist.all_reduce(ones(2))
        dist.destroy_process_group()
    for _ in range(int(os.environ["BREAKRANK_STEPS"])):
        step()
