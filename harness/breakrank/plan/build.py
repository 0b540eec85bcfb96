"""Plans: all chance of a case resolved with the seed, and the plans of its control and its reference."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

from breakrank.errors import BreakrankError
from breakrank.plan.scenario import Case, Scenario
from breakrank_agent.plan import Plan, Schedule
from breakrank_agent.protocol.evidence import evidence_for
from breakrank_agent.protocol.fault import Strike
from breakrank_agent.protocol.frameworks import PACKAGES, WARM
from breakrank_agent.protocol.trigger import PlanError

#: The word that leaves the runner to the strikes: ranks are isolated where one of them needs it.
AUTO = "auto"
#: The most ranks that one machine is asked to run.
MOST_RANKS = 64


@dataclass(frozen=True)
class Choices:
    """Choices of the person who starts a run; None leaves one to the scenario.

    `steps` (after the last strike), `step` (what ends one), `framework` and `apart` (names of parameters that are not
    replicas) are for scripts.
    """

    seed: int = 0
    ranks: int | None = None
    deadline_s: float | None = None
    restarts: int | None = None
    patience_s: float | None = None
    tolerance: float | None = None
    runner: str = AUTO
    reference: tuple[str, ...] = ()
    steps: int | None = None
    step: str = ""
    image: str = ""
    framework: str = ""
    apart: tuple[str, ...] = ()


def make_plan(scenario: Scenario, case: Case, choices: Choices) -> Plan:
    """Resolve all chance of a case with the seed. Raises `BreakrankError` for a plan that cannot run."""
    job = scenario.job
    ranks = job.ranks if case.ranks is None else case.ranks
    ranks = ranks if choices.ranks is None else choices.ranks
    if not 1 <= ranks <= MOST_RANKS:
        raise BreakrankError(f"{ranks} ranks cannot be run here; choose 1 to {MOST_RANKS}")
    if ranks not in (scenario.sizes_of(case) or (ranks,)):
        sizes = " or ".join(map(str, scenario.sizes_of(case)))
        raise BreakrankError(f"the program {case.program} is for {sizes} rank{'s' * (sizes != '1')}, not for {ranks}")
    declared = scenario.strikes if case.strikes is None else case.strikes
    try:
        strikes = tuple(resolve(s, i, ranks, choices.seed, scenario.name) for i, s in enumerate(declared))
    except PlanError as error:
        raise BreakrankError(f"{scenario.name}, case {case.name}: {error}") from None
    restarts = job.restarts if case.restarts is None else case.restarts
    patience_s = job.patience_s if case.patience_s is None else case.patience_s
    return Plan(
        scenario=scenario.name,
        case=case.name,
        program=case.program,
        seed=choices.seed,
        framework=case.framework,
        ranks=ranks,
        steps=job.steps,
        restarts=restarts if choices.restarts is None else choices.restarts,
        elastic=job.elastic,
        deadline_s=job.deadline_s if choices.deadline_s is None else choices.deadline_s,
        patience_s=patience_s if choices.patience_s is None else choices.patience_s,
        digests=job.digests,
        apart=choices.apart,
        tolerance=case.tolerance if choices.tolerance is None else choices.tolerance,
        runner=_runner(choices.runner, strikes, f"{scenario.name}, case {case.name}"),
        image=choices.image,
        control=case.control or ("same" if strikes else ""),
        data=job.data,
        oracles=scenario.oracles_of(case),
        evidence=evidence_for(scenario.oracles_of(case)),
        schedule=scenario.schedule,
        strikes=strikes,
        environment=_environment(case),
    )


def _environment(case: Case) -> dict[str, str]:
    """Return the environment of a case's ranks: its own, and the slow modules of its packages."""
    warm = [module for need in case.needs if need in PACKAGES for module in PACKAGES[need].warm]
    return {**case.environment, **({WARM: ",".join(warm)} if warm else {})}


def _runner(wanted: str, strikes: Sequence[Strike], name: str) -> str:
    """Return the runner of a plan: ranks are isolated only if a strike needs it. Raises `BreakrankError`.

    A fault that needs isolated ranks cannot strike others: `auto` changes no record.
    """
    walled = [strike.fault.name() for strike in strikes if strike.fault.walled]
    contained = [strike.fault.name() for strike in strikes if strike.fault.contained]
    if contained and wanted != "docker":
        raise BreakrankError(f"{name}: {contained[0]} needs ranks in containers; use --scenario-image=REF")
    clustered = [strike.fault.name() for strike in strikes if strike.fault.clustered]
    if clustered and wanted not in (AUTO, "slurm"):
        raise BreakrankError(f"{name}: {clustered[0]} strikes tasks of Slurm's; use --scenario-runner=slurm")
    if wanted == AUTO:
        return "slurm" if clustered else "sandbox" if walled else "process"
    if wanted in ("process", "hosts", "slurm") and walled:
        raise BreakrankError(f"{name}: {walled[0]} needs isolated ranks; use --scenario-runner=sandbox")
    return wanted


def resolve(strike: Strike, index: int, ranks: int, seed: int, scenario: str) -> Strike:
    """Return a strike with its ranks and the chance of its fault drawn from the seed and its place."""
    draw = random.Random(f"{seed}:{scenario}:{index}")
    ranks_struck = strike.trigger.select(ranks, draw.randrange(ranks))
    return replace(strike, fault=strike.fault.drawn(draw), ranks=ranks_struck)


def reference_plan(plan: Plan) -> Plan:
    """Return the plan of the reference: one rank that does the work of all, on the same global batches."""
    wanted = replace(control_plan(replace(plan, control="same")), ranks=1)
    if plan.command:
        return replace(wanted, command=plan.reference, runner="process")
    return replace(wanted, merged=plan.ranks)


def control_plan(plan: Plan) -> Plan:
    """Return the plan of the control: without the strikes, or the sound twin that the case names."""
    program = plan.program if plan.control == "same" else plan.control
    if plan.command and plan.schedule.mode == "controlled":
        # Results under other schedules are compared with the result of one rank after the other.
        plan = replace(plan, schedule=Schedule("controlled", "serial"))
    return replace(plan, scenario="control", case="control", program=program, strikes=(), control="", restarts=0)
