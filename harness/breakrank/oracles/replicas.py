"""Objects to replicas whose parameters diverge: every rank that ended well holds the same ones after every step.

If a rank has several replicas, they hold the same ones, too. The finding gives the reason if the ranks recorded it:
gradients that went past the wrapper, and were not reduced, or variables that were assigned to with nothing to reduce.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from breakrank.analysis import digests
from breakrank.analysis.in_vain import reduced_for_one, reduced_in_vain
from breakrank.analysis.kinship import Kin, find_kin, find_kin_of_shards, part_names
from breakrank.analysis.lineage import steps_before
from breakrank.analysis.other_groups import reduced_elsewhere
from breakrank.analysis.settings import first_parting
from breakrank.analysis.skipped_steps import skipped_alone
from breakrank.analysis.wait_for import SPOKEN
from breakrank.history.reader import History, RankHistory
from breakrank.oracles import Abstain, Terms
from breakrank.verdict import Finding, name_ranks
from breakrank_agent.protocol.events import NamesEvent, UnsyncedEvent

PROPERTY = "replicas"


def judge(history: History, control: History | None, terms: Terms) -> Sequence[Finding]:
    """Compare the ranks' digests step by step, then what they were left with."""
    findings, judged, model = [], False, control if history.attempts == [0] else None
    for attempt in history.attempts:
        well = [lived for lived in history.attempt(attempt) if lived.ended_well]
        within = _within(well)
        if within is not None:
            findings.append(within)
            judged = True
            continue
        judged = judged or any("replicas" in e for lived in well for e in lived.payloads("step"))
        for group in _groups(well):
            parted, compared = _parted_kin(group, control, model)
            judged = judged or compared
            findings += [_in_training(history, finding) for finding in parted]
    if not judged:
        raise Abstain(_why_not(history))
    return findings


def _parted_kin(
    group: Sequence[RankHistory], control: History | None, model: History | None
) -> tuple[list[Finding], bool]:
    """Return the finding about the first replicas of a group that part, and whether any were compared."""
    found, compared = [], False
    for kin in (*find_kin(group), *find_kin_of_shards(group)):
        ranks = [lived for lived in group if lived.rank in kin.ranks]
        table = _digests(ranks, kin)
        compared = compared or any(len(values) > 1 for values in table.values())
        broken = digests.breaches(table, digests.alike)
        if control is None or digests.breaches(_digests(_same_ranks(control, kin), kin), digests.alike):
            broken = _for_good(broken, table, ranks, kin)
        if broken:
            since = digests.looked_at_before(table, broken[0].place)
            found.append(_finding(broken[0], since, ranks, kin, model))
    return sorted(found, key=lambda finding: finding.step)[:1], compared


def _same_ranks(control: History, kin: Kin) -> Sequence[RankHistory]:
    """Return the control's ranks that are to hold the same shards; of whole parameters all of its ranks."""
    return [lived for lived in control.last if lived.rank in kin.ranks or not kin.shards]


def _in_training(history: History, finding: Finding) -> Finding:
    """Return a finding of an attempt that went on from an earlier one with its step of the whole training."""
    before = steps_before(history, finding.attempt, min(finding.ranks))
    if not before:
        return finding
    return replace(finding, evidence={**finding.evidence, "there": f"step {before + finding.step} of the training"})


def _for_good(
    broken: list[digests.Breach], table: digests.Table, group: Sequence[RankHistory], kin: Kin
) -> list[digests.Breach]:
    """Return the places at which replicas part that do not come together again by the end.

    Ranks that train apart and average their weights now and then part at each step, as they should. If only some
    parameters differ at the end, the others were brought together, and these were left out. A control whose replicas
    stay together says that those of its program do not train apart.
    """
    end = next((place for place in table if place.name == "result"), None)
    if not broken or end is None or len(table[end]) < len(group) or not all(_left(lived) for lived in group):
        return broken
    if broken[-1].place != end:
        return []
    apart = set(_parted(broken[-1], group, kin))
    return broken[-1:] if apart and apart < set(_parted(broken[0], group, kin)) else broken


def _left(lived: RankHistory) -> bool:
    """Return whether a rank's end says what it was left with."""
    return lived.end is not None and lived.end.get("params") is not None


def _groups(well: Sequence[RankHistory]) -> list[list[RankHistory]]:
    """Return the ranks that hold the same parameters, together: one that has others is a stage of another kind."""
    groups: dict[tuple[str, ...], list[RankHistory]] = {}
    for lived in well:
        groups.setdefault(tuple(_part_names(lived)), []).append(lived)
    return [*groups.values()]


def _names(lived: RankHistory) -> NamesEvent | None:
    """Return the names of its parameters that a rank recorded last."""
    return next(reversed(lived.of_kind("names")), None)


