"""The wait-for graph of a job that stands still, from the collectives that its ranks have recorded. Pure.

A rank's `Ledger` takes its events one by one. A collective is complete once each member of its group has issued it: the
same operation under the same number with the same root. A message is complete once both ends have been issued.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from breakrank.verdict import name_ranks
from breakrank_agent.protocol.clock import MAIN
from breakrank_agent.protocol.events import (
    CallFacts,
    DoneEvent,
    GroupingEvent,
    PointEvent,
    RankLine,
    RankName,
    RendezvousEvent,
    WaitingRank,
)
from breakrank_agent.protocol.frameworks import all_frameworks

#: The number of latest collectives of each group whose operations a ledger keeps.
_KEPT = 256
#: The names that people call operators by, where it is not the operator's own.
SPOKEN = {op: name for framework in all_frameworks().values() for op, name in framework.spoken.items()}
SENDS, RECEIVES = ("send",), ("recv_", "recv_any_source_")
#: The name that stands for the group in which ranks make a new group.
GROUPING = "(new group)"
#: The key that a collective, or a message, has in common with its completion.
Key = tuple[Any, ...]
#: A thing that `describe` puts into words: a call, or the place in which a rank waits.
Described = PointEvent | CallFacts | WaitingRank
#: The most different ways through a step that are kept of each rank.
_WAYS = 64


class Members(NamedTuple):
    """A group: its ranks, and the seconds after which a wait in it raises, where these are known."""

    ranks: Sequence[int]
    timeout_s: float | None = None
    lost_s: float | None = None


class Making(NamedTuple):
    """The making of a group in which every rank has to take part: its members (None: all ranks), and the line."""

    ranks: tuple[int, ...] | None
    site: str = ""


class Call(NamedTuple):
    """The part of a call that members of a group must agree on."""

    op: str
    root: RankName | None


@dataclass
class Ledger:
    """The collectives that one rank has issued and not completed, from its events."""

    groups: dict[str, Members] = field(default_factory=dict)
    issued: Counter[str] = field(default_factory=Counter)
    calls: dict[str, deque[tuple[int, Call]]] = field(default_factory=dict)
    sent: Counter[tuple[str, RankName]] = field(default_factory=Counter)
    received: Counter[tuple[str, RankName]] = field(default_factory=Counter)
    pending: dict[Key, PointEvent] = field(default_factory=dict)
    meeting: RendezvousEvent | None = None
    meetings: list[RendezvousEvent] = field(default_factory=list)
    makings: list[Making] = field(default_factory=list)
    way: Way = field(default_factory=lambda: Way())

    def take(self, event: RankLine) -> None:
        """Take the next event of the rank."""
        if event["kind"] == "point" and event["point"] == "collective":
            self._issue(event)
        elif event["kind"] == "done":
            self.pending.pop(key(event), None)
        elif event["kind"] == "group":
            self.groups[event["group"]] = Members(event["ranks"], event.get("timeout_s"), event.get("lost_s"))
        elif event["kind"] == "rendezvous":
            entered = event["phase"] == "enter"
            self.meeting = event if entered else None
            self.meetings += [event] if entered else []
            # A world that is made anew numbers its groups anew.
            self.makings = [] if entered else self.makings
        elif event["kind"] == "grouping":
            self._group(event)

    def _issue(self, event: PointEvent) -> None:
        group = event.get("group", "")
        if "c" in event:
            self.issued[group] = event["c"]
            self.calls.setdefault(group, deque(maxlen=_KEPT)).append((event["c"], _call(event)))
        elif "p" in event:
            counted = self.sent if event["op"] in SENDS else self.received
            counted[group, event.get("peer", -1)] = event["p"]
        else:
            return
        self.pending[key(event)] = event
        if event.get("seq") == MAIN and event["step"] > 0:
            self.way.go(event["step"], _signature(event))

    def _group(self, event: GroupingEvent) -> None:
        """Take the making of a new group for a collective of its members."""
        ranks = event.get("ranks")
        if not event.get("local") and event["phase"] == "enter":
            self.makings.append(Making(None if ranks is None else tuple(sorted(ranks)), event.get("site", "")))
        elif not event.get("local") and event.get("error") and self.makings:
            self.makings.pop()
        name = f"{GROUPING}{'' if ranks is None else ' of ' + name_ranks(ranks)}"
        if event["phase"] == "enter":
            if ranks is not None:
                self.groups.setdefault(name, Members(ranks))
            issued = PointEvent(
                kind="point",
                point="collective",
                visit=1,
                op="new_group",
                group=name,
                c=self.issued[name] + 1,
                n=event["n"],
                seq=event["seq"],
                step=event["step"],
                t=event["t"],
            )
            if "site" in event:
                issued["site"] = event["site"]
            self._issue(issued)
        else:
            self.pending.pop((name, "c", self.issued[name]), None)

    def call(self, group: str, number: int) -> Call | None:
        """Return what the rank issued as this collective of a group, None if it is not known any more."""
        return next((call for n, call in reversed(self.calls.get(group, ())) if n == number), None)

    def passed(self, group: str, number: int) -> bool:
        """Return whether the rank has issued later collectives of a group, and not this one: its number was lost."""
        calls = self.calls.get(group)
        return bool(calls and calls[0][0] < number < calls[-1][0] and self.call(group, number) is None)

    @property
    def is_grouping(self) -> bool:
        """True if the rank is in the making of a group."""
        return any(key[0].startswith(GROUPING) for key in self.pending)

    @property
    def in_call(self) -> str:
        """The sort of call that the rank is in, as evidence of progress needs it; empty if it is in none."""
        if self.meeting is not None or self.is_grouping:
            return "setup"
        if any(event.get("eager") for event in self.pending.values()):
            return "eager"
        if any(key[1] == "p" for key in self.pending):
            return "message"
        return "collective" if self.pending else ""

    def timeout_s(self, group: str, lost: bool = False) -> float | None:
        """Return the seconds after which a wait in a group raises, where that is known.

        `lost`: it is for a member that is silent. Some backends look after those by a time-out of its own.
        """
        if self.meeting is not None:
            return self.meeting.get("timeout_s")
        known = self.groups.get(group)
        limits = [known.timeout_s, known.lost_s if lost else None] if known is not None else []
        return min((limit for limit in limits if limit is not None), default=None)


@dataclass
class Way:
    """The collectives of a rank's main thread in its latest step, and the ways that it took through earlier ones."""

    step: int = 0
    made: tuple[tuple[str, ...], ...] = ()
    before: list[tuple[tuple[str, ...], ...]] = field(default_factory=list)
    parted: int = 0

    def go(self, step: int, signature: tuple[str, ...]) -> None:
        """Make the next collective."""
        if step != self.step:
            self.parted = self.step if self.before and self.made not in self.before else 0
            if self.step and self.made not in self.before and len(self.before) < _WAYS:
                self.before.append(self.made)
            self.step, self.made = step, ()
        self.made += (signature,)

    @property
    def parted_at(self) -> int:
        """The step, of the two latest, with collectives that no earlier step had; 0 if neither has any."""
        known = self.before[:-1] if self.parted else self.before
        size = len(self.made)
        # The latest step is not over: it may be the beginning of an earlier one.
        alike = not known or any(way[:size] == self.made for way in known)
        return self.parted or (0 if alike else self.step)


