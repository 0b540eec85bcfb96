"""Objects to a result that is not the control's.

Equal means bit for bit. Only where the order of sums over ranks can differ (the job was started again, or had another
number of ranks) a difference that rounding explains is none; `breakrank.analysis.rounding` has the bound, and what an
unstable training makes of a last bit is beyond it. A number that the program named as its result is compared alike.

If only some ranks had another batch, or put other numbers into a collective, the finding names them. It says so where
losses were scaled otherwise. It also names replicas whose gradients go into no update, if that is on record here and
not in the control.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from breakrank.analysis import digests, rounding
from breakrank.analysis.happens_before import Access, overwritten_in_turns
from breakrank.analysis.lineage import first_parting
from breakrank.analysis.loss_weights import find_rescaled
from breakrank.history.reader import History, RankHistory
from breakrank.oracles import Abstain, Terms
from breakrank.verdict import Finding, listed, name_ranks
from breakrank_agent.protocol.events import LackEvent, PayloadEvent, PointEvent

PROPERTY = "resume"

#: The facts on record about the form of a batch, by their names in a sentence.
_FORMS: Mapping[str, Callable[[PayloadEvent], Sequence[object]]] = {
    "shape": lambda event: event.get("shapes", ()),
    "dtype": lambda event: event.get("dtypes", ()),
}


class Pair(NamedTuple):
    """A rank that ended well, and the same rank of the control."""

    lived: RankHistory
    model: RankHistory


def judge(history: History, control: History | None, terms: Terms) -> Sequence[Finding]:
    """Compare what the program named as its result, else the parameters at the end.

    Parameters are compared by digest when the tolerance is 0, else their norms within it.
    """
    if control is None:
        raise Abstain("there is no control to compare with")
    models = {lived.rank: lived for lived in control.last if lived.ended_well}
    pairs = [Pair(lived, models[lived.rank]) for lived in history.last if lived.ended_well and lived.rank in models]
    if not pairs:
        raise Abstain("no rank ended well here and in the control")
    named = [pair for pair in pairs if _state(pair.lived) is not None and _state(pair.model) is not None]
    rest = [pair for pair in pairs if pair not in named]
    cut = [pair for pair in rest if _is_cut_otherwise(history, control, pair)]
    compared = _comparable([pair for pair in rest if pair not in cut], terms)
    if not named and not compared and cut:
        raise Abstain("each rank holds a shard of the parameters, and the control's shards were cut for other ranks")
    if not named and not compared:
        raise Abstain("no rank recorded its parameters or a state, here and in the control")
    growth = 0.0 if terms.tolerance else rounding.growth(history, control, terms.ranks, terms.steps)
    compared = [pair for pair in compared if not _is_rounded(pair, growth)]
    return [*_states(history, named, terms, growth), *_parameters(history, compared, terms)]


def _is_cut_otherwise(history: History, control: History, pair: Pair) -> bool:
    """Return whether a rank holds another shard than the control's, since there are more ranks or fewer."""
    ranks = [one.world(one.attempts[-1]) for one in (history, control)]
    return ranks[0] != ranks[1] and any(e.get("sharded") for lived in pair for e in lived.of_kind("names"))


def _is_rounded(pair: Pair, growth: float) -> bool:
    """Return whether rounding explains all that is between a rank's parameters and the control's."""
    apart = rounding.apart(*pair, growth)
    return apart is not None and apart.explained


def _state(lived: RankHistory) -> dict[str, Any] | None:
    """Return what the program named as its result."""
    return lived.end.get("state") if lived.end is not None else None


def _measure(terms: Terms) -> digests.Compared:
    """Return the name of what is compared."""
    return "norm" if terms.tolerance else "params"


def _comparable(pairs: Sequence[Pair], terms: Terms) -> list[Pair]:
    """Return the pairs of which both sides recorded what is compared."""
    return [pair for pair in pairs if all(_results([side], _measure(terms)) for side in pair)]


def _results(ranks: Sequence[RankHistory], name: digests.Compared) -> dict[int, Any]:
    """Return by rank what it was left with: where nothing trained, the parameters of the modules that it called."""
    modules = {r.rank: r.end["modules"] for r in ranks if name == "params" and r.end is not None and "modules" in r.end}
    return {**modules, **digests.results(ranks, name)}


