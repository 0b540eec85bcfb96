"""What came before what: the accesses of an attempt with vector clocks, and those that nothing orders.

Happens-before as Lamport has it ("Time, Clocks, and the Ordering of Events in a Distributed System", 1978), by clocks
with one number for each thread (Mattern 1988; Fidge 1988). A thread's own number grows when it releases something;
whoever acquires it takes the releaser's clock in. Turns of a schedule order nothing: they are how we ran it, and not
what the program asked for.

All clocks on record are one machine's, and a release is written before it happens, an acquire after it; so the events
of all ranks in the order of their times are in an order in which they could have happened.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from breakrank.history.reader import RankHistory
from breakrank_agent.protocol.log import Event

#: Collectives after which nobody has more than their root's word, and those after which only the root has the others'.
_FROM_ROOT = ("broadcast_", "scatter_")
_TO_ROOT = ("reduce_", "gather_")
_SENDS, _RECEIVES = ("send",), ("recv_", "recv_any_source_")
#: Keys that mean the same in every rank begin so.
_EVERYWHERE = "shared:"


class Thread(NamedTuple):
    """A thread of a rank, or of a child that it has started, or an operation that goes on beside it."""

    rank: int
    name: str

    @property
    def process(self) -> str:
        """The process that it belongs to: the rank's number, or with the name of its child."""
        return f"{self.rank}/{self.name.partition('/')[0]}" if self.name.startswith("child-") else str(self.rank)


#: How much of each thread's past a thread knows.
Clock = Mapping[Thread, int]


@dataclass(frozen=True)
class Access:
    """A read, write or update of some bytes: by whom, with what past."""

    thread: Thread
    event: Event
    clock: Clock

    @property
    def rank(self) -> int:
        """The rank of the thread."""
        return self.thread.rank

    @property
    def writes(self) -> bool:
        """Whether it changes the bytes."""
        return "w" in self.event["mode"]

    @property
    def whole(self) -> bool:
        """Whether it reads and writes in one go, so that of two such, in either order, neither gets lost."""
        return bool(self.event.get("whole"))

    def precedes(self, other: Access) -> bool:
        """Whether it happened before the other, by what the program asked for."""
        return self.clock.get(self.thread, 0) <= other.clock.get(self.thread, -1)


class Pair(NamedTuple):
    """Two accesses to the same bytes, one of them a write, that nothing orders."""

    one: Access
    other: Access


@dataclass
class _Collective:
    """What a thread is in: its group, its number there, and who gives whom the past."""

    op: str
    group: str
    number: str
    root: int | None
    #: The pseudo-thread of an operation that goes on beside the one that asked for it.
    beside: Thread | None = None


