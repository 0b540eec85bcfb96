"""A rank and the processes that it starts by `multiprocessing`, with tensors that they share: racy and clean variants.

Each function of `RACY` and `CLEAN` is one variant. BREAKRANK_METHOD names the start method of the processes.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator
from multiprocessing.connection import wait

import torch
import torch.multiprocessing as mp
from foreign_thread import in_a_thread_of_no_python

from breakrank_agent import step

made = mp.get_context(os.environ.get("BREAKRANK_METHOD", "fork"))


def add(t: torch.Tensor) -> None:
    t.add_(1)


def add_to_both(one: torch.Tensor, other: torch.Tensor) -> None:
    one.add_(1)
    other.sub_(1)


def add_under(t: torch.Tensor, lock) -> None:
    with lock:
        t.add_(1)


def add_and_send(t: torch.Tensor, connection) -> None:
    t.add_(1)
    connection.send("done")


def send_and_add(t: torch.Tensor, connection) -> None:
    connection.send_bytes(b"done")
    t.add_(1)


def receive_and_add(t: torch.Tensor, connection) -> None:
    connection.recv()
    t.add_(1)


def add_and_put(t: torch.Tensor, queue) -> None:
    t.add_(1)
    queue.put("done")


def add_and_wait(t: torch.Tensor, connection) -> None:
    t.add_(1)
    connection.close()
    threading.Event().wait()


def add_in_two_threads(t: torch.Tensor, lock) -> None:
    own = torch.zeros(4)

    def work() -> None:
        with lock or contextlib.nullcontext():
            own.add_(1)

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def write(path: str) -> None:
    with open(path, "w") as file:
        file.write("here")


def have_it_added(t: torch.Tensor) -> None:
    with child(add, t):
        pass


@contextlib.contextmanager
def child(target: Callable[..., None], *args: object) -> Iterator[mp.Process]:
    """Have a child work beside the body, and come after it."""
    process = made.Process(target=target, args=args)
    process.start()
    yield process
    process.join()


# --- racy


def written_by_both(t: torch.Tensor) -> None:
    with child(add, t):
        t.add_(1)


def read_before_the_end(t: torch.Tensor) -> None:
    with child(add, t):
        t.sum()


def two_at_once(t: torch.Tensor) -> None:
    with child(add, t), child(add, t):
        pass


def two_locks(t: torch.Tensor) -> None:
    with child(add_under, t, made.Lock()), child(add_under, t, made.Lock()):
        pass


def written_after_the_message(t: torch.Tensor) -> None:
    ours, theirs = made.Pipe(duplex=False)
    with child(send_and_add, t, theirs):
        ours.recv_bytes()
        t.sum()


def two_threads_of_a_child(t: torch.Tensor) -> None:
    with child(add_in_two_threads, t, None):
        pass


# --- clean


def written_in_turn(t: torch.Tensor) -> None:
    t.add_(1)
    with child(add, t):
        pass
    t.add_(1)
    with child(add, t):
        pass
    assert t[0] == 4


def under_one_lock(t: torch.Tensor) -> None:
    lock = made.Lock()
    with child(add_under, t, lock), child(add_under, t, lock), lock:
        t.add_(1)


def after_the_pipe(t: torch.Tensor) -> None:
    ours, theirs = made.Pipe(duplex=False)
    with child(add_and_send, t, theirs):
        ours.recv()
        t.add_(1)


def by_a_socket(t: torch.Tensor) -> None:
    ours, theirs = made.Pipe()
    with child(receive_and_add, t, theirs):
        t.add_(1)
        ours.send("done")


def after_the_queue(t: torch.Tensor) -> None:
    queue = made.SimpleQueue()
    with child(add_and_put, t, queue):
        queue.get()
        t.add_(1)


def found_ended(t: torch.Tensor) -> None:
    with child(add, t) as process:
        while process.is_alive():
            time.sleep(0.001)
        t.add_(1)


def seen_by_its_sentinel(t: torch.Tensor) -> None:
    with child(add, t) as process:
        assert wait([process.sentinel]) == [process.sentinel]
        t.add_(1)


def ended_by_force(t: torch.Tensor) -> None:
    ours, theirs = made.Pipe(duplex=False)
    with child(add_and_wait, t, theirs) as process:
        theirs.close()
        ours.poll(None)
        process.kill()
        process.join()
        t.add_(1)


def copies(t: torch.Tensor) -> None:
    own = torch.zeros(4)
    with child(add, own):
        own.add_(1)


def by_a_grandchild(t: torch.Tensor) -> None:
    with child(have_it_added, t):
        pass
    t.add_(1)


def threads_of_a_child(t: torch.Tensor) -> None:
    with child(add_in_two_threads, t, threading.Lock()):
        pass


RACY = (
    *(written_by_both, read_before_the_end, two_at_once, two_locks, written_after_the_message),
    *(two_threads_of_a_child,),
)
CLEAN = (
    *(written_in_turn, under_one_lock, after_the_pipe, by_a_socket, after_the_queue, found_ended),
    *(seen_by_its_sentinel, ended_by_force, copies, by_a_grandchild, threads_of_a_child),
)


def run(variants: tuple[Callable[[torch.Tensor], None], ...]) -> None:
    for variant in variants:
        variant(torch.zeros(4).share_memory_())
    step()


def racy() -> None:
    """Run all racy variants."""
    run(RACY)


def clean() -> None:
    """Run all clean variants."""
    run(CLEAN)


def writes() -> None:
    """Have two files written by a child and by its rank: one by both at once, one by both in turn."""
    with child(write, "at-once"):
        write("at-once")
    with child(write, "in-turn"):
        pass
    write("in-turn")
    step()


def spawned() -> None:
    """Start a process anew that adds to two tensors: its rank does so to one beside it, to the other after its end."""
    global made
    made = mp.get_context("spawn")
    beside, after = torch.zeros(4).share_memory_(), torch.zeros(4).share_memory_()
    with child(add_to_both, beside, after):
        beside.add_(1)
    after.add_(1)
    step()


def unseen() -> None:
    """Have a tensor touched by a thread of no Python, a process of a pool and one that is forked: none is watched."""
    t = torch.zeros(4).share_memory_()
    in_a_thread_of_no_python(t.tolist)
    with made.Pool(1) as pool:
        pool.apply(add, (t,))
    pid = os.fork()
    if pid == 0:
        add(t)
        os._exit(0)
    os.waitpid(pid, 0)
    assert t[0] == 2
    t.add_(1)
    step()
