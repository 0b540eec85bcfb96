"""Who waits for whom, told from what the ranks have recorded of their collectives; pure, for a job that stands still.

A rank's `Ledger` takes its events one by one. A collective is complete once each member of its group has issued it: the
same operation under the same number with the same root. A message is complete once both ends have been issued.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from breakrank_agent.history import Event

#: How many of the last collectives of each group are known by their operation.
_KEPT = 256
#: The names that people call operators by, where it is not the operator's own.
SPOKEN = {
    "allreduce_": "all_reduce",
    "allreduce_coalesced_": "all_reduce_coalesced",
    "broadcast_": "broadcast",
    "allgather_": "all_gather",
    "_allgather_base_": "all_gather_into_tensor",
    "reduce_scatter_": "reduce_scatter",
    "_reduce_scatter_base_": "reduce_scatter_tensor",
    "reduce_": "reduce",
    "gather_": "gather",
    "scatter_": "scatter",
    "alltoall_": "all_to_all",
    "alltoall_base_": "all_to_all_single",
    "recv_": "recv",
    "recv_any_source_": "recv",
    "monitored_barrier_": "monitored_barrier",
}
SENDS, RECEIVES = ("send",), ("recv_", "recv_any_source_")
#: What stands for the group in which all ranks make new groups.
GROUPING = "(new groups)"


class Call(NamedTuple):
    """What members of a group must agree on."""

    op: str
    root: int | None


@dataclass
class Ledger:
    """What one rank has issued and not completed, from its events."""

    groups: dict[str, Event] = field(default_factory=dict)
    issued: Counter[str] = field(default_factory=Counter)
    calls: dict[str, deque[tuple[int, Call]]] = field(default_factory=dict)
    sent: Counter[tuple[str, int]] = field(default_factory=Counter)
    received: Counter[tuple[str, int]] = field(default_factory=Counter)
    pending: dict[tuple[Any, ...], Event] = field(default_factory=dict)
    meeting: Event | None = None
    meetings: list[Event] = field(default_factory=list)

    def take(self, event: Event) -> None:
        """Take the next event of the rank."""
        kind = event["kind"]
        if kind == "point" and event["point"] == "collective":
            self._issue(event)
        elif kind == "done":
            self.pending.pop(_key(event), None)
        elif kind == "group":
            self.groups[event["group"]] = event
        elif kind == "rendezvous":
            entered = event["phase"] == "enter"
            self.meeting = event if entered else None
            self.meetings += [event] if entered else []
        elif kind == "grouping":
            self._group(event)

    def _issue(self, event: Event) -> None:
        group = event.get("group", "")
        if "c" in event:
            self.issued[group] = event["c"]
            self.calls.setdefault(group, deque(maxlen=_KEPT)).append((event["c"], _call(event)))
        elif "p" in event:
            counted = self.sent if event["op"] in SENDS else self.received
            counted[group, event.get("peer", -1)] = event["p"]
        else:
            return
        self.pending[_key(event)] = event

    def _group(self, event: Event) -> None:
        """Take the making of a new group for a collective of all ranks."""
        number = self.issued[GROUPING] + (event["phase"] == "enter")
        self.issued[GROUPING] = number
        if event["phase"] == "enter":
            told = {"point": "collective", "op": "new_group", "group": GROUPING, "c": number}
            self.pending[GROUPING, "c", number] = {**event, **told}
            self.calls.setdefault(GROUPING, deque(maxlen=_KEPT)).append((number, Call("new_group", None)))
        else:
            self.pending.pop((GROUPING, "c", number), None)

    def call(self, group: str, number: int) -> Call | None:
        """Return what the rank issued as this collective of a group, None if it is not known any more."""
        return next((call for n, call in reversed(self.calls.get(group, ())) if n == number), None)

    @property
    def in_call(self) -> str:
        """What the rank is in, as evidence of progress needs it: a message, the set-up of a group, or neither."""
        if self.meeting is not None or any(key[0] == GROUPING for key in self.pending):
            return "setup"
        return "message" if any(key[1] == "p" for key in self.pending) else ""

    def timeout_s(self, group: str) -> float | None:
        """Return the seconds after which a wait in a group raises, where that is known."""
        if self.meeting is not None:
            return self.meeting.get("timeout_s")
        return self.groups.get(group, {}).get("timeout_s")


def _call(event: Event) -> Call:
    return Call(event["op"], event.get("root"))


def _key(event: Event) -> tuple[Any, ...]:
    """Return what a collective and its completion have in common."""
    if "c" in event:
        return event.get("group", ""), "c", event["c"]
    return event.get("group", ""), "p", event.get("op") in SENDS, event.get("peer", -1), event.get("p")


@dataclass(frozen=True)
class Wait:
    """What a rank waits in. `behind` have not issued it, `apart` have issued something else under its number."""

    event: Event
    behind: tuple[int, ...] = ()
    apart: tuple[int, ...] = ()

    @property
    def lacks(self) -> tuple[int, ...]:
        """The ranks without which it is never complete."""
        return tuple(sorted({*self.behind, *self.apart}))

    @property
    def message(self) -> bool:
        """Whether it is a send or recv."""
        return "p" in self.event


@dataclass(frozen=True)
class Stuck:
    """Why ranks that stand still can never go on: the cause, the ranks that it lies with, and each one's wait."""

    why: str
    peers: tuple[int, ...]
    waits: Mapping[int, Wait]

    @property
    def unmatched(self) -> bool:
        """Whether the log says that somebody is missing somewhere."""
        return any(wait.lacks for wait in self.waits.values())


