"""Objects to samples lost or doubled: the final state must be trained on the same samples as the control's.

Without a control, it objects to batches that are drawn as no training wants them. Beside a control that draws as it
should, this is the reason for samples that are lost or doubled, and is told in their place.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

from breakrank.analysis.draws import COMPARED, drawn_alike, drawn_wrong
from breakrank.analysis.epochs import epochs_of
from breakrank.analysis.lineage import lineage
from breakrank.analysis.validations import validated_otherwise
from breakrank.history.reader import History, RankHistory
from breakrank.oracles import Abstain, Terms
from breakrank.verdict import Finding

PROPERTY = "samples"

#: The fields by which samples are told apart.
Told = Literal["indices", "samples"]
_TOLD: tuple[Told, ...] = ("indices", "samples")


class Pace(NamedTuple):
    """The batches that a rank has drawn at its first forward pass, and those that each pass takes; 0 if unclear."""

    ahead: int
    each: int


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
    own = drawn_wrong(history)
    if own and (control is None or own[0].cause not in COMPARED or drawn_wrong(control)):
        return own
    if control is None:
        raise Abstain("there is no control to count samples in")
    alike = drawn_alike(history)
    if alike and not drawn_alike(control):
        return alike
    well = {lived.rank for lived in history.last if lived.ended_well}
    if not well:
        raise Abstain("no rank ended well")
    name = _told_apart_by(history, control)
    paces = {lived.rank: _pace(lived) for lived in control.attempt(control.attempts[0])}
    here = _contained(history, well, name, paces)
    there = _contained(control, {lived.rank for lived in control.last}, name, paces)
    expected = [t for t in there if t.rank in well]
    if not expected:
        raise Abstain("the control was trained on no samples")
    attempt = history.attempts[-1]
    # Digests tell samples apart by their content: a sample that was changed on its way is not recognised.
    changed = _unknown(here, there) if name == "samples" else []
    lost = _beyond(expected, Counter(t.sample for t in here))[len(changed) :]
    doubled = [t for t in _beyond(here, Counter(t.sample for t in there)) if t not in set(changed)]
    return [
        *_finding("samples changed", attempt, changed, len(expected)),
        *_shared(history, control, doubled, len(expected)),
        *_finding("samples lost", attempt, lost, len(expected)),
        *_finding("samples duplicated", attempt, doubled, len(expected)),
        # By their content, samples that are alike are not told apart.
        *(_orphaned(history, here, there, well) if name == "indices" else []),
        *_validated(history, control),
    ]


def _orphaned(history: History, here: Sequence[Trained], there: Sequence[Trained], well: set[int]) -> list[Finding]:
    """Return the finding that fewer ranks than at first go on with just the shares that they had among all.

    Ranks that share a batch out anew, each a larger part of it, have other samples than in the control.
    """
    last = history.attempts[-1]
    fewer = len(history.last) < len(history.attempt(history.attempts[0]))
    own = [Counter(t.sample for t in side if t.rank in well) for side in (here, there)]
    gone = _beyond(there, Counter(t.sample for t in here)) if fewer and own[0] == own[1] else []
    resumed = [t.step for t in here if t.attempt == last]
    if not gone or not resumed or len(well) < len(history.last):
        return []
    evidence = {"count": len(gone), "before": len(history.attempt(history.attempts[0])), "now": len(history.last)}
    return [Finding("samples", "share of the old world", tuple(sorted(well)), min(resumed), last, evidence=evidence)]


def _validated(history: History, control: History) -> list[Finding]:
    """Return the finding that ranks validate on other samples than the control's."""
    other = validated_otherwise(history, control)
    if other is None:
        return []
    evidence = {"said": other.said()}
    return [Finding("samples", "validated otherwise", other.ranks, other.step, history.attempts[-1], evidence=evidence)]


def _told_apart_by(history: History, control: History) -> Told:
    """Return what tells samples apart on both sides: their `indices`, or else digests of the `samples`."""
    loads = [e for side in (history, control) for lived in side.ranks.values() for e in lived.payloads("load")]
    for name in _TOLD:
        if loads and all(e.get(name) is not None for e in loads):
            return name
    if loads and not all("samples" in e for e in loads):
        raise Abstain("samples without an index are digested at some steps only")
    raise Abstain("what was loaded cannot be told apart sample by sample" if loads else "no load was recorded")


