"""Witnesses of storage: the kernel's answers on files, through the rank's own mounts, and the words of a tracer."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO, NamedTuple

from breakrank.host.blocked.threads import Thread, call_name, fields, is_held, read_threads
from breakrank.witnesses import Evidence, Witness
from breakrank.witnesses.limits import file_system, of_each_file
from breakrank_agent.kernel.rooted import WorkingFolder, opened, reopen
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
        return of_each_file(fault, target, _blocks)

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


def _blocks(file: BinaryIO) -> tuple[bytes, ...]:
    """Return the digests of the blocks of a file."""
    return tuple(hashlib.sha256(block).digest() for block in iter(lambda: file.read(_BLOCK), b""))


class Exchanged(Witness[Mapping[str, bytes]]):
    """Two of the fault's files, read again, hold what the other one held before, and the others what they held."""

    def look(self, fault: Fault, target: Target) -> Mapping[str, bytes]:
        """Return the digest of each of the fault's files, as the rank sees them."""
        return of_each_file(fault, target, _digest)

    def judge(self, fault: Fault, evidence: Evidence[Mapping[str, bytes]]) -> str | None:
        """Compare the two looks."""
        before, after = evidence.before or {}, evidence.after or {}
        others = [path for path in after if before.get(path) != after[path]]
        if before.keys() != after.keys() or len(others) != 2:
            return None
        one, other = others
        if (after[one], after[other]) != (before[other], before[one]):
            return None
        return f"read again: {os.path.basename(one)} holds what {os.path.basename(other)} held, and the other way round"


def _digest(file: BinaryIO) -> bytes:
    """Return a digest of what is left of a file."""
    digest = hashlib.sha256()
    for block in iter(lambda: file.read(_BLOCK), b""):
        digest.update(block)
    return digest.digest()


#: The mode of a process whose system calls a filter decides about, in its `status` (proc(5)).
_FILTERED = "2"


#: The bytes at the beginning of a file that are compared on two sides.
_BEGINNING = 1 << 20


class Sides(NamedTuple):
    """The file system of a folder as the rank sees it, and the versions of its files: there, and where peers see them.

    A version is the digest of a file and the time in nanoseconds at which it was written.
    """

    system: int
    here: Mapping[str, tuple[bytes, int]]
    there: Mapping[str, tuple[bytes, int]]


class Stale(Witness[Sides]):
    """A file of the fault's folder, read again behind the rank's walls and where the peers see it, is not the same."""

    def look(self, fault: Fault, target: Target) -> Sides | None:
        """Read the files on both sides, also when the rank has ended; None if the folder is not there."""
        folder = getattr(fault, "folder", "")
        with contextlib.suppress(OSError), target.files() as files, target.laid() as others:
            with opened(files.find(folder)) as found:
                system = os.statvfs(found).f_fsid
            return Sides(system, _digests_in(files, folder), _digests_in(others, folder))
        return None

    def judge(self, fault: Fault, evidence: Evidence[Sides]) -> str | None:
        """Look for a file of which a newer version, or the first one, lies there, and that is here as it was."""
        before, after = evidence.before, evidence.after
        if before is None or after is None or before.system == after.system:
            return None
        for path, (digest, written) in sorted(after.there.items()):
            was, (here, at) = before.there.get(path, (None, 0))[0], after.here.get(path, (None, 0))
            # A peer may have written it between the first look and the strike; what the rank wrote itself is younger.
            if here != digest != was and (here == was or at < written):
                is_here = "is still what it was" if here is not None else "is not there"
                return f"read on both sides: {os.path.basename(path)} {is_here}, and its new version is on the other"
        return None

    def is_set(self, fault: Fault, evidence: Evidence[Sides]) -> bool:
        """Return whether the kernel says that the rank sees another file system there than it did."""
        before, after = evidence.before, evidence.after
        return before is not None and after is not None and before.system != after.system


def _digests_in(files: WorkingFolder, folder: str) -> dict[str, tuple[bytes, int]]:
    """Return the version of each file in a folder, by its beginning: it is read again and again."""
    found = {}
    for path in files.glob(os.path.join(folder, "*")):
        with contextlib.suppress(OSError), os.fdopen(files.open(path), "rb") as file:
            found[path] = _digest(file), os.fstat(file.fileno()).st_mtime_ns
    return found


class RolledBack(Witness[Mapping[str, bool]]):
    """Waitpid tells of the end, and each name in the folders and each file, read again, is as the journal has it."""

    halts = True

    def look(self, fault: Fault, target: Target) -> Mapping[str, bool] | None:
        """Return of each name that was changed whether it stands for what is on disk; None without a journal."""
        found: dict[str, bool] = {}
        try:
            with target.files() as files:
                for folder, names in target.disk.names():
                    path = files.path_of(folder)
                    with opened(reopen(folder, os.O_RDONLY | os.O_DIRECTORY)) as there:
                        now = set(os.listdir(there))
                    found |= {os.path.join(path, name): False for name in now ^ names.keys()}
                    for name, digest in names.items():
                        if name in now and digest is not None:
                            found[os.path.join(path, name)] = _digest_of(files, os.path.join(path, name)) == digest
        except OSError:
            return None
        return found

    def judge(self, fault: Fault, evidence: Evidence[Mapping[str, bool]]) -> str | None:
        """Compare the two looks, once the end is reported."""
        before, after = evidence.before, evidence.after
        ended = any(r["what"] == "ended" and r["status"] == fault.own_act() for r in evidence.reports)
        if not ended or not evidence.silent or before is None or after is None or not all(after.values()):
            return None
        return f"waitpid: SIGKILL; names and files as on disk, of which {list(before.values()).count(False)} were not"


def _digest_of(files: WorkingFolder, path: str) -> bytes | None:
    """Return the digest of a file, as it lies there; None if it cannot be read."""
    with contextlib.suppress(OSError), os.fdopen(files.open(path), "rb") as file:
        return _digest(file)
    return None


class HeldCall(Witness[frozenset[Thread]]):
    """The kernel shows a thread of the rank in one system call on files that it does not begin, look after look."""

    def look(self, fault: Fault, target: Target) -> frozenset[Thread] | None:
        """Return the threads that stand in such a call; None if the rank is gone, or its calls are not watched."""
        try:
            if fields(f"/proc/{target.pid}/status")["Seccomp"] != _FILTERED:
                return None
            return frozenset(filter(is_held, read_threads(target.pid)))
        except (OSError, KeyError, ValueError):
            return None

    def judge(self, fault: Fault, evidence: Evidence[frozenset[Thread]]) -> str | None:
        """Look for a thread that has not been scheduled in between: one that is merely watched goes on at once."""
        stands = sorted((evidence.earlier or frozenset()) & (evidence.after or frozenset()), key=lambda one: one.tid)
        return f"/proc: thread {stands[0].name} stands in {call_name(stands[0])}" if stands else None

    def is_set(self, fault: Fault, evidence: Evidence[frozenset[Thread]]) -> bool:
        """Return whether the kernel has a filter for the rank's calls."""
        return evidence.after is not None


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