def _part_names(lived: RankHistory) -> Sequence[str]:
    """Return the name of each part of a rank's parameters; none if it recorded no names."""
    known = _names(lived)
    return known["names"] if known is not None else ()


def _sharded(lived: RankHistory) -> Sequence[int]:
    """Return the parts of the parameters of which a rank has a shard."""
    known = _names(lived)
    return known.get("sharded", ()) if known is not None else ()


def _why_not(history: History) -> str:
    """Return why there is nothing to judge."""
    well = [lived for lived in history.last if lived.ended_well]
    if any(map(_sharded, well)):
        return "each rank holds a shard of the parameters, of which no other rank has a replica"
    if len(well) > 1 and len(_groups(well)) == len(well) and all(_names(lived) for lived in well):
        return "each rank holds other parameters than the others"
    return "there are no two replicas that ended well and recorded their parameters"


def _within(well: Sequence[RankHistory]) -> Finding | None:
    """Return the finding that the replicas of one rank are not alike, about the first step at which they are not."""
    apart = [(int(e["step"]), lived, e) for lived in well for e in lived.payloads("step") if e.get("apart")]
    if not apart:
        return None
    step = min(at for at, *_ in apart)
    there = [(lived, event) for at, lived, event in apart if at == step]
    lived, event = there[0]
    evidence: dict[str, Any] = {"digests": {str(number): value for number, value in enumerate(event["replicas"])}}
    since = digests.looked_at_before(digests.steps(well), digests.Place(lived.attempt, step, "params"))
    evidence.update({} if since is None else {"since": since})
    _name_parted(evidence, event["apart"], [lived])
    cause, places = _assigned(evidence, event["apart"], [lived], step, None) or ("local replicas differ", ())
    ranks = tuple(one.rank for one, _ in there)
    return Finding("replicas", cause, ranks, step, lived.attempt, places, evidence)


def _name_parted(evidence: dict[str, Any], parted: Sequence[int], well: Sequence[RankHistory]) -> Sequence[str]:
    """Put the names of the parts that differ into the evidence, and return those of all parts."""
    names = part_names(well)
    evidence["parameters"] = [names[part] for part in parted if part < len(names)]
    evidence["first"] = f", in {evidence['parameters'][0]} first" if evidence["parameters"] else ""
    return names


def _assigned(
    evidence: dict[str, Any], parted: Sequence[int], well: Sequence[RankHistory], step: int, control: History | None
) -> tuple[str, tuple[str, ...]] | None:
    """Return the cause and the line, if a part that differs was assigned to with nothing to reduce.

    It is none where the control, whose replicas did not part, does the same: they hold what was reduced before.
    """
    usual = {e["site"] for lived in (control.last if control is not None else ()) for e in lived.of_kind("assigned")}
    for lived in well:
        for event in lived.of_kind("assigned"):
            if event["site"] in usual:
                continue
            if event["step"] <= step and set(parted).intersection(event["parts"]):
                evidence.update(how=event["how"].replace("_", " "), site=event["site"])
                return "unreduced assignment", (event["site"],)
    return None


#: All ranks as replicas of each other.
_ALL = Kin(())


def _digests(ranks: Sequence[RankHistory], kin: Kin = _ALL) -> digests.Table:
    """Return the ranks' digests after each step and, last, at the end, of all parts that they hold alike."""
    table = digests.steps(ranks)
    if ranks:
        last = max(lived.last_step for lived in ranks)
        table[digests.Place(ranks[0].attempt, last, "result")] = digests.results(ranks)
    divided = {lived.rank: lived for lived in ranks if _sharded(lived) or kin.parts is not None}
    for place, values in table.items() if divided else ():
        for rank in values.keys() & divided.keys():
            values[rank] = _whole(_parts(divided[rank], place), divided[rank], kin)
    return {place: {r: v for r, v in values.items() if v} for place, values in table.items()}


def _parts(lived: RankHistory, place: digests.Place) -> Sequence[str]:
    """Return the digests of a rank's parts at a place."""
    steps = lived.payloads("step")
    if place.name == "result" and lived.end is not None and "parts" in lived.end:
        return lived.end["parts"]
    return next((e.get("parts", []) for e in steps if e["step"] == place.step), [])


def _whole(parts: Sequence[str], lived: RankHistory, kin: Kin) -> str:
    """Return the digests of the parts that kin hold, as one: of those that are not sharded, or of their shards."""
    sharded = set() if kin.shards else set(_sharded(lived))
    held = [
        part for number, part in enumerate(parts) if kin.parts is None or number in kin.parts if number not in sharded
    ]
    return " ".join(held)


