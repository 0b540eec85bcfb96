"""The room that run directories take: the oldest go first, and none that somebody still works on.

Runs that went wrong stay longest, and of the others the first one of each finding: the history has the results of all.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import stat
from collections.abc import Iterable, Iterator
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
    """Remove runs until all of them are below the limit, those that were cut short like others.

    The oldest go first, those with the lowest worth before all others. Only what is a run directory of ours is removed,
    and what a link leads to is left alone.
    """
    finished = sorted(finished_runs(runs), key=lambda run: run.when)
    total = sum(run.size for run in finished)
    if total <= limit_mb * 1_000_000:
        return
    worth = _worth(finished)
    for run in sorted(finished, key=lambda run: (worth[run], run.when)):
        if total <= limit_mb * 1_000_000:
            return
        total -= run.size
        _remove(run.folder)


def _worth(finished: Iterable[Finished]) -> dict[Finished, tuple[bool, bool]]:
    """Return for each run, in the order of time, whether it went wrong, and whether it is the first of its finding."""
    worth: dict[Finished, tuple[bool, bool]] = {}
    seen: set[tuple[str, str]] = set()
    for run in finished:
        wrong, finding = _came_to(run.folder)
        # Runs of one case differ in the number alone that ends the name.
        named = run.folder.name.rpartition("-")[0], finding
        worth[run] = wrong, bool(finding) and named not in seen
        seen.add(named)
    return worth


def _came_to(folder: Path) -> tuple[bool, str]:
    """Return whether a run went wrong, and its outcome with its first finding; empty if nothing was found."""
    try:
        verdict = Folder(folder).read_json("verdict.json")
    except BreakrankError:
        return False, ""
    if not isinstance(verdict, dict):
        return False, ""
    findings = verdict.get("findings")
    first = findings[0] if isinstance(findings, list) and findings else None
    words = f"{verdict.get('outcome')} {first.get('oracle')} {first.get('cause')}" if isinstance(first, dict) else ""
    return verdict.get("as_recorded") is False, words


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
