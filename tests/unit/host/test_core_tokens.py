"""Core tokens, of which each rank takes one, are counted across processes, and a dead process gives its tokens back."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from breakrank.errors import BreakrankError
from breakrank.host.core_tokens import hold

HARNESS = Path(__file__).parents[3] / "harness"
HOLDER = """
import sys, time
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from breakrank.host.core_tokens import hold
with hold(Path(sys.argv[2]), int(sys.argv[3]), 4):
    print("held", flush=True)
    time.sleep(3600)
"""
#: Seconds within which tokens that are free must have been taken. A limit, not a trigger.
LIMIT_S = 120


@contextlib.contextmanager
def another_process_holds(slots, ranks):
    command = [sys.executable, "-c", HOLDER, str(HARNESS), str(slots), str(ranks)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "held\n"
        try:
            yield process
        finally:
            process.kill()


def held_within(slots, ranks, seconds):
    """Return whether `ranks` of 4 tokens were got within some time; if later, they are given back at once."""
    got = threading.Event()

    def take():
        with hold(slots, ranks, 4):
            got.set()

    threading.Thread(target=take, daemon=True).start()
    return got.wait(seconds)


def gate_is_held(slots):
    """Return whether somebody who waits for tokens holds the gate."""
    with open(slots / "gate", "w") as gate:
        try:
            fcntl.flock(gate, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def test_ranks_that_fit_beside_others_do_not_wait(tmp_path):
    with another_process_holds(tmp_path, 2):
        assert held_within(tmp_path, 2, LIMIT_S)


def test_ranks_that_do_not_fit_wait_for_the_others_to_end(tmp_path):
    with another_process_holds(tmp_path, 3):
        assert not held_within(tmp_path, 2, 0.3)


def test_the_tokens_of_a_killed_process_come_back(tmp_path):
    with another_process_holds(tmp_path, 4) as process:
        os.kill(process.pid, signal.SIGKILL)
        assert held_within(tmp_path, 4, LIMIT_S)


def test_more_ranks_than_cores_run_alone(tmp_path):
    with another_process_holds(tmp_path, 1) as process:
        assert not held_within(tmp_path, 6, 0.3)
        process.kill()
        assert held_within(tmp_path, 6, LIMIT_S)


def test_whoever_waits_for_many_is_not_overtaken_by_few(tmp_path):
    order = []

    def take(ranks):
        with hold(tmp_path, ranks, 4):
            order.append(ranks)

    with another_process_holds(tmp_path, 2) as process:
        many = threading.Thread(target=take, args=(4,))
        many.start()
        while not gate_is_held(tmp_path):
            time.sleep(0.01)
        few = threading.Thread(target=take, args=(1,))
        few.start()
        time.sleep(0.2)
        process.kill()
        many.join(LIMIT_S)
        few.join(LIMIT_S)
    assert order == [4, 1]


def test_tokens_come_back_when_the_block_raises(tmp_path):
    with pytest.raises(ZeroDivisionError), hold(tmp_path, 4, 4):
        _ = 1 / 0
    assert held_within(tmp_path, 4, LIMIT_S)


def test_a_child_that_outlives_the_block_does_not_keep_the_tokens(tmp_path):
    with hold(tmp_path, 4, 4):
        child = os.fork()
        if child == 0:
            signal.pause()
    try:
        assert held_within(tmp_path, 4, LIMIT_S)
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def test_a_folder_that_cannot_be_used_is_one_line(tmp_path):
    with pytest.raises(BreakrankError, match="scenario_runs"), hold(Path("/proc/none"), 1):
        pass
