"""The room that run directories take: the oldest go first, and none that somebody still works on."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from breakrank.errors import BreakrankError
from breakrank.files.bounded import Folder


def hold(folder: Path) -> int:
    """Lock a run directory, so that it does not make room; return the descriptor whose end is the lock's end.

    The kernel releases the lock when the process is over, however it ends (flock(2)). If a file system has no such
    locks, as some that lie on other machines, the directory is not locked.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    with contextlib.suppress(OSError):
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    return descriptor


def is_held(folder: Path) -> bool:
    """Return whether somebody still works on a run directory."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return False


@dataclass(frozen=True)
class Finished:
    """A run directory that nobody works on any more: when its last word was written, and the bytes that it takes."""

    folder: Path
    when: float
    size: int


def make_room(runs: Path, limit_mb: int) -> None:
    """Remove the oldest runs until all of them are below the limit, those that were cut short like others.

    Only what is a run directory of ours is removed, and what a link leads to is left alone.
    """
    finished = sorted(finished_runs(runs), key=lambda run: run.when)
    total = sum(run.size for run in finished)
    for run in finished:
        if total <= limit_mb * 1_000_000:
            return
        total -= run.size
        _remove(run.folder)


def finished_runs(runs: Path) -> Iterator[Finished]:
    """Yield the run directories below `runs` that nobody works on, whether they were judged or cut short."""
    with os.scandir(runs) as entries:
        folders = [Path(entry.path) for entry in entries if entry.is_dir(follow_symlinks=False)]
    for folder in folders:
        if _is_run(folder) and not is_held(folder):
            times = [_written(folder / name) for name in ("verdict.json", "conductor.jsonl", "plan.json")]
            yield Finished(folder, next(filter(None, times), 0.0), _size(folder))


def _is_run(folder: Path) -> bool:
    """Return whether a folder is a run directory: it holds a plan, and is called what a run of that plan is."""
    try:
        plan = Folder(folder).read_json("plan.json")
    except BreakrankError:
        return False
    if not isinstance(plan, dict):
        return False
    stem = "{}-{}-s{}-".format(*(plan.get(name) for name in ("scenario", "case", "seed")))
    return folder.name.startswith(stem) and folder.name[len(stem) :].isdecimal()


def _written(path: Path) -> float:
    """Return when a file was written last; 0 if it is not there."""
    try:
        return path.lstat().st_mtime
    except OSError:
        return 0.0


def _size(folder: Path) -> int:
    """Return the bytes that a folder takes on the disk; of a file with holes, what is there."""
    size = 0
    for parent, _, files in os.walk(folder):
        for name in files:
            with contextlib.suppress(OSError):
                found = os.lstat(os.path.join(parent, name))
                size += min(found.st_size, found.st_blocks * 512) if stat.S_ISREG(found.st_mode) else 0
    return size


def _remove(folder: Path) -> None:
    """Remove a folder, with what a rank may have left unreadable in it."""
    for parent, folders, _ in os.walk(folder):
        for name in folders:
            path = os.path.join(parent, name)
            with contextlib.suppress(OSError):
                if not os.path.islink(path) and os.lstat(path).st_mode & stat.S_IRWXU != stat.S_IRWXU:
                    os.chmod(path, stat.S_IRWXU)
    shutil.rmtree(folder, ignore_errors=True)
