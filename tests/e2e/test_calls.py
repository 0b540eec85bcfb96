"""One system call of a rank fails, its kind and its path chosen; the calls before and after it are done as usual."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess

import pytest

from breakrank.doctor import missing
from breakrank.host.blocked import Condition, is_stopped, look
from breakrank.verdict import Outcome
from breakrank_agent import faults
from breakrank_agent.protocol.trigger import at

needs_strace = pytest.mark.skipif(bool(missing(["strace"])), reason=missing(["strace"]))
#: Calls of the program that can fail, each with its path.
CALLS = [("write", "notes-1.new"), ("fsync", "notes-1.new"), ("rename", "notes-1.new"), ("read", "notes-1")]
#: Requests of ptrace(2).
PTRACE_ATTACH, PTRACE_DETACH = 16, 17


def fail(**how):
    """Return the strike that has a call of rank 1 fail, from its second step on."""
    return faults.FailCall(**how) @ at(rank=1, step=2, point="load")


def refused(result, rank):
    """Return the calls that a rank said it was refused."""
    return (result.folder / "attempt-0" / f"rank-{rank}.out").read_text().splitlines()


@needs_strace
@pytest.mark.parametrize(("call", "path"), CALLS)
@pytest.mark.parametrize("runner", ["process", "sandbox"])
def test_the_second_of_its_calls_on_a_path_fails_and_no_other(run, runner, call, path):
    lack = missing(["netns"] if runner == "sandbox" else [])
    if lack:
        pytest.skip(lack)
    strike = fail(call=call, path=path, error="ENOSPC", when=2)
    result, _ = run("small:keeps_notes", strike, steps=5, data="digits", runner=runner)
    assert result.verdict.outcome is Outcome.SURVIVED, result.verdict
    # The point `load` of a step comes before the program's calls in that step.
    assert (refused(result, 0), refused(result, 1)) == ([], [f"step 3: {call} gave ENOSPC"])


@needs_strace
def test_a_call_that_never_comes_is_void_and_disturbs_nobody(run):
    result, saved = run("small:keeps_notes", fail(call="fsync", path="notes-1.new", when=99), data="digits")
    assert result.verdict.outcome is Outcome.VOID
    assert "did not land" in result.verdict.sentence()
    assert refused(result, 1) == [] and [lived.status for lived in saved.history.last] == [0, 0]


def test_a_process_in_a_tracers_stop_does_not_count_as_stopped():
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    with subprocess.Popen(["sleep", "1000"]) as process:
        if libc.ptrace(PTRACE_ATTACH, process.pid, None, None) != 0:
            process.kill()
            pytest.skip(f"ptrace is refused: {os.strerror(ctypes.get_errno())}")
        os.waitpid(process.pid, 0)
        traced = look(process.pid).condition, is_stopped(process.pid)
        libc.ptrace(PTRACE_DETACH, process.pid, None, signal.SIGSTOP)
        os.waitid(os.P_PID, process.pid, os.WSTOPPED)
        stopped = look(process.pid).condition, is_stopped(process.pid)
        process.kill()
    assert (traced, stopped) == ((Condition.MOVES, False), (Condition.STOPPED, True))