@dataclass
class _Orderer:
    """Reads the events of all ranks in order, and keeps the clocks."""

    found: list[Access] = field(default_factory=list)
    _clocks: dict[Thread, dict[Thread, int]] = field(default_factory=dict)
    _past: dict[Thread, list[Clock]] = field(default_factory=dict)
    _released: dict[str, dict[Thread, int]] = field(default_factory=dict)
    _holders: dict[str, Thread] = field(default_factory=dict)
    _issued: dict[tuple[str, str], dict[int, Clock]] = field(default_factory=dict)
    _inside: dict[Thread, _Collective] = field(default_factory=dict)
    _going_on: dict[tuple[int, str, str], _Collective] = field(default_factory=dict)
    _passed: dict[Thread, list[Event]] = field(default_factory=dict)
    _counts: dict[tuple[int, str], int] = field(default_factory=dict)

    def read(self, rank: int, event: Event) -> None:
        """Take the next event."""
        thread, kind = Thread(rank, event.get("seq", "main")), event["kind"]
        if kind == "done":
            self._done(thread, event)
            return
        # A thread that goes on has come out of the collective that it was in.
        inside = self._inside.pop(thread, None)
        if inside is not None:
            self._complete(thread, inside)
        if kind == "sync":
            self._sync(thread, event)
            if event["do"] != "yield":
                # One for each sync that the agent counts: what is put on record late names its place among them.
                self._past[thread].append(dict(self._clock(thread)))
        elif kind == "access":
            self._access(thread, event)
        elif kind == "point" and event["point"] == "collective":
            self._issue(thread, event)
        elif kind in ("rendezvous", "grouping"):
            do = "release" if event["phase"] == "enter" else "acquire"
            members = event.get("ranks", "")
            self._sync(thread, {"do": do, "key": f"{_EVERYWHERE}{kind}:{members}"})

    def _clock(self, thread: Thread) -> dict[Thread, int]:
        if thread not in self._clocks:
            self._clocks[thread] = {thread: 1}
            self._past[thread] = [dict(self._clocks[thread])]
        return self._clocks[thread]

    # --- what threads wait for each other with

    def _sync(self, thread: Thread, event: Event) -> None:
        key, clock = event["key"], self._clock(thread)
        name = key if key.startswith(_EVERYWHERE) else f"{thread.process}:{key}"
        if "ended" in event:
            self._outlive(thread, f"{thread.rank}/{event['ended']}")
        elif event["do"] == "acquire":
            _join(clock, self._released.get(name, {}))
            self._take_over(name, thread)
        elif event["do"] == "release":
            self._release(self._released.setdefault(name, {}), thread)
            self._holders.pop(name, None)

    def _outlive(self, thread: Thread, process: str) -> None:
        """Come after all that the threads of a process have done, which has ended."""
        clock = self._clock(thread)
        for other in [t for t in self._clocks if t.process == process]:
            _join(clock, self._clocks[other])

    def _take_over(self, name: str, thread: Thread) -> None:
        """Come after the last holder of a file lock, which may have given it up by closing the file."""
        if name.startswith(f"{_EVERYWHERE}file:"):
            holder = self._holders.get(name)
            if holder is not None and holder != thread:
                past = dict(self._clock(holder))
                self._clock(holder)[holder] += 1
                _join(self._clock(thread), past)
            self._holders[name] = thread

    def _release(self, into: dict[Thread, int], thread: Thread) -> None:
        clock = self._clock(thread)
        _join(into, clock)
        clock[thread] += 1

    # --- collectives

    def _issue(self, thread: Thread, event: Event) -> None:
        issued = self._collective(thread, event)
        past = self._issued.setdefault((issued.group, issued.number), {})
        self._release(past.setdefault(thread.rank, {}), thread)  # type: ignore[arg-type]
        touched = [_as_it_is(access, event, thread.rank) for access in self._passed.pop(thread, [])]
        if event.get("async"):
            issued.beside = Thread(thread.rank, f"{event['op']} {issued.number}")
            self._clocks[issued.beside] = {**past[thread.rank], issued.beside: 1}
            self._going_on[thread.rank, issued.group, issued.number] = issued
            for access in touched:
                self.found.append(Access(issued.beside, {**access, "waits": True}, dict(self._clocks[issued.beside])))
        else:
            self._inside[thread] = issued
            self.found += [Access(thread, access, dict(self._clock(thread))) for access in touched]

    def _collective(self, thread: Thread, event: Event) -> _Collective:
        group, number = event["group"], event.get("c")
        if event["op"] in (*_SENDS, *_RECEIVES):
            ends = (thread.rank, event.get("peer")) if event["op"] in _SENDS else (event.get("peer"), thread.rank)
            return _Collective(event["op"], group, f"p2p {ends[0]} to {ends[1]}, {event.get('p')}", None)
        if number is None:
            number = self._counts[thread.rank, group] = self._counts.get((thread.rank, group), 0) + 1
        return _Collective(event["op"], group, str(number), event.get("root"))

    def _complete(self, thread: Thread, issued: _Collective) -> None:
        """Give a thread the past of those whose part the collective has brought it."""
        clock = self._clock(thread)
        for rank, past in self._issued.get((issued.group, issued.number), {}).items():
            if _brings(issued, rank, thread.rank):
                _join(clock, past)
        if issued.beside is not None:
            _join(clock, self._clocks[issued.beside])

    def _done(self, thread: Thread, event: Event) -> None:
        numbers = [str(event["c"])] if "c" in event else self._with_peer(thread.rank, event)
        for number in numbers:
            key = (thread.rank, event["group"], number)
            issued = self._going_on.pop(key, None) or self._inside.pop(thread, None)
            self._complete(thread, issued or _Collective(event.get("op", ""), event["group"], number, None))

    def _with_peer(self, rank: int, event: Event) -> list[str]:
        peer, number = event.get("peer"), event.get("p")
        return [f"p2p {rank} to {peer}, {number}", f"p2p {peer} to {rank}, {number}"]

    # --- accesses

    def _access(self, thread: Thread, event: Event) -> None:
        if event["op"].startswith("c10d::"):
            # The collective that follows says whether it goes on beside the thread.
            self._passed.setdefault(thread, []).append(event)
            return
        clock = dict(self._clock(thread))
        if "at" in event:
            past = self._past[thread]
            clock = dict(past[min(event["at"], len(past) - 1)])
        self.found.append(Access(thread, event, clock))


