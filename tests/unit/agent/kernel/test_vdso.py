"""Another time of day for one process alone: the C library gives it to each caller in that process."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

from breakrank.doctor import missing
from breakrank_agent.kernel import vdso

pytestmark = pytest.mark.skipif(bool(missing(["clock"])), reason=missing(["clock"]))
SET_UP = f"""
import ctypes, datetime, os, runpy, tempfile, threading, time
shift = runpy.run_path({vdso.__file__!r})["shift_wall_clock"]
libc = ctypes.CDLL(None)
libc.time.restype = ctypes.c_long
def clocks():
    spec = (ctypes.c_long * 2)()
    libc.gettimeofday(spec, None)
    told = ctypes.c_long()
    returned = libc.time(ctypes.byref(told))
    coarse = time.clock_gettime(5)
    return [time.time(), datetime.datetime.now().timestamp(), spec[0], told.value, returned, coarse]
def steady():
    with tempfile.TemporaryFile() as file:
        return [time.monotonic(), time.clock_gettime(time.CLOCK_BOOTTIME), os.fstat(file.fileno()).st_mtime]
def moved(by, before, after):
    return all(by - 1 <= b - a < by + 60 for a, b in zip(before, after))
"""


def run(script: str) -> subprocess.CompletedProcess[str]:
    """Run a script in a process of its own."""
    return subprocess.run([sys.executable, "-c", SET_UP + textwrap.dedent(script)], capture_output=True, text=True)


@pytest.mark.parametrize("seconds", [100_000, -100_000, 5_000_000_000])
def test_every_wall_clock_jumps_and_no_other(seconds):
    done = run(
        f"""
        before, still = clocks(), steady()
        shift({seconds})
        print(moved({seconds}, before, clocks()), moved(0, still, steady()))
        """
    )
    assert done.stdout.split() == ["True", "True"], done.stderr


def test_jumps_add_up_and_a_child_keeps_them_until_it_becomes_another_program():
    done = run(
        """
        before = clocks()
        for _ in range(10):
            shift(1000)
        shift(-4000)
        child = os.fork()
        if child == 0:
            os._exit(moved(6000, before, clocks()))
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        print(moved(0, before[:1], [float(os.popen("date +%s").read())]))
        """
    )
    assert done.stdout.split() == ["1", "True"], done.stderr


def test_threads_that_read_the_clocks_meanwhile_read_the_one_or_the_other_time():
    done = run(
        """
        began, over, odd = time.time(), threading.Event(), []
        def read():
            while not over.is_set():
                passed = time.time() - began
                if not (0 <= passed < 600 or 9000 <= passed < 9600):
                    odd.append(passed)
        readers = [threading.Thread(target=read) for _ in range(3)]
        for reader in readers:
            reader.start()
        shift(9000)
        over.set()
        for reader in readers:
            reader.join()
        print(odd)
        """
    )
    assert done.stdout.split() == ["[]"], done.stderr


def test_a_call_that_fails_fails_as_ever():
    done = run(
        """
        shift(9000)
        try:
            time.clock_gettime(99)
        except OSError as error:
            print(error.errno)
        """
    )
    assert done.stdout.split() == ["22"], done.stderr
