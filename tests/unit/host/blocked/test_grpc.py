"""An idle thread of gRPC is told from a thread of the program that waits."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from breakrank.host.blocked import grpc
from breakrank.host.blocked.threads import FUTEX, State, Thread, read_threads, waits_for_a_thread

#: One thread beside the main one does `what`, for an hour or for ever.
PROGRAM = """
import ctypes, select, socket, threading, time
libc = ctypes.CDLL(None)
class Time(ctypes.Structure):
    _fields_ = [("s", ctypes.c_long), ("ns", ctypes.c_long)]
word, hour = ctypes.c_int(0), Time(3600, 0)
ours, theirs = socket.socketpair()
engine, polled = select.epoll(), select.poll()
engine.register(ours, select.EPOLLIN), polled.register(ours, select.POLLIN)
sleeper = threading.Thread(target=time.sleep, args=(3600,), daemon=True)
def join():
    word.value = sleeper.native_id
    libc.syscall({futex}, ctypes.byref(word), 9, sleeper.native_id, None, None, -1)
if {joins}:
    sleeper.start()
threading.Thread(target=lambda: {what}, daemon=True).start()
print("ready", flush=True)
libc.pause()
"""


@contextmanager
def doing(what: str) -> Iterator[Thread]:
    """Yield a thread once its call is in the kernel."""
    program = PROGRAM.format(what=what, futex=FUTEX, joins=what == "join()")
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None and process.stdout.readline() == "ready\n"
            found: list[Thread] = []
            while not found or found[-1].state != "S" or found[-1].call < 0:
                assert process.poll() is None
                found = [thread for thread in read_threads(process.pid) if not thread.main]
            yield found[-1]
        finally:
            process.kill()


@pytest.mark.parametrize(
    ("what", "state"),
    [
        ("engine.poll(maxevents=100)", State.IDLE),
        ("engine.poll(timeout=3600, maxevents=100)", State.IDLE),
        (f"libc.syscall({FUTEX}, ctypes.byref(word), 128, 0, ctypes.byref(hour), None, 0)", State.IDLE),
        ("engine.poll()", None),
        ("polled.poll()", None),
        ("time.sleep(3600)", None),
        ("threading.Event().wait(3600)", None),
        ("threading.Event().wait()", None),
        ("ours.recv(1)", None),
    ],
)
def test_what_is_idle_and_what_is_the_programs(what, state):
    with doing(what) as thread:
        assert grpc.state(thread, "") is state


def test_the_pool_that_issues_collectives_waits_only_while_one_is_issued():
    with doing("polled.poll()") as thread:
        assert grpc.state(thread, "eager") is State.WAITS
        assert grpc.state(thread, "message") is None


def test_a_thread_that_joins_another_waits_for_it():
    with doing("join()") as thread:
        assert waits_for_a_thread(thread)
