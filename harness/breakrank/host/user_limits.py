"""The limits of this user, and the ranks' need of them: said in one line before anything starts."""

from __future__ import annotations

import os
import resource

from breakrank.errors import BreakrankError

#: A zygote and the supervisor move descriptors out of the way of a rank's, to numbers below this.
_NUMBERS = 272
#: Files that we hold open for one rank (its line, its pipes, its files), and beside those that are open already.
_OF_A_RANK, _BESIDE = 10, 32
#: Processes and threads of one rank with its framework, and those of ours: the supervisor, a zygote, what looks at
#: stacks.
_THREADS_OF_A_RANK, _THREADS_OF_OURS = 16, 16
#: The number of ranks that is reckoned with if a launcher starts them.
_UNKNOWN = 8


def check_proc() -> None:
    """Raise `BreakrankError` where there is no /proc: how a rank is, nothing else tells."""
    if not os.path.exists("/proc/self/stat"):
        raise BreakrankError("there is no /proc, from which ranks are watched; mount it: mount -t proc proc /proc")


def check_quotas(ranks: int) -> None:
    """Raise `BreakrankError` if this user may not open as many files, or start as many processes, as ranks need.

    `ranks` is 0 where it is not known how many there will be. The limits are left as they are: ranks have the user's.
    """
    ranks = ranks or _UNKNOWN
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    need = max(_NUMBERS, len(os.listdir("/proc/self/fd")) + _BESIDE + _OF_A_RANK * ranks)
    if files != resource.RLIM_INFINITY and files < need:
        raise BreakrankError(f"{files} open files are too few for {_count(ranks)}: ulimit -n {_rounded(need)}")
    processes, _ = resource.getrlimit(resource.RLIMIT_NPROC)
    # The kernel does not hold root to it.
    if os.geteuid() == 0 or processes == resource.RLIM_INFINITY:
        return
    need = _running() + _THREADS_OF_OURS + _THREADS_OF_A_RANK * ranks
    if processes < need:
        raise BreakrankError(f"{processes} processes are too few for {_count(ranks)}: ulimit -u {_rounded(need)}")


def _running() -> int:
    """Return how many threads this user has now, which is what the limit counts."""
    total = 0
    for name in os.listdir("/proc"):
        try:
            if name.isdigit() and os.stat(f"/proc/{name}").st_uid == os.getuid():
                total += len(os.listdir(f"/proc/{name}/task"))
        except OSError:
            continue
    return total


def _count(ranks: int) -> str:
    return f"{ranks} rank{'s' * (ranks != 1)}"


def _rounded(need: int) -> int:
    """Return the next multiple of 128."""
    return -(-need // 128) * 128
