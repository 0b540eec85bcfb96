"""Witnesses of storage: the kernel's answers on files, through the rank's own mounts, and the words of a tracer."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from breakrank.host.blocked.threads import fields
from breakrank.witnesses import Evidence, Witness
from breakrank.witnesses.limits import file_system
from breakrank_agent.kernel.rooted import opened
from breakrank_agent.protocol.fault import Fault
from breakrank_agent.protocol.target import Target


class ReadOnly(Witness[bool]):
    """The kernel says that the folder, as the rank sees it, is mounted to be read only, and that it was not."""

    def look(self, fault: Fault, target: Target) -> bool | None:
        """Return whether the fault's folder is mounted so; None if the rank is gone."""
        state = file_system(getattr(fault, "folder", ""), target)
        return None if state is None else bool(state.f_flag & os.ST_RDONLY)

    def judge(self, fault: Fault, evidence: Evidence[bool]) -> str | None:
        """Compare the two looks."""
        return "statvfs: ST_RDONLY is set" if evidence.after and evidence.before is False else None


class FailingReads(Witness[Mapping[str, int]]):
    """A byte that could be read before, through the rank's own mounts, is refused now (EIO), in each of the files."""

    def look(self, fault: Fault, target: Target) -> Mapping[str, int]:
        """Read a byte of each of the fault's files, as the rank sees them; return the error numbers, 0 for none."""
        found: dict[str, int] = {}
        with contextlib.suppress(OSError), target.seen() as files:
            for path in files.glob(getattr(fault, "path", "")):
                try:
                    with opened(files.open(path)) as descriptor:
                        os.read(descriptor, 1)
                    found[path] = 0
                except OSError as error:
                    # Not every refusal is one of the kernel's.
                    found[path] = error.errno or errno.EINVAL
        return found

    def judge(self, fault: Fault, evidence: Evidence[Mapping[str, int]]) -> str | None:
        """Compare the two looks."""
        before, after = evidence.before, evidence.after
        if not before or not after or any(before.values()) or set(after.values()) != {errno.EIO}:
            return None
        return f"read of the first byte: EIO in {', '.join(sorted(os.path.basename(path) for path in after))}"


#: The most of each file that a witness reads at once, and keeps the digest of.
_BLOCK = 4096


class OneBit(Witness[Mapping[str, tuple[bytes, ...]]]):
    """The fault's files, read again block by block, are as they were before but for one block of one of them."""

    def look(self, fault: Fault, target: Target) -> Mapping[str, tuple[bytes, ...]]:
        """Return the digests of the blocks of each of the fault's files, as the rank sees them."""
        found = {}
        with contextlib.suppress(OSError), target.seen() as files:
            for path in files.glob(getattr(fault, "path", "")):
                with contextlib.suppress(OSError), os.fdopen(files.open(path), "rb") as file:
                    found[path] = tuple(
                        hashlib.sha256(block).digest() for block in iter(lambda: file.read(_BLOCK), b"")
                    )
        return found

    def judge(self, fault: Fault, evidence: Evidence[Mapping[str, tuple[bytes, ...]]]) -> str | None:
        """Compare the two looks."""
        before, after = evidence.before or {}, evidence.after or {}
        if before.keys() != after.keys() or any(len(before[path]) != len(after[path]) for path in before):
            return None
        others = [
            (path, number, len(blocks))
            for path, blocks in after.items()
            for number, block in enumerate(blocks)
            if block != before[path][number]
        ]
        if len(others) != 1:
            return None
        ((path, number, count),) = others
        return f"{os.path.basename(path)} read again: block {number + 1} of {count} is another"


class Shorter(Witness[Mapping[str, int]]):
    """One of the fault's files has fewer bytes than before, as the kernel says to the rank; the others are as long."""

    def look(self, fault: Fault, target: Target) -> Mapping[str, int]:
        """Return the size of each of the fault's files, as the rank sees them."""
        found = {}
        with contextlib.suppress(OSError), target.seen() as files:
            for path in files.glob(getattr(fault, "path", "")):
                with contextlib.suppress(OSError), opened(files.open(path)) as file:
                    found[path] = os.fstat(file).st_size
        return found

    def judge(self, fault: Fault, evidence: Evidence[Mapping[str, int]]) -> str | None:
        """Compare the two looks."""
        before, after = evidence.before or {}, evidence.after or {}
        others = [path for path in after if after[path] != before.get(path)]
        if before.keys() != after.keys() or len(others) != 1 or after[others[0]] > before[others[0]]:
            return None
        (path,) = others
        return f"fstat: {os.path.basename(path)} has {after[path]:,} bytes of {before[path]:,}"


class Traced(NamedTuple):
    """The threads of a rank that the kernel says are traced, those that are not, and the tracer's words until now."""

    traced: int
    free: int
    said: str


#: A call that failed as strace(1) tells it, also where another thread's call is told in between.
_FAILED = r"(\w+)(?:\(| resumed>).* = -1 (\w+) .*\(INJECTED\)"


class FailedCall(Witness[Traced]):
    """The tracer tells of a system call of the rank that came back with an error that was put there."""

    def look(self, fault: Fault, target: Target) -> Traced:
        """Look at the rank's threads, and read again what its tracer has written."""
        tracers = []
        # A rank, or a thread, may end meanwhile.
        with contextlib.suppress(OSError, KeyError, ValueError):
            for task in Path(f"/proc/{target.pid}/task").iterdir():
                tracers.append(int(fields(f"{task}/status")["TracerPid"]))
        said = target.kept.get("said")
        text = os.pread(said, os.fstat(said).st_size, 0).decode(errors="replace") if said is not None else ""
        return Traced(len(tracers) - tracers.count(0), tracers.count(0), text)

    def judge(self, fault: Fault, evidence: Evidence[Traced]) -> str | None:
        """Look for that call in the tracer's words."""
        found = re.search(_FAILED, evidence.after.said) if evidence.after is not None else None
        return None if found is None else f"strace: {found[1]} came back with {found[2]}"

    def is_set(self, fault: Fault, evidence: Evidence[Traced]) -> bool:
        """Return whether the kernel says that each thread of the rank is traced, and that none was."""
        before, after = evidence.before, evidence.after
        return before is not None and after is not None and not before.traced and bool(after.traced) and not after.free
