"""Faults of a disk as a whole: it is full, has no room for names, hangs, is slow, or loses power."""

from __future__ import annotations

import contextlib
import math
import os
import select
import signal
from dataclasses import dataclass

from breakrank_agent.kernel.rooted import opened, reopen, shown
from breakrank_agent.kernel.trees import NO_FILE, Copying, listed, put_back
from breakrank_agent.protocol.fault import Fault
from breakrank_agent.protocol.target import Target


@dataclass(frozen=True)
class _SmallDisk(Fault, abstract=True, side="outside", walled=True, needs=("netns",), witness="disk"):
    """A small file system takes the place of `folder`, which is below the working folder, with all that is in it.

    Behind the rank's walls it is mounted there (tmpfs); when the fault is healed, what is there then goes back to where
    it was.
    """

    folder: str = "checkpoints"

    def strike(self, target: Target) -> None:
        """Mount a file system, copy the folder into it, and then limit it."""
        kept = target.kept
        with target.files() as files, opened(files.make(self.folder)) as found:
            # This reaches the files that were there, even if the mounts that they are seen through change.
            there = kept["there"] = reopen(found, os.O_RDONLY | os.O_DIRECTORY)
            was_there = listed(there)
            with opened(target.walls.mount("breakrank", found, "tmpfs")) as mounted:
                full = kept["full"] = reopen(mounted, os.O_RDONLY | os.O_DIRECTORY)
        try:
            copying = Copying(self._refuse, whole=True)
            copying.copy(there, full)
            copying.dress(full, os.fstat(there))
            if limit := self._limit(os.statvfs(full)):
                target.walls.remount(full, options=limit)
        except OSError:
            self.heal(target)
            raise
        # From here on the rank may change what was taken.
        kept["lists"] = listed(full), was_there

    def heal(self, target: Target) -> None:
        """Take the file system away, and do where it was what was done in it; of what nobody changed, nothing."""
        kept = target.kept
        if "full" not in kept:
            return
        with opened(kept.pop("full")) as full, opened(kept.pop("there")) as there:
            try:
                target.walls.unmount(full)
            finally:
                if "lists" in kept:
                    put_back(full, there, *kept.pop("lists"))

    def _limit(self, state: os.statvfs_result) -> str:
        """Return the options of a mount that has just the room that the fault leaves, by the state without limits."""
        return ""

    def _refuse(self, path: str, why: str) -> None:
        """Refuse what cannot be taken; the rank's sockets are not missed."""
        if why != NO_FILE:
            raise OSError(f"{shown(os.path.join(self.folder, path))}: {why}")


@dataclass(frozen=True)
class FillDisk(
    _SmallDisk,
    certifies="one rank's disk that is full; says nothing about a disk that says so late, as NFS does",
):
    """The file system of a folder is full but for `room_kb`: writes beyond are refused (ENOSPC).

    `folder` is below the working folder.
    """

    room_kb: int = 12

    def _limit(self, state: os.statvfs_result) -> str:
        """Return the size that leaves this room."""
        return f"size={(state.f_blocks - state.f_bfree) * state.f_frsize + self.room_kb * 1024}"


@dataclass(frozen=True)
class ExhaustInodes(
    _SmallDisk,
    witness="inodes",
    certifies="one rank's disk that takes no more names though it has room; says nothing about one that is full",
):
    """The file system of a folder has `left` inodes left: new files are refused (ENOSPC) though there is room.

    Folders and links count as files do. Files that are there can be written to, and be renamed. `folder` is below the
    working folder.
    """

    left: int = 0

    def _limit(self, state: os.statvfs_result) -> str:
        """Return the number of inodes that leaves these."""
        return f"nr_inodes={state.f_files - state.f_ffree + self.left}"


@dataclass(frozen=True)
class ServeStale(
    _SmallDisk,
    witness="stale",
    certifies="a rank that reads what a folder held before; says nothing about the time after which a client of NFS "
    "asks its server again",
):
    """The rank goes on seeing a folder as it is now, as a client of NFS that answers from its cache.

    Of all that its peers write there from now on it sees nothing: files have their old versions, and new names are not
    there. `folder` is below the working folder.
    """


#: Seconds that the kernel may take to end a process that was killed. A limit, no more.
_DIES_S = 5.0


@dataclass(frozen=True)
class LoseWrites(
    Fault,
    side="outside",
    needs=("pidfd", "seccomp"),
    journals=True,
    witness="rolled_back",
    delivers=-signal.SIGKILL,
    certifies="files as they were at their last fsync, names as of their folder's, and processes that are gone; says "
    "nothing about blocks that come to disk out of order, about O_SYNC, or about files outside of the working folder",
):
    """The power fails: the rank and all that it has started are killed, and of its files only what is on disk stays.

    The disk is a strict one. The content of a file is what it was at its last fsync (fdatasync, msync, sync), and a
    name that is new, renamed or removed is so only after an fsync of its folder. Most file systems keep more, and none
    promises to. Writes of native code are seen as well. Of several ranks that are struck, all lose what they wrote.
    """

    def strike(self, target: Target) -> None:
        """Kill the processes, wait until they are gone, and take away what is not on disk."""
        disk = target.disk
        for child in _below(target.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        with contextlib.suppress(ProcessLookupError), opened(os.pidfd_open(target.pid)) as ends:
            target.signal(signal.SIGKILL)
            select.select([ends], [], [], _DIES_S)
        disk.roll_back()


@dataclass(frozen=True)
class HangDisk(
    Fault,
    side="outside",
    needs=("pidfd", "seccomp"),
    journals=True,
    witness="held_call",
    certifies="calls that change files, or bring them to disk, and do not return; says nothing about reads, about "
    "write(2) into a file that is open, or about a process that no signal ends",
):
    """Calls on the rank's files do not return any more, as where the server of an NFS mount is gone.

    Those are meant that open a file to write to it, make, rename or remove a name, or bring a file to disk (fsync).
    `path` counts from the working folder and may have wildcards, which match slashes, too. Native code is held as
    Python is. A signal ends the wait, as it does on a mount with the option `intr`.
    """

    path: str = "*"

    def strike(self, target: Target) -> None:
        """Hold back each such call from now on."""
        target.calls.hold(self.path, math.inf)

    def heal(self, target: Target) -> None:
        """Let go of them."""
        target.calls.release()


@dataclass(frozen=True)
class SlowDisk(
    HangDisk,
    certifies="one call on a file that comes back after all else that the job can do without it; says nothing about "
    "a disk of which each call takes longer",
):
    """The next call on the rank's files is slower than all else: it is done when nothing else in the job moves.

    The ranks are at rest when none of their threads runs, and no main thread has run for several looks in a row. The
    calls and `path` are those of a disk that hangs.
    """

    def strike(self, target: Target) -> None:
        """Hold back the next such call."""
        target.calls.hold(self.path, 1)

    def goes_on(self, target: Target) -> bool:
        """Let go of it when the ranks are at rest."""
        if not target.at_rest():
            return True
        target.calls.release()
        return False


def _below(pid: int) -> list[int]:
    """Return the processes that a process has started, and those that they have."""
    found: list[int] = []
    with contextlib.suppress(OSError):
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/children", encoding="ascii") as file:
                for child in map(int, file.read().split()):
                    found += [child, *_below(child)]
    return found
