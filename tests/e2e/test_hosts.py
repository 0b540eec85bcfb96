"""Ranks on hosts over ssh: outcomes, blame and digests are those of one machine, and nothing is left on any host."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support.ground import PYTEST
from support.hosts import hosts, lacks
from support.lasting import soak

pytestmark = pytest.mark.skipif(bool(lacks()), reason=lacks())

SCRIPT = """
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
model = DDP(torch.nn.Linear(8, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(6):
    x = torch.randn(4, 8, generator=torch.Generator().manual_seed(step * 100 + rank))
    loss = model(x).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("rank", rank, "step", step + 1, flush=True)
if rank == 0:
    torch.save(model.state_dict(), "model.pt")
dist.destroy_process_group()
"""
#: Seconds until a host must have nothing of ours any more. A limit, not a trigger.
GONE_S = 120.0


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """Return two hosts that share the folder of the tests."""
    with hosts(tmp_path_factory.mktemp("hosts"), shared=tmp_path_factory.getbasetemp()) as made:
        yield made
        assert {name: (made.ours(name), made.files(name)) for name in made.names} == {n: ([], []) for n in made.names}


@pytest.fixture
def job(cluster, tmp_path):
    """Return a function that starts pytest on a script beside the hosts' settings."""
    started = []

    def begin(*options, ssh="", names="one,two", folder="job"):
        where = tmp_path / folder
        where.mkdir(exist_ok=True)
        (where / "train.py").write_text(SCRIPT)
        (where / "pytest.ini").write_text(f"[pytest]\nscenario_ssh = {ssh or f'ssh -F {cluster.config}'}\n")
        on = [f"--scenario-hosts={names}"] if names else []
        started.append(Job(where, [*options, *on]))
        return started[-1]

    yield begin
    for one in started:
        one.kill()


class Job:
    """One pytest."""

    def __init__(self, folder: Path, options: list[str]) -> None:
        self.folder = folder
        env = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST")}
        self._process = subprocess.Popen(
            [*PYTEST, "-p", "breakrank.plugin", *options],
            cwd=folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip

    def finish(self) -> tuple[int, str]:
        """Return the exit code, and all that was printed."""
        printed, _ = self._process.communicate()
        return self._process.returncode, printed

    def kill(self) -> None:
        """Kill pytest alone."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGKILL)
            self._process.communicate()

    def await_step(self) -> None:
        """Return once both ranks train."""
        for number in (0, 1):
            while not any('"step":1' in text for text in self._texts(number)):
                assert self._process.poll() is None, self.finish()[1]
                time.sleep(0.05)

    def _texts(self, rank: int) -> list[str]:
        return [path.read_text() for path in self.folder.glob(f".breakrank/baseline*/attempt-0/rank-{rank}.jsonl")]

    def verdicts(self) -> dict[str, dict]:
        """Return the verdicts by the names of the runs."""
        return {
            path.parent.name: json.loads(path.read_text()) for path in self.folder.glob(".breakrank/*/verdict.json")
        }

    def events(self, kind: str) -> list[dict]:
        """Return the Conductor's events of a kind."""
        lines = [line for path in self.folder.glob(".breakrank/*/conductor.jsonl") for line in path.open()]
        return [event for event in map(json.loads, lines) if event["kind"] == kind]


def told(verdict):
    """Return what a verdict says, but for how long anything took."""
    findings = [(found["cause"], found["ranks"], found["step"]) for found in verdict["findings"]]
    return findings, *(verdict[name] for name in ("outcome", "blame", "digest", "void", "sentence"))


def assert_bare(cluster):
    until = time.monotonic() + GONE_S
    left = {}
    while time.monotonic() < until:
        left = {name: (cluster.ours(name), cluster.files(name)) for name in cluster.names}
        if not any(map(any, left.values())):
            return
        time.sleep(0.05)
    raise AssertionError(f"left on the hosts: {left}")


@pytest.mark.parametrize(
    "more", ["", pytest.param(",skipped_collective,baseline", marks=pytest.mark.soak)], ids=["quick", "all"]
)
def test_outcomes_blame_and_digests_of_a_script_are_those_of_one_machine(cluster, job, more):
    options = [f"--scenario=killed_rank,stopped_rank{more}", "--scenario-train=train.py"]
    options += ["-k", "not optimize"]
    there = job(*options, folder="there")
    _, printed = there.finish()
    here = job(*options, names="", folder="here")
    here.finish()
    found, wanted = there.verdicts(), here.verdicts()
    assert len(wanted) == (4 if more else 2), printed
    for name, verdict in wanted.items():
        assert told(found[name]) == told(verdict), name
    (hung,) = there.events("hung")
    assert (hung["why"], hung["peers"], hung["evidence"]["by"]) == ("peer stopped", [1], "threads")
    assert hung["waiting"][0]["timeout_s"] == 1800
    # The clocks of the hosts differ by an hour each, and nothing shows it.
    offsets = {event["node"]: round(event["offset_s"] / 3600) for event in there.events("clock")}
    assert offsets == {"one": 1, "two": 2}
    assert all(event["error_s"] < 1 for event in there.events("clock"))
    assert {event["node"] for event in there.events("spawned")} == {"one", "two"}
    killed = found["killed_rank-train.py-kill-collective-s0-0001"]
    assert 0 <= killed["latency_s"] < 60
    # The user's folder has what it had.
    assert {path.name for path in there.folder.iterdir()} == {"train.py", "pytest.ini", ".breakrank", *CACHES}
    assert_bare(cluster)


#: Folders that pytest itself makes.
CACHES = {".pytest_cache"}


def test_a_program_of_the_catalogue_is_struck_as_it_is_here(cluster, job):
    case = ["--scenario=killed_rank::torch-plain"]
    there, here = job(*case, folder="there"), job(*case, names="", folder="here")
    (code, printed), _ = there.finish(), here.finish()
    assert code == 0, printed
    (found,), (wanted,) = there.verdicts().values(), here.verdicts().values()
    assert (found["outcome"], found["blame"], found["digest"]) == (wanted["outcome"], wanted["blame"], wanted["digest"])
    landed = [event for event in there.events("strike") if event["phase"] == "landed"]
    assert [(event["rank"], event["witness"]) for event in landed] == [(1, "waitpid: SIGKILL")]


def test_nothing_is_left_on_any_host_when_pytest_is_killed(cluster, job):
    one = job("--scenario=baseline", "--scenario-train=train.py")
    one.await_step()
    assert all(cluster.ours(name) and cluster.files(name) for name in cluster.names)
    one.kill()
    assert_bare(cluster)


@pytest.mark.parametrize(
    ("which", "said"),
    [("deputy", "host two is lost: its deputy was ended by SIGKILL"), soak("guard", "host two is lost: the guard")],
)
def test_a_deputy_that_is_killed_is_said_by_the_name_of_its_host(cluster, job, which, said):
    one = job("--scenario=baseline", "--scenario-train=train.py")
    one.await_step()
    guard, deputy = sorted(pid for pid, command in cluster.processes("two").items() if "breakrank" in command)
    os.kill(deputy if which == "deputy" else guard, signal.SIGKILL)
    code, printed = one.finish()
    assert code == 1 and "VOID" in printed and said in printed, printed
    assert_bare(cluster)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"names": "one,nowhere"}, "host nowhere cannot be used"),
        ({"names": "one,one"}, "names one twice"),
        ({"names": "one,-oProxyCommand=x"}, "which is no host but an option"),
        ({"names": "one,alias"}, "hosts one and alias are one machine"),
        ({"ssh": "/bin/false"}, "its ssh ended without a word"),
        ({"ssh": "no-such-ssh"}, "cannot start no-such-ssh"),
    ],
)
def test_hosts_that_cannot_be_used_get_one_line(cluster, job, options, said):
    code, printed = job("--scenario=baseline", "--scenario-train=train.py", **options).finish()
    assert code != 0 and said in printed and "Traceback" not in printed, printed
    assert_bare(cluster)


