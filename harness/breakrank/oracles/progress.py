"""Objects to ranks that wait for ever, to parameters that stand still, and to a loss that does not fall."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from breakrank.analysis.hang import each_after, message_cycle
from breakrank.analysis.wait_for import describe
from breakrank.history.reader import History, RankHistory
from breakrank.oracles import Abstain, Terms
from breakrank.verdict import Finding, listed, name_ranks
from breakrank_agent.protocol.events import HungEvent, LockWait, ToldEvent, WaitingRank

PROPERTY = "ends"

#: Causes of a hung event without a proof: the deadline passed.
_UNPROVEN = ("deadline",)
#: The fewest steps without a change that are a standstill.
_STANDSTILL = 3


def judge(history: History, control: History | None, terms: Terms) -> Sequence[Finding]:
    """Look at the waits that the Conductor ended, at consecutive steps' parameters, and at the last loss told."""
    waits = [_wait(event, terms) for event in history.seen("hung")]
    still = [f for attempt in history.attempts for f in _still(history.attempt(attempt), control)]
    losses = [f for lived in history.ranks.values() if lived.ended_well for f in _loss(lived)]
    if not waits and not any(_has_something(lived) for lived in history.ranks.values()):
        raise Abstain("no rank recorded two steps' parameters, and none told a loss with a goal")
    return [*waits, *still, *losses]


def _wait(event: HungEvent, terms: Terms) -> Finding:
    """Return the finding that a hung event is."""
    waiting = sorted(event["waiting"], key=lambda w: (w["step"], w["rank"]))
    first = waiting[0] if waiting else None
    peers = list(event.get("peers") or [])
    circle = _circle(waiting) if event["why"] == "message cycle" else []
    said = _told([w for w in waiting if w not in circle], peers) if not circle or len(circle) < len(waiting) else []
    said = [_say_circle(circle), *said] if circle else said
    evidence = {
        "where": describe(first if first is not None else {}),
        "peer": event.get("peer"),
        "peers": peers,
        "seconds": round(float(event["seconds"]), 1),
        "expected": terms.steps,
        "timeout_s": _timeout(waiting),
        "would": _would_have_raised(_timeout(waiting)),
        "absent": _absent(waiting),
        "wait": said[0],
        "circle": said[0],
        "whom": _whom(waiting, peers),
        "shown": event.get("shown_by", ""),
        "elsewhere": "".join(f"; {clause}" for clause in said[1:]),
        "cycle": "; ".join(map(_lock_words, event.get("locks", ()))),
    }
    places = tuple(f"rank {w['rank']}: {describe(w)}, step {w['step']}" for w in waiting)
    cause = "no progress" if event["why"] in _UNPROVEN else event["why"]
    return Finding(
        "progress",
        cause,
        tuple(sorted(event["ranks"])),
        first["step"] if first is not None else 0,
        event["attempt"],
        places,
        evidence,
    )


def _lock_words(wait: LockWait) -> str:
    """Say which thread waits where for what."""
    place = f" ({wait['site']})" if wait["site"] else ""
    return f"{wait['thread']} waits for {wait['for']}{place}"


def _circle(waiting: Sequence[WaitingRank]) -> list[WaitingRank]:
    """Return those that wait in messages for each other in a circle, in its order."""
    by_rank = {w["rank"]: w for w in waiting}
    return [by_rank[rank] for rank in message_cycle({w["rank"]: w.get("lacks", ()) for w in waiting if "p" in w})]


def _say_circle(circle: Sequence[WaitingRank]) -> str:
    """Say who waits where for whom, all round the circle."""
    each = [f"rank {w['rank']} {'in' if i else 'waits in'} {describe(w)}" for i, w in enumerate(circle)]
    return f"{listed(each)} at step {circle[0]['step']}: {each_after(circle)}"


def _told(waiting: Sequence[WaitingRank], peers: Sequence[int]) -> list[str]:
    """Say who waits where, a clause for each place; first the one that somebody else is to blame for."""
    ordered = _by_place(waiting, peers)
    clauses = [f"{name_ranks([w['rank'] for w in who])} {_verb(who)} {place}" for place, who in ordered]
    return clauses or ["the job waits"]


def _by_place(waiting: Sequence[WaitingRank], peers: Sequence[int]) -> list[tuple[str, list[WaitingRank]]]:
    """Return the places with those who wait there, in the order in which they are told."""
    places: dict[str, list[WaitingRank]] = {}
    for one in waiting:
        verb = "in" if one.get("op") else "last seen in"
        places.setdefault(f"{verb} {describe(one)}", []).append(one)
    return sorted(
        places.items(),
        key=lambda item: (not any(w.get("lacks") for w in item[1]), any(w["rank"] in peers for w in item[1])),
    )


def _verb(who: Sequence[WaitingRank]) -> str:
    several = len(who) > 1
    if who[0].get("op"):
        return "wait" if several else "waits"
    return "are" if several else "is"


