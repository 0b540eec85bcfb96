"""Faults of storage: files that a rank writes or opens are refused, or written only in part."""

from __future__ import annotations

import os
import resource
import subprocess
import time
from dataclasses import dataclass

from breakrank_agent.kernel.limits import set_soft_and_hard, soft_and_hard
from breakrank_agent.kernel.rooted import opened
from breakrank_agent.protocol.fault import Fault
from breakrank_agent.protocol.target import BIND, READ_ONLY, REMOUNT, Target
from breakrank_agent.protocol.trigger import PlanError


@dataclass(frozen=True)
class LimitFileSize(
    Fault,
    side="outside",
    witness="file_size",
    certifies="a file that is torn at a given byte; the error is EFBIG, and a full disk's is ENOSPC",
):
    """No file that the rank writes grows beyond `size` bytes, as under ulimit -f.

    The write that crosses the limit is cut at just that byte, and the next one fails (setrlimit(2), RLIMIT_FSIZE):
    Python ignores the signal that comes with it. Files that are as long already stay what they are.
    """

    size: int = 10_000

    def strike(self, target: Target) -> None:
        """Lower the soft limit; the hard one stays, so that the limit can be lifted again without privileges."""
        target.kept["limit"] = soft_and_hard(target.pid, resource.RLIMIT_FSIZE)
        set_soft_and_hard(target.pid, resource.RLIMIT_FSIZE, self.size, target.kept["limit"][1])

    def heal(self, target: Target) -> None:
        """Give the limit back that there was."""
        set_soft_and_hard(target.pid, resource.RLIMIT_FSIZE, *target.kept["limit"])


@dataclass(frozen=True)
class LimitFiles(
    Fault,
    side="outside",
    witness="descriptors",
    certifies="a process without free descriptors; says nothing about a machine that has none (ENFILE)",
):
    """The rank may open only `headroom` files, sockets or pipes more, as where something leaks descriptors.

    The kernel gives out the lowest number that is free, and none from the limit on (setrlimit(2), RLIMIT_NOFILE).
    """

    headroom: int = 0

    def strike(self, target: Target) -> None:
        """Lower the soft limit to the first number that the rank is not to have."""
        target.kept["limit"] = soft_and_hard(target.pid, resource.RLIMIT_NOFILE)
        taken = {int(name) for name in os.listdir(f"/proc/{target.pid}/fd")}
        free = [number for number in range(len(taken) + self.headroom + 1) if number not in taken]
        set_soft_and_hard(target.pid, resource.RLIMIT_NOFILE, free[self.headroom], target.kept["limit"][1])

    def heal(self, target: Target) -> None:
        """Give the limit back that there was."""
        set_soft_and_hard(target.pid, resource.RLIMIT_NOFILE, *target.kept["limit"])


@dataclass(frozen=True)
class RemountReadOnly(
    Fault,
    side="outside",
    walled=True,
    needs=("netns",),
    witness="read_only",
    certifies="writes to one rank's disk that are refused (EROFS); what is open already stays writable",
):
    """A folder can only be read any more, as when a file system has met an error (mount's errors=remount-ro).

    It is so behind the rank's walls. `folder` is below the working folder.
    """

    folder: str = "checkpoints"

    def strike(self, target: Target) -> None:
        """Mount the folder on itself, and that mount anew, to be read only."""
        with target.files() as files, opened(files.make(self.folder)) as found:
            target.kept["mounted"] = target.walls.mount(found, found, flags=BIND)
            target.walls.remount(target.kept["mounted"], flags=BIND | REMOUNT | READ_ONLY)

    def heal(self, target: Target) -> None:
        """Take the mount away, if there is one."""
        if "mounted" in target.kept:
            with opened(target.kept.pop("mounted")) as mounted:
                target.walls.unmount(mounted)


