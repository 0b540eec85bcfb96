"""Witnesses of limits: the kernel says that a rank may have less of something than before."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, ClassVar, NamedTuple, TypeVar

from breakrank.host.cgroup_files import Hierarchies
from breakrank.witnesses import Evidence, Witness
from breakrank_agent.kernel.rooted import opened, resolve
from breakrank_agent.protocol.fault import Fault
from breakrank_agent.protocol.target import SHARED_MEMORY, Target

Told = TypeVar("Told")


class Limit(NamedTuple):
    """One limit of a process, as the kernel gives it: its place, the amount (infinite without a limit), its unit."""

    name: str
    soft: float
    unit: str

    def words(self) -> str:
        """Return the amount in words."""
        return "unlimited" if self.soft == float("inf") else f"{self.soft:.12g} {self.unit}"


class Lowered(Witness[Limit], abstract=True):
    """The kernel says that the process is limited, and that it was not, or less."""

    def judge(self, fault: Fault, evidence: Evidence[Limit]) -> str | None:
        """Compare the two limits."""
        before, after = evidence.before, evidence.after
        if before is None or after is None or not after.soft < before.soft:
            return None
        return f"{after.name} {before.words()} became {after.words()}"


class _OfProcess(Lowered, abstract=True):
    """A limit of the process alone, as in /proc/<pid>/limits."""

    #: The name of the limit there.
    limit: ClassVar[str]

    def look(self, fault: Fault, target: Target) -> Limit | None:
        """Return the limit; None if the rank is gone."""
        with contextlib.suppress(OSError):
            for line in Path(f"/proc/{target.pid}/limits").read_text().splitlines():
                if line.startswith(f"Max {self.limit}"):
                    soft, _, unit = line.removeprefix(f"Max {self.limit}").split()
                    name = f"/proc/<pid>/limits: {self.limit}"
                    return Limit(name, float(soft.replace("unlimited", "inf")), unit)
        return None


class AddressSpace(_OfProcess):
    """The rank may map less than before."""

    limit = "address space"


class FileSize(_OfProcess):
    """The files that the rank writes may grow less than before."""

    limit = "file size"


class Descriptors(_OfProcess):
    """The rank may open fewer files than before."""

    limit = "open files"


class _OfGroup(Lowered, abstract=True):
    """A limit of the control group that the rank is in."""

    #: The controller, and the unit of its limit.
    controller: ClassVar[str]
    unit: ClassVar[str]

    def look(self, fault: Fault, target: Target) -> Limit | None:
        """Return the limit that the kernel has for the controller."""
        bound = Hierarchies().bound(target.pid, self.controller)
        return None if bound is None else Limit(f"the control group's {self.controller}:", bound.limit, self.unit)


class Memory(_OfGroup):
    """The rank's control group may take less memory than before."""

    controller, unit = "memory", "bytes"


class Cpu(_OfGroup):
    """The rank's control group gets less of the processor than before."""

    controller, unit = "cpu", "cores"


class Pids(_OfGroup):
    """The rank's control group may have fewer processes than before."""

    controller, unit = "pids", "processes"


class Disk(Lowered):
    """The file system of the fault's folder, as the rank sees it, is smaller than before."""

    def look(self, fault: Fault, target: Target) -> Limit | None:
        """Return the size of the file system; None if the rank is gone.

        The space that is free is no evidence: others write, too.
        """
        return _size(getattr(fault, "folder", ""), target)


class Inodes(Lowered):
    """The file system of the fault's folder, as the rank sees it, may have fewer inodes than before."""

    def look(self, fault: Fault, target: Target) -> Limit | None:
        """Return the number of inodes, used or not; None if the rank is gone, or where the kernel tells of none."""
        state = file_system(getattr(fault, "folder", ""), target)
        return Limit("statvfs: a file system of", float(state.f_files), "inodes") if state and state.f_files else None


class SharedMemory(Lowered):
    """The shared memory, as the rank sees it, is smaller than before."""

    def look(self, fault: Fault, target: Target) -> Limit | None:
        """Return the size of its file system; None if the rank is gone."""
        return _size(SHARED_MEMORY, target)


def _size(path: str, target: Target) -> Limit | None:
    state = file_system(path, target)
    return (
        None if state is None else Limit("statvfs: a file system of", float(state.f_blocks * state.f_frsize), "bytes")
    )


def of_each_file(fault: Fault, target: Target, read: Callable[[BinaryIO], Told]) -> dict[str, Told]:
    """Return what `read` makes of each of the fault's files, as the rank sees them, but for unreadable ones."""
    found = {}
    with contextlib.suppress(OSError), target.seen() as files:
        for path in files.glob(getattr(fault, "path", "")):
            with contextlib.suppress(OSError), os.fdopen(files.open(path), "rb") as file:
                found[path] = read(file)
    return found


def file_system(path: str, target: Target) -> os.statvfs_result | None:
    """Ask for the file system of a path, or of its nearest folder that exists, through the rank's own mounts.

    A file there is the rank's only in the working folder, and in memory. Return None if the rank is gone.
    """
    with contextlib.suppress(OSError), contextlib.ExitStack() as stack:
        files = stack.enter_context(target.seen())
        found = resolve(files.root, path) if path == SHARED_MEMORY else files.nearest(path)
        return os.statvfs(stack.enter_context(opened(found)))
    return None
