"""The collective calls of each rank: operator, arguments, result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from breakrank.analysis.wait_for import RECEIVES, SPOKEN, Key, describe, key
from breakrank.history.reader import History, RankHistory
from breakrank_agent.protocol.events import CallFacts, Contents, DoneEvent, PointEvent, RankName


@dataclass(frozen=True)
class Call:
    """One rank's call of a collective, or of a send or a receive.

    `number` counts the group's collectives from 1, for point to point those between the two ranks. `strides` are empty
    where all tensors are contiguous; `splits` are the rows of an all-to-all from each rank and to each, empty if all
    are alike. `inputs` and `outputs` are sums and digests, None where they were not taken; `overlap` says that several
    tensors that it writes to lie in one memory, `asked` that Python has a work to wait for. `loop` has the variables of
    the loops that call it. `peer` is the other rank of point to point.
    """

    rank: int
    group: str
    number: int
    step: int
    time: float
    op: str
    site: str = ""
    dtype: str = ""
    shapes: tuple[tuple[int, ...], ...] = ()
    strides: tuple[tuple[int, ...], ...] = ()
    splits: tuple[tuple[int, ...], ...] = ()
    reduce: str | None = None
    root: RankName | None = None
    peer: RankName | None = None
    tag: int | str = 0
    inputs: tuple[Contents, ...] | None = None
    outputs: tuple[Contents, ...] | None = None
    kept: bool | None = None
    asked: bool = False
    overlap: bool = False
    loop: str = ""
    done: bool = False

    @property
    def name(self) -> str:
        """The operator as people know it."""
        return SPOKEN.get(self.op, self.op)

    @property
    def place(self) -> tuple[str, str]:
        """The operator, and the line that calls it."""
        return self.op, self.site

    def words(self) -> str:
        """Say the call, as a wait in it is said."""
        shapes = [list(shape) for shape in self.shapes]
        told = CallFacts(op=self.op, group=self.group, dtype=self.dtype, shapes=shapes, site=self.site)
        if self.root is not None:
            told["root"] = self.root
        if self.peer is None:
            told["c"] = self.number
        else:
            told["p"], told["peer"] = self.number, self.peer
        return describe(told)


class Group(NamedTuple):
    """A process group of one attempt: its ranks in the group's order, and each rank's collectives in it, in order."""

    name: str
    ranks: tuple[int, ...]
    calls: Mapping[int, Sequence[Call]]


def groups(history: History, attempt: int) -> list[Group]:
    """Return the groups of an attempt, by name, with the collectives that its ranks called in them."""
    members: dict[str, tuple[int, ...]] = {}
    found: dict[str, dict[int, list[Call]]] = {}
    for lived in history.attempt(attempt):
        for event in lived.of_kind("group"):
            members[event["group"]] = tuple(event["ranks"])
        for call in _calls(lived, "c"):
            found.setdefault(call.group, {}).setdefault(call.rank, []).append(call)
    for by_rank in found.values():
        for calls in by_rank.values():
            calls.sort(key=lambda call: call.number)
    return [Group(name, members.get(name, tuple(sorted(found[name]))), found[name]) for name in sorted(found)]


def last_call(lived: RankHistory) -> Call | None:
    """Return the collective or message that a rank called last and did not come back from, if there is one."""
    calls = [*_calls(lived, "c"), *_calls(lived, "p")]
    last = max(calls, key=lambda call: call.time, default=None)
    return None if last is None or last.done else last


def messages(history: History, attempt: int) -> list[Group]:
    """Return what was sent and received in an attempt: for each way a group of the sender and the receiver.

    The n-th message that is sent with a tag is the n-th that is received with it. A receive from any rank does not say
    from whom, and is left out with all that its rank receives in that group.
    """
    ways: dict[tuple[str, int, int, int | str], dict[int, list[Call]]] = {}
    anyone = set()
    for lived in history.attempt(attempt):
        for call in _calls(lived, "p"):
            receives = call.op in RECEIVES
            if call.peer is None or isinstance(call.peer, str) or call.peer < 0:
                anyone.add((call.group, call.rank))
                continue
            sender, receiver = (call.peer, call.rank) if receives else (call.rank, call.peer)
            way = ways.setdefault((call.group, sender, receiver, call.tag), {sender: [], receiver: []})
            way[call.rank].append(call)
    return [
        Group(group, (sender, receiver), calls)
        for (group, sender, receiver, _), calls in sorted(ways.items())
        if (group, receiver) not in anyone
    ]


def calls_of(lived: RankHistory) -> list[Call]:
    """Return a rank's collectives."""
    return _calls(lived, "c")


def _calls(lived: RankHistory, counter: Literal["c", "p"]) -> list[Call]:
    """Return a rank's calls that are counted by `c` (collectives) or `p` (point to point)."""
    ends: dict[Key, DoneEvent] = {}
    for event in lived.of_kind("done"):
        if counter in event:
            ends.setdefault(key(event), event)
    issued = [event for event in lived.points("collective") if counter in event]
    return [_call(lived.rank, event, event[counter], ends.get(key(event))) for event in issued]


def _call(rank: int, event: PointEvent, number: int, end: DoneEvent | None) -> Call:
    return Call(
        rank=rank,
        group=event["group"],
        number=number,
        step=event["step"],
        time=event["t"],
        op=event["op"],
        site=event.get("site", ""),
        dtype=event.get("dtype", ""),
        shapes=tuple(tuple(shape) for shape in event.get("shapes", ())),
        strides=tuple(tuple(stride) for stride in event.get("strides", ())),
        splits=tuple(tuple(sizes) for sizes in event.get("splits", ())),
        reduce=event.get("reduce"),
        root=event.get("root"),
        peer=event.get("peer"),
        tag=event.get("tag", 0),
        inputs=tuple(event["in"]) if "in" in event else None,
        outputs=tuple(end["out"]) if end is not None and "out" in end else None,
        overlap="overlap" in event,
        loop=event.get("loop", ""),
        kept=end.get("kept") if end is not None else None,
        asked="async" in event,
        done=end is not None and "error" not in end,
    )
