"""Validates an image: the catalogue on the new one and on the last good one, and what got better or worse."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from breakrank.doctor import missing_for, missing_framework
from breakrank.errors import BreakrankError
from breakrank.plan.build import Choices, make_plan
from breakrank.plan.catalogue import load_scenarios, select
from breakrank.plan.scenario import Case, Scenario
from breakrank.report.compare import Comparison, Standing, Stood, finding, key, new_standing
from breakrank.runners import image_runner
from breakrank.runs.bench import Bench
from breakrank.runs.request import Request
from breakrank_agent.protocol.trigger import PlanError

#: The beginning of a case's sentence for an error that is neither the image's nor the user's.
_OWN = "an error of Breakrank's own"


def validate(new: str, old: str, names: Sequence[str], seed: int, runs: Path) -> int:
    """Run the scenarios `names` on both images and print what differs; return the comparison's status.

    An error of our own leaves a case untested on both, perhaps: it is never passed over, the status is then 2.
    Raises `BreakrankError` if there is no engine, or no such image: before anything runs.
    """
    cases = select(load_scenarios(), names)
    standings = new_standing(old), new_standing(new)
    comparison = Comparison(*standings)
    for standing in standings:
        stand(standing, cases, seed, runs.absolute())
    print("\n" + "\n".join(comparison.lines()))
    ours = any(stood.sentence.startswith(_OWN) for one in standings for stood in one.cases.values())
    return comparison.status or (2 if ours else 0)


def stand(standing: Standing, cases: Sequence[tuple[Scenario, Case]], seed: int, runs: Path) -> None:
    """Run cases on the image of a standing, one line each, and save what they came to. Raises `BreakrankError`."""
    choices = Choices(seed=seed, runner=image_runner(), image=standing.image)
    lacks = {
        name: missing_framework(name, choices.runner, standing.image)
        for name in dict.fromkeys(case.framework for _, case in cases)
    }
    number, total = 0, sum(not lacks[case.framework] for _, case in cases)
    print("; ".join([f"{standing.image}: {total} of {len(cases)} cases", *filter(None, lacks.values())]))
    try:
        with Bench(runs) as bench:
            for scenario, case in cases:
                lack = lacks[case.framework]
                if not lack:
                    number += 1
                    # Said before it runs, so that one sees what takes long.
                    print(f"{number:>4}/{total}  {scenario.name}::{case.name}  ", end="", flush=True)
                began = time.monotonic()
                mechanism, stood = _case(bench, scenario, case, choices, lack)
                standing.cases[key(scenario.name, case.name, mechanism)] = stood
                if not lack:
                    print(f"{stood.words()}  {time.monotonic() - began:.0f} s", flush=True)
    finally:
        # An interrupt at the hundredth case leaves the results of ninety-nine.
        standing.save(runs)


def _case(bench: Bench, scenario: Scenario, case: Case, choices: Choices, lack: str) -> tuple[str, Stood]:
    """Return by which means a case is struck and run, and what it came to; `lack` is why the image cannot run it."""
    mechanism = choices.runner
    try:
        plan = make_plan(scenario, case, choices)
        mechanism = plan.mechanism
        if lack:
            return mechanism, Stood("", sentence=lack, lacks=case.framework)
        reason = missing_for(plan, case.needs)
        if reason:
            return mechanism, Stood("", sentence=reason)
        programs = scenario.path.parent / "programs"
        request = Request(plan, case.record(plan.runner, plan.ranks), programs if programs.is_dir() else None)
        verdict = bench.run(request).verdict
        return mechanism, Stood(str(verdict.outcome), finding(verdict), verdict.sentence())
    except (BreakrankError, PlanError) as error:
        return mechanism, Stood("", sentence=" ".join(str(error).split()))
    except Exception as error:
        # The catalogue runs for long, perhaps at night: what goes wrong with one case, if only our own, ends no other.
        return mechanism, Stood("", sentence=f"{_OWN}: {type(error).__name__}: {error}")