@dataclass(frozen=True)
class FailReads(
    Fault,
    side="outside",
    walled=True,
    needs=("netns",),
    witness="failing_reads",
    certifies="reads that fail; says nothing about files that are open already, nor about lost writes",
):
    """Reads of a file fail (EIO), as where a disk has lost its blocks; other files are as ever.

    Behind the rank's walls the memory of a process takes the file's place, of which the first megabytes are never
    mapped: the kernel answers a read there with EIO (proc(5), /proc/<pid>/mem). `path` is below the working folder, and
    may have wildcards, which are looked up when it strikes.
    """

    path: str = "manifest.json"

    def strike(self, target: Target) -> None:
        """Mount it over each such file. Raises `OSError` if there is none."""
        mounted = target.kept["mounted"] = {}
        with target.files() as files:
            for path in files.glob(self.path):
                with opened(files.find(path)) as found:
                    # A link and what it leads to are one file.
                    if (real := files.path_of(found)) not in mounted:
                        mounted[real] = target.walls.mount("/proc/1/mem", found, flags=BIND)
        if not mounted:
            raise FileNotFoundError(f"there is no {self.path} in the working folder")

    def heal(self, target: Target) -> None:
        """Take it away from those that it was mounted over."""
        for path in list(target.kept.get("mounted", ())):
            with opened(target.kept["mounted"].pop(path)) as mounted:
                target.walls.unmount(mounted)


#: The bytes of a word of a file, of which one bit is changed, and its bits.
_WORD = 4
_BITS = 8 * _WORD


