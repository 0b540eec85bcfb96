"""An order in which the events of ranks on several nodes could have happened, though their clocks are a little off.

By their times alone a rank could leave a collective before another one has entered it. Such an event waits for those
that it must come after, of other nodes, if their times are no later than the clocks may be wrong. All else is in the
order of the times, and the events of each rank in their own.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from breakrank.analysis.moments import NodeClock
from breakrank.history.reader import RankHistory
from breakrank_agent.protocol.events import RankLine

#: A thing that ranks come to and that another one comes out of: a collective, a message, a rendezvous, a lock.
_Meeting = tuple[Any, ...]
#: One event: its rank, and its place among the rank's.
_Place = tuple[int, int]


def possible_order(ranks: Sequence[RankHistory], clocks: Mapping[int, NodeClock]) -> Iterator[tuple[int, RankLine]]:
    """Yield the events of all ranks with their numbers; without `clocks` in the order of their times."""
    if not clocks:
        timed = [(e["t"], lived.rank, place, e) for lived in ranks for place, e in enumerate(lived.events)]
        yield from ((rank, event) for _, rank, _, event in sorted(timed, key=lambda one: one[:3]))
        return
    # A rank's file has what its children recorded, and what was told late, at the end.
    events = {lived.rank: sorted(lived.events, key=lambda event: event["t"]) for lived in ranks}
    needs = _needs(events, clocks)
    read = dict.fromkeys(events, 0)
    heads = [(own[0]["t"], rank) for rank, own in events.items() if own]
    heapq.heapify(heads)
    while heads:
        aside: list[tuple[float, int]] = []
        head = heapq.heappop(heads)
        while _lacks(needs.get((head[1], read[head[1]]), ()), read) and heads:
            aside.append(head)
            head = heapq.heappop(heads)
        if _lacks(needs.get((head[1], read[head[1]]), ()), read):
            # Each waits for another one, which no true history says: the times decide.
            aside.append(head)
            head = aside.pop(0)
        for one in aside:
            heapq.heappush(heads, one)
        rank = head[1]
        place = read[rank]
        read[rank] += 1
        yield rank, events[rank][place]
        if read[rank] < len(events[rank]):
            heapq.heappush(heads, (events[rank][read[rank]]["t"], rank))


def _lacks(needed: Iterable[_Place], read: Mapping[int, int]) -> bool:
    return any(read[rank] <= place for rank, place in needed)


def _needs(events: Mapping[int, Sequence[RankLine]], clocks: Mapping[int, NodeClock]) -> dict[_Place, list[_Place]]:
    """Return, for each event that comes out of a meeting, those of other nodes that it must come after."""
    came: dict[_Meeting, list[tuple[float, _Place]]] = {}
    left: list[tuple[_Meeting, float, _Place]] = []
    for rank, own in events.items():
        counts: Counter[tuple[str, ...]] = Counter()
        for place, event in enumerate(own):
            for enters, meeting in _meetings(rank, event, counts):
                if enters:
                    came.setdefault(meeting, []).append((event["t"], (rank, place)))
                else:
                    left.append((meeting, event["t"], (rank, place)))
    found: dict[_Place, list[_Place]] = {}
    for meeting, time, (rank, place) in left:
        own_clock = clocks[rank]
        for at, (other, entry) in came.get(meeting, ()):
            within = own_clock.error_s + clocks[other].error_s
            # An entry that is earlier by its time is read earlier anyhow; one later than the error happened later.
            if clocks[other].node != own_clock.node and time <= at <= time + within:
                found.setdefault((rank, place), []).append((other, entry))
    return found


def _meetings(rank: int, event: RankLine, counts: Counter[tuple[str, ...]]) -> Iterator[tuple[bool, _Meeting]]:
    """Yield what an event comes to (True), or out of (False)."""
    if event["kind"] == "point" and event["point"] == "collective" and "c" in event:
        yield True, ("collective", event["group"], event["c"])
    elif event["kind"] == "done" and "c" in event:
        yield False, ("collective", event["group"], event["c"])
    elif event["kind"] == "point" and event["point"] == "collective" and event["op"] == "send":
        yield True, ("message", event["group"], rank, event.get("peer"), event.get("p"))
    elif event["kind"] == "done" and event["op"] != "send":
        yield False, ("message", event["group"], event.get("peer"), rank, event.get("p"))
    elif event["kind"] == "rendezvous" or event["kind"] == "grouping":
        members = str(event["ranks"]) if event["kind"] == "grouping" else ""
        which = (event["kind"], event["phase"], members)
        counts[which] += 1
        yield event["phase"] == "enter", (event["kind"], members, counts[which])
    elif event["kind"] == "sync" and event["key"].startswith("shared:") and event["do"] in ("release", "acquire"):
        yield event["do"] == "release", ("lock", event["key"])
