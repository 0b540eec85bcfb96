"""Evidence of progress: whether a rank provably waits, seen from /proc, by nothing of ours.

A rank stands still if, over several looks, each of its threads waits in the kernel for what only a thread of the job
can bring, and was not scheduled in between. What a backend's own threads look like when they have nothing to do is
said by one module per backend. A thread that sleeps, computes, reads a file or waits for another program is never
still. What a process outside of the job could still wake is therefore never called a proof.
"""

from __future__ import annotations

import enum
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from breakrank.evidence import gloo, grpc, interpreter, store
from breakrank.evidence.threads import State, Thread, fields, read_threads, stands, waits_for_a_thread
from breakrank.hierarchy import frozen

#: One function per backend: what one of its threads does, or None if it is no thread of the backend's. It is told what
#: the rank is in, as its log says: nothing special, a `message` (send or recv), the `setup` of a group, or a collective
#: that is issued `eager`ly, by threads of Python. The interpreter comes first: a backend's thread may want its lock,
#: too, as one of gloo's does that gives back the tensors of a collective that is over.
BACKENDS: tuple[Callable[[Thread, str], State | None], ...] = (interpreter.state, gloo.state, store.state, grpc.state)
#: A process that catches one of these can be woken by a timer that nobody sees.
_ALARMS = sum(1 << (number - 1) for number in (signal.SIGALRM, signal.SIGVTALRM, signal.SIGPROF))


class Condition(enum.Enum):
    """What one look says of a process."""

    MOVES = "moves"
    WAITS = "waits"
    STOPPED = "stopped"


@dataclass(frozen=True)
class Look:
    """One look at a rank: how often each waiting thread was scheduled, and each one that polls."""

    condition: Condition
    waits: tuple[tuple[int, int], ...] = ()
    polls: tuple[tuple[int, int], ...] = ()


def is_stopped(pid: int) -> bool:
    """Whether a process was told to stand still; its main thread says so, and the others need not be read."""
    return frozen(pid) or stands(pid)


def look(pid: int, call: str = "") -> Look:
    """Look at every thread of a process, which is in `call` as its log says; one that is gone is not still."""
    waits: list[tuple[int, int]] = []
    polls: list[tuple[int, int]] = []
    if frozen(pid):
        return Look(Condition.STOPPED)
    try:
        caught = int(fields(f"/proc/{pid}/status")["SigCgt"], 16)
        for thread in read_threads(pid):
            # One that stands in a tracer's stop ("t") goes on when the tracer, ours or anybody's, lets it.
            if thread.state == "T":
                return Look(Condition.STOPPED)
            state = _state(thread, call)
            if state is State.MOVES or caught & _ALARMS:
                return Look(Condition.MOVES)
            if state is State.IDLE:
                continue
            (polls if state is State.POLLS else waits).append((thread.tid, thread.switches))
    except (OSError, KeyError, ValueError):
        return Look(Condition.MOVES)
    return Look(Condition.WAITS if waits else Condition.MOVES, tuple(waits), tuple(polls))


def _state(thread: Thread, call: str) -> State:
    """Return what a thread does, as its backend says, or else the kernel."""
    state = next((s for s in (judge(thread, call) for judge in BACKENDS) if s is not None), None)
    return state or (State.WAITS if waits_for_a_thread(thread) else State.MOVES)


def _main_moves(pid: int, call: str) -> bool:
    """Whether the main thread of a process gets on with something, or the process is gone."""
    try:
        return _state(next(read_threads(pid)), call) is State.MOVES
    except (OSError, ValueError, StopIteration):
        return True


class Stillness:
    """Several looks at the ranks of a job, one after the other."""

    #: How many equal looks make a proof, where the log says that somebody is missing somewhere.
    LOOKS = 4
    #: How many, where it does not.
    LOOKS_ALONE = 12
    #: How often each thread that polls must have come round without waking anyone.
    ROUNDS = 3

    def __init__(self) -> None:
        self._first: dict[int, Look] = {}
        self._equal = 0

    def forget(self) -> None:
        """Something has moved."""
        self._first.clear()
        self._equal = 0

    def look(self, pids: Mapping[int, int], calls: Mapping[int, str]) -> None:
        """Look once more at the ranks (rank to pid, and to what its log says that it is in)."""
        # While one computes, nothing is to be learned from the hundred threads of another that waits for it.
        if any(_main_moves(pid, calls.get(rank, "")) for rank, pid in pids.items()):
            self.forget()
            return
        now = {rank: look(pid, calls.get(rank, "")) for rank, pid in pids.items()}
        if any(seen.condition is not Condition.WAITS for seen in now.values()):
            self.forget()
            return
        if {rank: seen.waits for rank, seen in now.items()} != {rank: seen.waits for rank, seen in self._first.items()}:
            self._first, self._equal = now, 0
            return
        rounds = [
            count - dict(self._first[rank].polls).get(tid, count)
            for rank, seen in now.items()
            for tid, count in seen.polls
        ]
        if all(count >= self.ROUNDS for count in rounds):
            self._equal += 1

    def proven(self, looks: int) -> bool:
        """Whether all have stood still for this many looks."""
        return bool(self._first) and self._equal >= looks
