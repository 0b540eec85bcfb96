"""SIGKILL pytest at several moments: no process of its session is left, and what it wrote can be read."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import psutil
import pytest
from support.killed import COVERING, ENDED_S, Job, assert_nothing_is_left, dead, network

from breakrank.doctor import missing
from breakrank.host.session_name import VARIABLE
from breakrank_agent import faults

#: Moments that only isolated ranks have; the soak kills at all other moments of isolated ranks, too.
WALLED = {
    "a wire is laid": lambda job: job.processes("packet_relay.py"),
    "the strike has landed": lambda job: job.text("delayed_link-*/conductor.jsonl", '"landed"'),
}


@pytest.mark.parametrize("moment", COVERING)
def test_nothing_is_left_when_pytest_is_killed(tmp_path, moment):
    assert_nothing_is_left(tmp_path, moment)


@pytest.mark.skipif(bool(missing(faults.DelayPackets.needs)), reason=missing(faults.DelayPackets.needs))
@pytest.mark.parametrize("moment", WALLED)
def test_no_walls_are_left_when_pytest_is_killed(tmp_path, moment):
    job = Job(tmp_path, case="delayed_link::torch-delay")
    job.await_moment(WALLED[moment])
    networks, held = job.hold_networks()
    assert networks
    job.kill()
    # A program of the machine that was changing a network just then is not of the session; it ends by itself.
    inside = [process for process in psutil.process_iter() if network(process.pid) in networks]
    _, slow = psutil.wait_procs([*job.processes(), *inside], timeout=ENDED_S)
    assert [process for process in slow if not dead(process)] == [] and job.processes() == []
    # A network is gone with the last process in it, and so are its wires, because it has no name and is not mounted.
    assert networks & {network(pid) for pid in psutil.pids()} == set()
    for descriptor in held:
        os.close(descriptor)
    assert not any(name.split("[")[1] in Path("/proc/self/mountinfo").read_text() for name in networks)


def test_the_next_start_sweeps_what_a_killed_supervisor_left(tmp_path):
    script = textwrap.dedent(
        f"""
        import os, signal, subprocess, sys
        from pathlib import Path
        sys.path.insert(0, {str(Path(__file__).parents[1])!r})
        from breakrank.host.session import Session
        session = Session()
        null = os.open(os.devnull, os.O_RDWR)
        # It leaves its parent's group and forgets its parent, as a daemon does.
        command = ["/bin/sh", "-c", "setsid sleep 1000 & sleep 1000"]
        session.spawn(command, dict(os.environ), Path("/"), [null] * 3)
        print(session.id, flush=True)
        sys.stdin.readline()
        os.kill(session.supervisor_pid, signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)
        """
    )
    owner = subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    session = owner.stdout.readline().strip()

    def carrying() -> list[psutil.Process]:
        found = []
        for process in psutil.process_iter():
            try:
                if process.environ().get(VARIABLE) == session:
                    found.append(process)
            except psutil.Error:
                pass
        return found

    while not any("setsid" not in " ".join(p.cmdline()) and p.name() == "sleep" for p in carrying()):
        pass
    owner.communicate("go\n")
    from breakrank.host.session import sweep

    left = carrying()
    sweep()
    psutil.wait_procs(left, timeout=ENDED_S)
    assert carrying() == []


@pytest.mark.parametrize("kind", [faults.CrowdCores, faults.FailCall])
def test_what_a_strike_has_started_ends_with_its_owner(kind):
    lack = missing(kind.needs)
    if lack:
        pytest.skip(lack)
    script = textwrap.dedent(
        f"""
        import os, signal
        from pathlib import Path
        from types import SimpleNamespace
        from breakrank.host.session import Session
        from breakrank.witnesses import Evidence, witness_of
        from breakrank_agent import faults
        from breakrank_agent.kernel.rooted import WorkingFolder
        session, fault = Session(), faults.{kind.__name__}()
        null = os.open(os.devnull, os.O_RDWR)
        pid = session.spawn(["sleep", "1000"], dict(os.environ), Path("/"), [null] * 3)
        target, witness = SimpleNamespace(pid=pid, folder="/", kept={{}}), witness_of(fault)
        target.files = lambda: WorkingFolder(0, "/")
        before = witness.look(fault, target)
        fault.strike(target)
        while True:
            evidence = Evidence(before=before, after=witness.look(fault, target))
            if witness.is_set(fault, evidence) or witness.judge(fault, evidence):
                break
        started = target.kept["neighbours"] if "neighbours" in target.kept else [target.kept["strace"]]
        print(*(one.pid for one in started), flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
        """
    )
    owner = subprocess.run([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    started = [psutil.Process(int(pid)) for pid in owner.stdout.split() if psutil.pid_exists(int(pid))]
    assert owner.stdout.split()
    _, slow = psutil.wait_procs(started, timeout=ENDED_S)
    assert [process for process in slow if not dead(process)] == []
