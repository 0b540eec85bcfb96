"""Faults of a process: it dies, stands still, spins, is late, or leaves early."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import ClassVar

from breakrank_agent.protocol.fault import Fault, Payload, Target

#: More than a sem_t takes on any architecture.
_SEMAPHORE_BYTES = 64


@dataclass(frozen=True)
class Kill(Fault):
    """The rank is killed, as by the kernel's OOM killer or an operator."""

    side: ClassVar[str] = "outside"
    certifies: ClassVar[str] = "sudden death of one process; says nothing about a lost host or link"
    witness: ClassVar[str] = "ended"
    delivers: ClassVar[int] = -signal.SIGKILL

    def strike(self, target: Target) -> None:
        """Send SIGKILL."""
        target.signal(signal.SIGKILL)


@dataclass(frozen=True)
class Stop(Fault):
    """The rank stands still for good: alive, its connections open, silent."""

    side: ClassVar[str] = "outside"
    certifies: ClassVar[str] = "a process that no longer runs; its host and kernel still answer"
    witness: ClassVar[str] = "stopped"

    def strike(self, target: Target) -> None:
        """Send SIGSTOP."""
        target.signal(signal.SIGSTOP)


@dataclass(frozen=True)
class Freeze(Fault):
    """The rank and all that it has started stand still for good, as a container that is paused: no signal shows it."""

    side: ClassVar[str] = "outside"
    needs: ClassVar[tuple[str, ...]] = ("freezer cgroup",)
    certifies: ClassVar[str] = "processes that no longer run and were not told; their kernel still answers for them"
    witness: ClassVar[str] = "frozen"

    def strike(self, target: Target) -> None:
        """Freeze the rank's control group."""
        target.group.freeze()

    def heal(self, target: Target) -> None:
        """Let what is left of it go on."""
        target.group.thaw()


@dataclass(frozen=True)
class Throttle(Fault):
    """The rank and all that it starts get only `percent` of one core, as a container with a quota that is too small."""

    percent: float = 50.0

    side: ClassVar[str] = "outside"
    needs: ClassVar[tuple[str, ...]] = ("cpu cgroup",)
    certifies: ClassVar[str] = "a quota of the scheduler on one rank; says nothing about a slow memory, disk or link"
    witness: ClassVar[str] = "cpu"

    def strike(self, target: Target) -> None:
        """Limit the rank's control group."""
        target.group.limit_cpu(self.percent)

    def heal(self, target: Target) -> None:
        """Lift the limit."""
        target.group.free_cpu()


#: Computes for ever on the cores that it is given, and ends with the thread that has started it (prctl(2)).
_NEIGHBOUR = """
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)
os.sched_setaffinity(0, map(int, sys.argv[2].split(",")))
while os.getppid() == int(sys.argv[1]):
    for _ in range(1_000_000):
        pass
"""


@dataclass(frozen=True)
class CrowdCores(Fault):
    """Other processes, `count` for each of them, compute on the cores that the rank may use."""

    count: int = 1

    side: ClassVar[str] = "outside"
    certifies: ClassVar[str] = "a rank that shares its cores; says nothing about neighbours that use up caches or links"
    witness: ClassVar[str] = "neighbours"

    def strike(self, target: Target) -> None:
        """Start them."""
        cores = sorted(os.sched_getaffinity(target.pid))
        told = [str(os.getpid()), ",".join(map(str, cores))]
        target.kept["neighbours"] = [
            subprocess.Popen([sys.executable, "-I", "-S", "-c", _NEIGHBOUR, *told], stdin=subprocess.DEVNULL)
            for _ in range(self.count * len(cores))
        ]

    def heal(self, target: Target) -> None:
        """End them."""
        for neighbour in target.kept["neighbours"]:
            neighbour.kill()
            neighbour.wait()


