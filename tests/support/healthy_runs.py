"""Runs of healthy jobs, for the default tests and for the soak."""

from __future__ import annotations

from collections.abc import Iterable

from breakrank.plan.scenario import DEFAULT_ORACLES
from breakrank.runs.bench import Bench
from breakrank.runs.request import Request
from breakrank.verdict import Outcome
from support.plans import PROGRAMS, plan_of

#: The oracles that can judge a job without a control.
ORACLES = (*DEFAULT_ORACLES, "collectives")


def objections(bench: Bench, seeds: Iterable[int]) -> list[tuple[int, str]]:
    """Run the job of each seed, of two or three ranks; return (seed, sentence) of those that did not survive."""
    wrong = []
    for seed in seeds:
        plan = plan_of("healthy:any_job", ranks=2 + seed % 2, steps=3, seed=seed, deadline_s=60.0, oracles=ORACLES)
        verdict = bench.run(Request(plan, programs=PROGRAMS)).verdict
        if verdict.outcome is not Outcome.SURVIVED:
            wrong.append((seed, f"{verdict.outcome}: {verdict.sentence()}"))
    return wrong
