"""Validates an image: the catalogue on the new one and on the last good one, and what got better or worse."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from breakrank.catalogue import load_scenarios, select
from breakrank.doctor import missing
from breakrank.errors import BreakrankError
from breakrank.report.compare import Comparison, Standing, Stood, finding, key, new_standing
from breakrank.run import Bench, Choices, docker_runner, make_plan
from breakrank.scenario import Case, Scenario
from breakrank_agent.plan import PlanError


def validate(new: str, old: str, names: Sequence[str], seed: int, runs: Path) -> int:
    """Run the scenarios `names` on both images and print what differs; return the comparison's status.

    Raises `BreakrankError` if there is no engine, or no such image.
    """
    standings = [stand(image, names, seed, runs.absolute()) for image in (old, new)]
    comparison = Comparison(*standings)
    print("\n".join(comparison.lines()))
    return comparison.status


def stand(image: str, names: Sequence[str], seed: int, runs: Path) -> Standing:
    """Run scenarios on an image, one line a case, and save what they came to. Raises `BreakrankError`."""
    standing = new_standing(image)
    with Bench(runs) as bench:
        for scenario, case in select(load_scenarios(), names):
            mechanism, stood = _case(bench, scenario, case, Choices(seed=seed, runner="docker", image=image))
            name = key(scenario.name, case.name, mechanism)
            standing.cases[name] = stood
            print(f"{image}  {name}  {stood.words()}", flush=True)
    standing.save(runs)
    return standing


def _case(bench: Bench, scenario: Scenario, case: Case, choices: Choices) -> tuple[str, Stood]:
    """Return by which means a case is struck and run, and what it came to."""
    mechanism = choices.runner
    try:
        plan = make_plan(scenario, case, choices)
        mechanism = plan.mechanism
        needs = [*case.needs, *(need for strike in plan.strikes for need in strike.fault.needs)]
        lack = docker_runner().lacking(choices.image, case.framework) or missing(needs)
        if lack:
            return mechanism, Stood("", sentence=lack)
        programs = scenario.path.parent / "programs"
        verdict = bench.run(plan, case.record(plan.runner), programs if programs.is_dir() else None).verdict
        return mechanism, Stood(str(verdict.outcome), finding(verdict), verdict.sentence())
    except (BreakrankError, PlanError) as error:
        return mechanism, Stood("", sentence=" ".join(str(error).split()))
