"""Diagnose a hang from the event log: the cause, and the ranks responsible. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from breakrank.analysis.wait_for import SENDS, Ledger, Wait, describe, find_waits
from breakrank_agent.protocol.events import PointEvent


@dataclass(frozen=True)
class Stuck:
    """A hang: its cause, the ranks responsible, the evidence against them, and the wait of each rank."""

    why: str
    peers: tuple[int, ...]
    waits: Mapping[int, Wait]
    shown_by: str = ""

    @property
    def unmatched(self) -> bool:
        """True if some rank waits for a call that another rank has not issued."""
        return any(wait.lacks for wait in self.waits.values())


def explain(ledgers: Mapping[int, Ledger], gone: Collection[int] = (), stopped: Collection[int] = ()) -> Stuck:
    """Say why the ranks that neither are gone nor stopped, and stand still, can never go on."""
    live = [rank for rank in ledgers if rank not in gone and rank not in stopped]
    waits = find_waits(live, ledgers)
    lacked = {rank for wait in waits.values() for rank in wait.lacks}
    for who, why, said in (
        (stopped, "peer stopped", "stands still while others wait for it"),
        (gone, "peer ended", "ended while others wait for it"),
    ):
        blamed = sorted(lacked & set(who)) or (sorted(who) if not lacked else [])
        if blamed:
            return Stuck(why, tuple(blamed), waits, said)
    apart = {rank for wait in waits.values() for rank in wait.apart}
    absent = [r for r in live if r in lacked - apart and (r not in waits or not waits[r].lacks)]
    if absent or not waits:
        return Stuck("blocked in a lock", tuple(absent), waits, "waits for a lock or queue of its own process")
    cycle = message_cycle({rank: wait.lacks for rank, wait in waits.items() if wait.message})
    if cycle:
        odd, said = _unlike_its_steps(ledgers, {rank: waits[rank] for rank in cycle})
        return Stuck("message cycle", odd, waits, said or each_after([waits[r].event for r in cycle]))
    odd, said = find_odd(ledgers, waits)
    return Stuck(_cause(waits, odd), odd, waits, said)


def message_cycle(lacks: Mapping[int, Sequence[int]]) -> list[int]:
    """Return the ranks that wait in messages for each other in a circle, in its order; none if there is no such circle.

    `lacks` are the ranks without which the message of each is never complete: several if it may come from any of them.
    """
    inside = {rank: peers for rank, peers in lacks.items() if peers}
    while outside := [rank for rank, peers in inside.items() if not inside.keys() >= {*peers}]:
        inside = {rank: peers for rank, peers in inside.items() if rank not in outside}
    way: list[int] = []
    rank = min(inside, default=None)
    while rank is not None and rank not in way:
        way.append(rank)
        rank = min(inside[rank])
    circle = way[way.index(rank) :] if rank is not None else []
    first = circle.index(min(circle)) if circle else 0
    return circle[first:] + circle[:first]


def each_after(circle: Sequence[Mapping[str, Any]]) -> str:
    """Say of the calls of ranks that wait for each other in a circle which comes after which."""
    sends = {event["op"] in SENDS for event in circle}
    if len(sends) > 1:
        return "each waits for the next, and the last for the first"
    return "each receives only after its own send" if True in sends else "each sends only after its own receive"


def find_odd(ledgers: Mapping[int, Ledger], waits: Mapping[int, Wait]) -> tuple[tuple[int, ...], str]:
    """Return which of the ranks that wait for each other went another way, and what shows it; nobody if nothing does.

    If ranks wait for messages, or in several groups, most ranks may be elsewhere for good reason: each rank is then
    first compared with its own earlier steps.
    """
    rules = [_unlike_its_steps, _outnumbered]
    if len({wait.event.get("group", "") for wait in waits.values()}) == 1 and not _messages(waits):
        rules.reverse()
    for rule in rules:
        odd, said = rule(ledgers, waits)
        if odd:
            return odd, said
    return (), ""


def _outnumbered(ledgers: Mapping[int, Ledger], waits: Mapping[int, Wait]) -> tuple[tuple[int, ...], str]:
    """Return the ranks that are not where most are."""
    odd = _outside_most({rank: _place(wait.event) for rank, wait in waits.items()})
    if not odd:
        return (), ""
    event = waits[odd[0]].event
    return odd, f"was in {describe(event)} at step {event['step']}, where the others were not"


def _unlike_its_steps(ledgers: Mapping[int, Ledger], waits: Mapping[int, Wait]) -> tuple[tuple[int, ...], str]:
    """Return the ranks whose collectives of this step, or of the last, are in no earlier step of their own."""
    odd = tuple(rank for rank in sorted(waits) if ledgers[rank].way.parted_at)
    if not odd or len(odd) == len(waits):
        return (), ""
    return odd, f"made other collectives at step {ledgers[odd[0]].way.parted_at} than at its earlier steps"


def _cause(waits: Mapping[int, Wait], odd: Collection[int]) -> str:
    """Return why ranks that all wait in collectives or messages can never go on: what those who are right wait for."""
    lacking = {rank: wait for rank, wait in waits.items() if wait.lacks}
    right = [w for rank, w in sorted(lacking.items()) if rank not in odd and set(w.lacks) & set(odd)]
    right = right or list(lacking.values())
    if not right:
        return "deadlock"
    if any(wait.apart for wait in lacking.values()):
        return "participant missing"
    if all(wait.message for wait in right):
        return "unmatched send" if right[0].event["op"] in SENDS else "unmatched receive"
    groups = {wait.event.get("group", "") for wait in lacking.values()}
    return "crossed process groups" if len(groups) > 1 and not _messages(waits) else "participant missing"


def _messages(waits: Mapping[int, Wait]) -> bool:
    return any(wait.message for wait in waits.values())


def _outside_most(places: Mapping[int, Any]) -> tuple[int, ...]:
    """Return the ranks that are not where more than half of them are; none if there is no such place."""
    counts = Counter(places.values()).most_common(2)
    if len(counts) < 2 or 2 * counts[0][1] <= len(places):
        return ()
    return tuple(sorted(rank for rank, place in places.items() if place != counts[0][0]))


def _place(event: PointEvent) -> tuple[Any, ...]:
    return tuple(event.get(name) for name in ("op", "group", "c", "p", "root"))