def test_a_host_that_lets_no_port_through_goes_through_ssh(cluster, job):
    with cluster.closed("two"):
        one = job("--scenario=baseline", "--scenario-train=train.py")
        code, printed = one.finish()
    assert code == 0, printed
    (view,) = one.events("view")
    assert any(note.startswith("host two does not reach this machine by TCP") for note in view["notes"])


@pytest.mark.parametrize(
    ("python", "said"),
    [
        ("import sys; sys.version_info = (3, 6, 8); exec(sys.argv[1])", "python3 is 3.6 there; 3.9 or newer is needed"),
        ("", "python3: not found"),
    ],
)
def test_a_python_that_is_old_or_missing_is_named(cluster, job, tmp_path, python, said):
    there = tmp_path / "bin"
    there.mkdir()
    if python:
        (there / "python3").write_text(f"#!/bin/sh\nexec {sys.executable} -c '{python}' \"$2\"\n")
        (there / "python3").chmod(0o755)
    # It stands for the login of a host with such a python3, or none.
    (tmp_path / "ssh").write_text(f'#!/bin/sh\nfor word; do last=$word; done\nPATH={there} exec /bin/sh -c "$last"\n')
    (tmp_path / "ssh").chmod(0o755)
    code, printed = job("--scenario=baseline", "--scenario-train=train.py", ssh=str(tmp_path / "ssh")).finish()
    # Both hosts are such; the one that answers first is named.
    assert code != 0 and "cannot be used: " in printed and said in printed, printed


def test_a_pulled_cable_and_a_host_without_power_are_said_by_name(cluster, job):
    one = job("--scenario=baseline", "--scenario-train=train.py")
    one.await_step()
    cluster.cut("two")
    try:
        code, printed = one.finish()
    finally:
        cluster.cut("two", up=True)
    assert code == 1 and "VOID" in printed and "host two is lost" in printed, printed
    assert_bare(cluster)
