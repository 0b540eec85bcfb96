"""Whether a rank provably waits: seen from /proc, by nothing of ours.

A rank stands still if, over several looks, each of its threads is in an untimed wait in the kernel and was not
scheduled in between. Threads of the backend that poll with a time-out of their own are known by name and are left out:
they only pass on what a peer sends. A thread that sleeps, computes, reads a file or waits for another program is never
still. What a process outside of the job could still wake is therefore never called a proof.
"""

from __future__ import annotations

import platform
from dataclasses import dataclass
from pathlib import Path

#: futex(2): arguments uaddr, op, val, timeout.
_FUTEX = {"x86_64": 202, "aarch64": 98}.get(platform.machine(), -1)

#: Threads that poll on behalf of the process group or its store, by the first letters of their names.
BACKEND_THREADS = ("pt_gloo_runloop", "gloo_", "pt_tcpstore", "pt_autograd")


@dataclass(frozen=True)
class Look:
    """One look at a rank: how often each of its threads was scheduled, or None if one of them is not waiting."""

    switches: tuple[tuple[int, int], ...] | None
    stopped: bool = False


def look(pid: int) -> Look:
    """Look at every thread of a process; a process that is gone is not still."""
    switches: list[tuple[int, int]] = []
    try:
        threads = sorted(Path(f"/proc/{pid}/task").iterdir(), key=lambda p: int(p.name))
        for thread in threads:
            status = _fields(thread / "status")
            if status["State"].startswith(("T", "t")):
                return Look(None, stopped=True)
            if status["Name"].startswith(BACKEND_THREADS):
                continue
            if not status["State"].startswith("S") or not _waits_untimed(thread):
                return Look(None)
            count = int(status["voluntary_ctxt_switches"]) + int(status["nonvoluntary_ctxt_switches"])
            switches.append((int(thread.name), count))
    except (OSError, KeyError, ValueError):
        return Look(None)
    return Look(tuple(switches) or None)


def _fields(path: Path) -> dict[str, str]:
    pairs = (line.partition(":") for line in path.read_text().splitlines())
    return {name: value.strip() for name, _, value in pairs}


def _waits_untimed(thread: Path) -> bool:
    # Readable for our own descendants, as tracing them would be; a kernel that refuses gives no proof.
    words = (thread / "syscall").read_text().split()
    return len(words) > 4 and words[0] == str(_FUTEX) and int(words[4], 16) == 0


class Stillness:
    """Several looks at the ranks of a job, one after the other."""

    #: How many equal looks make a proof.
    LOOKS = 4

    def __init__(self) -> None:
        self._last: dict[int, Look] = {}
        self._equal = 0

    def forget(self) -> None:
        """Something has moved."""
        self._last.clear()
        self._equal = 0

    def proven(self, pids: dict[int, int]) -> bool:
        """Look once more at the ranks (rank to pid); return whether all have stood still long enough."""
        now = {rank: look(pid) for rank, pid in pids.items()}
        still = all(seen.switches is not None for seen in now.values())
        self._equal = self._equal + 1 if still and now == self._last else 0
        self._last = now
        return bool(now) and self._equal >= self.LOOKS
