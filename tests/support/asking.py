"""Let an oracle judge a golden history, and hold to account whatever it says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

from breakrank.history.reader import History
from breakrank.oracles import Abstain, Terms, all_oracles
from breakrank.verdict import Finding

#: The oracles that compare with another run, which is never started again, what was not either.
_OF_A_FIRST_ATTEMPT = ("control", "reference", "replicas", "samples")


def ask(oracle: str, history: History, control: History | None = None, **terms: Any) -> list[Finding]:
    """Let an oracle judge, as the judge would: without the fault events. It has to say the same of later attempts."""
    agreed = Terms(**{"ranks": 2, "steps": 3, **terms})
    said = _judge(oracle, history, control, agreed)
    if oracle not in _OF_A_FIRST_ATTEMPT or (control or agreed.reference) is None:
        later = _judge(oracle, _later(history), control, agreed)
        assert later == (said if isinstance(said, str) else [replace(f, attempt=f.attempt + 1) for f in said])
    if isinstance(said, str):
        raise Abstain(said)
    for finding in said:
        _check(oracle, finding, history)
    return said


def objection(oracle: str, history: History, control: History | None = None, **terms: Any) -> tuple[Any, ...]:
    """Return (cause, ranks, step) of the one objection."""
    (finding,) = ask(oracle, history, control, **terms)
    return finding.cause, finding.ranks, finding.step


def _judge(oracle: str, history: History, control: History | None, terms: Terms) -> list[Finding] | str:
    """Return the findings, or the reason why there can be none."""
    try:
        return list(all_oracles()[oracle](history.without_faults(), control, terms))
    except Abstain as abstained:
        return str(abstained)


def _later(history: History) -> History:
    """Return the same history with the next number for each attempt, as if there had been one before."""
    ranks = {}
    for (attempt, rank), lived in history.ranks.items():
        events = tuple(cast(Any, _shifted(event)) for event in lived.events)
        ranks[attempt + 1, rank] = replace(lived, attempt=attempt + 1, events=events)
    return History(ranks, tuple(cast(Any, _shifted(event)) for event in history.conductor))


def _shifted(event: Any) -> dict[str, Any]:
    return {**event, "attempt": event["attempt"] + 1} if "attempt" in event else event


def _check(oracle: str, finding: Finding, history: History) -> None:
    """Check that a finding is by this oracle, of an attempt and ranks that there are, and has all that is told."""
    assert finding.oracle == oracle, finding
    assert finding.attempt in history.attempts, finding
    there: Sequence[int] = [lived.rank for lived in history.attempt(finding.attempt)]
    assert list(finding.ranks) == [rank for rank in there if rank in finding.ranks], finding
    assert "" not in finding.places, finding
    assert "(unknown " not in finding.sentence(), finding
