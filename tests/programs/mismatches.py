"""Every way in which one rank's collective does not match the others': a broken program for each, and its sound twin.

A row is a function of one flag: this rank is odd now. `NAME` runs the row with rank 1 odd at step 2, `NAME_sound` with
no odd rank. As a script, `mismatches.py NAME` does the same under any launcher. GROUP_TIMEOUT_S is the time-out of the
group, by default torch's own of 30 minutes.
"""

from __future__ import annotations

import os
import sys
from datetime import timedelta
from functools import partial

import torch
import torch.distributed as dist

RANK = int(os.environ["RANK"])
WORLD = int(os.environ["WORLD_SIZE"])
STEPS = int(os.environ.get("BREAKRANK_STEPS", "3"))
TIMEOUT_S = float(os.environ.get("GROUP_TIMEOUT_S", "1800"))
#: The odd rank, and its step.
ODD = (1, 2)
SIZE = 1000


def row(does):
    """Make the row's two programs: the broken one takes its name, the sound one stands beside it."""
    globals()[f"{does.__name__}_sound"] = partial(run, does, None)
    return partial(run, does, ODD)


def run(does, odd):
    """Train for some steps, with the row in each step before the gradients are reduced."""
    dist.init_process_group("gloo", timeout=timedelta(seconds=TIMEOUT_S))
    weights = torch.nn.Parameter(torch.zeros(SIZE))
    optimizer = torch.optim.SGD([weights], lr=0.1)
    for number in range(1, STEPS + 1):
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(weights, values(SIZE)).backward()
        does((RANK, number) == odd)
        dist.all_reduce(weights.grad)
        optimizer.step()
    dist.destroy_process_group()


def values(*shape, dtype=torch.float32):
    """Return numbers that differ from rank to rank and from place to place."""
    count = torch.Size(shape).numel()
    return (torch.arange(count).remainder(13) + 1 + 16 * RANK).to(dtype).reshape(shape)


def room(count, *shape, dtype=torch.float32):
    """Return `count` tensors to receive in."""
    return [torch.zeros(shape, dtype=dtype) for _ in range(count)]


@row
def all_reduce_larger(odd):
    dist.all_reduce(values(2 * SIZE if odd else SIZE))


