"""Ranks that multiprocessing starts, with tensors that they share: multiprocessing orders some accesses, others not."""

import sys

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def by_lock(rank, t, tools):
    with tools["lock"]:
        t.add_(1)


def by_condition(rank, t, tools):
    with tools["condition"]:
        t.add_(1)
        tools["condition"].notify()


def by_barrier(rank, t, tools):
    for turn in range(2):
        if turn == rank:
            t.add_(1)
        tools["barrier"].wait()


def by_event(rank, t, tools):
    if rank == 0:
        t.add_(1)
        tools["event"].set()
    else:
        tools["event"].wait()
        t.add_(1)


def by_semaphore(rank, t, tools):
    if rank == 0:
        t.add_(1)
        tools["semaphore"].release()
    else:
        tools["semaphore"].acquire()
        t.add_(1)


def by_queue(rank, t, tools):
    if rank == 0:
        t.add_(1)
        tools["queue"].put("done")
    else:
        tools["queue"].get()
        t.add_(1)


def by_simple_queue(rank, t, tools):
    if rank == 0:
        t.add_(1)
        tools["simple_queue"].put("done")
    else:
        tools["simple_queue"].get()
        t.add_(1)


def with_a_lock_each(rank, t, tools):
    with tools["locks"][rank]:
        t.add_(1)


def after_the_barrier(rank, t, tools):
    tools["barrier"].wait()
    t.add_(1)


def before_the_event(rank, t, tools):
    if rank == 0:
        tools["event"].set()
        t.add_(1)
    else:
        tools["event"].wait()
        t.add_(1)


def after_the_put(rank, t, tools):
    if rank == 0:
        tools["queue"].put("done")
        t.add_(1)
    else:
        tools["queue"].get()
        t.add_(1)


WAYS = {
    "clean": [by_lock, by_condition, by_barrier, by_event, by_semaphore, by_queue, by_simple_queue],
    "racy": [with_a_lock_each, after_the_barrier, before_the_event, after_the_put],
}


def work(rank, ways, tensors, tools):
    dist.init_process_group("gloo", init_method=f"file://{tools['store']}", rank=rank, world_size=2)
    weight = torch.zeros(1, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.1)
    for way, t in zip(WAYS[ways], tensors, strict=True):
        way(rank, t, tools)
    weight.sum().backward()
    optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    ways, store, method = sys.argv[1:]
    made = mp.get_context(method)
    tools = {
        "store": store,
        "lock": made.Lock(),
        "locks": [made.Lock(), made.Lock()],
        "condition": made.Condition(),
        "barrier": made.Barrier(2),
        "event": made.Event(),
        "semaphore": made.Semaphore(0),
        "queue": made.Queue(),
        "simple_queue": made.SimpleQueue(),
    }
    tensors = [torch.zeros(4).share_memory_() for _ in WAYS[ways]]
    ranks = [made.Process(target=work, args=(rank, ways, tensors, tools)) for rank in range(2)]
    for rank in ranks:
        rank.start()
    for rank in ranks:
        rank.join()
    print([int(t[0]) for t in tensors])
    sys.exit(max(rank.exitcode for rank in ranks))