def _as_it_is(access: Event, collective: Event, rank: int) -> Event:
    """Return the access of a collective: what a root only gives, and others only give their root, is only read."""
    root = collective.get("root")
    gives = (collective["op"] == "broadcast_") == (rank == root)
    if root is not None and collective["op"] in ("broadcast_", "reduce_") and gives:
        return {**access, "mode": "r"}
    return access


def _brings(issued: _Collective, rank: int, to: int) -> bool:
    """Whether a collective brings one rank's part to another."""
    if rank == to or issued.op in _SENDS:
        return False
    if issued.op in _FROM_ROOT and issued.root is not None:
        return rank == issued.root
    if issued.op in _TO_ROOT and issued.root is not None:
        return to == issued.root
    return True


def _join(clock: dict[Thread, int], other: Clock) -> None:
    for thread, number in other.items():
        if clock.get(thread, 0) < number:
            clock[thread] = number


def accesses(ranks: Sequence[RankHistory]) -> list[Access]:
    """Return the accesses of all ranks of one attempt, with their clocks, in the order of their times."""
    orderer = _Orderer()
    events = [(e.get("t", 0.0), lived.rank, i, e) for lived in ranks for i, e in enumerate(lived.events)]
    for _, rank, _, event in sorted(events, key=lambda item: item[:3]):
        orderer.read(rank, event)
    return orderer.found


def by_storage(found: Iterable[Access]) -> dict[str, list[Access]]:
    """Return the accesses by the storage that they touch; what is one process's alone is told apart."""
    sorted_out: dict[str, list[Access]] = {}
    for access in found:
        key = access.event["key"]
        name = f"{access.thread.process}{key}" if key.startswith("@") else key
        sorted_out.setdefault(name, []).append(access)
    return sorted_out


def unordered(touching: Sequence[Access]) -> Iterator[Pair]:
    """Yield the pairs of accesses to one storage that conflict and that nothing orders, in the order of the later ones.

    Of a thread's equal accesses only the last is kept: whoever does not come after it is found by it.
    """
    last: dict[tuple[Thread, bool, str, str], Access] = {}
    for access in touching:
        for earlier in last.values():
            conflict = earlier.thread != access.thread and (earlier.writes or access.writes)
            conflict = conflict and not (earlier.whole and access.whole)
            if conflict and _apart(earlier, access) and overlap(earlier.event, access.event):
                yield Pair(earlier, access)
        event = access.event
        which = str([event.get(name) for name in ("lo", "hi", "shape", "strides", "pieces")])
        last[access.thread, access.writes, which, event.get("site", "")] = access


def _apart(one: Access, other: Access) -> bool:
    return not one.precedes(other) and not other.precedes(one)


def overlap(one: Event, other: Event) -> bool:
    """Whether two accesses have a byte in common: by their ranges first, then exactly."""
    if "lo" not in one or "lo" not in other:
        return True
    if one["hi"] <= other["lo"] or other["hi"] <= one["lo"]:
        return False
    if not any(event.get(name) for event in (one, other) for name in ("shape", "pieces")):
        return True
    return any(_meet(_box(a), _box(b)) for a, b in _near(one, other))


def common(one: Event, other: Event) -> tuple[int, int]:
    """Return the first bytes that two accesses have in common, or the range in which they lie."""
    met = next((pair for pair in _near(one, other) if _meet(_box(pair[0]), _box(pair[1]))), (one, other))
    return max(e["lo"] for e in met), min(e["hi"] for e in met)


