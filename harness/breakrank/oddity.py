"""Which of several ranks that stand still went another way, told from where they wait and what each did before."""

from __future__ import annotations

from collections.abc import Sequence

from breakrank.history import RankHistory
from breakrank.verdict import name_ranks
from breakrank.waits import describe, outside_majority
from breakrank_agent.clock import MAIN
from breakrank_agent.history import Event

#: Causes that name by themselves with whom it lies.
_NAMED = {
    "locked": "waits for a lock or queue of its own process, while others wait for it",
    "rank missing": "never came to the rendezvous",
    "rank twice": "came under the number of another rank",
    "world size differs": "came with another world size than the others",
    "master differs": "came to another master than the others",
    "backend differs": "came with another backend than the others",
    "interface differs": "came on another interface than the others",
}


def odd_ones(ranks: Sequence[RankHistory], hung: Event) -> tuple[tuple[int, ...], str]:
    """Return the ranks that a hang lies with, and what shows it; nobody if nothing does."""
    waiting: list[Event] = hung["waiting"]
    if hung["why"] in _NAMED and hung.get("peers"):
        return tuple(hung["peers"]), _NAMED[hung["why"]]
    away = tuple(w["rank"] for w in waiting if not w.get("op"))
    if 0 < len(away) < len(waiting):
        place = next(w for w in waiting if w["rank"] == away[0])
        return away, f"was in {describe(place)} at step {place['step']}, and in no collective, where others waited"
    messages = any("p" in w for w in waiting)
    rules = (_unlike_its_steps, _outnumbered) if messages else (_outnumbered, _unlike_its_steps)
    for rule in rules:
        odd, reason = rule(ranks, waiting)
        if odd:
            return odd, reason
    if messages and hung.get("peers"):
        return tuple(hung["peers"]), "did not issue the other end of a message"
    return (), f"{name_ranks(sorted(hung['ranks']))} waited, and nothing shows for whom"


def _outnumbered(ranks: Sequence[RankHistory], waiting: Sequence[Event]) -> tuple[tuple[int, ...], str]:
    """Return those that are not where most are."""
    places = {w["rank"]: tuple(str(w.get(name)) for name in ("step", "op", "group", "c", "root")) for w in waiting}
    odd = outside_majority(places) or outside_majority({rank: place[1:] for rank, place in places.items()})
    if not odd:
        return (), ""
    place = next(w for w in waiting if w["rank"] == odd[0])
    return odd, f"was in {describe(place)} at step {place['step']}, where the others were not"


def _unlike_its_steps(ranks: Sequence[RankHistory], waiting: Sequence[Event]) -> tuple[tuple[int, ...], str]:
    """Return those whose collectives of this step, or the last, are in no earlier step of their own."""
    inside = {w["rank"] for w in waiting}
    parted = {lived.rank: _parted_at(lived) for lived in ranks if lived.rank in inside}
    odd = tuple(sorted(rank for rank, step in parted.items() if step))
    if not odd or len(odd) == len(parted):
        return (), ""
    return odd, f"made other collectives at step {parted[odd[0]]} than at its earlier steps"


def _parted_at(lived: RankHistory) -> int:
    """Return which of its two latest steps has collectives that no earlier one had; 0 if neither has."""
    steps: dict[int, list[tuple[str, ...]]] = {}
    for event in lived.points("collective"):
        if event["seq"] == MAIN and event["step"] > 0:
            steps.setdefault(event["step"], []).append(_signature(event))
    latest = max(steps, default=0)
    for step in (latest - 1, latest):
        made, before = steps.get(step, []), [steps.get(s, []) for s in range(1, step)]
        # The latest step is not over: it may be the beginning of an earlier one.
        alike = any(other == made if step < latest else other[: len(made)] == made for other in before)
        if before and not alike:
            return step
    return 0


def _signature(event: Event) -> tuple[str, ...]:
    return tuple(str(event.get(name)) for name in ("op", "group", "shapes", "root", "peer", "site"))
