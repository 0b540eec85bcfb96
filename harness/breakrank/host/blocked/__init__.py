"""Evidence of progress: whether a rank provably waits, seen from /proc, by nothing of ours.

A rank stands still if, over several looks, each of its threads waits in the kernel for what only a thread of the job
can bring, and was not scheduled in between. One module per backend says how its own threads look when they have nothing
to do. A thread that sleeps, computes, reads a file or waits for another program is never still. A wait that a process
outside of the job could still end is therefore never called a proof.

A thread that polls is now and then met between two polls. Such a look neither counts nor undoes those before: whether
the thread has found something is told by what it has computed, read and written when it is seen to poll again.
"""

from __future__ import annotations

import contextlib
import enum
import importlib
import signal
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from breakrank.host.blocked import interpreter
from breakrank.host.blocked.threads import (
    State,
    Thread,
    Work,
    call_name,
    fields,
    has_limit,
    read_computed,
    read_threads,
    read_work,
    stands,
    waits_for_a_thread,
)
from breakrank.host.cgroup_files import frozen
from breakrank.host.node_pid import Node, Pid
from breakrank_agent.protocol.frameworks import all_frameworks

#: One function per backend: what one of its threads does, or None if it is no thread of the backend's. It is told what
#: the rank is in, as its log says: nothing, a `message` (send or recv), the `setup` of a group, a `collective`, or one
#: that is issued `eager`ly, by threads of Python. The interpreter comes first: a backend's thread may want its lock,
#: too, as one of gloo's does that gives back the tensors of a collective that is over.
BACKENDS: tuple[Callable[[Thread, str], State | None], ...] = (
    interpreter.state,
    *(importlib.import_module(f"{__name__}.{b}").state for f in all_frameworks().values() for b in f.backends),
)
#: A process that catches one of these can be woken by a timer that nobody sees.
_ALARMS = sum(1 << (number - 1) for number in (signal.SIGALRM, signal.SIGVTALRM, signal.SIGPROF))


class Condition(enum.Enum):
    """The result of one look at a process."""

    MOVES = "moves"
    WAITS = "waits"
    STOPPED = "stopped"


@dataclass(frozen=True)
class Round:
    """One round of a thread that polls: how often it was scheduled, and its work by then (None: not known)."""

    count: int
    work: Work | None


@dataclass(frozen=True)
class Look:
    """One look at a rank: how often each waiting thread was scheduled, and each one that polls, by number.

    `open`: one that polls was met between two polls. `limited`: a thread waits with a time-out, or has timers.
    """

    condition: Condition
    waits: Mapping[int, int] = field(default_factory=dict)
    polls: Mapping[int, Round] = field(default_factory=dict)
    open: bool = False
    limited: bool = False

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        work = {tid: one.work and [one.work.computed_ns, one.work.moved] for tid, one in self.polls.items()}
        polls = [[tid, one.count, work[tid]] for tid, one in self.polls.items()]
        waits = [list(pair) for pair in self.waits.items()]
        more = {"polls": polls, "open": self.open, "limited": self.limited}
        return {"condition": self.condition.value, "waits": waits, **more}

    @classmethod
    def from_json(cls, said: Mapping[str, Any]) -> Look:
        """Return the look that plain values stand for. Raises `ValueError`, `KeyError` or `TypeError` for none."""
        polls = {tid: Round(count, work and Work(*work)) for tid, count, work in said["polls"]}
        return cls(Condition(said["condition"]), dict(said["waits"]), polls, bool(said["open"]), bool(said["limited"]))


def is_stopped(pid: int) -> bool:
    """Return whether a process was told to stand still; its main thread says so, and the others need not be read."""
    return frozen(pid) or stands(pid)


