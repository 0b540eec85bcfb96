"""The exit status of a process that somebody else has started, and waits for or not."""

from __future__ import annotations

import subprocess
import sys

import pytest

from breakrank.host import pidfds

#: Starts a process, says which, and waits for it, or for none of its children.
PARENT = """
import signal, subprocess, sys, time
signal.signal(signal.SIGCHLD, signal.{how})
child = subprocess.Popen(["sleep", "1000"], stdout=subprocess.DEVNULL)
print(child.pid, flush=True)
time.sleep(1000)
"""


@pytest.mark.parametrize("how", ["SIG_DFL", "SIG_IGN"])
def test_the_end_of_a_strangers_child_is_told_with_its_status(how):
    with subprocess.Popen([sys.executable, "-c", PARENT.format(how=how)], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        watch = pidfds.ExitWatch()
        watch.follow(pid)
        watch.signal(pid, 9)
        found = []
        while not found:
            found = list(watch.told())
        parent.kill()
    watch.close()
    assert [(report["what"], report["status"]) for report in found] == [("ended", -9)]


@pytest.mark.parametrize("state", ["Z", "X"])
def test_a_process_that_the_kernel_still_shows_tells_its_status(monkeypatch, state):
    # The kernel takes a large process apart for a part of a second, and its pidfd does not know the status by then.
    monkeypatch.setattr(pidfds, "_waited_for", lambda descriptor: None)
    monkeypatch.setattr(pidfds, "_stat", lambda pid: [state, *["0"] * 48, "9"])
    assert pidfds._status(1, pidfds._Watched(-1, told=True)) == -9
    assert pidfds._status(1, pidfds._Watched(-1, told=False)) is None
