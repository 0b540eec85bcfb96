"""A thread that wants Python's global lock is told from one that waits for a lock of the program's with a time-out."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from breakrank.host.blocked import BACKENDS, interpreter
from breakrank.host.blocked.threads import State, Thread, has_limit, in_futex, read_threads

#: The main thread keeps the global lock in a call of C that does not end; another thread wants it, or waits for more.
PROGRAM = """
import ctypes, threading
def wants():
    while True:
        pass
def works_for_gloo():
    ctypes.CDLL(None).prctl(15, b"pt_gloo_runloop")  # PR_SET_NAME
    wants()
def waits():
    threading.Event().wait(3600)
threading.Thread(target={other}, daemon=True).start()
print("ready", flush=True)
ctypes.{how}(None).pause()
"""


@contextmanager
def threads(other: str, how: str) -> Iterator[list[Thread]]:
    """Yield the process's threads but the main one, once all of them are in a futex with a time-out.

    Before that, a thread may be in a futex without a time-out: at the mutex that guards the global lock.
    """
    command = [sys.executable, "-c", PROGRAM.format(other=other, how=how)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None and process.stdout.readline() == "ready\n"
            found: list[Thread] = []
            while not found or not all(in_futex(thread) and has_limit(thread) for thread in found):
                assert process.poll() is None
                found = [thread for thread in read_threads(process.pid) if not thread.main]
            yield found
        finally:
            process.kill()


def test_a_thread_that_wants_the_global_lock_polls() -> None:
    with threads("wants", "PyDLL") as found:
        assert [interpreter.state(thread, "") for thread in found] == [State.POLLS]


def test_a_thread_of_a_backend_that_wants_the_global_lock_polls_too() -> None:
    with threads("works_for_gloo", "PyDLL") as (thread,):
        assert thread.name == "pt_gloo_runloop"
        assert next(filter(None, (state(thread, "") for state in BACKENDS))) is State.POLLS


def test_a_thread_that_waits_for_an_event_with_a_time_out_does_not() -> None:
    with threads("waits", "CDLL") as found:
        assert [interpreter.state(thread, "") for thread in found] == [None]