def _near(one: Event, other: Event) -> Iterator[tuple[Event, Event]]:
    """Yield the pieces of two accesses whose ranges overlap; what is not by an index is one piece."""
    mine, theirs = ([{"lo": lo, "hi": hi} for lo, hi in e.get("pieces", ())] or [e] for e in (one, other))
    begin, end = [piece["lo"] for piece in theirs], [piece["hi"] for piece in theirs]
    for piece in mine:
        for near in theirs[bisect_right(end, piece["lo"]) : bisect_left(begin, piece["hi"])]:
            yield piece, near


class _Box(NamedTuple):
    """Bytes with gaps: `item` bytes from `lo` on, again and again by sizes and strides, the longest stride first."""

    lo: int
    item: int
    dimensions: tuple[tuple[int, int], ...]

    @property
    def hi(self) -> int:
        """Where the last byte ends."""
        return self.lo + sum((size - 1) * stride for size, stride in self.dimensions) + self.item


def _box(event: Event) -> _Box:
    if not event.get("shape"):
        return _Box(event["lo"], event["hi"] - event["lo"], ())
    pairs = sorted(zip(event["shape"], event["strides"], strict=True), key=lambda pair: -pair[1])
    kept = [(size, stride) for size, stride in pairs if size > 1 and stride]
    item = event["item"]
    # What lies side by side is one piece.
    while kept and kept[-1][1] == item:
        item *= kept.pop()[0]
    return _Box(event["lo"], item, tuple(kept))


def _meet(one: _Box, other: _Box) -> bool:
    """Whether two boxes have a byte in common; the larger one is taken apart along its longest stride."""
    if one.hi <= other.lo or other.hi <= one.lo:
        return False
    if not one.dimensions and not other.dimensions:
        return True
    if not one.dimensions or (other.dimensions and other.hi - other.lo > one.hi - one.lo):
        one, other = other, one
    (size, stride), *rest = one.dimensions
    reach = one.hi - one.lo - (size - 1) * stride
    # Only those pieces that come near the other box are looked at.
    first = max(0, -((one.lo + reach - other.lo - 1) // stride))
    last = min(size - 1, (other.hi - 1 - one.lo) // stride)
    pieces = (_Box(one.lo + i * stride, one.item, tuple(rest)) for i in range(first, last + 1))
    return any(_meet(piece, other) for piece in pieces)


def overwritten(found: Sequence[Access]) -> list[Access]:
    """Return the accesses that show the first lost update, in their order; none if there is none.

    B writes what it had read before A wrote: A's read, B's read, A's write, B's write. The last two are always the
    overwritten write and the one that overwrote it. An update (`rw`) counts once.
    """
    reads: dict[Thread, list[int]] = {}
    updates: list[tuple[int, int]] = []
    for number, access in enumerate(found):
        thread = access.thread
        if "r" in access.event["mode"]:
            reads.setdefault(thread, []).append(number)
        read = _last(found, reads.get(thread, ()), access) if access.writes else None
        if read is None:
            continue
        for their_read, their_write in updates:
            theirs = found[their_write]
            if theirs.thread != thread and their_write > read and overlap(theirs.event, access.event):
                return [found[n] for n in sorted({their_read, read, their_write, number})]
        updates.append((read, number))
    return []


def overwritten_in_turns(ranks: Sequence[RankHistory]) -> list[Access]:
    """Return the accesses that show the first lost update of anything that ranks share, in the order of their turns."""
    found = [access for access in accesses(ranks) if isinstance(access.event.get("turn"), int)]
    found.sort(key=lambda access: int(access.event["turn"]))
    shown = filter(None, map(overwritten, by_storage(found).values()))
    return min(shown, key=lambda accesses: int(accesses[-1].event["turn"]), default=[])


def _last(found: Sequence[Access], numbers: Sequence[int], access: Access) -> int | None:
    """Return which of these reads was the last of the bytes that an access writes."""
    return next((n for n in reversed(numbers) if overlap(found[n].event, access.event)), None)
