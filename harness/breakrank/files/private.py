"""All that is written belongs to one person: folders that only their owner can enter, files that only he can read.

A run directory is closed to others from its first moment, whatever the umask. That of the process is left alone: ranks
inherit it. The files in it get their rights when the run is over, `work` excepted, where the ranks' files are as they
made them.
"""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path

from breakrank.errors import BreakrankError

_FOLDER, _FILE = 0o700, 0o600
#: The folder of the ranks' own files, below a run directory.
_WORK = "work"


def make_private(folder: Path) -> None:
    """Make a folder that only its owner can enter. Raises `OSError`, as mkdir(2) does."""
    folder.mkdir(mode=_FOLDER)
    # A umask takes away, it never adds; one that takes from the owner, too, is undone.
    folder.chmod(_FOLDER)


def make_runs(runs: Path) -> None:
    """Make the folder of the runs, if it is not there; one that is there keeps the rights that it has.

    Its contents are for people to look at, never for their version control. Raises `OSError`.
    """
    runs.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        make_private(runs)
    if not runs.is_dir():
        raise NotADirectoryError(20, "Not a directory", str(runs))
    (runs / ".gitignore").write_text("*\n")


def make_part(folder: Path) -> None:
    """Make a folder of ours in that of the runs, if it is not there. Raises `OSError`."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        make_private(folder)


def seal(folder: Path) -> None:
    """Give what lies in a run directory the rights that it is to have; nothing is followed out of it."""
    for where, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if name != _WORK]
        for name in folders:
            _restrict(os.path.join(where, name), _FOLDER)
        for name in files:
            _restrict(os.path.join(where, name), _FILE)


def _restrict(path: str, mode: int) -> None:
    # A name that was changed meanwhile, or that is of another kind, is left alone.
    with contextlib.suppress(OSError):
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            status = os.fstat(descriptor)
            if stat.S_ISDIR(status.st_mode) or (stat.S_ISREG(status.st_mode) and status.st_nlink == 1):
                os.fchmod(descriptor, mode)
        finally:
            os.close(descriptor)


def open_private(path: str, flags: int) -> int:
    """Open a file as `open` does, one that is new for its owner alone: an `opener`."""
    return os.open(path, flags | os.O_CLOEXEC, _FILE)


def check_ours(folder: Path) -> None:
    """Raise `BreakrankError` if somebody else could have written what we are about to run."""
    status = folder.lstat()
    if status.st_uid not in (os.getuid(), 0) or status.st_mode & stat.S_IWOTH or not stat.S_ISDIR(status.st_mode):
        raise BreakrankError(
            f"{folder} was made by somebody else, and ranks would run it; remove it, or set the ini option "
            "scenario_runs to a folder of yours"
        )