@dataclass(frozen=True)
class LimitProcesses(Fault):
    """The rank can have `headroom` more processes and threads, and no more, as in a container with a small pids.max.

    With a `headroom` below 0 even those that end make no room, so many of them.
    """

    headroom: int = 0

    side: ClassVar[str] = "outside"
    needs: ClassVar[tuple[str, ...]] = ("pids cgroup",)
    certifies: ClassVar[str] = "forks and threads that the kernel refuses to one rank (EAGAIN); its others live on"
    witness: ClassVar[str] = "pids"

    def strike(self, target: Target) -> None:
        """Limit the rank's control group; it is removed with its limits."""
        target.group.limit_processes(self.headroom)


@dataclass(frozen=True)
class Preempt(Fault):
    """The rank is told to go, as a scheduler does when somebody else gets the machine; it has all the grace it needs.

    SIGTERM is sent while the rank stands still, so that it can be seen to wait for the rank before it is taken.
    """

    side: ClassVar[str] = "outside"
    certifies: ClassVar[str] = "a SIGTERM to one rank; the SIGKILL that follows a grace is another strike's"
    witness: ClassVar[str] = "told to go"
    delivers: ClassVar[int] = -signal.SIGTERM

    def strike(self, target: Target) -> None:
        """Send SIGSTOP, then SIGTERM."""
        target.signal(signal.SIGSTOP)
        target.signal(signal.SIGTERM)

    def release(self, target: Target) -> None:
        """Send SIGCONT: whatever the rank does with a SIGTERM, it does now."""
        target.signal(signal.SIGCONT)


@dataclass(frozen=True)
class Placebo(Fault):
    """Nothing goes wrong: the rank is stopped and continued where it is parked anyway."""

    side: ClassVar[str] = "outside"
    certifies: ClassVar[str] = "that parking a rank at a point changes nothing"
    witness: ClassVar[str] = "continued"

    def strike(self, target: Target) -> None:
        """Send SIGSTOP, then SIGCONT."""
        target.signal(signal.SIGSTOP)
        target.signal(signal.SIGCONT)


@dataclass(frozen=True)
class Exit(Fault):
    """The rank leaves early, with an exit code of its own and no word to its peers."""

    code: int = 0

    side: ClassVar[str] = "inside"
    certifies: ClassVar[str] = "a process that ends before its work is done; handlers and atexit do not run"
    witness: ClassVar[str] = "ended"

    def strike_inside(self, payload: Payload) -> None:
        """Leave at once."""
        os._exit(self.code)

    def own_act(self) -> int:
        """Return the exit code."""
        return self.code


@dataclass(frozen=True)
class Spin(Fault):
    """The rank computes for ever, in a loop of Python that nothing ends."""

    certifies: ClassVar[str] = "a loop that never ends, which no look from outside can tell from work"
    witness: ClassVar[str] = "spins"

    def strike_inside(self, payload: Payload) -> None:
        """Never come back."""
        while True:
            pass


@dataclass(frozen=True)
class HoldGil(Fault):
    """The rank waits for ever in a call into C that keeps the GIL, for a lock that nobody gives back."""

    certifies: ClassVar[str] = "a native call that blocks with the GIL held: no other thread of Python runs any more"
    witness: ClassVar[str] = "stuck"

    def strike_inside(self, payload: Payload) -> None:
        """Take a semaphore that has nothing to give. `PyDLL` keeps the GIL where `CDLL` would give it up."""
        library = ctypes.PyDLL(None)
        semaphore = ctypes.create_string_buffer(_SEMAPHORE_BYTES)
        library.sem_init(semaphore, 0, 0)
        while True:
            # A signal that is handled ends the wait, and the lock is still not there.
            library.sem_wait(semaphore)


@dataclass(frozen=True)
class Straggle(Fault):
    """The rank comes late: by `seconds` of computing, or `asleep`. It always comes."""

    seconds: float = 1.0
    asleep: bool = False

    certifies: ClassVar[str] = "a rank that is late, and comes; says nothing about a host that is slow at everything"
    witness: ClassVar[str] = "took"

    def strike_inside(self, payload: Payload) -> None:
        """Take the time. What is computed counts by the thread's own CPU clock, however loaded the machine is."""
        if self.asleep:
            time.sleep(self.seconds)
            return
        until = time.thread_time() + self.seconds
        while time.thread_time() < until:
            pass
