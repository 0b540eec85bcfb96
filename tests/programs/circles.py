"""Programs whose ranks wait for each other in messages, or make groups that others do not make; and sound ones.

Each rank sends to the next one and receives from the one before it.
"""

from __future__ import annotations

import os

import torch
import torch.distributed as dist

from breakrank_agent import step

RANK = int(os.environ["RANK"])
WORLD = int(os.environ["WORLD_SIZE"])
STEPS = int(os.environ["BREAKRANK_STEPS"])
#: More than a socket holds.
LARGE = 1 << 20


def _train(pass_on):
    dist.init_process_group("gloo")
    for number in range(1, STEPS + 1):
        pass_on(number)
        step()
    dist.destroy_process_group()


def _send(size=4):
    dist.send(torch.ones(size), (RANK + 1) % WORLD)


def _receive(size=4):
    dist.recv(torch.ones(size), (RANK - 1) % WORLD)


def _both(first, second):
    first()
    second()


def all_send_first():
    _train(lambda _: _both(_send, _receive))


def all_send_much_first():
    _train(lambda _: _both(lambda: _send(LARGE), lambda: _receive(LARGE)))


def all_receive_first():
    _train(lambda _: _both(_receive, _send))


def all_wait_for_their_send_first():
    _train(lambda _: _both(lambda: dist.isend(torch.ones(4), (RANK + 1) % WORLD).wait(), _receive))


def the_last_turns_round_at_step_3():
    """Receive first on the last rank, which breaks the circle, but for one step."""
    _train(lambda number: _both(*((_receive, _send) if RANK == WORLD - 1 and number != 3 else (_send, _receive))))


def members_make_their_group_alone():
    """Make a group on its members alone, and then one of all ranks."""
    dist.init_process_group("gloo")
    if RANK < 2:
        dist.new_group([0, 1])
    _use(dist.new_group())


def pairs_make_their_groups_alone():
    dist.init_process_group("gloo")
    first = RANK // 2 * 2
    dist.new_group([first, first + 1])
    _use(dist.new_group())


def makes_groups_in_another_order():
    """Make two groups in the other order on rank 1."""
    dist.init_process_group("gloo")
    for members in ([0, 1], [0, 1, 2])[:: -1 if RANK == 1 else 1]:
        dist.new_group(members)
    _use(None)


# --- sound ones


def the_last_receives_first():
    _train(lambda _: _both(*((_receive, _send) if RANK == WORLD - 1 else (_send, _receive))))


def nobody_waits_for_the_send_first():
    def pass_on(_):
        work = dist.isend(torch.ones(LARGE), (RANK + 1) % WORLD)
        _receive(LARGE)
        work.wait()

    _train(pass_on)


def members_alone_have_to_make_their_group():
    dist.init_process_group("gloo")
    if RANK < 2:
        dist.new_group([0, 1], use_local_synchronization=True)
    _use(dist.new_group())


def all_make_all_groups():
    dist.init_process_group("gloo")
    for first in range(WORLD - 1):
        dist.new_group([first, first + 1])
    _use(dist.new_group())


def _use(group):
    for _ in range(STEPS):
        dist.all_reduce(torch.ones(4), group=group)
        step()
    dist.destroy_process_group()
