"""The happens-before order of an attempt: its accesses with vector clocks, and those that nothing orders.

Happens-before as Lamport has it ("Time, Clocks, and the Ordering of Events in a Distributed System", 1978), by clocks
with one number for each thread (Mattern 1988; Fidge 1988). A thread's own number grows when it releases something;
a thread that acquires it takes the releaser's clock in. Turns of a schedule order nothing: they belong to our way of
running the program, and not to the program.

A release is written before it happens, an acquire after it. By one machine's clock the events of all ranks, in the
order of their times, are therefore in an order in which they could have happened; by the clocks of several nodes, that
order is found by `breakrank.analysis.node_order`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from breakrank.analysis.byte_ranges import overlap
from breakrank.analysis.moments import NodeClock
from breakrank.analysis.node_order import possible_order
from breakrank.history.reader import RankHistory
from breakrank_agent.protocol.events import AccessEvent, DoneEvent, PointEvent, RankLine, RankName

#: Collectives after which nobody has more than their root's word, and those after which only the root has the others'.
_FROM_ROOT = ("broadcast_", "scatter_")
_TO_ROOT = ("reduce_", "gather_")
_SENDS, _RECEIVES = ("send",), ("recv_", "recv_any_source_")
#: Keys that mean the same in every rank begin so.
_EVERYWHERE = "shared:"
#: The fields that say which bytes an access touches.
_WHERE: tuple[Literal["lo", "hi", "shape", "strides", "pieces"], ...] = ("lo", "hi", "shape", "strides", "pieces")


class Thread(NamedTuple):
    """A thread of a rank, or of a child that it has started, or an operation that goes on beside it."""

    rank: int
    name: str

    @property
    def process(self) -> str:
        """The process that it belongs to: the rank's number, or with the name of its child."""
        return f"{self.rank}/{self.name.partition('/')[0]}" if self.name.startswith("child-") else str(self.rank)


#: The last number of each thread that a thread has in its past.
Clock = Mapping[Thread, int]


@dataclass(frozen=True)
class Access:
    """A read, write or update of some bytes by a thread, with its past.

    `waits`: it goes on beside its thread, which has not waited for it.
    """

    thread: Thread
    event: AccessEvent
    clock: Clock
    waits: bool = False

    @property
    def rank(self) -> int:
        """The rank of the thread."""
        return self.thread.rank

    @property
    def writes(self) -> bool:
        """True if the access changes the bytes."""
        return "w" in self.event["mode"]

    @property
    def whole(self) -> bool:
        """True if the access is an atomic read-modify-write: two of them lose no update."""
        return bool(self.event.get("whole"))

    def precedes(self, other: Access) -> bool:
        """Return whether this access happened before the other, by the program's own synchronisation."""
        return self.clock.get(self.thread, 0) <= other.clock.get(self.thread, -1)


class Pair(NamedTuple):
    """Two accesses to the same bytes, one of them a write, that nothing orders."""

    one: Access
    other: Access


