"""Small training programs, each with one thing about it, for tests of how runs end."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import signal
import subprocess
import sys
import threading

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, TensorDataset

from breakrank_agent import state, step, tell

RANK = int(os.environ["RANK"])
STEPS = int(os.environ["BREAKRANK_STEPS"])


def train(each_step=lambda number, model: None):
    """Train a linear model on both ranks, with the gradients reduced by hand and a checkpoint per step."""
    dist.init_process_group("gloo")
    torch.manual_seed(1)
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    generator = torch.Generator().manual_seed(RANK)
    data = TensorDataset(torch.randn(4 * STEPS, 4, generator=generator), torch.randn(4 * STEPS, 1, generator=generator))
    for number, (features, target) in enumerate(DataLoader(data, batch_size=4), 1):
        each_step(number, model)
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(features), target).backward()
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
        optimizer.step()
        if RANK == 0:
            torch.save(model.state_dict(), "checkpoint.pt")
    dist.barrier()
    dist.destroy_process_group()


def with_momentum():
    """Train a linear model with a momentum, which the optimizer keeps."""
    wrapped(momentum=0.9)


def wrapped(momentum=0.0):
    """Train a linear model in DistributedDataParallel."""
    dist.init_process_group("gloo")
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=momentum)
    for _ in range(STEPS):
        optimizer.zero_grad()
        model(torch.full((4, 4), 1.0 + RANK)).sum().backward()
        optimizer.step()
    dist.barrier()
    # The wrapper goes before the group: its reducer, freed later, can wait for ever for gloo's loop (torch 2.13).
    del model
    dist.destroy_process_group()


def _on(rank, number, what):
    """Train, and do `what` on one rank before its step `number`."""
    train(lambda now, model: what() if (RANK, now) == (rank, number) else None)


def raises():
    """Raise on rank 1 at data that it cannot use."""

    def fail():
        raise ValueError("no such label")

    _on(1, 2, fail)


def leaves_with_three():
    """Exit on rank 1 with an exit code of its own."""
    _on(1, 2, lambda: sys.exit(3))


def leaves_at_once():
    """Leave on rank 1 by `os._exit`, with exit code 0."""
    _on(1, 2, lambda: os._exit(0))


def segfaults():
    """Read through a null pointer on rank 1."""
    _on(1, 2, lambda: ctypes.string_at(0))


def spins():
    """Compute on rank 1 for ever: it never comes to its second step, and is never idle."""

    def spin():
        while True:
            pass

    _on(1, 2, spin)


def ends_before_its_peer_asks():
    """End rank 1 well; rank 0 then waits for a word that only rank 1 could have given."""
    train()
    if RANK == 0:
        threading.Event().wait()


def works_on_alone():
    """End rank 1 well; rank 0 still has work of its own, with another program, and then ends well."""
    train()
    if RANK == 0:
        subprocess.run(["sleep", "0.7"], check=True)


def never_ends():
    """Make one step after the other on both ranks."""
    while True:
        step()


def never_steps():
    """Train nothing."""
    dist.init_process_group("gloo")
    dist.barrier()
    dist.destroy_process_group()


def leaves_a_daemon():
    """Start a process in a session of its own on each rank, and forget it."""
    train()
    subprocess.Popen(["sleep", "1000"], start_new_session=True)


def floods():
    """Print more on rank 1 than anybody will read."""
    _on(1, 2, lambda: sys.stdout.write("x" * 99 + "\n") and [sys.stdout.write("y" * 1023 + "\n") for _ in range(4096)])


def dies_at_the_exit():
    """Die on rank 1 when its work is over, as gloo's threads now and then make a process do."""
    train()
    if RANK == 1:
        import atexit

        atexit.register(os.kill, os.getpid(), signal.SIGABRT)


class Tidies:
    """Leaves a file when it is finalized."""

    def __init__(self, name):
        self.name = name
        self.itself = self

    def __del__(self, open=open):
        with open(self.name, "w") as file:
            file.write("tidied")


def leaves_it_to_python():
    """Leave files open and objects in cycles on rank 0, for Python to deal with at its end."""
    global kept, tidies
    dist.init_process_group("gloo")
    step()
    if RANK == 0:
        Tidies("held-by-nobody")
        tidies = Tidies("held-by-the-module")
        kept = open("left-open", "w")  # noqa: SIM115 - that is what it is about
        kept.write("flushed")
    dist.barrier()
    dist.destroy_process_group()


def regroups():
    """Connect anew on both ranks when a reduction fails, and reduce again."""
    dist.init_process_group("gloo")
    group = dist.group.WORLD
    weight = torch.zeros(3)
    for number in range(STEPS):
        try:
            dist.all_reduce(torch.ones(3), group=group)
        except RuntimeError:
            group = dist.new_group([0, 1])
            dist.all_reduce(torch.ones(3), group=group)
        weight += number
        step()
    state(total=float(weight.sum()))


