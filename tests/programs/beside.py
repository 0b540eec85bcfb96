"""A training loop beside a thread that writes now and then, until it is told to stop."""

from __future__ import annotations

import threading

import torch

from breakrank_agent import state


def work(rounds: int, path: str = "log.txt", waits: bool = False) -> None:
    """Train for three steps, and tell the thread to stop after so many rounds, made before the first step or beside."""
    made, over = threading.Semaphore(0), threading.Event()

    def write() -> None:
        while not over.is_set():
            with open(path, "w") as file:
                file.write("here\n")
            made.release()

    thread = threading.Thread(target=write)
    thread.start()
    weight = torch.ones(2, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.1)
    for step in range(3):
        for _ in range(rounds if waits == (step == 2) else 0):
            made.acquire()
        optimizer.zero_grad()
        weight.sum().backward()
        optimizer.step()
    over.set()
    thread.join()
    state(trained=float(weight.sum()))


def few() -> None:
    work(2)


def many() -> None:
    work(40)


def late() -> None:
    work(5, waits=True)


def elsewhere() -> None:
    work(2, path="other.txt")