def _parameters(history: History, pairs: Sequence[Pair], terms: Terms) -> list[Finding]:
    """Return the finding that some ranks' parameters at the end are not the control's."""
    name = _measure(terms)
    same = digests.within(terms.tolerance) if terms.tolerance else operator.eq
    here = _results([p.lived for p in pairs], name)
    there = _results([p.model for p in pairs], name)
    wrong = sorted(rank for rank in here if not same(here[rank], there[rank]))
    if not wrong:
        return []
    guilty = [pair for pair in pairs if pair.lived.rank in wrong]
    parted: list[digests.Breach] = []
    if len(history.attempts) == 1:
        rule = digests.like(digests.steps([p.model for p in guilty], name), same)
        parted = digests.breaches(digests.steps([p.lived for p in guilty], name), rule)
    step = parted[0].place.step if parted else max(p.lived.last_step for p in guilty)
    resumed = _resumed(history, guilty, name, same) if not parted else None
    evidence: dict[str, Any] = {
        "compared": name,
        "results": {str(rank): here[rank] for rank in wrong},
        "control": {str(rank): there[rank] for rank in wrong},
    }
    if resumed is not None:
        step, evidence["there"] = resumed
    alone = _batches(pairs, step) if parted else {}
    if alone:
        evidence["how"] = next(filter(None, alone.values()), "")
        return [Finding("control", "batch mismatch", tuple(alone), step, guilty[0].lived.attempt, evidence=evidence)]
    if parted and _same_samples(guilty, step):
        return [Finding("control", "content mismatch", tuple(wrong), step, guilty[0].lived.attempt, evidence=evidence)]
    lacking = _lacking(guilty, step, evidence) if parted else None
    if lacking is not None:
        return [lacking]
    rescaled = find_rescaled(pairs, step) if parted else None
    if rescaled is not None:
        evidence["said"] = rescaled.said
        attempt = guilty[0].lived.attempt
        return [Finding("control", "loss scaled otherwise", rescaled.ranks, step, attempt, evidence=evidence)]
    contribution = _contribution(pairs, step, evidence) if parted else None
    if contribution is not None:
        return [contribution]
    return [Finding("control", "wrong result", tuple(wrong), step, guilty[0].lived.attempt, evidence=evidence)]


def _resumed(
    history: History, guilty: Sequence[Pair], name: digests.Compared, same: Callable[[Any, Any], bool]
) -> tuple[int, str] | None:
    """Return the step of the last attempt at which a resumed job parts from the control, and which one that is there.

    A job that had parted before it was resumed parts at the first step.
    """
    found = [parting for p in guilty if (parting := first_parting(history, p.lived, p.model, name, same)) is not None]
    if not found:
        return None
    attempt, step, of_control = min(found)
    if attempt == guilty[0].lived.attempt:
        return step, f"step {of_control} of the control"
    return 1, f"and before it at step {step} of attempt {attempt}, step {of_control} of the control"


def _lacking(pairs: Sequence[Pair], step: int, evidence: dict[str, Any]) -> Finding | None:
    """Return the finding that an update is not made of what some replicas found, unless it is none of theirs either."""
    there = [(lived, e) for lived, model in pairs for e in lived.of_kind("lack") if _is_new(e, step, model)]
    if not there:
        return None
    first, event = there[0]
    ranks = tuple(lived.rank for lived, other in there if other["kept"] == event["kept"])
    names: list[str] = next((e["names"] for e in reversed(first.of_kind("names"))), [])
    named = [names[part] for part in event["parts"] if part < len(names)]
    replicas = [f"replica {number}" for number in event["replicas"]]
    evidence = {
        **evidence,
        "parameters": named,
        "site": event["site"],
        "into": listed(named) or "the parameters",
        "whose": f"{listed(replicas)} of {name_ranks((first.rank,))}",
    }
    cause = "stale gradients" if event["kept"] else "replica not aggregated"
    places = (event["site"],) if event["site"] else ()
    return Finding("control", cause, ranks, step, first.attempt, places, evidence)


def _contribution(pairs: Sequence[Pair], step: int, evidence: dict[str, Any]) -> Finding | None:
    """Return the finding that some ranks, and not all, put something else into a collective of a step.

    That is the first one of the step that differs; the parameters before it are the control's.
    """
    here = {pair.lived.rank: _put_in(pair.lived, step) for pair in pairs}
    there = {pair.lived.rank: _put_in(pair.model, step) for pair in pairs}
    if any(list(here[rank]) != list(there[rank]) for rank in here):
        return None
    other = {
        rank: [call for call in calls if _digests(calls[call]) != _digests(there[rank][call])]
        for rank, calls in here.items()
    }
    firsts = [(list(here[rank]).index(calls[0]), calls[0]) for rank, calls in other.items() if calls]
    if not firsts:
        return None
    _, call = min(firsts)
    ranks = tuple(sorted(rank for rank, calls in other.items() if call in calls))
    if len(ranks) == sum(call in calls for calls in here.values()):
        return None
    event = here[ranks[0]][call]
    places = (event["site"],) if event["site"] else ()
    said = {**evidence, "op": event["op"].rstrip("_"), "site": event["site"]}
    return Finding("control", "wrong contribution", ranks, step, pairs[0].lived.attempt, places, said)


def _put_in(lived: RankHistory, step: int) -> dict[tuple[str, int], PointEvent]:
    """Return the collectives of a step of which it is on record what the rank put in, by group and number."""
    calls = [event for event in lived.of_kind("point") if event["step"] == step and event.get("in") and "c" in event]
    return {(event["group"], event["c"]): event for event in calls}


def _digests(event: PointEvent) -> list[str]:
    return [contents["digest"] for contents in event["in"]]


