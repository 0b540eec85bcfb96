"""Isolated ranks: their view of the host, the healing of strikes, the proof of a hang, and a sandbox without root."""

from __future__ import annotations

import os
import subprocess
from dataclasses import replace
from types import SimpleNamespace

import pytest
from support.ground import PYTEST
from support.plans import plan_of

from breakrank.doctor import missing
from breakrank.plan.build import Choices, make_plan
from breakrank.plan.scenario import Case, Job, Scenario
from breakrank.runners.namespaces import Walls
from breakrank.runs.request import Request
from breakrank.runs.saved_run import load_run
from breakrank.verdict import SURVIVED, Outcome
from breakrank_agent import faults
from breakrank_agent.protocol.trigger import at

NEEDS = sorted({need for kind in (faults.CutLink, faults.Partition, faults.DelayPackets) for need in kind.needs})
pytestmark = pytest.mark.skipif(bool(missing(NEEDS)), reason=missing(NEEDS))

#: The trigger of the strikes on a program with a limit, and the kill of a rank one step later.
AT = at(rank=1, step=2, point="collective")
LATER = faults.Kill() @ at(rank="all", step=3, point="collective")


def seen(saved, phase):
    """Return (attempt, rank) for each time that a strike came to a phase."""
    return [(e["attempt"], e["rank"]) for e in saved.history.seen("strike") if e["phase"] == phase]


def test_each_rank_is_alone_on_a_host_of_its_own(run):
    result, saved = run("walls:tells", runner="sandbox")
    assert result.verdict.outcome is Outcome.SURVIVED, result.verdict
    for rank, lived in enumerate(saved.history.last):
        host = lived.of_kind("told")[-1]["values"]
        assert (host["hostname"], host["address"]) == (f"rank-{rank}", f"10.77.0.{rank + 1}")
        assert (host["master"], host["devices"]) == ("10.77.0.1", ["eth0", "lo"])
        # The first process is the one that holds the namespaces.
        assert host["processes"] == [1, host["own"]]


SCRIPT = """
import os, socket

numbers = sorted(int(name) for name in os.listdir("/proc") if name.isdigit())
master = socket.gethostbyname(os.environ["MASTER_ADDR"])
print(socket.gethostname(), socket.gethostbyname(socket.gethostname()), master, numbers == [1, os.getpid()])
with open(f"written-{os.environ['RANK']}.txt", "w") as file:
    file.write(str(os.path.exists("notes.txt")))
"""


def test_a_script_that_starts_cold_is_behind_the_same_walls_and_in_a_view_of_its_folder(bench, tmp_path):
    (tmp_path / "train.py").write_text(SCRIPT)
    (tmp_path / "notes.txt").write_text("kept")
    plan = replace(plan_of(""), command=("train.py",), runner="sandbox", pin=False, steps=0, oracles=("ends",))
    result = bench.run(Request(plan, where=tmp_path))
    for rank in (0, 1):
        printed = (result.folder / f"attempt-0/rank-{rank}.out").read_text().split()
        assert printed == [f"rank-{rank}", f"10.77.0.{rank + 1}", "10.77.0.1", "True"]
        # Both ranks write into one view, and not into the user's folder.
        assert (result.folder / f"work/written-{rank}.txt").read_text() == "True"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["notes.txt", "train.py"]


@pytest.mark.parametrize("fault", [
    faults.CutLink(), faults.OneWayLink(), faults.LosePackets(every=3), faults.LimitBandwidth(kbit=2000),
    faults.DelayPackets(ms=5.0),
], ids=lambda fault: fault.name())  # fmt: skip
def test_what_was_healed_serves_the_next_attempt_in_the_same_place(bench, fault):
    # A closed network path ends the attempt by the program's own time-out. Any other fault needs a kill to end it, and
    # a program that waits, because TCP sends lost data again later and later. Both ranks are killed: the word that one
    # is gone may be among what is lost, and its peer then waits forever.
    closes = hasattr(fault, "closes")
    strikes = [fault @ AT] if closes else [fault @ AT, LATER]
    case = Case("waits", "averaging:limited" if closes else "averaging:plain", SURVIVED, restarts=1)
    scenario = Scenario([case], Job(ranks=2, steps=5, data="digits", patience_s=5.0), strikes, name="healed")
    result = bench.run(Request(make_plan(scenario, case, Choices())))
    saved = load_run(result.folder)
    assert result.verdict.outcome is Outcome.SURVIVED, result.verdict
    assert saved.history.attempts == [0, 1]
    assert (0, 1) in seen(saved, "landed") and (0, 1) in seen(saved, "healed") and not seen(saved, "unhealed")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may have a network namespace without a user namespace")
def test_two_of_a_kind_on_one_rank_are_healed_each_for_itself():
    with subprocess.Popen(["unshare", "--net", "sh", "-c", "echo in; exec cat"], stdin=-1, stdout=-1) as holder:
        assert holder.stdout is not None and holder.stdout.readline() == b"in\n"
        walls = Walls(holder.pid, ("net",), "10.77.0.2", "rank-1")
        first, second = (SimpleNamespace(number=n, rank=1, walls_of=lambda _: walls) for n in (0, 1))
        fault = faults.LoseNames()
        for target in (first, second):
            fault.strike(target)
        fault.heal(first)
        assert "dport 53 drop" in walls.run("nft", "list", "ruleset")
        fault.heal(second)
        assert not walls.run("nft", "list", "ruleset").strip()
        holder.stdin.close()


def test_of_three_ranks_the_one_whose_link_is_dead_is_blamed(run):
    result, saved = run("small:train", faults.CutLink() @ AT, ranks=3, runner="sandbox", deadline_s=60.0)
    assert result.verdict.outcome is Outcome.HUNG, result.verdict
    (finding, *_) = result.verdict.findings
    assert (finding.cause, finding.step) == ("unreachable", 2)
    assert result.verdict.blame.ranks == (1,)
    (event,) = saved.history.seen("hung")
    assert event["why"] == "unreachable"


@pytest.mark.parametrize("fault", [faults.LimitBandwidth(kbit=16, burst=2000), faults.DelayPackets(ms=400.0)])
def test_a_slow_or_late_rank_behind_walls_is_no_hang(run, fault):
    result, _ = run("small:train", fault @ AT, runner="sandbox", deadline_s=60.0)
    assert result.verdict.outcome is Outcome.SURVIVED, result.verdict


def test_a_partition_with_an_empty_half_is_void(run):
    result, _ = run("small:train", faults.Partition(first=2) @ AT, runner="sandbox")
    assert result.verdict.outcome is Outcome.VOID
    assert "no rank is on the far side of rank 2" in result.verdict.sentence()


def test_without_walls_it_is_void_and_says_what_to_do(run):
    result, _ = run("small:train", faults.CutLink() @ AT)
    assert result.verdict.outcome is Outcome.VOID
    assert "use --scenario-runner=sandbox" in result.verdict.sentence()


def test_it_takes_no_root(tmp_path):
    """The command runs as an ordinary user of a user namespace, without any right over the machine."""
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    nobody = ["unshare", "--user", "--map-user=1000", "--map-group=1000"]
    scenarios = "cut_link::torch-by-hand,delayed_link::torch-delay"
    command = [*PYTEST, "-p", "breakrank.plugin", f"--scenario={scenarios}"]
    env = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST")}
    done = subprocess.run([*nobody, *command], cwd=tmp_path, env=env, capture_output=True, text=True)
    assert "2 as recorded, 0 changed, 0 not tested" in done.stdout, done.stdout + done.stderr
