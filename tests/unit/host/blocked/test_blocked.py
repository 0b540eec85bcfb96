"""Stillness, proven by looks in a row: a look may meet a thread between two polls, and a thread may find something.

The looks of the first tests are made by hand, those of the others at real processes.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from breakrank.conductor.inbox import TICK_S
from breakrank.host import blocked
from breakrank.host.blocked import Condition, Look, Round, Stillness, is_stopped, look
from breakrank.host.blocked.threads import FUTEX, POLL, Work, read_computed, read_threads, waits_for_a_thread

#: restart_syscall(2), as the kernel shows it on x86 and on ARM.
RESTART_SYSCALL = ("219", "128")
#: A main thread that is never scheduled, and a thread that polls, by number.
MAIN, POLLER = 1, 2


def polls(rounds: int, computed_ns: int = 0, moved: int = 0, is_open: bool = False, waits: int = 5) -> Look:
    """Return a look at a thread that polls, after so many rounds and so much work."""
    return Look(Condition.WAITS, {MAIN: waits}, {POLLER: Round(rounds, Work(computed_ns, moved))}, is_open)


MOVES = Look(Condition.MOVES)


def proven_after(looks: Iterable[Look], monkeypatch: pytest.MonkeyPatch, needed: int = Stillness.LOOKS_ALONE) -> int:
    """Return the number of these looks at one rank that prove that it stands still; 0 if they do not."""
    left = iter(looks)
    monkeypatch.setattr(blocked, "look", lambda pid, call, polled: next(left))
    monkeypatch.setattr(blocked, "main_moves", lambda pid, call: False)
    stillness = Stillness()
    for number, _ in enumerate(looks, 1):
        stillness.look({0: 1}, {})
        if stillness.proven(needed):
            return number
    return 0


def test_looks_between_two_polls_count_once_the_thread_polls_again(monkeypatch):
    every_third = [polls(3 * n, is_open=n % 3 == 1) for n in range(20)]
    assert proven_after([polls(3 * n) for n in range(20)], monkeypatch) == 13
    assert proven_after(every_third, monkeypatch) == 13


def test_nothing_is_proven_by_a_look_between_two_polls(monkeypatch):
    looks = [polls(3 * n, is_open=n >= 12) for n in range(60)]
    assert proven_after(looks, monkeypatch) == 0
    assert proven_after([*looks, polls(180)], monkeypatch) == 61


def test_few_looks_that_see_the_thread_poll_are_not_enough(monkeypatch):
    every_tenth = [polls(3 * n, is_open=n % 10 != 0) for n in range(50)]
    assert proven_after(every_tenth, monkeypatch) == 41
    assert proven_after(every_tenth, monkeypatch, Stillness.LOOKS) == 41


def test_no_comparison_begins_between_two_polls(monkeypatch):
    looks = [polls(0, is_open=True), *(polls(3 * n) for n in range(20))]
    assert proven_after(looks, monkeypatch) == 14


@pytest.mark.parametrize("found", [{"moved": 1}, {"computed_ns": 10 * Stillness.ROUND_NS}, {"waits": 6}], ids=str)
def test_what_a_thread_finds_undoes_the_looks_before_it(monkeypatch, found):
    looks = [*(polls(3 * n) for n in range(12)), *(polls(3 * n, **found) for n in range(12, 40))]
    assert proven_after(looks, monkeypatch) == 25


@pytest.mark.parametrize("found", ["moved", "computed_ns", "waits"])
def test_a_thread_that_finds_something_now_and_then_proves_nothing(monkeypatch, found):
    looks = [polls(3 * n, **{found: n // 5 * 10_000_000}, is_open=n % 2 == 1) for n in range(200)]
    assert proven_after(looks, monkeypatch) == 0


def test_empty_rounds_may_take_their_time_and_each_look_that_moves_begins_anew(monkeypatch):
    looks = [polls(3 * n, computed_ns=3 * n * Stillness.ROUND_NS // 2) for n in range(20)]
    assert proven_after(looks, monkeypatch) == 13
    assert proven_after([*looks[:12], MOVES, *looks[12:], *looks], monkeypatch) == 34


def test_where_the_kernel_tells_of_no_work_the_rounds_alone_count(monkeypatch):
    looks = [Look(Condition.WAITS, {MAIN: 5}, {POLLER: Round(3 * n, None)}) for n in range(20)]
    assert proven_after(looks, monkeypatch) == 13


# --- processes

PROGRAM = """
import ctypes, select, threading, time
empty, lock = select.epoll(), threading.Lock()
lock.acquire()
{code}
def called(name, function):
    def run():
        ctypes.CDLL(None).prctl(15, name.encode())  # PR_SET_NAME
        function()
    threading.Thread(target=run, daemon=True).start()
{starts}
print("ready", flush=True)
{main}
"""
WAITS = "lock.acquire()"
#: Takes a semaphore that nobody gives back, and keeps the global lock.
HOLDS = "ctypes.PyDLL(None).sem_wait(ctypes.create_string_buffer(64))"
LOOP = """
def loop():
    out = open("/dev/null", "wb", buffering=0)
    while True:
        empty.poll(0.01)
        {does}
