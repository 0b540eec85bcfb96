"""The share of runs in which a fault that fires by the clock meets its step, beside a fault that fires at the step."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from statistics import median

import by_the_clock
import pytest
from measure import Measured, say

from breakrank.history.reader import RankHistory
from breakrank.runs.bench import Bench
from breakrank.runs.request import Request
from breakrank.runs.result import Result
from breakrank.runs.saved_run import load_run
from breakrank_agent import faults
from breakrank_agent.plan import Plan
from breakrank_agent.protocol.fault import Strike
from breakrank_agent.protocol.trigger import at

#: A step of this program takes about 10 ms once it has settled.
PLAN = Plan("bench", "clock", "steady:always", steps=20, digests="none", oracles=("ends",), runner="sandbox")
STEP = 12
CALIBRATED, RUNS = 10, 20


@pytest.fixture
def warm(tmp_path: Path) -> Iterator[Bench]:
    with Bench(tmp_path / "runs") as made:
        yield made


def ran(bench: Bench, plan: Plan) -> Result:
    return bench.run(Request(plan, programs=Path(__file__).parent / "programs"))


def struck(result: Result) -> RankHistory:
    """Return the records of rank 1 until it was killed."""
    return load_run(result.folder).history.ranks[0, 1]


def span(result: Result) -> tuple[float, float]:
    """Return the times at which rank 1 entered the step and left it, in seconds after the rank was started."""
    history = load_run(result.folder).history
    (began,) = [e["t"] for e in history.seen("spawned") if e["rank"] == 1]
    inside = [e["t"] - began for e in history.ranks[0, 1].events if e["step"] == STEP]
    return min(inside), max(inside)


def by_clock(bench: Bench, delay: float) -> Result:
    """Run the plan without a strike, and have another process kill rank 1 so long after its start."""
    command = [sys.executable, by_the_clock.__file__, str(bench.runs), str(delay)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        other.stdout.readline()
        return ran(bench, PLAN)


def test_how_many_of_20_runs_meet_the_step(warm):
    strike = Strike(faults.Kill(), at(rank=1, step=STEP, point="collective"), (1,))
    ran(warm, PLAN)
    spans = [span(ran(warm, PLAN)) for _ in range(CALIBRATED)]
    delay = median((first + last) / 2 for first, last in spans)
    ours, clocked = [], []
    for _ in range(RUNS):
        ours.append(struck(ran(warm, replace(PLAN, strikes=(strike,)))).events[-1]["step"])
        clocked.append(struck(by_clock(warm, delay)).events[-1]["step"])
    Measured("from a rank's start to the step", [first for first, _ in spans], "warm", "the start of the zygote").show()
    Measured("the step", [last - first for first, last in spans], "warm", "nothing").show()
    assert ours == [STEP] * RUNS
    say(f"at step {STEP}: {ours.count(STEP)} of {RUNS} runs met step {STEP}, behind walls")
    where = f"it met steps {min(clocked)} to {max(clocked)}"
    say(f"{delay * 1e3:.0f} ms after rank 1 was started: {clocked.count(STEP)} of {RUNS}, taken in turn; {where}")