def _signature(event: PointEvent) -> tuple[str, ...]:
    return tuple(str(event.get(name)) for name in ("op", "group", "shapes", "root", "peer", "site"))


def _call(event: PointEvent) -> Call:
    return Call(event["op"], event.get("root"))


def key(event: PointEvent | DoneEvent) -> Key:
    """Return the key that a collective, or a message, has in common with its completion."""
    if "c" in event:
        return event.get("group", ""), "c", event["c"]
    return event.get("group", ""), "p", event.get("op") in SENDS, event.get("peer", -1), event.get("p")


def lags(ledger: Ledger, other: Ledger) -> bool:
    """Return whether a rank is still in a collective that is over on another one."""
    return any(
        "c" in event and other.issued[event.get("group", "")] >= event["c"] and place not in other.pending
        for place, event in ledger.pending.items()
    )


@dataclass(frozen=True)
class Wait:
    """The call that a rank waits in. `behind` have not issued it, `apart` have issued another under its number."""

    event: PointEvent
    behind: tuple[int, ...] = ()
    apart: tuple[int, ...] = ()

    @property
    def lacks(self) -> tuple[int, ...]:
        """The ranks without which it is never complete."""
        return tuple(sorted({*self.behind, *self.apart}))

    @property
    def message(self) -> bool:
        """True if the call is a send or recv."""
        return "p" in self.event


