"""Objects to replicas whose parameters part: every rank that ended well holds the same ones after every step."""

from __future__ import annotations

import operator
from collections.abc import Sequence

from breakrank import laws
from breakrank.history import History, RankHistory
from breakrank.oracles import Abstain, Terms
from breakrank.verdict import Finding, name_ranks


def judge(history: History, control: History | None, terms: Terms) -> Sequence[Finding]:
    """Compare the ranks' digests step by step, then what they were left with."""
    findings, judged = [], False
    for attempt in history.attempts:
        well = [lived for lived in history.attempt(attempt) if lived.ended_well]
        table = _digests(well)
        judged = judged or any(len(values) > 1 for values in table.values())
        broken = laws.breaches(table, laws.alike)
        if broken:
            findings.append(_finding(broken[0], control if history.attempts == [0] else None))
    if not judged:
        raise Abstain("there are no two ranks that ended well and recorded their parameters")
    return findings


def _digests(ranks: Sequence[RankHistory]) -> laws.Table:
    """Return the ranks' digests after each step and, last, at the end."""
    table = laws.steps(ranks)
    if ranks:
        last = max(lived.last_step for lived in ranks)
        table[laws.Place(ranks[0].attempt, last, "result")] = laws.results(ranks)
    return table


def _finding(breach: laws.Breach, control: History | None) -> Finding:
    """Name the ranks outside the majority; without a majority, those that differ from the control's."""
    ranks = breach.ranks
    if len(ranks) == len(breach.values) and control is not None:
        unlike = laws.like(_digests(control.last), operator.eq)(breach.place, breach.values)
        ranks = tuple(unlike) or ranks
    evidence = {
        "others": _name_others([rank for rank in breach.values if rank not in ranks]),
        "digests": {str(rank): value for rank, value in breach.values.items()},
    }
    return Finding("replicas", "replicas differ", ranks, breach.place.step, breach.place.attempt, evidence=evidence)


def _name_others(ranks: Sequence[int]) -> str:
    """Say whose parameters the others' are."""
    if not ranks:
        return "each other"
    return f"{name_ranks(ranks)}'s" if len(ranks) == 1 else f"those of {name_ranks(ranks)}"