def find_wait(rank: int, ledgers: Mapping[int, Ledger]) -> Wait | None:
    """Return what a rank waits in: of all that is pending the first that lacks someone, else the last."""
    found = [_lacking(rank, event, ledgers) for event in ledgers[rank].pending.values()]
    return next((wait for wait in found if wait.lacks), found[-1] if found else None)


def _lacking(rank: int, event: Event, ledgers: Mapping[int, Ledger]) -> Wait:
    group = event.get("group", "")
    if "p" in event:
        return Wait(event, _no_answer(rank, event, ledgers))
    known = ledgers[rank].groups.get(group)
    members = [m for m in (known["ranks"] if known else ledgers) if m != rank and m in ledgers]
    behind = [m for m in members if ledgers[m].issued[group] < event["c"]]
    other = [m for m in members if m not in behind and ledgers[m].call(group, event["c"]) not in (None, _call(event))]
    return Wait(event, tuple(sorted(behind)), tuple(sorted(other)))


def _no_answer(rank: int, event: Event, ledgers: Mapping[int, Ledger]) -> tuple[int, ...]:
    """Return the other end of a send or recv, if it has not issued its own part."""
    group, peer = event.get("group", ""), event.get("peer", -1)
    own = ledgers[rank]
    if event["op"] in SENDS:
        end = ledgers.get(peer)
        taken = 0 if end is None else end.received[group, rank] + end.received[group, -1]
        return (peer,) if end is not None and taken < event["p"] else ()
    if peer >= 0:
        return (peer,) if peer in ledgers and ledgers[peer].sent[group, rank] < event["p"] else ()
    sources = [r for r in ledgers if r != rank]
    sent = sum(ledgers[r].sent[group, rank] for r in sources)
    asked = sum(count for (g, _), count in own.received.items() if g == group)
    return tuple(sources) if sent < asked else ()


def explain(ledgers: Mapping[int, Ledger], gone: Collection[int] = (), stopped: Collection[int] = ()) -> Stuck:
    """Say why the ranks that neither are gone nor stopped, and stand still, can never go on."""
    live = [rank for rank in ledgers if rank not in gone and rank not in stopped]
    waits = {rank: wait for rank in live if (wait := find_wait(rank, ledgers)) is not None}
    lacked = {rank for wait in waits.values() for rank in wait.lacks}
    for who, why in ((stopped, "peer stopped"), (gone, "peer ended")):
        blamed = sorted(lacked & set(who)) or (sorted(who) if not lacked else [])
        if blamed:
            return Stuck(why, tuple(blamed), waits)
    elsewhere = [rank for rank in live if rank not in waits or not waits[rank].lacks]
    absent = sorted(lacked & set(elsewhere) - _issuers(waits))
    if absent or not waits:
        return Stuck("locked", tuple(absent), waits)
    return Stuck(*_between(waits), waits)


def _issuers(waits: Mapping[int, Wait]) -> set[int]:
    """Return the ranks that others meet at something else, which therefore are in a collective."""
    return {rank for wait in waits.values() for rank in wait.apart}


def _between(waits: Mapping[int, Wait]) -> tuple[str, tuple[int, ...]]:
    """Return why ranks that all wait in collectives or messages can never go on, and with whom it lies."""
    apart = {rank: wait for rank, wait in waits.items() if wait.apart}
    if apart:
        return "never full", outside_majority({r: _place(w.event) for r, w in waits.items()})
    for _, wait in sorted(waits.items()):
        if wait.message and wait.lacks:
            return "no receiver" if wait.event["op"] in SENDS else "no sender", wait.lacks
    lacking = [wait for wait in waits.values() if wait.lacks]
    if len({wait.event.get("group", "") for wait in lacking}) > 1:
        return "crossed groups", outside_majority({r: _place(w.event) for r, w in waits.items()})
    if lacking:
        return "never full", tuple(sorted({rank for wait in lacking for rank in wait.lacks}))
    return "deadlock", ()


def outside_majority(places: Mapping[int, Any]) -> tuple[int, ...]:
    """Return the ranks that are not where most are; none if there is no majority."""
    counts = Counter(places.values()).most_common(2)
    if len(counts) < 2 or counts[0][1] == counts[1][1]:
        return ()
    return tuple(sorted(rank for rank, place in places.items() if place != counts[0][0]))


def _place(event: Event) -> tuple[Any, ...]:
    return event.get("op"), event.get("group"), event.get("c"), event.get("p"), event.get("root")


def describe(event: Event) -> str:
    """Say a wait: `all_reduce 41 (1024 × float32, train.py:88)`."""
    op = str(event.get("op") or event.get("point") or "a place that no rank recorded")
    name = SPOKEN.get(op, op)
    number = event.get("c") or event.get("p")
    peer = event.get("peer")
    if op in SENDS and peer is not None:
        name += f" to rank {peer}"
    elif op in RECEIVES and peer is not None:
        name += f" from {'any rank' if peer < 0 else f'rank {peer}'}"
    inside = ", ".join(str(part) for part in (event.get("said"), _shapes(event), event.get("site")) if part)
    return " ".join(part for part in (name, str(number or ""), f"({inside})" if inside else "") if part)


def _shapes(event: Event) -> str:
    shapes: Iterable[Iterable[int]] = event.get("shapes") or ()
    said = " and ".join("×".join(map(str, shape)) or "scalar" for shape in list(shapes)[:2])
    more = " and more" if len(list(event.get("shapes") or ())) > 2 else ""
    return f"{said}{more} × {event['dtype']}" if said and event.get("dtype") else ""
