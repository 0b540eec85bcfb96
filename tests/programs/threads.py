"""Threads of one rank and their tensors: functions whose accesses race, and functions whose accesses do not.

Each function of `RACY` and `CLEAN` is one variant; a program runs several of them in turn.
"""

from __future__ import annotations

import io
import queue
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import torch

from breakrank_agent import state, step, tell


def together(*parts: Callable[[], object]) -> None:
    """Run the parts in a thread each, and wait for all."""
    threads = [threading.Thread(target=part) for part in parts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def increase(tensor: torch.Tensor) -> None:
    tensor[0] = tensor[0] + 1


# --- racy


def no_lock() -> None:
    t = torch.zeros(1)

    def part() -> None:
        t[0] = t[0] + 1

    together(part, part)


def two_locks() -> None:
    t = torch.zeros(1)

    def part(lock: threading.Lock) -> None:
        with lock:
            t.add_(1)

    together(lambda: part(threading.Lock()), lambda: part(threading.Lock()))


def column_and_row() -> None:
    m = torch.zeros(4, 4)
    together(lambda: m[:, 1].add_(1), lambda: m[2].add_(1))


def both_after_a_barrier() -> None:
    t, barrier = torch.zeros(1), threading.Barrier(2)

    def part(value: int) -> None:
        barrier.wait()
        t.fill_(value)

    together(lambda: part(1), lambda: part(2))


def changed_after_put() -> None:
    t, q = torch.zeros(3), queue.Queue()

    def put() -> None:
        q.put(t)
        t.add_(1)

    together(put, lambda: q.get().sum())


def changed_before_join() -> None:
    t = torch.zeros(3)
    thread = threading.Thread(target=lambda: t.add_(1))
    thread.start()
    t.mul_(2)
    thread.join()


def read_while_written() -> None:
    t = torch.zeros(3)
    together(lambda: t.copy_(torch.ones(3)), lambda: t.sum())


def hogwild() -> None:
    weight = torch.ones(3, requires_grad=True)

    def part() -> None:
        own = weight.detach().clone().requires_grad_()
        (own * own).sum().backward()
        with torch.no_grad():
            weight.sub_(0.1 * own.grad)

    together(part, part)


def numpy_while_written() -> None:
    t = torch.zeros(3)
    together(lambda: t.add_(1), lambda: t.numpy())


def list_while_written() -> None:
    t = torch.zeros(3)
    together(lambda: t.add_(1), lambda: t.tolist())


def printed_while_written() -> None:
    t = torch.zeros(3)
    together(lambda: t.add_(1), lambda: repr(t))


def saved_while_written() -> None:
    t = torch.zeros(3)
    together(lambda: t.add_(1), lambda: torch.save({"model": t}, io.BytesIO()))


def shared_by_dlpack_while_written() -> None:
    t = torch.zeros(3)
    together(lambda: t.add_(1), lambda: torch.utils.dlpack.to_dlpack(t) and torch.from_dlpack(t))


def made_by_one_used_by_the_other() -> None:
    box: list[torch.Tensor] = []

    def make() -> None:
        t = torch.ones(3) + 1
        t.mul_(2)
        box.append(t)

    def use() -> None:
        while not box:
            threading.Event().wait(0.001)
        box[0].sum()

    together(make, use)


#: Rows that two threads name, with one in common, and with none.
MEETING, APART = (torch.tensor([0, 2, 5]), torch.tensor([1, 5, 7])), (torch.tensor([0, 2, 5]), torch.tensor([1, -2, 7]))


def put_at_rows_that_meet() -> None:
    m = torch.zeros(8, 4)

    def part(rows: torch.Tensor) -> None:
        m[rows] = 1.0

    together(lambda: part(MEETING[0]), lambda: part(MEETING[1]))


def added_at_rows_that_meet() -> None:
    m = torch.zeros(8, 4)
    together(*(lambda rows=rows: m.index_add_(0, rows, torch.ones(3, 4)) for rows in MEETING))


def gathered_where_scattered() -> None:
    m, at = torch.zeros(8, 4), [rows.view(3, 1) for rows in MEETING]
    together(lambda: m.scatter_(0, at[0], 1.0), lambda: m.gather(0, at[1]))


def embedded_where_filled() -> None:
    m = torch.zeros(8, 4)
    together(lambda: m.index_fill_(0, MEETING[0], 1.0), lambda: torch.nn.functional.embedding(MEETING[1], m))


def masked_where_they_meet() -> None:
    m = torch.zeros(8)
    together(lambda: m.masked_fill_(torch.arange(8) < 4, 1.0), lambda: m[torch.arange(8) > 2].sum())


def put_where_a_slice_is_read() -> None:
    m = torch.zeros(8, 4)
    together(lambda: m[:, 1].sum(), lambda: m.put_(torch.tensor([9, 2]), torch.ones(2)))


# --- clean


def rows_apart() -> None:
    m, ones = torch.zeros(8, 4), torch.ones(3, 4)

    def part(mine: int) -> None:
        rows = APART[mine]
        m[rows] = 1.0
        m[rows] += m[rows]
        m.index_put_((rows,), ones, accumulate=True)
        m.index_add_(0, rows, ones).index_copy_(0, rows, ones).index_fill_(0, rows, 2.0)
        m.index_select(0, rows % 8)
        torch.nn.functional.embedding(rows % 8, m)

    together(lambda: part(0), lambda: part(1))


def elements_apart_by_an_index() -> None:
    m = torch.zeros(8, 4)

    def part(mine: int) -> None:
        at = (APART[mine] % 8).view(3, 1).expand(3, 4).contiguous()
        m.scatter_(0, at, 1.0).scatter_add_(0, at, torch.ones(3, 4))
        m.gather(0, at)
        m[:, 2:].gather(0, at[:, :2])

    together(lambda: part(0), lambda: part(1))


def masks_apart() -> None:
    m = torch.zeros(8, 4)

    def part(mine: int) -> None:
        mask = torch.arange(32).view(8, 4) % 2 == mine
        m.masked_fill_(mask, 1.0).masked_scatter_(mask, torch.ones(16))
        m[mask] = 2.0
        m.masked_select(mask)
        m[torch.arange(8) % 2 == mine, mine] = 3.0
        m.put_(torch.tensor([mine, mine + 8]), torch.ones(2))
        m.take(torch.tensor([mine + 2, mine - 4]))

    together(lambda: part(0), lambda: part(1))


def columns_apart_by_an_index() -> None:
    m = torch.zeros(8, 4)

    def part(mine: int) -> None:
        m[:, torch.tensor([mine, mine + 2])] = 1.0
        m[2:, None, torch.tensor([mine])].sum()
        m.t()[torch.tensor([mine])] = 2.0

    together(lambda: part(0), lambda: part(1))


def one_lock() -> None:
    t, lock = torch.zeros(1), threading.Lock()

    def part() -> None:
        with lock:
            increase(t)

    together(part, part)


def nested_rlock() -> None:
    t, lock = torch.zeros(1), threading.RLock()

    def part() -> None:
        with lock, lock:
            increase(t)

    together(part, part)


def elements_apart() -> None:
    t = torch.zeros(2)
    together(lambda: t[:1].add_(1), lambda: t[1:].add_(1))


def columns_apart() -> None:
    m = torch.zeros(5, 4)
    together(lambda: m[:, 0].add_(1), lambda: m[:, 1].add_(1), lambda: m[:, 2:].mul_(2))


def turns_by_barrier() -> None:
    t, barrier = torch.zeros(1), threading.Barrier(2)

    def part(mine: int) -> None:
        for turn in range(4):
            if turn % 2 == mine:
                t.add_(1)
            barrier.wait()

    together(lambda: part(0), lambda: part(1))


def told_by_event() -> None:
    t, ready = torch.zeros(1), threading.Event()

    def give() -> None:
        t.add_(1)
        ready.set()

    together(give, lambda: ready.wait() and t.mul_(2))


def seen_by_event() -> None:
    t, ready = torch.zeros(1), threading.Event()

    def give() -> None:
        t.add_(1)
        ready.set()

    def take() -> None:
        while not ready.is_set():
            threading.Event().wait(0.001)
        t.mul_(2)

    together(give, take)


def handed_by_queue() -> None:
    q: queue.Queue[torch.Tensor] = queue.Queue()

    def put() -> None:
        for number in range(3):
            q.put(torch.zeros(3).add_(number))

    together(put, lambda: [q.get().mul_(2) for _ in range(3)])


def handed_by_simple_queue() -> None:
    q: queue.SimpleQueue[torch.Tensor] = queue.SimpleQueue()
    together(lambda: q.put(torch.zeros(3).add_(1)), lambda: q.get().mul_(2))


def started_and_joined() -> None:
    t = torch.zeros(3)
    for _ in range(2):
        t.add_(1)
        thread = threading.Thread(target=lambda: t.add_(1))
        thread.start()
        thread.join()
        t.add_(1)


def two_readers() -> None:
    t = torch.ones(3)
    together(lambda: t.sum(), lambda: t.mean())


def temporaries() -> None:
    def part() -> None:
        for _ in range(20):
            torch.ones(1000).add_(1).mul_(2)

    together(part, part)


def trained_under_a_lock() -> None:
    torch.manual_seed(0)
    model, lock = torch.nn.Linear(4, 1), threading.Lock()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    def part() -> None:
        for _ in range(2):
            with lock:
                optimizer.zero_grad()
                model(torch.ones(2, 4)).sum().backward()
                optimizer.step()

    together(part, part)


def told_by_condition() -> None:
    t, condition, ready = torch.zeros(1), threading.Condition(), []

    def give() -> None:
        t.add_(1)
        with condition:
            ready.append(True)
            condition.notify()

    def take() -> None:
        with condition:
            condition.wait_for(lambda: ready)
        t.mul_(2)

    together(give, take)


def let_in_by_semaphore() -> None:
    t, room = torch.zeros(1), threading.Semaphore(0)

    def give() -> None:
        t.add_(1)
        room.release()

    together(give, lambda: room.acquire() and t.mul_(2))


def returned_by_a_future() -> None:
    t = torch.zeros(3)
    with ThreadPoolExecutor(2) as pool:
        pool.submit(lambda: t.add_(1)).result()
        t.mul_(2)
        list(pool.map(lambda n: torch.ones(3).mul_(n), range(4)))
    t.add_(1)


RACY = (
    no_lock,
    two_locks,
    column_and_row,
    both_after_a_barrier,
    changed_after_put,
    changed_before_join,
    read_while_written,
    hogwild,
    numpy_while_written,
    list_while_written,
    printed_while_written,
    saved_while_written,
    shared_by_dlpack_while_written,
    made_by_one_used_by_the_other,
    put_at_rows_that_meet,
    added_at_rows_that_meet,
    gathered_where_scattered,
    embedded_where_filled,
    masked_where_they_meet,
    put_where_a_slice_is_read,
)
CLEAN = (
    one_lock,
    nested_rlock,
    elements_apart,
    columns_apart,
    turns_by_barrier,
    told_by_event,
    seen_by_event,
    handed_by_queue,
    handed_by_simple_queue,
    started_and_joined,
    two_readers,
    temporaries,
    trained_under_a_lock,
    told_by_condition,
    let_in_by_semaphore,
    returned_by_a_future,
    rows_apart,
    elements_apart_by_an_index,
    masks_apart,
    columns_apart_by_an_index,
)


def run(variants: tuple[Callable[[], None], ...]) -> None:
    for variant in variants:
        variant()
    step()


def racy() -> None:
    """Run a third of the racy variants: no more than an attempt's findings are named."""
    run(RACY[:7])


def racy_too() -> None:
    """Run the next third of the racy variants."""
    run(RACY[7:14])


def racy_by_index() -> None:
    """Run the last third, which touches tensors by index."""
    run(RACY[14:])


def clean() -> None:
    """Run all clean variants."""
    run(CLEAN)


def count(guard: Callable[[], threading.Lock]) -> None:
    """Increase a number in two threads, three times each, and name it as the result."""
    t, lock = torch.zeros(1), guard()

    def part() -> None:
        for _ in range(3):
            with lock:
                t[0] += 1

    together(part, part)
    step()
    state(updates=int(t))
    tell("count", value=t.item())


def count_unlocked() -> None:
    """Count with a lock of its own in each thread, which excludes no other thread."""
    import contextlib

    count(contextlib.nullcontext)


def count_locked() -> None:
    """Count with the same lock in both threads."""
    count(threading.Lock)


def crossed_locks() -> None:
    """Take two locks in two threads, in opposite order."""
    t, one, other = torch.zeros(1), threading.Lock(), threading.Lock()

    def part(first: threading.Lock, second: threading.Lock) -> None:
        with first:
            t.add_(1)
            with second:
                t.add_(1)

    together(lambda: part(one, other), lambda: part(other, one))
    step()
