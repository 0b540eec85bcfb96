"""Faults of memory: a rank gets less of it than it asks for."""

from __future__ import annotations

import ctypes
import errno
import os
import resource
from dataclasses import dataclass
from pathlib import Path

from breakrank_agent.kernel.limits import set_soft_and_hard, soft_and_hard
from breakrank_agent.kernel.rooted import opened, resolve
from breakrank_agent.protocol.fault import Fault
from breakrank_agent.protocol.target import SHARED_MEMORY, Target


@dataclass(frozen=True)
class LimitMemory(
    Fault,
    side="outside",
    witness="address_space",
    certifies=(
        "an allocation that is refused, as on a full device; says nothing about the kernel's OOM killer, or swapping"
    ),
):
    """The rank may map no more than `headroom_mb` (of 2**20 bytes) beyond what it has mapped, as under ulimit -v.

    The limit is on the address space: an allocation beyond it fails at once, and the rank lives on. It counts from
    the present size, as a process that was forked warm, or that has loaded a big library, has mapped gigabytes.
    """

    headroom_mb: int = 32

    def strike(self, target: Target) -> None:
        """Lower the soft limit; the hard one stays, so that the limit can be lifted again without privileges."""
        before = soft_and_hard(target.pid, resource.RLIMIT_AS)
        target.kept["address space"] = before
        limit = mapped_bytes(target.pid) + self.headroom_mb * 2**20
        set_soft_and_hard(target.pid, resource.RLIMIT_AS, limit, before[1])

    def heal(self, target: Target) -> None:
        """Give the limit back that there was."""
        set_soft_and_hard(target.pid, resource.RLIMIT_AS, *target.kept["address space"])


@dataclass(frozen=True)
class LimitGroupMemory(
    Fault,
    side="outside",
    needs=("memory cgroup",),
    witness="memory",
    certifies="the kernel's OOM killer in one rank's control group; says nothing about a whole machine",
):
    """The rank and all that it starts get no more than `headroom_mb` (of 2**20 bytes) of memory beyond what they have.

    Memory that they have stays on the account of the control group that they come from; memory that they touch anew
    goes on the one that is limited. Beyond the limit the kernel kills, as when a container's memory is used up.
    """

    headroom_mb: int = 64

    def strike(self, target: Target) -> None:
        """Limit the rank's control group; it is removed with its limits."""
        target.group.limit_memory(self.headroom_mb * 2**20)


@dataclass(frozen=True)
class ShrinkSharedMemory(
    Fault,
    side="outside",
    walled=True,
    needs=("netns",),
    witness="shared_memory",
    certifies="a shared memory that is too small for what comes; says nothing about a small memory",
):
    """The rank's /dev/shm holds no more than `size_kb`, as in a container that was started without --shm-size.

    It is the rank's alone, new and empty; files of the old one that the rank has open or mapped stay.
    """

    size_kb: int = 64

    def strike(self, target: Target) -> None:
        """Mount a small file system over it."""
        options = f"size={self.size_kb}k,mode=1777"
        # A link there leads to a place of the rank's.
        with target.files() as files, opened(resolve(files.root, SHARED_MEMORY)) as found:
            target.kept["mounted"] = target.walls.mount("breakrank", found, "tmpfs", options=options)

    def heal(self, target: Target) -> None:
        """Take it away again, if it is there."""
        if "mounted" in target.kept:
            with opened(target.kept.pop("mounted")) as mounted:
                target.walls.unmount(mounted)


@dataclass(frozen=True)
class PageOut(
    Fault,
    side="outside",
    needs=("pageout",),
    witness="paged_out",
    certifies="pages that must be read back from disk; of anonymous ones only where there is swap",
):
    """The rank's pages are taken away, as where memory is short: they are read back as they are needed again.

    The kernel takes pages that no other process has mapped (process_madvise(2), MADV_PAGEOUT): those of files at any
    time, all others only if there is swap space. One strike is one time; a rank that swaps is struck at each step.
    """

    def strike(self, target: Target) -> None:
        """Have each part of its memory paged out."""
        page_out(target.pid)


class _Span(ctypes.Structure):
    """A part of a process's memory (struct iovec)."""

    _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]


#: The number of process_madvise(2), on every architecture, and its advice.
_PROCESS_MADVISE, _MADV_PAGEOUT = 440, 21
#: The errors for parts that stay in memory: locked ones, and the kernel's own.
_STAYS = (errno.EINVAL, errno.EFAULT, errno.ENOMEM)


def page_out(pid: int) -> None:
    """Have the kernel take the memory of a process away. Raises `OSError` where it refuses."""
    libc = ctypes.CDLL(None, use_errno=True)
    process = os.pidfd_open(pid)
    try:
        for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
            begin, _, end = line.split()[0].partition("-")
            span = _Span(int(begin, 16), int(end, 16) - int(begin, 16))
            done = libc.syscall(_PROCESS_MADVISE, process, ctypes.byref(span), ctypes.c_size_t(1), _MADV_PAGEOUT, 0)
            if done < 0 and ctypes.get_errno() not in _STAYS:
                raise OSError(ctypes.get_errno(), f"process_madvise: {os.strerror(ctypes.get_errno())}")
    finally:
        os.close(process)


def mapped_bytes(pid: int) -> int:
    """Return the size of a process's address space: the first number of /proc/<pid>/statm, in pages."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[0]) * resource.getpagesize()
