"""The cost of finding races: per operator that touches shared memory, recorded, scheduled, and split."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from statistics import median

import pytest
from measure import Measured, aim, say

from breakrank.runs.bench import Bench
from breakrank.runs.request import Request
from breakrank_agent.plan import Plan, Schedule

PROGRAMS = Path(__file__).parent / "programs"
PLAN = Plan("bench", "operators", "operators:main", steps=1, ranks=1, digests="none", deadline_s=120.0)
#: Runs of ten rounds each, taken in turn: enough for a median, in less than a minute and a half.
RUNS = 2
LEFT_OUT = "the Conductor, which reads the records in another process"
#: By way, the schedule and the aim: the processor seconds that one operator takes more than without an agent.
WAYS = {
    "recorded": (Schedule(), 10e-6),
    "scheduled": (Schedule("controlled", "random"), 20e-6),
    "split": (Schedule("controlled", "random", split=True), 30e-6),
}


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    with Bench(tmp_path_factory.mktemp("runs")) as made:
        yield made


def rounds(bench: Bench, plan: Plan, agent: bool = True) -> list[float]:
    """Run the plan; return the processor time of a call in its thread, round by round."""
    folder = bench.run(Request(plan, programs=PROGRAMS, agent=agent)).folder
    return [processor for processor, _ in json.loads((folder / "work" / "taken.json").read_text())]


def test_what_an_operator_costs_in_each_way(bench):
    """An update of 16 numbers by each of two threads: without an agent, in each way, and by the least that it takes.

    The least is a dispatch mode that does nothing, and one in which the two threads pass a lock to and fro.
    """
    plans = {name: replace(PLAN, schedule=chosen, evidence=("accesses",)) for name, (chosen, _) in WAYS.items()}
    least = {"seen by an empty mode": "operators:seen", "in turn by a lock": "operators:in_turn"}
    taken: dict[str, list[float]] = {name: [] for name in ("without an agent", *least, *plans)}
    for _ in range(RUNS):
        taken["without an agent"] += rounds(bench, PLAN, agent=False)
        for name, program in least.items():
            taken[name] += rounds(bench, replace(PLAN, program=program), agent=False)
        for name, plan in plans.items():
            taken[name] += rounds(bench, plan)
    for name, seconds in taken.items():
        Measured(f"an operator, {name}, processor time", seconds, "warm", LEFT_OUT).show()
    bare = median(taken["without an agent"])
    seen, passed = (median(taken[name]) - bare for name in least)
    for name, (_, most) in WAYS.items():
        more = median(taken[name]) - bare
        floor = seen if name == "recorded" else passed
        say(f"{name}: {more * 1e6:.1f} µs an operator more, {more / floor:.1f} times the least ({floor * 1e6:.1f} µs)")
        aim(f"less than {most * 1e6:.0f} µs, {name}", more < most)
