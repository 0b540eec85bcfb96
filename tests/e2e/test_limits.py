"""Limits of control groups are in force and counted by the kernel, and are gone with their owner, however it ends."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from breakrank.doctor import missing
from breakrank.host.cgroup_files import CONTROLLERS, Hierarchies, frozen
from breakrank.host.session import Session
from breakrank.runners import cgroups
from breakrank.runners.cgroups import Groups, find_parent
from breakrank.verdict import Outcome
from breakrank_agent import faults
from breakrank_agent.protocol.trigger import at

pytestmark = pytest.mark.skipif(
    bool(missing(f"{name} cgroup" for name in CONTROLLERS)), reason=missing(f"{name} cgroup" for name in CONTROLLERS)
)
#: Has a child, says so, and waits.
PARENT = "import os, subprocess, sys; subprocess.Popen(['sleep', '1000']); os.write(1, b'ready'); sys.stdin.read()"


def left(owner: int) -> list[Path]:
    """Return the groups of the sessions of a process."""
    parents = {found[0] for name in CONTROLLERS if (found := find_parent(Hierarchies(), name)) is not None}
    return [folder for parent in parents for folder in parent.glob(f"{cgroups.PREFIX}{owner}-*")]


def until(condition: Callable[[], bool]) -> None:
    """Wait for a condition, and give up if something hangs."""
    limit = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < limit, "it hangs"
        time.sleep(0.01)


def gone(pid: int) -> bool:
    """Return True once a process has ended; an orphan's entry stays until the machine's init reaps it."""
    with contextlib.suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        until(lambda: process.status() == psutil.STATUS_ZOMBIE)
    return True


@pytest.fixture
def session():
    made = Session()
    yield made
    made.close()


@pytest.fixture
def parent(session):
    """Yield a process with a child, below the supervisor."""
    reader, writer = os.pipe()
    null = os.open(os.devnull, os.O_RDWR)
    stdin, keep = os.pipe()
    pid = session.spawn([sys.executable, "-c", PARENT], dict(os.environ), Path("/"), [stdin, writer, null])
    for descriptor in (writer, stdin, null):
        os.close(descriptor)
    assert os.read(reader, 5) == b"ready"
    yield pid
    os.close(reader)
    os.close(keep)


def test_what_a_rank_has_started_is_limited_with_it(session, parent):
    groups = Groups(session)
    groups.of(0, parent).limit_cpu(20)
    (child,) = psutil.Process(parent).children()
    for pid in (parent, child.pid):
        bound = Hierarchies().bound(pid, "cpu")
        assert bound is not None and bound.limit == pytest.approx(0.2)
    session.clear()
    groups.remove()
    assert left(os.getpid()) == []


def test_a_frozen_process_is_known_as_such_and_ends_when_it_is_killed(session, parent):
    groups = Groups(session)
    groups.of(0, parent).freeze()
    until(lambda: frozen(parent))
    assert session.signal(parent, signal.SIGSTOP)
    assert session.signal(parent, signal.SIGKILL)
    assert gone(parent)
    session.clear()
    groups.remove()


def test_a_rank_beyond_its_groups_memory_is_killed_and_the_kernel_says_by_whom(run):
    limit = faults.LimitGroupMemory(headroom_mb=32) @ at(rank=1, step=2, point="load")
    result, saved = run("small:needs_much_at_its_second_step", limit)
    assert result.verdict.outcome is Outcome.CRASHED
    assert [(f.oracle, f.cause, f.ranks) for f in result.verdict.findings] == [("crash", "out of memory", (1,))]
    assert result.verdict.blame.ranks == (1,)
    (enforced,) = saved.history.seen("enforced")
    assert (enforced["rank"], enforced["memory"]) == (1, 1)


def test_a_rank_within_its_groups_memory_trains_on(run):
    result, saved = run("small:train", faults.LimitGroupMemory(headroom_mb=64) @ at(rank=1, step=2, point="load"))
    assert result.verdict.outcome is Outcome.SURVIVED, result.verdict
    assert saved.history.seen("enforced") == [] and left(os.getpid()) == []


def owner_of_a_frozen_process(*killed: str) -> tuple[int, int]:
    """Return the pids of an owner and of the process that it froze; the owner has killed `killed`, itself last."""
    script = textwrap.dedent(
        f"""
        import os, signal
        from pathlib import Path
        from breakrank.runners.cgroups import Groups
        from breakrank.host.session import Session
        session = Session()
        null = os.open(os.devnull, os.O_RDWR)
        pid = session.spawn(["sleep", "1000"], dict(os.environ), Path("/"), [null] * 3)
        Groups(session).of(0, pid).freeze()
        print(pid, flush=True)
        supervisor, owner = session.supervisor_pid, os.getpid()
        for one in ({", ".join(killed)},):
            os.kill(one, signal.SIGKILL)
        """
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        return owner.pid, int(owner.stdout.read())


def test_the_supervisor_ends_what_is_frozen_and_removes_its_group_when_the_owner_is_killed():
    owner, pid = owner_of_a_frozen_process("owner")
    assert gone(pid)
    until(lambda: left(owner) == [])


def test_the_next_session_ends_what_is_frozen_and_removes_its_group_when_the_supervisor_was_killed_too(session, parent):
    ours = Groups(session)
    ours.of(0, parent).freeze()
    owner, pid = owner_of_a_frozen_process("supervisor", "owner")
    assert left(owner) != []
    assert cgroups.sweep() >= 1
    assert left(owner) == [] and gone(pid)
    # The groups of a session whose owner lives are left alone.
    assert left(os.getpid()) != []
    until(lambda: frozen(parent))
    session.clear()
    ours.remove()
