"""Faults of a process: it dies, stands still, spins, is late, or leaves early."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass

from breakrank_agent.protocol.fault import Fault
from breakrank_agent.protocol.payload import Payload
from breakrank_agent.protocol.target import Target

#: More than a sem_t takes on any architecture.
_SEMAPHORE_BYTES = 64


@dataclass(frozen=True)
class Kill(
    Fault,
    side="outside",
    witness="ended",
    delivers=-signal.SIGKILL,
    certifies="sudden death of one process; says nothing about a lost host or link",
):
    """The rank is killed, as by the kernel's OOM killer or an operator."""

    def strike(self, target: Target) -> None:
        """Send SIGKILL."""
        target.signal(signal.SIGKILL)


@dataclass(frozen=True)
class Rejoin(
    Kill,
    regrows=True,
    certifies="a rank that its launcher ends, and a world as large as at first; says nothing about handlers of SIGTERM",
):
    """A lost host is back: the launcher ends the rank at once, and starts all ranks of the job, as a larger world."""


@dataclass(frozen=True)
class Stop(
    Fault,
    side="outside",
    witness="stopped",
    certifies="a process that no longer runs; its host and kernel still answer",
):
    """The rank stands still for good: alive, its connections open, silent."""

    def strike(self, target: Target) -> None:
        """Send SIGSTOP."""
        target.signal(signal.SIGSTOP)


@dataclass(frozen=True)
class Freeze(
    Fault,
    side="outside",
    needs=("freezer cgroup",),
    witness="frozen",
    certifies="processes that no longer run and were not told; their kernel still answers for them",
):
    """The rank and all that it has started stand still for good, as a container that is paused: no signal shows it."""

    def strike(self, target: Target) -> None:
        """Freeze the rank's control group."""
        target.group.freeze()

    def heal(self, target: Target) -> None:
        """Let what is left of it go on."""
        target.group.thaw()


@dataclass(frozen=True)
class Throttle(
    Fault,
    side="outside",
    needs=("cpu cgroup",),
    witness="cpu",
    certifies="a quota of the scheduler on one rank; says nothing about a slow memory, disk or link",
):
    """The rank and all that it starts get only `percent` of one core, as a container with a quota that is too small."""

    percent: float = 50.0

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
class CrowdCores(
    Fault,
    side="outside",
    witness="crowded",
    certifies="a rank that shares its cores; says nothing about neighbours that use up caches or links",
):
    """Other processes, `count` for each of them, compute on the cores that the rank may use."""

    count: int = 1

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
class LimitProcesses(
    Fault,
    side="outside",
    needs=("pids cgroup",),
    witness="pids",
    certifies="forks and threads that the kernel refuses to one rank (EAGAIN); its others live on",
):
    """The rank can have `headroom` more processes and threads, and no more, as in a container with a small pids.max.

    With a `headroom` below 0 even those that end make no room, so many of them.
    """

    headroom: int = 0

    def strike(self, target: Target) -> None:
        """Limit the rank's control group; it is removed with its limits."""
        target.group.limit_processes(self.headroom)


@dataclass(frozen=True)
class Preempt(
    Fault,
    side="outside",
    witness="sigterm_pending",
    delivers=-signal.SIGTERM,
    certifies="a SIGTERM to one rank; the SIGKILL that follows a grace is another strike's",
):
    """The rank is told to go, as a scheduler does when somebody else gets the machine; it has all the grace it needs.

    SIGTERM is sent while the rank stands still, so that it can be seen to wait for the rank before it is taken.
    """

    def strike(self, target: Target) -> None:
        """Send SIGSTOP, then SIGTERM."""
        target.signal(signal.SIGSTOP)
        target.signal(signal.SIGTERM)

    def release(self, target: Target) -> None:
        """Send SIGCONT: the rank takes the SIGTERM now."""
        target.signal(signal.SIGCONT)


@dataclass(frozen=True)
class WarnOfTimeLimit(
    Fault,
    side="outside",
    witness="sigusr_pending",
    delivers=-signal.SIGUSR1,
    certifies="a SIGUSR1 to a rank; the SIGTERM and SIGKILL at the limit are other strikes'",
):
    """The rank is warned that its time is nearly up, as by Slurm for a job with `--signal=USR1@60`.

    A process that does not expect SIGUSR1 ends by it.
    """

    def strike(self, target: Target) -> None:
        """Send SIGSTOP, then SIGUSR1."""
        target.signal(signal.SIGSTOP)
        target.signal(signal.SIGUSR1)

    def release(self, target: Target) -> None:
        """Send SIGCONT: the rank takes the SIGUSR1 now."""
        target.signal(signal.SIGCONT)


@dataclass(frozen=True)
class Placebo(Fault, side="outside", witness="continued", certifies="that parking a rank at a point changes nothing"):
    """Nothing goes wrong: the rank is stopped and continued where it is parked anyway."""

    def strike(self, target: Target) -> None:
        """Send SIGSTOP, then SIGCONT."""
        target.signal(signal.SIGSTOP)
        target.signal(signal.SIGCONT)


@dataclass(frozen=True)
class Exit(
    Fault,
    side="inside",
    witness="ended",
    certifies="a process that ends before its work is done; handlers and atexit do not run",
):
    """The rank leaves early, with an exit code of its own and no word to its peers."""

    code: int = 0

    def strike_inside(self, payload: Payload) -> None:
        """Leave at once."""
        os._exit(self.code)

    def own_act(self) -> int:
        """Return the exit code."""
        return self.code


@dataclass(frozen=True)
class Spin(Fault, witness="spins", certifies="a loop that never ends, which no look from outside can tell from work"):
    """The rank computes for ever, in a loop of Python that nothing ends."""

    def strike_inside(self, payload: Payload) -> None:
        """Never come back."""
        while True:
            pass


@dataclass(frozen=True)
class HoldGil(
    Fault,
    witness="stuck",
    certifies="a native call that blocks with the GIL held: no other thread of Python runs any more",
):
    """The rank waits for ever in a call into C that keeps the GIL, for a lock that nobody gives back."""

    def strike_inside(self, payload: Payload) -> None:
        """Take a semaphore that has nothing to give. `PyDLL` keeps the GIL where `CDLL` would give it up."""
        library = ctypes.PyDLL(None)
        semaphore = ctypes.create_string_buffer(_SEMAPHORE_BYTES)
        library.sem_init(semaphore, 0, 0)
        while True:
            # A signal that is handled ends the wait, and the lock is still not there.
            library.sem_wait(semaphore)


@dataclass(frozen=True)
class Straggle(
    Fault,
    witness="delay_taken",
    certifies="a rank that is late, and comes; says nothing about a host that is slow at everything",
):
    """The rank comes late: by `seconds` of computing, or `asleep`. It always comes."""

    seconds: float = 1.0
    asleep: bool = False

    def strike_inside(self, payload: Payload) -> None:
        """Take the time. Computing counts by the thread's own CPU clock, so that a loaded machine does not matter."""
        if self.asleep:
            time.sleep(self.seconds)
            return
        until = time.thread_time() + self.seconds
        while time.thread_time() < until:
            pass