@dataclass(frozen=True)
class RotFile(
    Fault,
    side="outside",
    witness="one_bit",
    certifies="one bit of a file that is another when it is read again; says nothing about reads that fail",
):
    """One bit of a file is another from now on, without an error, as where a disk or a memory on its way has lost it.

    `path` is below the working folder, and may have wildcards; of several files it is the last in the order of names.
    `share` is the place in the file, from 0 (its first word of four bytes) to 1 (its last whole one), and `bit` the
    number of the bit in that word, read as little-endian: of a float32 that is aligned, 0 to 22 are the fraction, 23 to
    30 the exponent, and 31 is the sign. The time of the last change stays what it was. Raises `PlanError` for others.
    """

    path: str = "manifest.json"
    share: float = 0.5
    bit: int = 30

    def __post_init__(self) -> None:
        if not 0 <= self.share <= 1:
            raise PlanError(f"the place in a file is a share of it, from 0 to 1, not {self.share}")
        if not 0 <= self.bit < _BITS:
            raise PlanError(f"a word of a file has the bits 0 to {_BITS - 1}, not {self.bit}")

    def strike(self, target: Target) -> None:
        """Write one byte anew. Raises `OSError` where there is no such file, or where it has no whole word."""
        with target.files() as files, files.writable(self.path, _WORD) as file:
            self._flip(file, os.fstat(file))

    def _flip(self, file: int, state: os.stat_result) -> None:
        byte, bit = divmod(self.bit, 8)
        at = round(self.share * (state.st_size // _WORD - 1)) * _WORD + byte
        os.pwrite(file, bytes([os.pread(file, 1, at)[0] ^ 1 << bit]), at)
        os.utime(file, ns=(state.st_atime_ns, state.st_mtime_ns))


#: The most bytes of a file that is put in the place of another.
_EXCHANGED_BYTES = 64 << 20


@dataclass(frozen=True)
class ExchangeFiles(
    Fault,
    side="outside",
    witness="exchanged",
    certifies="a file that lies under the name of another; says nothing about a file that is damaged",
):
    """Two files change places, as where each host is given back the files of another one, or a script mixes up names.

    `path` is below the working folder, and has wildcards: of what matches, in the order of names, the first file and
    the last one are exchanged. Each is whole, and up to 64 MB large.
    """

    path: str = "*.bin"

    def strike(self, target: Target) -> None:
        """Write each file in the place of the other. Raises `OSError` where there are no two files."""
        with target.files() as files:
            paths = files.glob(self.path)
            if len(paths) < 2:
                raise FileNotFoundError(f"fewer than two files are {self.path} in the working folder")
            first, last = (files.read(path, _EXCHANGED_BYTES) for path in (paths[0], paths[-1]))
            files.replace(paths[0], last)
            files.replace(paths[-1], first)


#: The system calls behind what a program asks for: which of them it is depends on the library and the machine.
_CALLS = {
    "read": "read,pread64,readv,preadv",
    "write": "write,pwrite64,writev,pwritev",
    "fsync": "fsync,fdatasync",
    "rename": "?rename,?renameat,renameat2",
}
#: More than strace says before it has attached.
_SAID_BYTES = 1 << 16
#: Seconds that strace may take to let go of a rank. A limit, no more.
_DETACH_S = 5.0


@dataclass(frozen=True)
class FailCall(
    Fault,
    side="outside",
    needs=("strace",),
    witness="failed_call",
    certifies="an error that the kernel returns once; says nothing about what a bad disk does to data",
):
    """One system call fails with `error`: of each thread of the rank, the `when`-th from now on to `call` on a path.

    Later calls are done as ever. `call` is read, write, fsync or rename, or a system call as strace(1) names it;
    each of several that do the same is counted by itself. `path` is below the working folder, and may have wildcards,
    which are looked up when it strikes. strace does it, and lets go of the rank once a call has failed.
    """

    call: str = "read"
    error: str = "EIO"
    path: str = "*"
    when: int = 1

    def strike(self, target: Target) -> None:
        """Have the rank traced. Raises `OSError` with what strace says if it cannot be."""
        # Of an open file strace knows the path as the rank sees it; of one that is named, what the rank calls it.
        with target.files() as files:
            names = files.glob(self.path) or [self.path]
            paths = [path for name in names for path in (os.path.join(target.folder, name), name, files.real(name))]
        on = [word for path in dict.fromkeys(paths) for word in ("-P", path)]
        calls = _CALLS.get(self.call, self.call)
        inject = f"inject={calls}:error={self.error}:when={self._times()}"
        said = target.kept["said"] = os.memfd_create("breakrank-strace")
        strace = target.kept["strace"] = subprocess.Popen(
            ["strace", "-f", *on, "-e", f"trace={calls}", "-e", inject, "-e", "signal=none", "-p", str(target.pid)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=said,
        )
        while b" attached" not in os.pread(said, _SAID_BYTES, 0):
            if strace.poll() is not None:
                raise OSError(os.pread(said, _SAID_BYTES, 0).decode(errors="replace").strip() or "strace died")
            time.sleep(0.001)

    def _times(self) -> str:
        """Return the calls that fail, as strace numbers them."""
        return str(self.when)

    def goes_on(self, target: Target) -> bool:
        """Let go of the rank: its call has failed."""
        self.heal(target)
        return False

    def heal(self, target: Target) -> None:
        """Let go of the rank, if that was not done."""
        if "strace" not in target.kept:
            return
        strace = target.kept.pop("strace")
        os.close(target.kept.pop("said"))
        strace.terminate()
        try:
            strace.wait(_DETACH_S)
        except subprocess.TimeoutExpired:
            # The kernel lets go of what is traced when the tracer is gone.
            strace.kill()
            strace.wait()


@dataclass(frozen=True)
class ExceedQuota(
    FailCall,
    certifies="writes that are refused from some point on, as by a quota (EDQUOT); says nothing about the accounts of "
    "a file system, nor about room that others give back",
):
    """The owner's quota is used up: each write to `path` from the `when`-th on is refused (EDQUOT), until it is healed.

    The file can be made, and what is written before stays in it. strace does it, as it has other calls fail.
    """

    call: str = "write"
    error: str = "EDQUOT"
    path: str = "checkpoints/last.tmp"

    def _times(self) -> str:
        return f"{self.when}+"

    def goes_on(self, target: Target) -> bool:
        """Go on refusing."""
        return False