def _contained(history: History, well: set[int], name: Told, paces: Mapping[int, Pace]) -> list[Trained]:
    """Return what the final state was trained on: what it restored, and the last attempt of the ranks in `well`.

    `paces`: how each rank of the control draws batches and trains on them.
    """
    last = history.attempts[-1]
    found: list[Trained] = []
    for rank in sorted({rank for _, rank in history.ranks}):
        for stretch in lineage(history, last, rank):
            earlier = history.ranks.get((stretch.attempt, rank))
            found += _trained(earlier, stretch.steps, name, paces) if earlier is not None else []
        if rank in well:
            lived = history.ranks[last, rank]
            found += _trained(lived, lived.last_step, name, paces)
    return sorted(found, key=lambda t: t[:3])


def _trained(lived: RankHistory, steps: int, name: Told, paces: Mapping[int, Pace]) -> list[Trained]:
    """Return the samples of the first `steps` steps of one attempt of a rank."""
    pace = paces.get(lived.rank, Pace(0, 0))
    loads = [e for e in lived.payloads("load")[_skipped(lived, pace) :] if e["step"] <= steps]
    if pace.each:
        # A batch that is drawn ahead belongs to a step that is still to come.
        del loads[pace.each * sum(e["step"] <= steps for e in lived.points(_pass_of(lived))) :]
    asked = {id(event) for epoch in epochs_of(lived) if epoch.validates for event in epoch.loads}
    trained = [event for event in loads if id(event) not in asked]
    return [Trained(lived.attempt, int(e["step"]), lived.rank, sample) for e in trained for sample in e[name] or ()]


def _pace(lived: RankHistory) -> Pace:
    """Return how a rank draws batches: most loaders give one when it is wanted, and some are a few ahead.

    A number of batches for each forward pass is returned only if it adds up: the batches drawn and not used must be
    those that were drawn ahead.
    """
    drawn, ahead, forwards = 0, 0, 0
    gaps: Counter[int] = Counter()
    since = 0
    passes = _pass_of(lived)
    for event in lived.events:
        if event["kind"] == "payload" and event["of"] == "load":
            drawn, since = drawn + 1, since + 1
        elif event["kind"] == "point" and event["point"] == passes:
            if forwards:
                gaps[since] += 1
            else:
                ahead = since
            forwards, since = forwards + 1, 0
    each = gaps.most_common(1)[0][0] if gaps else 0
    return Pace(ahead, each if each <= ahead and 0 <= drawn - each * forwards <= ahead - each else 0)


def _pass_of(lived: RankHistory) -> str:
    """Return the point that shows that batches are used: the forward pass, or the end of a step where none is seen."""
    return "forward" if lived.points("forward") else "step"


def _skipped(lived: RankHistory, pace: Pace) -> int:
    """Return how many batches a rank that resumes has drawn only to come to the one after them.

    It is those that it draws before its first forward pass, beyond as many as the same rank of the control drew.
    """
    if not lived.attempt or not pace.ahead:
        return 0
    return max(0, _pace(lived).ahead - pace.ahead)


def _unknown(here: Sequence[Trained], there: Sequence[Trained]) -> list[Trained]:
    """Return what is no sample of the control's."""
    known = {t.sample for t in there}
    return [t for t in here if t.sample not in known]


def _shared(history: History, control: History, doubled: Sequence[Trained], expected: int) -> list[Finding]:
    """Return the finding that several ranks trained on one batch in one step, which those of the control never did."""
    if not doubled or _same_batches(control):
        return []
    for step, ranks in _same_batches(history).items():
        evidence = {"count": len(doubled), "expected": expected}
        return [Finding("samples", "duplicate shard", ranks, step, history.attempts[-1], evidence=evidence)]
    return []


def _same_batches(history: History) -> dict[int, tuple[int, ...]]:
    """Return the steps of the last attempt in which several ranks loaded one batch, and these ranks."""
    held: dict[int, dict[str, list[int]]] = {}
    for lived in history.last:
        for event in lived.payloads("load"):
            # A batch that was not digested is known by its indices alone.
            batch = event.get("batch") or event.get("indices")
            if batch and (event.get("indices") or event.get("samples")):
                held.setdefault(int(event["step"]), {}).setdefault(str(batch), []).append(lived.rank)
    shared = {step: [ranks for ranks in batches.values() if len(set(ranks)) > 1] for step, batches in held.items()}
    return {step: tuple(sorted(set(groups[0]))) for step, groups in sorted(shared.items()) if groups}


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
