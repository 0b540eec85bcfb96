"""A plan in words: what will run, what strikes it, and what judges it."""

from __future__ import annotations

from breakrank.runners import find_runner
from breakrank_agent.plan import Plan


def plan_words(plan: Plan) -> str:
    """Return the plan in readable sentences, one a line."""
    lines = [
        f"{plan.scenario}::{plan.case}",
        f"  {_who(plan)}{_data(plan)}, {_schedule(plan)}, seed {plan.seed}, runner {plan.runner}.",
        *_strikes(plan),
        f"  {_control(plan)}",
        f"  {_limits(plan)}",
        f"  Judged by {', '.join(plan.oracles) or 'no oracle'}{_tolerance(plan)}.",
    ]
    if plan.environment:
        lines.append(f"  Environment: {', '.join(f'{k}={v}' for k, v in sorted(plan.environment.items()))}.")
    return "\n".join(lines)


def _who(plan: Plan) -> str:
    if find_runner(plan.runner).joins:
        return f"The ranks that '{' '.join(plan.command)}' starts run as they are{_until(plan)}"
    what = f"{plan.program} ({plan.framework})" if plan.program else " ".join(plan.command)
    steps = f" for {_count(plan.steps, 'step')}" if plan.steps else ""
    return f"{_count(plan.ranks, 'rank')} {_verb(plan.ranks)} {what}{steps}{_until(plan)}"


def _until(plan: Plan) -> str:
    until = f" until step {plan.until} is over" if plan.until else ""
    return until + (f", where a step ends when {plan.step} returns" if plan.step else "")


def _verb(number: int) -> str:
    return "runs" if number == 1 else "run"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _data(plan: Plan) -> str:
    return f" on the data {plan.data}" if plan.data else ""


def _schedule(plan: Plan) -> str:
    if plan.schedule.mode == "free":
        return "at full speed"
    return f"one rank at a time, chosen by {plan.schedule.policy}"


def _strikes(plan: Plan) -> list[str]:
    """Return one sentence a strike, with the ranks that its selector came to."""
    if not plan.strikes:
        return ["  Nothing strikes."]
    lines = []
    for strike in plan.strikes:
        plain = isinstance(strike.trigger.rank, int) or not strike.ranks
        drawn = "" if plain else f" (ranks {', '.join(map(str, strike.ranks))})"
        lines.append(f"  Struck by {strike.words()}{drawn}: certifies {strike.fault.certifies or 'nothing yet'}.")
    return lines


def _control(plan: Plan) -> str:
    if not plan.control:
        return "There is no control."
    return f"The control is {'the same without the strikes' if plan.control == 'same' else plan.control}."


def _limits(plan: Plan) -> str:
    restarts = f"it is restarted up to {_count(plan.restarts, 'time')}" if plan.restarts else "it is not restarted"
    restarts += ", without whom a signal has ended" if plan.restarts and plan.elastic else ""
    patience = f", a proven wait may last {plan.patience_s:g} s" if plan.patience_s else ""
    return f"When a rank fails, {restarts}; it is ended after {plan.deadline_s:g} s without a new point{patience}."


def _tolerance(plan: Plan) -> str:
    return f", results within {plan.tolerance:g} of the control's" if plan.tolerance else ""
