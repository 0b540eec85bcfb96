"""Plans of a user's own script or command under a scenario: one for each way in which the scenario strikes."""

from __future__ import annotations

import itertools
from collections.abc import Container, Sequence
from dataclasses import replace

from breakrank.errors import BreakrankError
from breakrank.plan.build import AUTO, MOST_RANKS, Choices, make_plan, resolve
from breakrank.plan.scenario import DEFAULT_ORACLES, Case, Scenario
from breakrank.plan.script import is_script, rank_cure, title
from breakrank.verdict import SURVIVED
from breakrank_agent.plan import Plan, Schedule
from breakrank_agent.protocol.evidence import evidence_for
from breakrank_agent.protocol.fault import Strike
from breakrank_agent.protocol.frameworks import DEFAULT, all_frameworks
from breakrank_agent.protocol.trigger import PlanError

#: The points to which a program comes once in many steps, or once in all: a script may save once an epoch.
_RARE = ("load", "save", "restore", "write")


def make_script_plans(scenario: Scenario, command: Sequence[str], choices: Choices) -> dict[str, Plan]:
    """Return the plans of a user's script under a scenario, by name: one for each way in which the scenario strikes.

    Nothing is pinned, and the control is the script itself without the strikes. Raises `BreakrankError`.
    """
    script, launched = title(command), not is_script(command)
    if launched:
        _check_launched(command, choices)
        # The number of ranks is known when the launcher has started them.
        choices = replace(choices, ranks=MOST_RANKS, restarts=0)
    ways = _ways(scenario)
    plans: dict[str, Plan] = {}
    for strikes in ways or [()]:
        name = script if len(ways) < 2 else _name_way(script, strikes, plans)
        made = replace(_plan_way(scenario, strikes, command, choices), case=name)
        plans[name] = _left_to_launcher(made) if launched else made
    return plans


def patterns(text: str) -> tuple[str, ...]:
    """Return the patterns for names of parameters in a text that separates them by commas."""
    return tuple(pattern for one in text.split(",") if (pattern := one.strip()))


def _ways(scenario: Scenario) -> list[tuple[Strike, ...]]:
    """Return the ways in which a scenario strikes a script, none if it strikes nothing. Raises `BreakrankError`."""
    ways: dict[str, tuple[Strike, ...]] = {}
    own = [scenario.strikes, *(case.strikes for case in scenario.cases if case.strikes is not None)]
    if scenario.cases:
        # Their steps are those of the programs that come with the scenario.
        own = [[_whenever(strike) for strike in strikes] for strikes in own]
    for strikes in [(strike,) for strike in scenario.on_scripts] or own:
        # A fault in the data of our programs cannot strike a script.
        if strikes and all(strike.fault.strikes_scripts for strike in strikes):
            ways.setdefault(str(strikes), tuple(strikes))
    if not ways and (scenario.strikes or any(case.strikes for case in scenario.cases)):
        raise BreakrankError("it strikes only the programs that come with it, not a script")
    if not ways and _lies_in_programs(scenario):
        raise BreakrankError(
            "it strikes nothing: its fault lies in the programs that come with it, and a script would only run "
            "undisturbed; use --scenario=baseline for that"
        )
    return list(ways.values())


def _whenever(strike: Strike) -> Strike:
    """Return a strike without its step, if a script may come to its point rarely, and nothing says at which steps."""
    trigger = strike.trigger
    if trigger.point not in _RARE or not trigger.step:
        return strike
    return replace(strike, trigger=replace(trigger, step=None, visit=1))


def _plan_way(scenario: Scenario, strikes: tuple[Strike, ...], command: Sequence[str], choices: Choices) -> Plan:
    """Return the plan of a script, or of a command, that is struck in one way."""
    framework = choices.framework or DEFAULT
    case = Case(title(command), "", SURVIVED, framework=framework, strikes=strikes, restarts=scenario.job.restarts)
    made = make_plan(replace(scenario, job=replace(scenario.job, steps=0, data="")), case, choices)
    made = replace(made, command=tuple(command), pin=False, step=choices.step)
    if choices.reference:
        oracles = (*made.oracles, "reference")
        made = replace(made, reference=choices.reference, oracles=oracles, evidence=evidence_for(oracles))
    if choices.steps is not None:
        last = max((strike.trigger.step or 0 for strike in strikes), default=0)
        made = replace(made, until=last + choices.steps)
    if is_script(command) and made.schedule.mode == "controlled":
        made = replace(made, control="same")
    return made


def start_once(made: Plan) -> Plan:
    """Return the plan of a script that, as is now known, starts its ranks itself. Raises `BreakrankError`."""
    control = made.control if made.schedule.mode == "free" else "same" if made.strikes else ""
    return replace(_left_to_launcher(made), restarts=0, control=control)


def _left_to_launcher(made: Plan) -> Plan:
    """Return the plan of a command that starts its ranks itself: nobody schedules them, and ranks are drawn later."""
    if made.runner != "process":
        raise BreakrankError(
            f"{made.scenario} strikes isolated ranks, and '{' '.join(made.command)}' starts its ranks itself; name "
            "the script without its launcher"
        )
    unresolved = tuple(replace(strike, ranks=()) for strike in made.strikes)
    return replace(made, runner="join", ranks=0, schedule=Schedule(), strikes=unresolved)


def _lies_in_programs(scenario: Scenario) -> bool:
    """Return whether a scenario has programs with a fault and nothing else: no schedule, no oracle beyond the usual."""
    usual = {*DEFAULT_ORACLES, *(name for one in all_frameworks().values() for name in one.oracles)}
    in_programs = any(case.control for case in scenario.cases)
    return in_programs and scenario.schedule.mode == "free" and usual.issuperset(scenario.oracles)


def _name_way(script: str, strikes: Sequence[Strike], taken: Container[str]) -> str:
    """Return a name for a script under these strikes, such as `train.py-kill-collective`, that is not taken."""
    name = "-".join([script, *(f"{strike.fault.name()}-{strike.trigger.point}" for strike in strikes)])
    names = itertools.chain([name], (f"{name}-{number}" for number in itertools.count(2)))
    return next(candidate for candidate in names if candidate not in taken)


def _check_launched(command: Sequence[str], choices: Choices) -> None:
    """Raise `BreakrankError` for what only the user's launcher can decide."""
    cure = rank_cure(command)
    itself = f"'{' '.join(command)}' starts its ranks itself"
    for value, name in ((choices.ranks, "ranks"), (choices.restarts, "restarts")):
        if value is not None:
            raise BreakrankError(f"{itself}: say there, not here, how many {name}{f'; or {cure}' if cure else ''}")
    if choices.runner not in (AUTO, "process"):
        raise BreakrankError(f"{itself}: they cannot be isolated{f'; {cure}' if cure else ''}")


def resolve_launched(plan: Plan, ranks: int) -> Plan:
    """Return the plan of a launcher's job, of as many ranks as its control had. Raises `BreakrankError`."""
    try:
        strikes = tuple(resolve(s, i, ranks, plan.seed, plan.scenario) for i, s in enumerate(plan.strikes))
    except PlanError as error:
        raise BreakrankError(f"{' '.join(plan.command)}: {error}") from None
    return replace(plan, ranks=ranks, strikes=strikes)