def _finding(
    breach: digests.Breach, since: int | None, well: Sequence[RankHistory], kin: Kin, control: History | None
) -> Finding:
    """Return the finding with its cause, as far as the ranks' own records show it.

    `since` is the last step that was digested before the breach, if those between were not.
    """
    place, parted = breach.place, _parted(breach, well, kin)
    evidence: dict[str, Any] = {"digests": {str(rank): value for rank, value in breach.values.items()}}
    evidence.update({} if since is None else {"since": since})
    names = _name_parted(evidence, parted, well)
    cause, places = _assigned(evidence, parted, well, place.step, control) or ("replicas differ", ())
    ranks = _who(breach, control)
    first = place.step if since is None else since + 1
    # A difference that comes after the last step has another cause than the step's gradients.
    for step in range(first, place.step + 1) if place.name == "params" or since is not None else ():
        told = {lived.rank: e for lived in well for e in lived.of_kind("unsynced") if e["step"] == step}
        reason = next((r for r in _REASONS if r.guilty(told, parted, breach.values)), None) if told else None
        if reason is not None:
            cause, ranks = reason.cause, reason.guilty(told, parted, breach.values)
            evidence["lacking"] = ", ".join(_lacking(told, names))
            break
    if cause == "replicas differ":
        cause, odd = _by_inputs(breach, parted, well, kin, evidence) or (cause, ranks)
        # If no value is the one of most ranks, the control tells who is odd.
        ranks = odd if len(odd) < len(breach.values) else ranks
    evidence["others"] = _name_others([rank for rank in breach.values if rank not in ranks])
    return Finding("replicas", cause, tuple(ranks), place.step, place.attempt, places, evidence)


def _by_inputs(
    breach: digests.Breach, parted: Sequence[int], well: Sequence[RankHistory], kin: Kin, evidence: dict[str, Any]
) -> tuple[str, Sequence[int]] | None:
    """Return why replicas part, by what the optimizers took, and with whom it lies; None if that does not show it."""
    early = {lived.rank: e for lived in well for e in lived.of_kind("unawaited") if e["step"] <= breach.place.step}
    if early:
        event = early[min(early)]
        evidence.update(op=SPOKEN.get(event["op"], event["op"]), site=event["site"] or "no line of its own")
        return "gradient in flight", sorted(early)
    skipped = skipped_alone(well, breach.place.step)
    if skipped is not None:
        rest = [rank for rank in breach.values if rank not in skipped.ranks]
        called = f" ({skipped.site})" if skipped.site else ""
        evidence.update(skipped=skipped.step, called=called, others_too=name_ranks(rest))
        return "step skipped", skipped.ranks
    apart = first_parting(well, breach.place.step)
    if apart is not None:
        evidence.update(settings=apart.words(), setting=apart.key[2])
        return "settings differ", digests.outside_majority(apart.values)
    begun = _begun_apart(well)
    unlike = [part for part in parted if part in kin.unlike or part in begun]
    if unlike:
        _name_parted(evidence, unlike, well)
        evidence["alone"] = _who_loaded(well)
        return "replicas differ from the start", breach.ranks
    if breach.place.name == "result":
        return None
    step = _last_taken(well, breach.place.step)
    taken = {lived.rank: _gradients(lived, step) for lived in well}
    unreduced = [part for part in parted if len({own[part] for own in taken.values() if part < len(own)}) > 1]
    if unreduced and all(taken.values()):
        _name_parted(evidence, unreduced, well)
        in_vain = reduced_in_vain(well, step, unreduced)
        if in_vain is not None:
            evidence.update(op=in_vain.name, site=in_vain.site)
            return "reduction dropped", breach.ranks
        for_one = reduced_for_one(well, step, unreduced[0])
        if for_one is not None:
            evidence.update(op=for_one.name, site=for_one.site, root=name_ranks([for_one.rank]))
            return "reduced for one rank", breach.ranks
        elsewhere = reduced_elsewhere(well, step, unreduced[0])
        if elsewhere is not None:
            evidence.update(op=elsewhere.call.name, site=elsewhere.call.site, over=name_ranks(elsewhere.ranks))
            return "reduced over another group", breach.ranks
        return "gradients differ", digests.outside_majority({rank: own[unreduced[0]] for rank, own in taken.items()})
    return None


def _begun_apart(well: Sequence[RankHistory]) -> set[int]:
    """Return the parts that ranks say, with the names, to have begun with otherwise."""
    said = [known["before"] for lived in well if (known := _names(lived)) is not None and "before" in known]
    whole = len(said) == len(well) and len({len(before) for before in said}) == 1
    return {part for part, values in enumerate(zip(*said, strict=False)) if len(set(values)) > 1} if whole else set()


