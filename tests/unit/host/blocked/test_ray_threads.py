"""Threads of a worker of Ray's that serve others are told from those that the rank waits for."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from breakrank.host.blocked import ray
from breakrank.host.blocked.threads import State, Thread, read_threads

#: A process whose command line is the first word, with a thread that is called NAME and does `what`.
PROGRAM = """
import ctypes, select, sys, threading, time
libc = ctypes.CDLL(None)
loop = select.epoll()
def work():
    libc.prctl(15, b"{name}", 0, 0, 0)
    print("ready", flush=True)
    {what}
threading.Thread(target=work, daemon=True).start()
loop.poll(-1, {events})
"""


@contextmanager
def threads(command: str, name: str = "worker.io", what: str = "time.sleep(3600)", events: int = 128) -> Iterator:
    """Yield the two threads of such a process once both are asleep: the main one, and the named one."""
    program = PROGRAM.format(name=name, what=what, events=events)
    argv = [command, "-c", program]
    with subprocess.Popen(argv, executable=sys.executable, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None and process.stdout.readline() == "ready\n"
            found: list[Thread] = []
            while len(found) != 2 or any(one.state != "S" or one.call < 0 for one in found):
                found = list(read_threads(process.pid))
            yield found
        finally:
            process.kill()


@pytest.mark.parametrize("what", ["time.sleep(3600)", "loop.poll(-1)", "threading.Lock() and threading.Event().wait()"])
def test_while_the_rank_is_in_a_collective_they_bring_nothing(what):
    with threads("ray::Worker", what=what) as (main, other):
        assert (ray.state(main, "collective"), ray.state(other, "collective")) == (State.IDLE, State.IDLE)


@pytest.mark.parametrize("call", ["", "message", "setup", "eager"])
def test_otherwise_they_may_bring_what_the_rank_waits_for(call):
    with threads("ray::Worker") as (main, other):
        assert (ray.state(main, call), ray.state(other, call)) == (None, None)


def test_threads_of_the_programs_own_are_none():
    with threads("ray::Worker", name="loader", events=64) as (main, other):
        assert (ray.state(main, "collective"), ray.state(other, "collective")) == (None, None)


def test_a_process_that_is_no_worker_has_none():
    with threads("python") as (main, other):
        assert (ray.state(main, "collective"), ray.state(other, "collective")) == (None, None)