def find_waits(ranks: Iterable[int], ledgers: Mapping[int, Ledger]) -> dict[int, Wait]:
    """Return what ranks wait in, if they do: of all that is pending the first that lacks someone, else the last.

    A message that left a work is no wait while the rank is in a call that returns only when it is over.
    """
    rolls: dict[Key, _Roll] = {}
    waits: dict[int, Wait] = {}
    for rank in ranks:
        for event in _held_by(ledgers[rank].pending.values()):
            waits[rank] = _lacking(rank, event, ledgers, rolls)
            if waits[rank].lacks:
                break
    return waits


def _held_by(pending: Collection[PointEvent]) -> Iterable[PointEvent]:
    """Return what may hold a rank of all that is pending."""
    inside = any(not event.get("async") for event in pending)
    return [event for event in pending if not (inside and "p" in event and event.get("async"))]


class _Roll(NamedTuple):
    """Of one collective of a group: the members that have not issued it, and what the others have under its number."""

    behind: tuple[int, ...]
    issued: Mapping[Call, tuple[int, ...]]


def _call_the_roll(group: str, number: int, members: Iterable[int], ledgers: Mapping[int, Ledger]) -> _Roll:
    behind, issued = [], dict[Call, list[int]]()
    for member in sorted(members):
        call = ledgers[member].call(group, number)
        if ledgers[member].issued[group] < number or ledgers[member].passed(group, number):
            behind.append(member)
        elif call is not None:
            issued.setdefault(call, []).append(member)
    return _Roll(tuple(behind), {call: tuple(ranks) for call, ranks in issued.items()})


def _lacking(rank: int, event: PointEvent, ledgers: Mapping[int, Ledger], rolls: dict[Key, _Roll]) -> Wait:
    """Return the wait of a rank. `rolls` are kept from rank to rank: there may be a thousand in one collective."""
    group = event.get("group", "")
    if "p" in event:
        return Wait(event, _no_answer(rank, event, ledgers))
    known = ledgers[rank].groups.get(group)
    members = tuple(known.ranks) if known else tuple(ledgers)
    key = (group, event["c"], members)
    if key not in rolls:
        rolls[key] = _call_the_roll(group, event["c"], (m for m in members if m in ledgers), ledgers)
    roll, own = rolls[key], _call(event)
    behind = tuple(m for m in roll.behind if m != rank)
    apart = (m for call, ranks in roll.issued.items() if call != own for m in ranks if m != rank)
    return Wait(event, behind, tuple(sorted(apart)))


def _no_answer(rank: int, event: PointEvent, ledgers: Mapping[int, Ledger]) -> tuple[int, ...]:
    """Return the other end of a send or recv, if it has not issued its own part."""
    group, peer = event.get("group", ""), event.get("peer", -1)
    own = ledgers[rank]
    if isinstance(peer, str):
        return ()
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


def describe(event: Described) -> str:
    """Say a wait: `all_reduce 41 (1024 × float32, train.py:88)`."""
    op = str(event.get("op") or event.get("after") or "")
    if not op:
        return str(event.get("point") or "a place that no rank recorded")
    group = str(event.get("group") or "")
    number = "" if group.startswith(GROUPING) else event.get("c") or event.get("p") or ""
    of = f"of group {group}" if group not in ("", "0") and not group.startswith(GROUPING) else ""
    inside = ", ".join(str(part) for part in (event.get("said"), _shapes(event), event.get("site")) if part)
    words = (SPOKEN.get(op, op), str(number), _partner(event, op), of, f"({inside})" if inside else "")
    return ("" if event.get("op") else "the code after ") + " ".join(word for word in words if word)


def _partner(event: Described, op: str) -> str:
    """Say which rank a message or a rooted collective is to or from."""
    peer, root = event.get("peer"), event.get("root")
    if peer is not None:
        return f"to rank {peer}" if op in SENDS else f"from {'any rank' if peer == -1 else f'rank {peer}'}"
    if root is not None:
        return f"{'to' if op in ('reduce_', 'gather_') else 'from'} rank {root}"
    return ""


def _shapes(event: Described) -> str:
    shapes = list(event.get("shapes") or ())
    if not shapes or not event.get("dtype") or "barrier" in (event.get("op"), event.get("after")):
        return ""
    said = " and ".join("×".join(map(str, shape)) or "1" for shape in shapes[:2])
    return f"{said}{' and more' if len(shapes) > 2 else ''} × {event['dtype']}"
