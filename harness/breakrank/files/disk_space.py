"""Room on the disk of the runs: records are written whole or not at all, and some is kept back for the verdict.

Recording never raises because of the disk: a rank must not wait for us, and a run ends in a verdict. That something
could not be written is remembered once, in the `Room` that all files of a run share.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from breakrank.errors import BreakrankError, NoSpaceError

#: The kernel's errors when a disk, or a user's share of it, is full.
FULL = (errno.ENOSPC, errno.EDQUOT)
#: Less than this is no room: not even the end of a record fits.
_LEAST_BYTES = 64 * 1024
#: Bytes that are kept back for the verdict of one run.
KEPT_BYTES = 256 * 1024
#: The name of the kept room until the verdict lies in it.
_KEPT = "verdict.json.new"


class Room:
    """Notes writes that the disk of the folder `runs` refuses; `lack` gives the reason, and is empty without one."""

    def __init__(self, runs: Path) -> None:
        self._runs = runs
        self.lack = ""

    def refuse(self, error: OSError) -> None:
        """Remember that something could not be written, and why; the first reason stays."""
        self.lack = self.lack or _reason(self._runs, error)

    def look(self) -> None:
        """Look whether the disk is full now: what the ranks themselves wrote there may be cut short."""
        if shutil.disk_usage(self._runs).free < _LEAST_BYTES:
            self.refuse(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))


class RecordFile:
    """A file of records that grows: each piece is there whole or not at all.

    After the first piece that does not fit nothing more is written, so that what is there is the beginning of all; with
    `goes_on`, later pieces are tried again.
    """

    def __init__(self, path: Path, room: Room, goes_on: bool = False) -> None:
        self._room, self._goes_on = room, goes_on
        self._descriptor, self._size, self._over = -1, 0, False
        try:
            self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        except OSError as error:
            room.refuse(error)
            self._over = True

    def write(self, data: bytes) -> bool:
        """Append a piece; return whether it is there."""
        if self._over:
            return False
        try:
            done = 0
            while done < len(data):
                done += os.pwrite(self._descriptor, data[done:] if done else data, self._size + done)
        except OSError as error:
            self._room.refuse(error)
            self._over = not self._goes_on
            with contextlib.suppress(OSError):
                os.ftruncate(self._descriptor, self._size)
            return False
        self._size += len(data)
        return True

    def close(self) -> None:
        """Close the file."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._descriptor, self._over = -1, True


def keep_room(folder: Path) -> None:
    """Take the room in a run directory that its verdict will need. Raises `OSError`."""
    descriptor = os.open(folder / _KEPT, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        os.posix_fallocate(descriptor, 0, KEPT_BYTES)
    finally:
        os.close(descriptor)


def write_verdict(folder: Path, data: bytes) -> None:
    """Write `verdict.json`, whole or not at all, into the room that was kept for it. Raises `OSError`.

    It is written over what was allocated, so that nobody who fills the disk can come in between.
    """
    new = folder / _KEPT
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        done = 0
        while done < len(data):
            done += os.pwrite(descriptor, data[done:], done)
        os.ftruncate(descriptor, len(data))
    finally:
        os.close(descriptor)
    new.replace(folder / "verdict.json")


@contextlib.contextmanager
def removed_if_cut_short(folder: Path) -> Iterator[None]:
    """Remove a folder that is copied in the block, and cannot be copied as a whole: a part of it would be damage.

    Raises `OSError`.
    """
    try:
        yield
    except shutil.Error as error:
        # It has one line for each file, and none says the number of its error.
        full = shutil.disk_usage(folder.parent).free < _LEAST_BYTES
        shutil.rmtree(folder, ignore_errors=True)
        raise OSError(errno.ENOSPC if full else errno.EIO, str(error.args[0][0][2])) from None
    except OSError:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def unwritable(what: str, folder: Path, error: OSError) -> BreakrankError:
    """Return the error of one line for what could not be written in `folder`, of its own kind where that is full."""
    if error.errno in FULL:
        return NoSpaceError(f"no space left in {folder}: {what}; free some")
    return BreakrankError(f"{what} in {folder}: {error.strerror or error}")


def _reason(runs: Path, error: OSError) -> str:
    return f"no space left in {runs}" if error.errno in FULL else f"cannot write to {runs}: {error.strerror or error}"