"""
COMPUTES = """
def computes():
    while True:
        pass
"""


@contextmanager
def process(code: str, starts: str, main: str = WAITS, behind: Sequence[str] = ()) -> Iterator[int]:
    """Yield the pid of a process that has begun to do this; the commands `behind` start the process."""
    command = [*behind, sys.executable, "-c", PROGRAM.format(code=code, starts=starts, main=main)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as started:
        try:
            assert started.stdout is not None and started.stdout.readline() == "ready\n"
            below = psutil.Process(started.pid).children()
            yield below[0].pid if below else started.pid
        finally:
            started.kill()


def is_proven(pid: int, most: int, needed: int = Stillness.LOOKS_ALONE) -> bool:
    """Return whether `needed` of at most `most` looks at a process, one each tick, prove that it stands still."""
    stillness = Stillness()
    for _ in range(most):
        stillness.look({0: pid}, {})
        if stillness.proven(needed):
            return True
        time.sleep(TICK_S)
    return False


def test_a_process_is_still_whose_loop_finds_nothing():
    with process(LOOP.format(does="pass"), "called('gloo_tcp_loop', loop)") as pid:
        assert is_proven(pid, 1000)


@pytest.mark.parametrize("does", ["out.write(b'x')", "sum(range(200_000))"])
def test_a_process_is_not_whose_loop_writes_or_computes(does):
    with process(LOOP.format(does=does), "called('gloo_tcp_loop', loop)") as pid:
        assert not is_proven(pid, 50, Stillness.LOOKS)


def test_a_process_is_still_whose_main_thread_keeps_the_global_lock_that_others_want():
    with process(COMPUTES, "called('pt_gloo_runloop', computes)\ncalled('other', computes)", HOLDS) as pid:
        assert is_proven(pid, 1000)


def test_a_process_is_not_whose_threads_hand_the_global_lock_on():
    with process(COMPUTES, "called('pt_gloo_runloop', computes)\ncalled('other', computes)") as pid:
        assert not is_proven(pid, 50, Stillness.LOOKS)


def test_the_threads_of_a_process_that_computes_are_not_looked_at(monkeypatch):
    looks: list[int] = []
    monkeypatch.setattr(blocked, "look", lambda pid, call, polled: looks.append(pid) or MOVES)
    monkeypatch.setattr(blocked, "main_moves", lambda pid, call: False)
    computed, now = iter([0.0, 0.006, 0.012, 0.013, 0.014]), iter([1.0, 1.02, 1.04, 1.06, 9.0])
    monkeypatch.setattr(blocked, "read_computed", lambda pid: next(computed))
    monkeypatch.setattr(blocked.time, "monotonic", lambda: next(now))
    stillness = Stillness()
    seen = [stillness.look({0: 1}, {}) or len(looks) for _ in range(5)]
    assert seen == [1, 1, 1, 2, 3], "the first look has none before it"


def test_the_clock_of_a_process_counts_what_its_threads_compute():
    with process("def computes():\n    while True: pass", "called('other', computes)") as pid:
        before = read_computed(pid)
        while read_computed(pid) < before + 0.05:
            pass
    assert read_computed(pid) is None


def test_only_a_thread_that_was_seen_to_poll_can_be_between_two_polls():
    with process(COMPUTES, "called('gloo_tcp_loop', computes)") as pid:
        (busy,) = (thread.tid for thread in read_threads(pid) if not thread.main)
        while not waits_for_a_thread(next(read_threads(pid))):
            assert look(pid).condition is Condition.MOVES
        assert look(pid).condition is Condition.MOVES
        seen = look(pid, "", {busy})
        assert (seen.condition, seen.open, [*seen.polls]) == (Condition.WAITS, True, [busy])


#: Starts a thread that waits for good, and waits for its end, as C does; Python itself waits for a lock.
STARTS = """
libc, number, semaphore = ctypes.CDLL(None), ctypes.c_ulong(), ctypes.create_string_buffer(64)
libc.pthread_create(ctypes.byref(number), None, libc.sem_wait, semaphore)
"""
JOINS = "libc.pthread_join(number, None)"
OWN_NUMBERS = ["unshare", "--map-root-user", "--pid", "--fork", "--kill-child"]


@pytest.mark.parametrize("behind", [[], OWN_NUMBERS], ids=["here", "in a namespace of its own"])
def test_who_waits_for_the_end_of_a_thread_of_its_own_is_still(behind):
    if behind and subprocess.run([*behind, "true"], capture_output=True).returncode:
        pytest.skip("needs unshare (util-linux), and a kernel that lets it make user namespaces")
    with process(STARTS, "", JOINS, behind) as pid:
        assert is_proven(pid, 1000)
        main = next(read_threads(pid))
        assert main.call == FUTEX and main.arguments[2] > 0
        assert (main.arguments[2] == max(thread.tid for thread in read_threads(pid))) is not bool(behind)


@pytest.mark.parametrize(("seconds", "limited"), [("", False), ("3600", True)])
def test_a_wait_with_a_time_out_is_limited(seconds, limited):
    code = f"def waits():\n    threading.Event().wait({seconds})"
    with process(code, "called('pt_gloo_runloop', waits)") as pid:
        stillness = Stillness()
        assert stillness.limited(0), "who has not been seen to wait may have a time-out"
        while not stillness.proven(1):
            stillness.look({0: pid}, {})
        assert stillness.limited(0) is limited


#: More looks than a thread that was woken takes to fall asleep again.
LOOKS = 500


@pytest.mark.parametrize(
    ("waits", "call", "condition"),
    [
        ("threading.Event().wait(3600)", FUTEX, Condition.WAITS),
        ("select.poll().poll(3_600_000)", POLL[0], Condition.MOVES),
    ],
)
def test_a_wait_that_was_interrupted_is_the_one_that_it_was(waits, call, condition):
    code = f"import select\ndef waits():\n    {waits}"
    with process(code, "called('pt_gloo_runloop', waits)") as pid:
        waiter = None
        while waiter is None or waiter.call != call:
            waiter = next((thread for thread in read_threads(pid) if not thread.main), None)
        os.kill(pid, signal.SIGSTOP)
        while not is_stopped(pid):
            pass
        os.kill(pid, signal.SIGCONT)
        while Path(f"/proc/{pid}/task/{waiter.tid}/syscall").read_text().split()[0] not in RESTART_SYSCALL:
            pass
        assert next(thread for thread in read_threads(pid) if not thread.main).call == call
        # The main thread was woken, too: where there are few cores it takes some looks until it is met asleep.
        waits = any(look(pid).condition is Condition.WAITS for _ in range(LOOKS))
        assert waits is (condition is Condition.WAITS)


def test_a_process_stands_that_a_signal_has_stopped():
    with process("", "") as pid, subprocess.Popen(["kill", f"-{signal.SIGSTOP.value}", str(pid)]) as stop:
        assert stop.wait() == 0
        while not is_stopped(pid):
            pass
        assert look(pid).condition is Condition.STOPPED
    with process("", "") as pid:
        assert not is_stopped(pid)
    assert not is_stopped(pid), "one that is gone was not stopped"
