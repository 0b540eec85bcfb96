"""Objects to parameters and losses that are NaN or infinite."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from breakrank.history import History, RankHistory
from breakrank.oracles import Abstain, Terms
from breakrank.verdict import Finding
from breakrank_agent.history import Event


def judge(history: History, control: History | None, terms: Terms) -> Sequence[Finding]:
    """Return for each attempt the first step at which some rank held a number that is not finite."""
    if not any(_numbers(e) for lived in history.ranks.values() for e in lived.events):
        raise Abstain("no rank recorded a number")
    findings = []
    for attempt in history.attempts:
        seen = [s for lived in history.attempt(attempt) for s in _not_finite(lived)]
        if seen:
            step, _, what = min(seen, key=lambda s: s[0])
            ranks = tuple(sorted({rank for at, rank, held in seen if (at, held) == (step, what)}))
            findings.append(Finding("finite", "not finite", ranks, step, attempt, evidence={"what": what}))
    return findings


def _not_finite(lived: RankHistory) -> Iterator[tuple[int, int, str]]:
    """Yield (step, rank, what) for every record of the rank that is not finite."""
    for event in lived.events:
        if any(not finite for finite in _numbers(event)):
            what = f"a NaN or infinite {event['name']}" if event["kind"] == "told" else "NaN or infinite parameters"
            yield int(event["step"]), lived.rank, what


def _numbers(event: Event) -> list[bool]:
    """Return for each number that an event speaks of whether it is finite."""
    if event["kind"] == "told":
        return [math.isfinite(v) for v in event["values"].values() if isinstance(v, (int, float))]
    if event["kind"] == "end" or (event["kind"] == "payload" and event["of"] == "step"):
        return [event["finite"]] if event.get("finite") is not None else []
    return []
