"""Faults of storage: what a rank writes or opens is refused, or lands only in part."""

from __future__ import annotations

import os
import resource
from dataclasses import dataclass
from typing import ClassVar

from breakrank_agent.fault import Fault, Target


@dataclass(frozen=True)
class LimitFileSize(Fault):
    """No file that the rank writes grows beyond `size` bytes, as under ulimit -f.

    The write that crosses the limit is cut at just that byte, and the next one fails (setrlimit(2), RLIMIT_FSIZE):
    Python ignores the signal that comes with it. Files that are as long already stay what they are.
    """

    size: int = 10_000

    side: ClassVar[str] = "outside"
    certifies: ClassVar[str] = "a file that is torn at a given byte; the error is EFBIG, and a full disk's is ENOSPC"
    witness: ClassVar[str] = "file size"

    def strike(self, target: Target) -> None:
        """Lower the soft limit; the hard one stays, so that the limit can be lifted again without privileges."""
        target.kept["limit"] = resource.prlimit(target.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(target.pid, resource.RLIMIT_FSIZE, (self.size, target.kept["limit"][1]))

    def heal(self, target: Target) -> None:
        """Give the limit back that there was."""
        resource.prlimit(target.pid, resource.RLIMIT_FSIZE, target.kept["limit"])


@dataclass(frozen=True)
class LimitFiles(Fault):
    """The rank may open only `headroom` files, sockets or pipes more, as where something leaks descriptors.

    The kernel gives out the lowest number that is free, and none from the limit on (setrlimit(2), RLIMIT_NOFILE).
    """

    headroom: int = 0

    side: ClassVar[str] = "outside"
    certifies: ClassVar[str] = "a process without free descriptors; says nothing about a machine that has none (ENFILE)"
    witness: ClassVar[str] = "descriptors"

    def strike(self, target: Target) -> None:
        """Lower the soft limit to the first number that the rank is not to have."""
        target.kept["limit"] = resource.prlimit(target.pid, resource.RLIMIT_NOFILE)
        taken = {int(name) for name in os.listdir(f"/proc/{target.pid}/fd")}
        free = [number for number in range(len(taken) + self.headroom + 1) if number not in taken]
        resource.prlimit(target.pid, resource.RLIMIT_NOFILE, (free[self.headroom], target.kept["limit"][1]))

    def heal(self, target: Target) -> None:
        """Give the limit back that there was."""
        resource.prlimit(target.pid, resource.RLIMIT_NOFILE, target.kept["limit"])