@dataclass
class _Collective:
    """The collective that a thread is in: its group, its number there, and its root."""

    op: str
    group: str
    number: str
    root: RankName | None
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
    #: By collective, the pasts of all that have issued it in one, and how many had then.
    _together: dict[tuple[str, str], tuple[int, dict[Thread, int]]] = field(default_factory=dict)
    _times_issued: Counter[tuple[str, str]] = field(default_factory=Counter)
    _inside: dict[Thread, _Collective] = field(default_factory=dict)
    _going_on: dict[tuple[int, str, str], _Collective] = field(default_factory=dict)
    _passed: dict[Thread, list[AccessEvent]] = field(default_factory=dict)
    _counts: dict[tuple[int, str], int] = field(default_factory=dict)

    def read(self, rank: int, event: RankLine) -> None:
        """Take the next event."""
        thread = Thread(rank, event["seq"])
        if event["kind"] == "done":
            self._done(thread, event)
            return
        # A thread that goes on has come out of the collective that it was in.
        inside = self._inside.pop(thread, None)
        if inside is not None:
            self._complete(thread, inside)
        if event["kind"] == "sync":
            self._sync(thread, event["do"], event["key"], event.get("ended"))
            if event["do"] != "yield":
                # One for each sync that the agent counts: what is put on record late names its place among them.
                self._past[thread].append(dict(self._clock(thread)))
        elif event["kind"] == "access":
            self._access(thread, event)
        elif event["kind"] == "point" and event["point"] == "collective":
            self._issue(thread, event)
        elif event["kind"] == "rendezvous" or event["kind"] == "grouping":
            do = "release" if event["phase"] == "enter" else "acquire"
            members = event["ranks"] if event["kind"] == "grouping" else ""
            self._sync(thread, do, f"{_EVERYWHERE}{event['kind']}:{members}")

    def _clock(self, thread: Thread) -> dict[Thread, int]:
        if thread not in self._clocks:
            self._clocks[thread] = {thread: 1}
            self._past[thread] = [dict(self._clocks[thread])]
        return self._clocks[thread]

    # --- synchronisation of threads

    def _sync(self, thread: Thread, do: str, key: str, ended: str | None = None) -> None:
        clock = self._clock(thread)
        name = key if key.startswith(_EVERYWHERE) else f"{thread.process}:{key}"
        if ended is not None:
            self._outlive(thread, f"{thread.rank}/{ended}")
        elif do == "acquire":
            _join(clock, self._released.get(name, {}))
            self._take_over(name, thread)
        elif do == "release":
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

    def _issue(self, thread: Thread, event: PointEvent) -> None:
        issued = self._collective(thread, event)
        past = self._issued.setdefault((issued.group, issued.number), {})
        self._times_issued[issued.group, issued.number] += 1
        self._release(past.setdefault(thread.rank, {}), thread)  # type: ignore[arg-type]
        touched = [_as_it_is(access, event, thread.rank) for access in self._passed.pop(thread, [])]
        if event.get("async"):
            issued.beside = Thread(thread.rank, f"{event['op']} {issued.number}")
            self._clocks[issued.beside] = {**past[thread.rank], issued.beside: 1}
            self._going_on[thread.rank, issued.group, issued.number] = issued
            for access in touched:
                self.found.append(Access(issued.beside, access, dict(self._clocks[issued.beside]), waits=True))
        else:
            self._inside[thread] = issued
            self.found += [Access(thread, access, dict(self._clock(thread))) for access in touched]

    def _collective(self, thread: Thread, event: PointEvent) -> _Collective:
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
        own = self._issued.get((issued.group, issued.number), {}).get(thread.rank, {})
        to_all = issued.root is None and issued.op not in (*_SENDS, *_RECEIVES)
        if to_all and all(clock.get(other, 0) >= at for other, at in own.items()):
            _join(clock, self._of_all(issued.group, issued.number))
        else:
            for rank, past in self._issued.get((issued.group, issued.number), {}).items():
                if _brings(issued, rank, thread.rank):
                    _join(clock, past)
        if issued.beside is not None:
            _join(clock, self._clocks[issued.beside])

    def _of_all(self, group: str, number: str) -> Clock:
        """Return the pasts of all ranks that have issued a collective, in one: there may be a thousand."""
        times, together = self._together.get((group, number), (0, {}))
        if times != self._times_issued[group, number]:
            together = {}
            for past in self._issued[group, number].values():
                _join(together, past)
            self._together[group, number] = self._times_issued[group, number], together
        return together

    def _done(self, thread: Thread, event: DoneEvent) -> None:
        numbers = [str(event["c"])] if "c" in event else self._with_peer(thread.rank, event)
        for number in numbers:
            key = (thread.rank, event["group"], number)
            issued = self._going_on.pop(key, None) or self._inside.pop(thread, None)
            self._complete(thread, issued or _Collective(event["op"], event["group"], number, None))

    def _with_peer(self, rank: int, event: DoneEvent) -> list[str]:
        peer, number = event.get("peer"), event.get("p")
        return [f"p2p {rank} to {peer}, {number}", f"p2p {peer} to {rank}, {number}"]

    # --- accesses

    def _access(self, thread: Thread, event: AccessEvent) -> None:
        if event["op"].startswith("c10d::"):
            # The collective that follows says whether it goes on beside the thread.
            self._passed.setdefault(thread, []).append(event)
            return
        clock = dict(self._clock(thread))
        if "at" in event:
            past = self._past[thread]
            clock = dict(past[min(event["at"], len(past) - 1)])
        self.found.append(Access(thread, event, clock))


def _as_it_is(access: AccessEvent, collective: PointEvent, rank: int) -> AccessEvent:
    """Return the access of a collective: what a root only gives, and others only give their root, is only read."""
    root = collective.get("root")
    gives = (collective["op"] == "broadcast_") == (rank == root)
    if root is not None and collective["op"] in ("broadcast_", "reduce_") and gives:
        return {**access, "mode": "r"}
    return access


def _brings(issued: _Collective, rank: int, to: int) -> bool:
    """Return whether a collective brings one rank's part to another."""
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


def accesses(ranks: Sequence[RankHistory], clocks: Mapping[int, NodeClock] | None = None) -> list[Access]:
    """Return the accesses of all ranks of one attempt, with their pasts, in an order in which they could have happened.

    `clocks` are those of the ranks, if they are on several nodes.
    """
    if not any(event["kind"] == "access" for lived in ranks for event in lived.events):
        return []
    orderer = _Orderer()
    for rank, event in possible_order(ranks, clocks or {}):
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
        which = str([event.get(name) for name in _WHERE])
        last[access.thread, access.writes, which, event.get("site", "")] = access


def _apart(one: Access, other: Access) -> bool:
    return not one.precedes(other) and not other.precedes(one)


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
    found = [access for access in accesses(ranks) if access.event.get("turn") is not None]
    found.sort(key=_turn)
    shown = filter(None, map(overwritten, by_storage(found).values()))
    return min(shown, key=lambda accesses: _turn(accesses[-1]), default=[])


def _turn(access: Access) -> int:
    return access.event.get("turn") or 0


def _last(found: Sequence[Access], numbers: Sequence[int], access: Access) -> int | None:
    """Return which of these reads was the last of the bytes that an access writes."""
    return next((n for n in reversed(numbers) if overlap(found[n].event, access.event)), None)
