"""Objects to parameters and losses that are NaN or infinite."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from breakrank.history.reader import History, RankHistory
from breakrank.oracles import Abstain, Terms
from breakrank.verdict import Finding
from breakrank_agent.protocol.events import RankLine

PROPERTY = "numbers"


def judge(history: History, control: History | None, terms: Terms) -> Sequence[Finding]:
    """Return for each attempt the first step at which some rank held a number that is not finite.

    After a reduction all ranks hold it: of what was not finite in that step, what the fewest ranks held comes first.
    """
    if not any(_numbers(e) for lived in history.ranks.values() for e in lived.events):
        raise Abstain("no rank recorded a number")
    findings = []
    for attempt in history.attempts:
        seen = [s for lived in history.attempt(attempt) for s in _not_finite(lived)]
        if seen:
            step = min(one.step for one in seen)
            held: dict[str, list[_Seen]] = {}
            for one in (one for one in seen if one.step == step):
                held.setdefault(one.what, []).append(one)
            what, there = min(held.items(), key=lambda h: len({one.rank for one in h[1]}))
            evidence = {"what": what, **({} if there[0].since is None else {"since": there[0].since})}
            ranks = tuple(sorted({one.rank for one in there}))
            findings.append(Finding("finite", "non-finite value", ranks, step, attempt, evidence=evidence))
    return findings


class _Seen(NamedTuple):
    """A record that is not finite; `since` is the last step at which it was, if those between were not looked at."""

    step: int
    rank: int
    what: str
    since: int | None


def _not_finite(lived: RankHistory) -> Iterator[_Seen]:
    """Yield every record of the rank that is not finite."""
    for event in lived.events:
        if any(not finite for finite in _numbers(event)):
            since = event.get("since") if event["kind"] in ("payload", "end") else None
            yield _Seen(int(event["step"]), lived.rank, _what(event), since)


def _what(event: RankLine) -> str:
    """Say what is not finite."""
    if event["kind"] == "told":
        return f"a NaN or infinite {event['name']}"
    if event["kind"] != "payload" or event["of"] != "load":
        return "NaN or infinite parameters"
    return "a NaN or infinite batch" + "".join(f" of replica {number}" for number in event.get("unfit", ())[:1])


def _numbers(event: RankLine) -> list[bool]:
    """Return for each number that an event speaks of whether it is finite."""
    if event["kind"] == "told":
        return [math.isfinite(v) for v in event["values"].values() if isinstance(v, (int, float))]
    if event["kind"] == "end" or (event["kind"] == "payload" and event["of"] in ("step", "load")):
        finite = event.get("finite")
        return [finite] if finite is not None else []
    return []
