"""Costs of a start: two ranks, one all-reduce, DDP and five steps, started in four ways."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from statistics import median

import multiprocess
import pytest
from measure import Way, aim, alternate, ratio, say

from breakrank.plan.scenario import DEFAULT_ORACLES
from breakrank.runs.bench import Bench
from breakrank.runs.request import Request
from breakrank.verdict import Outcome
from breakrank_agent.plan import Plan

PROGRAMS = Path(__file__).parent / "programs"
PLAN = Plan("bench", "reduce", "reduce_ddp:main", steps=5, oracles=DEFAULT_ORACLES)

#: The aim of the design: torchrun's time divided by ours.
AIM = 25


@pytest.fixture
def warm(tmp_path: Path) -> Iterator[Bench]:
    with Bench(tmp_path / "warm") as made:
        yield made


def judged(bench: Bench, runner: str = "process") -> Callable[[], None]:
    """Return a function that runs the plan once and checks its verdict."""

    def once() -> None:
        result = bench.run(Request(replace(PLAN, runner=runner), programs=PROGRAMS))
        assert result.verdict.outcome is Outcome.SURVIVED, result.verdict

    return once


class Torchrun:
    """Starts the program as its users do, and counts the jobs that failed.

    Some jobs fail by themselves: a rank that has done its work now and then dies of SIGABRT (torch 2.13). The time of
    such a job counts all the same.
    """

    def __init__(self) -> None:
        self.failed: list[str] = []

    def __call__(self) -> None:
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
        ended = subprocess.run([*command, str(PROGRAMS / "reduce_ddp.py")], capture_output=True, text=True)
        if ended.returncode:
            self.failed.append(ended.stderr)
            assert "SIGABRT" in ended.stderr, ended.stderr


def test_a_warm_run_is_many_times_faster_than_torchs_own_test_case(warm, tmp_path):
    torchrun = Torchrun()
    with Bench(tmp_path / "cold", cold=True) as cold:
        ours, ours_cold, theirs, launcher = alternate(
            5,
            Way("Breakrank, warm ranks", judged(warm), "warm", "the start of the zygote; nothing else"),
            Way("Breakrank, cold ranks", judged(cold), "cold", "nothing"),
            Way("MultiProcessTestCase", multiprocess.run, "cold", "the parent's import of torch; nothing is judged"),
            Way("torchrun --standalone", torchrun, "cold", "nothing; nothing is judged"),
        )
    if torchrun.failed:
        say(f"{len(torchrun.failed)} of {len(launcher.seconds) + 1} jobs of torchrun died of SIGABRT, their work done")
    ratio(ours_cold, ours)
    ratio(launcher, ours)
    assert ratio(theirs, ours) >= AIM


def test_a_warm_run_again_and_again(warm):
    alternate(50, Way("Breakrank, warm ranks, in a row", judged(warm), "warm", "the start of the zygote; nothing else"))


def test_walls_cost_little_more(warm):
    """The aim is 0.3 s for two isolated ranks; the same program runs as plain processes beside it."""
    plain, walled = alternate(
        20,
        Way("Breakrank, warm ranks", judged(warm), "warm", "the start of the zygote; nothing else"),
        Way("Breakrank, behind walls", judged(warm, "sandbox"), "warm", "the start of the zygote; nothing else"),
    )
    ratio(walled, plain)
    aim("less than 0.3 s behind walls", median(walled.seconds) < 0.3)