def turns_to_nan():
    """Turn the weights of rank 1 to NaN from its second step on."""

    def spoil(now, model):
        if (RANK, now) == (1, 2):
            model.weight.data.fill_(float("nan"))

    train(spoil)


def needs_much_at_its_second_step():
    """Take 64 MB for a moment on both ranks."""
    train(lambda now, model: torch.ones(16 * 2**20) if now == 2 else None)


def reads_what_is_mapped():
    """Read all of a mapped file of 8 MB on each rank at each step."""
    with open(f"mapped-{RANK}.bin", "wb") as file:
        file.write(bytes(8 * 2**20))
    mapped = torch.from_file(file.name, size=8 * 2**20, dtype=torch.uint8)
    train(lambda number, model: mapped.sum())


def keeps_notes():
    """Write, keep, rename and read a file on each rank at each step, and print the refused calls."""

    def keep(number, model):
        name, kept = f"notes-{RANK}.new", f"notes-{RANK}"
        for call, what in (
            ("write", lambda: _noted(name, number)),
            ("fsync", lambda: _synced(name)),
            ("rename", lambda: os.replace(name, kept)),
            ("read", lambda: _read(kept)),
        ):
            try:
                what()
            except OSError as error:
                print(f"step {number}: {call} gave {errno.errorcode[error.errno]}")

    train(keep)


def keeps_the_last():
    """Write a file of all ranks, and one of its own, anew on each rank at each step, and print the refused calls."""

    def keep(number, model):
        os.makedirs("checkpoints", exist_ok=True)
        _noted(f"checkpoints/rank-{RANK}", number)
        try:
            _noted("checkpoints/last.tmp", number)
        except OSError as error:
            print(f"step {number}: write gave {errno.errorcode[error.errno]}")

    train(keep)


def _noted(name, number):
    with open(name, "wb", buffering=0) as file:
        file.write(b"step %d" % number)


def _synced(name):
    with open(name, "rb", buffering=0) as file:
        os.fsync(file.fileno())


def _read(name):
    descriptor = os.open(name, os.O_RDONLY)
    try:
        os.read(descriptor, 100)
    finally:
        os.close(descriptor)


def says_its_own_steps():
    """Train without an optimizer: the program says when a step is over."""
    for number in range(STEPS):
        tell("loss", loss=1.0 / (number + 1))
        step()
    state(total=STEPS)


def backward_alone():
    """Train without an optimizer: a step is a backward pass."""
    weight = torch.ones(3, requires_grad=True)
    for _ in range(STEPS):
        (weight * weight).sum().backward()
        with torch.no_grad():
            weight -= 0.1 * weight.grad
        weight.grad = None


def accumulates():
    """Train with two backward passes to a step."""
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(STEPS):
        for _ in range(2):
            model(torch.ones(2, 4)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()


def collectives():
    """Issue collectives in every way that the records must show."""
    import torch.distributed._functional_collectives as functional
    from torch.nn.parallel import DistributedDataParallel

    dist.init_process_group("gloo")
    ones = torch.ones(2)
    dist.all_reduce(ones, op=dist.ReduceOp.MAX)
    dist.broadcast(ones, 0)
    dist.all_gather([torch.empty(2), torch.empty(2)], ones)
    dist.all_gather_object([None, None], {"rank": RANK})
    functional.all_reduce(ones, "sum", dist.group.WORLD).sum()
    if RANK == 0:
        dist.send(ones, 1)
    else:
        dist.recv(ones, 0)
    part = dist.new_group([0, 1])
    dist.barrier(group=part)
    model = DistributedDataParallel(torch.nn.Linear(2, 1))
    model(ones).sum().backward()
    dist.destroy_process_group()


def crossed_locks():
    """Take two file locks, in opposite order on each rank: under some schedules the ranks deadlock."""
    shared = torch.from_file("shared.bin", shared=True, size=1, dtype=torch.float32)
    names = ["a.lock", "b.lock"] if RANK == 0 else ["b.lock", "a.lock"]
    first, second = (open(name, "w") for name in names)  # noqa: SIM115 - open until the rank ends
    for _ in range(STEPS):
        fcntl.flock(first, fcntl.LOCK_EX)
        shared.add_(1)
        fcntl.flock(second, fcntl.LOCK_EX)
        shared.add_(1)
        fcntl.flock(second, fcntl.LOCK_UN)
        fcntl.flock(first, fcntl.LOCK_UN)
        step()
    state(total=2 * 2 * STEPS)


def one_leaves_the_barrier():
    """Leave before a barrier on rank 1, under a schedule that knows which ranks can still come."""
    shared = torch.from_file("shared.bin", shared=True, size=1, dtype=torch.float32)
    dist.init_process_group("gloo")
    for _ in range(STEPS):
        shared.add_(1)
        step()
    if RANK == 1:
        os._exit(0)
    dist.barrier()
