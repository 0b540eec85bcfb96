"""Faults of a process: it dies, stands still, or leaves early."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from typing import ClassVar

from breakrank_agent.fault import Fault, Payload, Target


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
