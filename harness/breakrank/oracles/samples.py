"""Objects to samples lost or doubled: the final state has been trained on what the control's was."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from breakrank.history import History, RankHistory
from breakrank.lineage import lineage
from breakrank.oracles import Abstain, Terms
from breakrank.verdict import Finding


class Trained(NamedTuple):
    """One sample in one step; sorted, they are in the order of training."""

    attempt: int
    step: int
    rank: int
    sample: Any


def judge(history: History, control: History | None, terms: Terms) -> Sequence[Finding]:
    """Count every sample in the final state of the ranks that ended well, and compare with the control's count.

    Lost is what the same ranks of the control were trained on; doubled is what exceeds all ranks of the control, so
    that a rank which takes over a lost rank's samples is not blamed for them.
    """
    if control is None:
        raise Abstain("there is no control to count samples in")
    well = {lived.rank for lived in history.last if lived.ended_well}
    if not well:
        raise Abstain("no rank ended well")
    name = _told_apart_by(history, control)
    here = _contained(history, well, name)
    there = _contained(control, {lived.rank for lived in control.last}, name)
    expected = [t for t in there if t.rank in well]
    if not expected:
        raise Abstain("the control was trained on no samples")
    attempt = history.attempts[-1]
    lost = _beyond(expected, Counter(t.sample for t in here))
    doubled = _beyond(here, Counter(t.sample for t in there))
    return [
        *_finding("samples lost", attempt, lost, len(expected)),
        *_finding("samples doubled", attempt, doubled, len(expected)),
    ]


def _told_apart_by(history: History, control: History) -> str:
    """Return what tells samples apart on both sides: their `indices`, or else digests of the `samples`."""
    loads = [e for side in (history, control) for lived in side.ranks.values() for e in lived.payloads("load")]
    for name in ("indices", "samples"):
        if loads and all(e.get(name) is not None for e in loads):
            return name
    raise Abstain("what was loaded cannot be told apart sample by sample" if loads else "no load was recorded")


def _contained(history: History, well: set[int], name: str) -> list[Trained]:
    """Return what the final state was trained on: what it restored, and the last attempt of the ranks in `well`."""
    last = history.attempts[-1]
    found: list[Trained] = []
    for rank in sorted({rank for _, rank in history.ranks}):
        for stretch in lineage(history, last, rank):
            earlier = history.ranks.get((stretch.attempt, rank))
            found += _trained(earlier, stretch.steps, name) if earlier is not None else []
        if rank in well:
            lived = history.ranks[last, rank]
            found += _trained(lived, lived.last_step, name)
    return sorted(found, key=lambda t: t[:3])


def _trained(lived: RankHistory, steps: int, name: str) -> list[Trained]:
    """Return the samples of the first `steps` steps of one attempt of a rank."""
    return [
        Trained(lived.attempt, int(event["step"]), lived.rank, sample)
        for event in lived.payloads("load")
        if event["step"] <= steps
        for sample in event[name]
    ]


def _beyond(trained: Sequence[Trained], allowed: Mapping[Any, int]) -> list[Trained]:
    """Return the occurrences of samples beyond the allowed number, in order."""
    seen: Counter[Any] = Counter()
    beyond = []
    for occurrence in trained:
        seen[occurrence.sample] += 1
        if seen[occurrence.sample] > allowed[occurrence.sample]:
            beyond.append(occurrence)
    return beyond


def _finding(cause: str, attempt: int, wrong: Sequence[Trained], expected: int) -> list[Finding]:
    """Return the finding about the occurrences in `wrong`, if there are any."""
    if not wrong:
        return []
    evidence = {
        "count": len(wrong),
        "expected": expected,
        "samples": [t.sample for t in wrong[:10]],
        "attempt": wrong[0].attempt,
    }
    ranks = tuple(sorted({t.rank for t in wrong}))
    return [Finding("samples", cause, ranks, wrong[0].step, attempt, evidence=evidence)]