def _is_new(event: LackEvent, step: int, model: RankHistory) -> bool:
    """Return whether a lack was there by this step, and the control has none of the same replicas."""
    usual = any(set(event["replicas"]) <= set(other["replicas"]) for other in model.of_kind("lack"))
    return int(event["step"]) <= step and not usual


def _batches(pairs: Sequence[Pair], step: int) -> dict[int, str]:
    """Return the ranks that had another batch than in the control, and how it differed, if not all of them had."""
    other = {}
    for lived, model in pairs:
        here, there = _loaded(lived, step), _loaded(model, step)
        if here and there and [e["batch"] for e in here] != [e["batch"] for e in there]:
            other[lived.rank] = _form(here, there)
    return other if len(other) < len(pairs) else {}


def _same_samples(pairs: Sequence[Pair], step: int) -> bool:
    """Return whether each rank had the control's samples at a step, by their indices, with other contents."""
    for lived, model in pairs:
        here, there = _loaded(lived, step), _loaded(model, step)
        indices = [e.get("indices") for e in here]
        if not here or None in indices or indices != [e.get("indices") for e in there]:
            return False
        if [e["batch"] for e in here] == [e["batch"] for e in there]:
            return False
    return True


def _loaded(lived: RankHistory, step: int) -> list[PayloadEvent]:
    return [event for event in lived.payloads("load") if event["step"] == step and event.get("batch")]


def _form(here: Sequence[PayloadEvent], there: Sequence[PayloadEvent]) -> str:
    """Say how batches differ in form, if they do and it is on record."""
    for word, form in _FORMS.items():
        for one, other in zip(here, there, strict=False):
            for mine, its in zip(form(one), form(other), strict=False):
                if mine != its:
                    return f", of {word} {mine} and not {its}"
    return ""


def _states(history: History, pairs: Sequence[Pair], terms: Terms, growth: float) -> list[Finding]:
    """Return the finding that the results which the program named are not the control's."""
    wrong = [p for p in pairs if not _same_state(p, terms.tolerance, growth * rounding.eps(*p))]
    if not wrong:
        return []
    fewer = [p for p in wrong if _updates(p.lived) < _updates(p.model)]
    if fewer:
        lost = _lost_update(history, fewer)
        if lost is not None:
            return [lost]
    ranks = tuple(p.lived.rank for p in wrong)
    step = max(p.lived.last_step for p in wrong)
    evidence = {
        "compared": "state",
        "results": {str(p.lived.rank): _state(p.lived) for p in wrong},
        "control": {str(p.lived.rank): _state(p.model) for p in wrong},
    }
    return [Finding("control", "wrong result", ranks, step, wrong[0].lived.attempt, evidence=evidence)]


def _same_state(pair: Pair, tolerance: float, rounded: float) -> bool:
    """Return whether two results name the same things with the same values.

    Numbers are the same within the tolerance, and those that are no counts within what rounding explains.
    """
    here, there = _state(pair.lived) or {}, _state(pair.model) or {}
    return here.keys() == there.keys() and all(_same_value(here[k], there[k], tolerance, rounded) for k in here)


def _same_value(one: Any, other: Any, tolerance: float, rounded: float) -> bool:
    if one == other or not isinstance(one, (int, float)) or not isinstance(other, (int, float)):
        return bool(one == other)
    counts = isinstance(one, int) and isinstance(other, int)
    return digests.within(tolerance if counts else max(tolerance, rounded))(one, other)


def _updates(lived: RankHistory) -> float:
    """Return how many updates the program counted; infinite where it counted none."""
    return float((_state(lived) or {}).get("updates", "inf"))


def _lost_update(history: History, fewer: Sequence[Pair]) -> Finding | None:
    """Return the finding that updates were overwritten, with the first one that was, as far as accesses show it.

    If no access shows one and some rank did not end well, its updates were perhaps never made: then it is no such
    finding.
    """
    shown = overwritten_in_turns(history.last)
    if not shown and not all(lived.ended_well for lived in history.last):
        return None
    worst = min(fewer, key=lambda pair: _updates(pair.lived))
    applied, expected = int(_updates(worst.lived)), int(_updates(worst.model))
    how = "updates were overwritten, and no access on record shows which"
    ranks, step = tuple(p.lived.rank for p in fewer), 0
    if shown:
        loser, winner = shown[-2], shown[-1]
        ranks, step = tuple(sorted({loser.rank, winner.rank})), loser.event["step"]
        how = f"rank {winner.rank} overwrote the update of rank {loser.rank} at step {step}"
    evidence: dict[str, Any] = {
        "applied": applied,
        "expected": expected,
        "how": f"{applied} of {expected} updates arrived: {how}",
        "events": [_shown(access) for access in shown],
    }
    return Finding("control", "lost update", ranks, step, worst.lived.attempt, evidence=evidence)


def _shown(access: Access) -> dict[str, Any]:
    """Return what a report shows of an access."""
    event = access.event
    return {"rank": access.rank, "step": event["step"], "op": event["op"], "mode": event["mode"], "turn": event["turn"]}