def look(pid: int, call: str = "", polled: Collection[int] = ()) -> Look:
    """Look at every thread of a process, which is in `call` as its log says; one that is gone is not still.

    `polled` are the threads that were seen to poll by the look before, with which this one is compared.
    """
    if frozen(pid):
        return Look(Condition.STOPPED)
    waits: dict[int, int] = {}
    polls: dict[int, Round] = {}
    between = limited = False
    try:
        caught = int(fields(f"/proc/{pid}/status")["SigCgt"], 16)
        for thread in read_threads(pid):
            if thread.state == "T":
                return Look(Condition.STOPPED)
            state = _state(thread, call)
            work = read_work(thread.tid) if state is State.POLLS or thread.tid in polled else None
            passes = thread.state == "R" and thread.tid in polled and work is not None
            if (state is State.MOVES and not passes) or caught & _ALARMS:
                return Look(Condition.MOVES)
            if state is State.WAITS:
                waits[thread.tid] = thread.switches
            elif state is not State.IDLE:
                polls[thread.tid] = Round(thread.switches, work)
            between = between or passes
            limited = limited or state is State.IDLE or (state is State.WAITS and has_limit(thread))
    except (OSError, KeyError, ValueError):
        return Look(Condition.MOVES)
    return Look(Condition.WAITS if waits else Condition.MOVES, waits, polls, between, limited)


def _state(thread: Thread, call: str) -> State:
    """Return what a thread does, as its backend says, or else the kernel."""
    state = next((s for s in (judge(thread, call) for judge in BACKENDS) if s is not None), None)
    return state or (State.WAITS if waits_for_a_thread(thread) else State.MOVES)


def describe(pid: int, call: str = "") -> list[dict[str, Any]]:
    """Return the threads of a process, those alike as one: name, count, what they do, and their system call.

    A process that is gone, or that the kernel does not show, has none.
    """
    seen: Counter[tuple[str, str, str]] = Counter()
    with contextlib.suppress(OSError, ValueError):
        for thread in read_threads(pid):
            does = "stopped" if thread.state in "Tt" else _state(thread, call).value
            seen[thread.name, does, call_name(thread)] += 1
    return [
        {"thread": name, "count": count, "does": does, "call": called} for (name, does, called), count in seen.items()
    ]


def main_moves(pid: int, call: str) -> bool:
    """Return whether the main thread of a process gets on with something, or the process is gone."""
    try:
        return _state(next(read_threads(pid)), call) is State.MOVES
    except (OSError, ValueError, StopIteration):
        return True


