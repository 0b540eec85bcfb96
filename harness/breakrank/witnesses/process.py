"""Witnesses of a process: waitpid, and the kernel's account of its threads and signals."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple

from breakrank.history.reader import signal_name
from breakrank.host.blocked.threads import pending, read_threads, waits_for_a_thread
from breakrank.host.cgroup_files import frozen
from breakrank.witnesses import Evidence, Witness
from breakrank_agent.protocol.fault import Fault
from breakrank_agent.protocol.target import Target


class Ended(Witness[None]):
    """The kernel reports the exit status that the fault delivers, and the rank recorded nothing after the strike."""

    halts = True

    def judge(self, fault: Fault, evidence: Evidence[None]) -> str | None:
        """Look for that status among the reports."""
        for report in evidence.reports:
            if report["what"] == "ended" and report["status"] == fault.own_act() and evidence.silent:
                status = report["status"]
                return f"{_source(report)}: {signal_name(-status) if status < 0 else f'exit code {status}'}"
        return None


class Stopped(Witness[None]):
    """The kernel reports that the rank was stopped."""

    halts = True

    def judge(self, fault: Fault, evidence: Evidence[None]) -> str | None:
        """Look for a stop among the reports."""
        return next((f"{_source(r)}: stopped" for r in evidence.reports if r["what"] == "stopped"), None)


class Continued(Witness[None]):
    """The kernel reports that the rank was stopped, and then continued."""

    def judge(self, fault: Fault, evidence: Evidence[None]) -> str | None:
        """Look for both among the reports, in this order."""
        order = [r["what"] for r in evidence.reports]
        if "stopped" in order and "continued" in order[order.index("stopped") :]:
            return f"{_source(evidence.reports[0])}: stopped, then continued"
        return None


def _source(report: Mapping[str, Any]) -> str:
    """Return the source of a report: waitpid in the rank's parent, or another one for a rank of a launcher."""
    return str(report.get("by", "waitpid"))


class _Pending(Witness[str], abstract=True):
    """The kernel lists a signal as sent to the rank and not yet taken, which it did not before."""

    signal: ClassVar[signal.Signals]

    def look(self, fault: Fault, target: Target) -> str | None:
        """Return how the rank will treat the signal if it is pending; None if it is not, or the rank is gone."""
        with contextlib.suppress(OSError, KeyError):
            return pending(target.pid, self.signal) or None
        return None

    def judge(self, fault: Fault, evidence: Evidence[str]) -> str | None:
        """Compare the two looks."""
        if evidence.before or not evidence.after:
            return None
        return f"/proc/<pid>/status: {self.signal.name} is pending, and {evidence.after}"


class SigtermPending(_Pending):
    """The kernel lists the SIGTERM as sent to the rank and not yet taken, which it did not before."""

    signal = signal.SIGTERM


class SigusrPending(_Pending):
    """The kernel lists the SIGUSR1 as sent to the rank and not yet taken, which it did not before."""

    signal = signal.SIGUSR1


class Frozen(Witness[bool]):
    """The kernel says that the control group that the rank is in is frozen, and that it was not."""

    halts = True

    def look(self, fault: Fault, target: Target) -> bool:
        """Return whether the rank's group is frozen."""
        return frozen(target.pid)

    def judge(self, fault: Fault, evidence: Evidence[bool]) -> str | None:
        """Compare the two looks."""
        if not evidence.after or evidence.before:
            return None
        return "the control group's freezer: all of it stands still"


class Neighbours(NamedTuple):
    """The cores that the rank may use, and the processes of ours that compute on all of them, with their CPU time."""

    cores: int
    ticks: Mapping[int, int]


#: Ticks of CPU time after which a process that can run is taken to compute.
_COMPUTES = 2


class Crowded(Witness[Neighbours]):
    """The kernel counts CPU time of new processes, as many as the fault wants for each core of the rank."""

    def look(self, fault: Fault, target: Target) -> Neighbours | None:
        """Look at the children of this process; None if the rank is gone."""
        ticks = {}
        with contextlib.suppress(OSError):
            cores = os.sched_getaffinity(target.pid)
            for name in Path(f"/proc/self/task/{threading.get_native_id()}/children").read_text().split():
                with contextlib.suppress(OSError, IndexError):
                    after_name = Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()
                    if after_name[0] == "R" and os.sched_getaffinity(int(name)) == cores:
                        ticks[int(name)] = int(after_name[11])
            return Neighbours(len(cores), ticks)
        return None

    def judge(self, fault: Fault, evidence: Evidence[Neighbours]) -> str | None:
        """Count the processes that were not there before, and compute."""
        before, after = evidence.before, evidence.after
        if before is None or after is None:
            return None
        new = [pid for pid, ticks in after.ticks.items() if pid not in before.ticks and ticks >= _COMPUTES]
        if not new or len(new) < getattr(fault, "count", 0) * after.cores:
            return None
        return f"/proc/<pid>/stat: {len(new)} processes compute on the {after.cores} cores of the rank"


class MainThread(NamedTuple):
    """A rank's main thread as the kernel shows it: its CPU time in ticks, its switches, if it waits without a limit."""

    ticks: int
    switches: int
    waits: bool


class _OfMainThread(Witness[MainThread], abstract=True):
    """A witness that looks at the rank's main thread."""

    def look(self, fault: Fault, target: Target) -> MainThread | None:
        """Look at the main thread; None if the rank is gone."""
        with contextlib.suppress(OSError, ValueError, IndexError, KeyError, StopIteration):
            thread = next(read_threads(target.pid))
            # Of stat(5), utime and stime are the 14th and 15th field; the name is the second.
            after_name = Path(f"/proc/{target.pid}/task/{target.pid}/stat").read_text().rpartition(")")[2].split()
            return MainThread(int(after_name[11]) + int(after_name[12]), thread.switches, waits_for_a_thread(thread))
        return None


#: Ticks of CPU time after which a rank that does not come back is taken to spin: a fifth of a second.
_SPUN = 20


class Spins(_OfMainThread):
    """The rank did not come back from the strike, records nothing, and the kernel counts its CPU time on."""

    def judge(self, fault: Fault, evidence: Evidence[MainThread]) -> str | None:
        """Compare the CPU time of the two looks."""
        before, after = evidence.before, evidence.after
        if evidence.seen or not evidence.silent or before is None or after is None:
            return None
        if after.ticks - before.ticks < _SPUN:
            return None
        return f"/proc/<pid>/task: {after.ticks - before.ticks} ticks of CPU time, and no word"


class Stuck(_OfMainThread):
    """The rank did not come back from the strike, and its main thread waits untimed, unscheduled between two looks."""

    def judge(self, fault: Fault, evidence: Evidence[MainThread]) -> str | None:
        """Compare the last two looks."""
        last, now = evidence.earlier, evidence.after
        if evidence.seen or not evidence.silent or now is None or not now.waits or last != now:
            return None
        return "/proc/<pid>/task: the main thread waits for a lock without a time-out, and no word"


class DelayTaken(Witness[None]):
    """The clocks, read before and after by the recorder, have gone on by as much as the fault was to take."""

    def judge(self, fault: Fault, evidence: Evidence[None]) -> str | None:
        """Compare the clock by which the fault counts with its seconds."""
        seen, asleep = evidence.seen, getattr(fault, "asleep", False)
        clock: Literal["wall_s", "cpu_s"] = "wall_s" if asleep else "cpu_s"
        if not seen or seen[clock] < getattr(fault, "seconds", float("inf")):
            return None
        return f"the {'monotonic clock' if asleep else 'CPU clock of its thread'} went on by {seen[clock]:.3f} s"