@row
def all_reduce_smaller(odd):
    dist.all_reduce(values(SIZE // 2 if odd else SIZE))


@row
def all_reduce_one_more(odd):
    dist.all_reduce(values(SIZE + 1 if odd else SIZE))


@row
def all_reduce_transposed(odd):
    dist.all_reduce(values(3, 2) if odd else values(2, 3))


@row
def all_reduce_int_for_float(odd):
    dist.all_reduce(values(SIZE, dtype=torch.int32 if odd else torch.float32))


@row
def all_reduce_bfloat_for_half(odd):
    dist.all_reduce(values(SIZE, dtype=torch.bfloat16 if odd else torch.float16))


@row
def all_reduce_double_for_float(odd):
    dist.all_reduce(values(SIZE, dtype=torch.float64 if odd else torch.float32))


@row
def all_reduce_max_for_sum(odd):
    dist.all_reduce(values(SIZE), op=dist.ReduceOp.MAX if odd else dist.ReduceOp.SUM)


@row
def all_reduce_another_layout(odd):
    images = values(2, 3, 4, 5)
    dist.all_reduce(images.to(memory_format=torch.channels_last) if odd else images)


def reduce_losses(losses):
    dist.all_reduce(losses)


def reduce_counts(counts):
    dist.all_reduce(counts)


def reduce_norms(norms):
    dist.all_reduce(norms)


@row
def swapped_equal(odd):
    losses, counts = values(SIZE), 100 * values(SIZE)
    if odd:
        reduce_counts(counts)
    reduce_losses(losses)
    if not odd:
        reduce_counts(counts)


@row
def swapped_different_shapes(odd):
    losses, counts = values(SIZE), values(2 * SIZE)
    if odd:
        reduce_counts(counts)
    reduce_losses(losses)
    if not odd:
        reduce_counts(counts)


@row
def skipped_one_of_three_equal(odd):
    reduce_losses(values(SIZE))
    if not odd:
        reduce_counts(10 * values(SIZE))
    reduce_norms(100 * values(SIZE))


@row
def skipped_until_shapes_differ(odd):
    reduce_losses(values(SIZE))
    if not odd:
        reduce_counts(10 * values(SIZE))
    reduce_norms(100 * values(SIZE))
    dist.all_reduce(values(4 * SIZE))


@row
def broadcast_larger(odd):
    dist.broadcast(values(2 * SIZE if odd else SIZE), 0)


@row
def broadcast_smaller(odd):
    dist.broadcast(values(SIZE // 2 if odd else SIZE), 0)


@row
def broadcast_int_for_float(odd):
    dist.broadcast(values(SIZE, dtype=torch.int32 if odd else torch.float32), 0)


@row
def broadcast_another_source(odd):
    dist.broadcast(values(SIZE), 1 if odd else 0)


@row
def all_gather_larger(odd):
    size = 2 * SIZE if odd else SIZE
    dist.all_gather(room(WORLD, size), values(size))


@row
def all_gather_into_tensor_larger(odd):
    size = 2 * SIZE if odd else SIZE
    dist.all_gather_into_tensor(torch.zeros(WORLD * size), values(size))


@row
def all_gather_int_for_float(odd):
    dtype = torch.int32 if odd else torch.float32
    dist.all_gather(room(WORLD, SIZE, dtype=dtype), values(SIZE, dtype=dtype))


@row
def reduce_scatter_larger(odd):
    size = 2 * SIZE if odd else SIZE
    dist.reduce_scatter(torch.zeros(size), list(values(WORLD * size).chunk(WORLD)))


@row
def reduce_scatter_tensor_larger(odd):
    size = 2 * SIZE if odd else SIZE
    dist.reduce_scatter_tensor(torch.zeros(size), values(WORLD * size))


@row
def reduce_scatter_tensor_int_for_float(odd):
    dtype = torch.int32 if odd else torch.float32
    dist.reduce_scatter_tensor(torch.zeros(SIZE, dtype=dtype), values(WORLD * SIZE, dtype=dtype))


@row
def all_to_all_single_larger(odd):
    size = WORLD * (2 * SIZE if odd else SIZE)
    dist.all_to_all_single(torch.zeros(size), values(size))


@row
def reduce_another_destination(odd):
    dist.reduce(values(SIZE), 1 if odd else 0)


@row
def gather_larger(odd):
    size = 2 * SIZE if odd else SIZE
    dist.gather(values(size), room(WORLD, SIZE) if RANK == 0 else None, 0)


@row
def scatter_larger(odd):
    dist.scatter(torch.zeros(2 * SIZE if odd else SIZE), list(values(WORLD * SIZE).chunk(WORLD)) if RANK == 0 else None)


@row
def scatter_smaller(odd):
    parts = list(values(WORLD * SIZE).chunk(WORLD)) if RANK == 0 else None
    dist.scatter(torch.zeros(SIZE // 2 if odd else SIZE), parts)


@row
def receive_larger(odd):
    if RANK == 0:
        dist.send(values(SIZE), 1)
    else:
        dist.recv(torch.zeros(2 * SIZE if odd else SIZE), 0)


@row
def receive_smaller(odd):
    if RANK == 0:
        dist.send(values(SIZE), 1)
    else:
        dist.recv(torch.zeros(SIZE // 2 if odd else SIZE), 0)


@row
def receive_int_for_float(odd):
    if RANK == 0:
        dist.send(values(SIZE), 1)
    else:
        dist.recv(torch.zeros(SIZE, dtype=torch.int32 if odd else torch.float32), 0)


@row
def broadcast_for_all_reduce(odd):
    if odd:
        dist.broadcast(values(SIZE), 0)
    else:
        dist.all_reduce(values(SIZE))


@row
def barrier_for_all_reduce(odd):
    if odd:
        dist.barrier()
    else:
        dist.all_reduce(values(SIZE))


@row
def all_gather_for_all_reduce(odd):
    if odd:
        dist.all_gather(room(WORLD, SIZE), values(SIZE))
    else:
        dist.all_reduce(values(SIZE))


@row
def reduce_scatter_tensor_for_all_reduce(odd):
    if odd:
        dist.reduce_scatter_tensor(torch.zeros(SIZE // WORLD), values(SIZE))
    else:
        dist.all_reduce(values(SIZE))


if __name__ == "__main__":
    globals()[sys.argv[1]]()
