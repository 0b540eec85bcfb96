"""Objects to ranks that wait for ever, to parameters that stand still, and to a loss that does not fall."""

from __future__ import annotations

from collections.abc import Sequence

from breakrank import laws
from breakrank.history import History, RankHistory
from breakrank.oracles import Abstain, Terms
from breakrank.verdict import Finding
from breakrank_agent.history import Event

#: Causes that a hung event names itself; any other is a deadline that passed.
_PROVEN = ("peer stopped", "peer ended", "deadlock", "endless")


def judge(history: History, control: History | None, terms: Terms) -> Sequence[Finding]:
    """Look at the waits that the Conductor ended, at consecutive steps' parameters, and at the last loss told."""
    waits = [_wait(event, terms) for event in history.seen("hung")]
    still = [f for attempt in history.attempts for f in _still(history.attempt(attempt), control)]
    losses = [f for lived in history.ranks.values() if lived.ended_well for f in _loss(lived)]
    if not waits and not any(_has_something(lived) for lived in history.ranks.values()):
        raise Abstain("no rank recorded two steps' parameters, and none told a loss with a goal")
    return [*waits, *still, *losses]


def _wait(event: Event, terms: Terms) -> Finding:
    """Return the finding that a hung event is."""
    waiting = sorted(event["waiting"], key=lambda w: (w["step"], w["rank"]))
    first: Event = waiting[0] if waiting else {"step": 0, "point": "a place that no rank recorded"}
    evidence = {
        "where": first.get("op") or first["point"],
        "peer": event.get("peer"),
        "seconds": round(float(event["seconds"]), 1),
        "expected": terms.steps,
        "timeout_s": first.get("timeout_s"),
    }
    places = tuple(f"rank {w['rank']}: {w.get('op') or w['point']}, step {w['step']}" for w in waiting)
    cause = event["why"] if event["why"] in _PROVEN else "no progress"
    return Finding("progress", cause, tuple(sorted(event["ranks"])), first["step"], event["attempt"], places, evidence)


def _still(ranks: Sequence[RankHistory], control: History | None) -> list[Finding]:
    """Return the first step that changed no parameter, unless the control's did not either."""
    excused = _unmoved(control.last) if control is not None else {}
    moved_not = {
        step: stuck
        for step, who in _unmoved(ranks).items()
        if (stuck := [r for r in who if r not in excused.get(step, ())])
    }
    return [
        Finding("progress", "parameters stand still", tuple(moved_not[step]), step, ranks[0].attempt)
        for step in sorted(moved_not)[:1]
    ]


def _unmoved(ranks: Sequence[RankHistory]) -> dict[int, list[int]]:
    """Return by step the ranks whose parameters were the same after it as before it."""
    found: dict[int, list[int]] = {}
    table = laws.steps(ranks)
    for place, values in table.items():
        before = table.get(place._replace(step=place.step - 1), {})
        same = [rank for rank, value in values.items() if before.get(rank) == value]
        if same:
            found[place.step] = same
    return found


def _loss(lived: RankHistory) -> list[Finding]:
    """Return the finding that the last loss with a goal is not below it."""
    told = _goals(lived)
    if not told:
        return []
    loss, goal = told[-1]["values"]["loss"], told[-1]["values"]["goal"]
    if loss < goal:
        return []
    evidence = {"loss": loss, "goal": goal}
    return [Finding("progress", "loss does not fall", (lived.rank,), lived.last_step, lived.attempt, evidence=evidence)]


def _goals(lived: RankHistory) -> list[Event]:
    """Return what the rank told of its loss together with a goal."""
    return [e for e in lived.of_kind("told") if e["name"] == "loss" and "goal" in e["values"]]


def _has_something(lived: RankHistory) -> bool:
    """Whether there is something to judge the rank's progress by."""
    return len(lived.payloads("step")) > 1 or bool(_goals(lived))