def _who_loaded(well: Sequence[RankHistory]) -> str:
    """Return a clause about the ranks that took in a state before the first step, if others did not; else nothing."""
    loaded = {lived.rank: e["site"] for lived in well for e in lived.of_kind("loaded") if not e["step"]}
    if not loaded or len(loaded) == len(well):
        return ""
    site = loaded[min(loaded)]
    return f": {name_ranks(sorted(loaded))} alone loaded a state{f' ({site})' if site else ''}"


def _last_taken(well: Sequence[RankHistory], step: int) -> int:
    """Return the last step up to this one of which gradients are on record: a step of length 0 parts no replicas."""
    return max(
        (int(event["step"]) for lived in well for event in lived.of_kind("inputs") if event["step"] <= step), default=0
    )


def _gradients(lived: RankHistory, step: int) -> Sequence[str]:
    """Return the digests of the gradients that the optimizer took at a step; none if they are not on record."""
    return next((event["gradients"] for event in lived.of_kind("inputs") if event["step"] == step), ())


def _who(breach: digests.Breach, control: History | None) -> Sequence[int]:
    """Return the ranks outside the majority; without a majority, those that differ from the control's."""
    if len(breach.ranks) == len(breach.values) and control is not None:
        unlike = digests.like(_digests(control.last), operator.eq)(breach.place, breach.values)
        return tuple(unlike) or breach.ranks
    return breach.ranks


def _parted(breach: digests.Breach, well: Sequence[RankHistory], kin: Kin) -> list[int]:
    """Return the parts of the parameters that are not the same on all ranks, in order."""
    there = [lived for lived in well if lived.rank in breach.values]
    sharded = set() if kin.shards else {number for lived in there for number in _sharded(lived)}
    parts = [parts for lived in there if (parts := _parts(lived, breach.place))]
    apart = [number for number, values in enumerate(zip(*parts, strict=False)) if len(set(values)) > 1]
    return [number for number in apart if number not in sharded and (kin.parts is None or number in kin.parts)]


def _name_others(ranks: Sequence[int]) -> str:
    """Say whose parameters the others' are."""
    if not ranks:
        return "each other"
    return f"{name_ranks(ranks)}'s" if len(ranks) == 1 else f"those of {name_ranks(ranks)}"


# --- reasons for the divergence

#: The record of each rank about a step whose gradients were not all reduced, by rank.
Told = Mapping[int, UnsyncedEvent]


class _Reason(NamedTuple):
    """A cause, and the function that returns the ranks to which it applies, given the parts that differ."""

    cause: str
    guilty: Callable[[Told, Sequence[int], digests.Values], list[int]]


def _bypassed(told: Told, parted: Sequence[int], values: digests.Values) -> list[int]:
    return [rank for rank, event in sorted(told.items()) if event.get("bypassed")]


def _unreduced(told: Told, parted: Sequence[int], values: digests.Values) -> list[int]:
    return [rank for rank, event in sorted(told.items()) if event.get("unreduced")]


def _outside(told: Told, parted: Sequence[int], values: digests.Values) -> list[int]:
    """Return the ranks that have what differs in no module that a wrapper was made for."""
    out = {rank: set(event.get("outside", ())) for rank, event in sorted(told.items())}
    return [rank for rank, parts in out.items() if parted and parts.issuperset(parted)]


def _replaced(told: Told, parted: Sequence[int], values: digests.Values) -> list[int]:
    """Return the ranks whose wrapper knows none of the parameters that differ."""
    unknown = {rank: set(event.get("unwrapped", ())) for rank, event in sorted(told.items())}
    return [rank for rank, parts in unknown.items() if parted and parts.issuperset(parted)]


def _unused(told: Told, parted: Sequence[int], values: digests.Values) -> list[int]:
    """Return the ranks that had no gradient for the first parameter that differs, if others had one."""
    without = [rank for rank, event in sorted(told.items()) if parted and parted[0] in event.get("missing", ())]
    return without if len(without) < len(values) else []


def _unfinished(told: Told, parted: Sequence[int], values: digests.Values) -> list[int]:
    """Return the ranks whose wrapper waited in vain for a gradient, before it would reduce those beside it."""
    return [rank for rank, event in sorted(told.items()) if event.get("unfinished")]


_REASONS = (
    _Reason("wrapper bypassed", _bypassed),
    _Reason("gradients not reduced", _unreduced),
    _Reason("module not wrapped", _outside),
    _Reason("parameter replaced", _replaced),
    _Reason("reduction incomplete", _unfinished),
    _Reason("unused parameter", _unused),
)


def _lacking(told: Told, names: Sequence[str]) -> list[str]:
    """Return the names of the parameters that had no gradient on some rank."""
    missing = {part for event in told.values() for part in event.get("missing", ())}
    return [names[part] for part in sorted(missing) if part < len(names)]
