"""Programs in which one rank goes another way at a step, so that others wait for ever; and sound programs like them.

Each step is an all-reduce, a message from rank 1 to rank 0, and a barrier.
"""

from __future__ import annotations

import ctypes
import os
import queue
import sys
import threading
import time

import torch
import torch.distributed as dist

from breakrank_agent import step

RANK = int(os.environ["RANK"])
STEPS = int(os.environ["BREAKRANK_STEPS"])
BAD = 3


def reduce():
    dist.all_reduce(torch.ones(8))


def message():
    if RANK == 1:
        dist.send(torch.ones(4), 0)
    elif RANK == 0:
        dist.recv(torch.ones(4), 1)


def barrier():
    dist.barrier()


PARTS = (reduce, message, barrier)


def _train(odd, parts, usual=PARTS):
    """Do the usual parts at each step, and on the odd rank, at step 3, others."""
    dist.init_process_group("gloo")
    for number in range(1, STEPS + 1):
        for part in parts if (RANK, number) == (odd, BAD) else usual:
            part()
        step()
    dist.destroy_process_group()


def skips_a_reduction():
    _train(1, (message, barrier))


def swaps_two():
    """Have rank 2, which has no part in the message, come to the barrier first."""
    _train(2, (barrier, reduce))


def skips_the_barrier():
    """Skip the barrier on rank 0, which comes to the next step before the others."""
    _train(0, (reduce, message))


def does_not_send():
    _train(1, (reduce, barrier))


def does_not_receive():
    _train(0, (reduce, barrier))


def receives_once_more():
    _train(0, (reduce, message, lambda: dist.recv(torch.ones(4), 1), barrier))


def waits_for_a_queue():
    _train(0, (queue.Queue().get,))


def waits_for_its_own_lock():
    lock = threading.Lock()
    _train(2, (lock.acquire, lock.acquire))


def spins():
    def spin():
        while True:
            pass

    _train(1, (reduce, message, spin))


def has_another_root():
    def broadcast():
        dist.broadcast(torch.ones(4), 2 if (RANK, number[0]) == (2, BAD) else 0)
        number[0] += 1

    number = [1]
    _train(0, (broadcast, barrier), (broadcast, barrier))


def crosses_groups():
    """Take two groups in the other order on rank 1."""
    dist.init_process_group("gloo")
    one, two = dist.new_group([0, 1]), dist.new_group([0, 1, 2])
    for number in range(1, STEPS + 1):
        groups = [two, one] if (RANK, number) == (1, BAD) else [one, two]
        for group in groups:
            if RANK in dist.get_process_group_ranks(group):
                dist.all_reduce(torch.ones(8), group=group)
        step()
    dist.destroy_process_group()


def waits_for_a_work():
    """Start an all-reduce in the background on rank 1, and never on the others."""
    dist.init_process_group("gloo")
    for number in range(1, STEPS + 1):
        reduce()
        if number == BAD and RANK == 1:
            dist.all_reduce(torch.ones(3), async_op=True).wait()
        barrier()
        step()


def _meet(odd, **said):
    """Meet the others; the odd rank says something else."""
    dist.init_process_group(**{"backend": "gloo", **(said if odd == RANK else {})})
    barrier()


def _train_plainly():
    for _ in range(STEPS):
        reduce()
        step()
    dist.destroy_process_group()


def never_comes():
    if RANK == 2:
        sys.exit()
    _meet(-1)


def waits_before_it_comes():
    if RANK == 2:
        queue.Queue().get()
    _meet(-1)


def the_first_never_comes():
    if RANK == 0:
        sys.exit()
    _meet(-1)


def knows_another_world():
    _meet(1, init_method="env://", rank=1, world_size=4)


def all_know_another_world():
    dist.init_process_group("gloo", rank=RANK, world_size=4)


def comes_twice():
    _meet(2, init_method="env://", rank=1, world_size=3)


def comes_to_another_master():
    if RANK == 1:
        os.environ["MASTER_PORT"] = str(int(os.environ["MASTER_PORT"]) + 1)
    _meet(-1)


def speaks_another_backend():
    """Leave rank 2 at the backend that only pretends, so that it trains alone."""
    dist.init_process_group("fake" if RANK == 2 else "gloo", rank=RANK, world_size=3)
    barrier()


def names_its_backend_another_way_and_one_never_comes():
    if RANK == 2:
        sys.exit()
    dist.init_process_group("gloo" if RANK == 0 else None)


def comes_on_another_interface():
    """Train soundly, if the others reach the address of the odd rank."""
    if RANK == 2:
        os.environ["GLOO_SOCKET_IFNAME"] = "lo:9"
    _meet(-1)
    _train_plainly()


# --- sound ones


def names_its_backend_another_way():
    _meet(RANK, backend=("gloo", "cpu:gloo", None)[RANK])
    _train_plainly()


def straggles():
    """Sleep or compute on each rank in turn, long after the others have come."""
    dist.init_process_group("gloo")
    for number in range(1, STEPS + 1):
        if number % dist.get_world_size() == RANK:
            time.sleep(0.4) if number % 2 else _compute(0.4)
        for part in PARTS:
            part()
        step()
    dist.destroy_process_group()


def _compute(seconds):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        torch.ones(64, 64) @ torch.ones(64, 64)


def goes_many_ways():
    """Train with several groups, works in the background, a long branch of rank 0, waiting threads, uneven inputs."""
    dist.init_process_group("gloo")
    pair, world = dist.new_group([0, 1]), dist.get_world_size()
    jobs: queue.Queue = queue.Queue()
    threading.Thread(target=jobs.get, daemon=True).start()
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with model.join():
        for _ in range(STEPS + RANK):
            model(torch.ones(4, 8)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
    for _ in range(STEPS):
        works = [dist.all_reduce(torch.ones(2048), async_op=True) for _ in range(4)]
        if RANK < 2:
            dist.all_reduce(torch.ones(16), group=pair)
        if RANK == 0:
            time.sleep(0.15)
        for work in works:
            work.wait()
        parts = [None] * world
        dist.all_gather_object(parts, {"rank": RANK})
        lock = threading.Event()
        threading.Timer(0.15, lock.set).start()
        lock.wait()
        dist.barrier()
    dist.destroy_process_group()


def _join_with_the_gil():
    """Join a thread that wants the GIL, and keep the GIL meanwhile, as a destructor in C++ does."""
    library, thread = ctypes.PyDLL(None), ctypes.c_ulong()
    works = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)(lambda given: None)
    library.pthread_create(ctypes.byref(thread), None, works, None)
    library.pthread_join(thread, None)


def joins_a_thread_that_wants_the_gil():
    _train(1, (reduce, _join_with_the_gil))


def ends_holding_the_gil():
    """Stand still on rank 1 after the last step, when the others have ended."""
    _train(-1, PARTS)
    if RANK == 1:
        _join_with_the_gil()