def _whom(waiting: Sequence[WaitingRank], peers: Sequence[int]) -> str:
    """Name the ranks that the wait told first will never be complete without."""
    first = _by_place(waiting, peers)[:1]
    whom = list(peers) or sorted({rank for _, who in first for w in who for rank in w.get("lacks") or ()})
    return name_ranks(whom) if whom else "another rank"


def _absent(waiting: Sequence[WaitingRank]) -> str:
    """Name the ranks that are in no collective while others wait in one; nothing shows that they will never come."""
    away = [w["rank"] for w in waiting if not w.get("op")]
    if not away or len(away) == len(waiting):
        return ""
    return f"; not proven: {name_ranks(away)} {'is' if len(away) == 1 else 'are'} in no collective, and may still move"


def _timeout(waiting: Sequence[WaitingRank]) -> float | None:
    """Return the shortest time-out that would have ended one of the waits."""
    limits = [w["timeout_s"] for w in waiting if w["op"]]
    return min((limit for limit in limits if limit is not None), default=None)


def _would_have_raised(timeout_s: float | None) -> str:
    return "" if timeout_s is None else f". Would have raised after {timeout_s:g} s"


class _Change(NamedTuple):
    """The digests of a rank's parameters at two steps, one after the other, that were looked at."""

    since: int
    step: int
    before: str
    after: str

    @property
    def still(self) -> bool:
        """True if nothing changed."""
        return self.before == self.after


def _still(ranks: Sequence[RankHistory], control: History | None) -> list[Finding]:
    """Return the first step that changed no parameter where it had to.

    One step may leave them alone: no sample was wrong, or its learning rate is 0. It counts if the control's were the
    same before it and not after it, or if they stand still for most of the training, to its end.
    """
    expected = {lived.rank: _changes(lived) for lived in control.last} if control is not None else {}
    found: dict[int, list[int]] = {}
    last: dict[int, int] = {}
    for lived in ranks:
        changes, model = _changes(lived), expected.get(lived.rank)
        step = _stands_from(changes) if model is None or not _stands_from(model) else 0
        if step:
            last[lived.rank] = changes[-1].step
        missed = [one.step for one in changes if one.still and _moved(one, model or ())]
        first = min([*missed, *([step] if step else [])], default=0)
        if first:
            found.setdefault(first, []).append(lived.rank)
    return [_stood(ranks[0].attempt, step, found[step], last) for step in sorted(found)[:1]]


def _stood(attempt: int, step: int, ranks: Sequence[int], last: Mapping[int, int]) -> Finding:
    """Return the finding that parameters did not change; `last` is, by rank, the last step of a standstill."""
    until = min((last.get(rank, 0) for rank in ranks), default=0)
    evidence = {"later": f", nor at any later one, to step {until}" if until > step else ""}
    return Finding("progress", "parameters frozen", tuple(ranks), step, attempt, evidence=evidence)


def _changes(lived: RankHistory) -> list[_Change]:
    """Return what happened to a rank's parameters from one look at them to the next; NaN changes no more."""
    told = [e for e in lived.payloads("step") if e.get("params") is not None and e.get("finite") is not False]
    looks = [(int(e["step"]), str(e["params"])) for e in told]
    return [_Change(since, step, before, after) for (since, before), (step, after) in itertools.pairwise(looks)]


def _stands_from(changes: Sequence[_Change]) -> int:
    """Return the first step of a standstill that lasts to the end and is most of the training; 0 if there is none."""
    tail = list(itertools.takewhile(lambda one: one.still, reversed(changes)))
    if not tail or tail[0].step - tail[-1].since < max(_STANDSTILL, tail[0].step / 2):
        return 0
    return tail[-1].since + 1


def _moved(one: _Change, model: Sequence[_Change]) -> bool:
    """Return whether the control's parameters were the same before and changed."""
    return any((m.since, m.step, m.before) == one[:3] and not m.still for m in model)


def _loss(lived: RankHistory) -> list[Finding]:
    """Return the finding that the last loss with a goal is not below it."""
    told = _goals(lived)
    if not told:
        return []
    loss, goal = told[-1]["values"]["loss"], told[-1]["values"]["goal"]
    if loss < goal:
        return []
    evidence = {"loss": loss, "goal": goal}
    return [
        Finding("progress", "loss not decreasing", (lived.rank,), lived.last_step, lived.attempt, evidence=evidence)
    ]


def _goals(lived: RankHistory) -> list[ToldEvent]:
    """Return what the rank told of its loss together with a goal."""
    return [e for e in lived.of_kind("told") if e["name"] == "loss" and "goal" in e["values"]]


def _has_something(lived: RankHistory) -> bool:
    """Return whether there is something to judge the rank's progress by."""
    return len(lived.payloads("step")) > 1 or bool(_goals(lived))