class Stillness:
    """Several looks at the ranks of a job, one after the other."""

    #: The number of equal looks that make a proof, if the log says that somebody is missing somewhere.
    LOOKS = 4
    #: The same, if it does not.
    LOOKS_ALONE = 12
    #: The rounds that each thread that polls must have made without waking anyone.
    ROUNDS = 3
    #: The time that a thread may compute in each round, and have found nothing: ten times what an empty one takes.
    ROUND_NS = 200_000
    #: Seconds that a process has computed since the last look, and the part of the time, from which on it is at work:
    #: one whose threads poll in vain takes a tenth of that. A last look longer ago tells nothing of now.
    AT_WORK_S, AT_WORK, RECENT_S = 0.005, 0.1, 0.5

    def __init__(self) -> None:
        #: The moment of the last look, and how long each process had computed by then.
        self._seen_at, self._computed = 0.0, dict[int, float | None]()
        self._first: dict[int, Look] = {}
        self._last: dict[int, Look] = {}
        #: The number of equal looks, up to the last that met no thread between two polls; of how many of those
        #: that is true; and how many have come since.
        self._equal = self._closed = self._open = 0
        #: The ranks of other nodes that are watched there.
        self._watched: set[tuple[Node, int]] = set()

    def forget(self) -> None:
        """Forget all looks: something has moved. Nodes need send no more of them."""
        self._reset()
        for node, pid in self._watched:
            node.unwatch(pid)
        self._watched.clear()

    def _reset(self) -> None:
        self._first, self._last = {}, {}
        self._equal = self._closed = self._open = 0

    def look(self, pids: Mapping[int, Pid], calls: Mapping[int, str]) -> None:
        """Look once more at the ranks (rank to pid, and to what its log says that it is in)."""
        polled = {rank: seen.polls.keys() for rank, seen in self._last.items()}
        here = {rank: pid for rank, pid in pids.items() if isinstance(pid, int)}
        sights = self._sights(pids, calls)
        if sights is None:
            # Until each node has sent another look there is nothing to compare.
            return
        # While one computes, nothing is to be learned from the hundred threads of another that waits for it.
        if (
            self._at_work(here.values())
            or any(seen is None for seen in sights.values())
            or any(pid not in polled.get(r, ()) and main_moves(pid, calls.get(r, "")) for r, pid in here.items())
        ):
            self._reset()
            return
        now = {rank: look(pid, calls.get(rank, ""), polled.get(rank, ())) for rank, pid in here.items()}
        now |= {rank: Look.from_json(seen) for rank, seen in sights.items() if seen is not None}
        still = all(seen.condition is Condition.WAITS for seen in now.values())
        is_open = any(seen.open for seen in now.values())
        if not still or not self._is_as_before(now):
            self._reset()
            # A thread between two polls may be about to bring something: no comparison begins with it.
            self._first = self._last = now if still and not is_open else {}
            return
        self._last = now
        if self._rounds(now) < self.ROUNDS:
            return
        if is_open:
            self._open += 1
        else:
            self._equal += 1 + self._open
            self._closed += 1
            self._open = 0

    def _at_work(self, pids: Collection[int]) -> bool:
        """Return whether one of these processes has computed a good part of the time since the last look."""
        before, now = self._computed, time.monotonic()
        passed, self._seen_at = now - self._seen_at, now
        self._computed = {pid: read_computed(pid) for pid in pids}
        least = max(self.AT_WORK_S, self.AT_WORK * passed)
        spent = ((before.get(pid), after) for pid, after in self._computed.items())
        return passed < self.RECENT_S and any(b is not None and a is not None and a - b > least for b, a in spent)

    def _sights(self, pids: Mapping[int, Pid], calls: Mapping[int, str]) -> dict[int, dict[str, Any] | None] | None:
        """Return the looks that other nodes have sent, by rank; None as long as one is missing."""
        away = {rank: pid for rank, pid in pids.items() if not isinstance(pid, int)}
        self._watched |= {(pid.node, pid.number) for pid in away.values()}
        if not all(pid.node.has_sight(pid.number, calls.get(rank, "")) for rank, pid in away.items()):
            return None
        return {rank: pid.node.take_sight(pid.number) for rank, pid in away.items()}

    def _is_as_before(self, now: Mapping[int, Look]) -> bool:
        """Return whether no thread that waits was scheduled since the last look, and none that polls found anything."""
        if not self._last or now.keys() != self._last.keys():
            return False
        return all(
            seen.waits == self._last[rank].waits
            and seen.polls.keys() == self._last[rank].polls.keys()
            and all(self._found_nothing(self._last[rank].polls[tid], then) for tid, then in seen.polls.items())
            for rank, seen in now.items()
        )

    def _found_nothing(self, before: Round, now: Round) -> bool:
        """Return whether a thread that polls has not read, written, or computed longer than empty rounds take."""
        if before.work is None or now.work is None:
            return before.work is now.work
        computed = now.work.computed_ns - before.work.computed_ns
        return before.work.moved == now.work.moved and computed <= self.ROUND_NS * (1 + now.count - before.count)

    def _rounds(self, now: Mapping[int, Look]) -> int:
        """Return how often the slowest of the threads that poll has come round since the first look."""
        pairs = ((self._first[rank].polls, seen.polls) for rank, seen in now.items())
        rounds = [then.count - before[tid].count for before, polls in pairs for tid, then in polls.items()]
        return min(rounds, default=self.ROUNDS)

    @property
    def looks(self) -> int:
        """The number of equal looks so far, one after the other."""
        return self._equal

    def proven(self, looks: int) -> bool:
        """Return whether all have stood still for this many looks."""
        return self._equal >= looks and self._closed >= min(looks, self.LOOKS)

    def limited(self, rank: int) -> bool:
        """Return whether a rank may end its wait by a time-out, or has not been seen to wait."""
        return rank not in self._last or self._last[rank].limited
