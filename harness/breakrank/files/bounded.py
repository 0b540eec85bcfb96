"""Files of a run directory, read as data: no link is followed, and only regular files are read, up to a stated size."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from breakrank.errors import BreakrankError
from breakrank_agent.protocol.checked import nests_deeper

#: The most bytes of one file, of all that is read of a run directory, and of one line of a history.
MOST_FILE, MOST_IN_ALL, MOST_LINE = 512 << 20, 2 << 30, 16 << 20
#: The most entries of a folder that are looked at.
MOST_NAMES = 100_000
#: The deepest nesting of JSON that is read; ours is less than ten deep.
DEPTH = 64
#: Digits that may be a number of more than eight bytes; only then is each number looked at.
_LONG_NUMBER = re.compile(rb"\d{19}")
_MOST_NUMBER = 2**64


class Folder:
    """A directory from wherever it may be, of which only what lies in it is read.

    Names are relative to it, as `attempt-0/rank-1.jsonl`. A symbolic link, a pipe, a device, and a file that is
    too large are refused, with the path: `BreakrankError`. A missing one is None, or empty.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._left = MOST_IN_ALL

    def read(self, name: str, most: int = MOST_FILE) -> bytes | None:
        """Return what a file holds, of at most `most` bytes."""
        file = self.open(name, most)
        if file is None:
            return None
        with file:
            return self._take(file, most + 1, name)

    def read_json(self, name: str, most: int = 64 << 20) -> Any:
        """Return what a file of JSON holds."""
        data = self.read(name, most)
        try:
            return None if data is None else parse(data)
        except ValueError as error:
            raise BreakrankError(f"{self.path / name} is damaged: {error}") from None

    def lines(self, name: str) -> Iterator[bytes]:
        """Yield the lines of a file, each with its newline; one that a crash cut short is left out."""
        file = self.open(name)
        if file is None:
            return
        with file:
            while line := self._take(file, MOST_LINE + 1, name, lines=True):
                if len(line) > MOST_LINE:
                    raise BreakrankError(f"{self.path / name} has a line of more than {MOST_LINE >> 20} MB")
                if line.endswith(b"\n"):
                    yield line

    def tail(self, name: str, size: int) -> bytes:
        """Return the last `size` bytes of a file."""
        with self.open(name, most=0) or contextlib.nullcontext() as file:
            if file is None:
                return b""
            file.seek(max(0, os.fstat(file.fileno()).st_size - size))
            return self._take(file, size, name)

    def open(self, name: str, most: int = MOST_FILE) -> BinaryIO | None:
        """Return a regular file of at most `most` bytes (0: of any size), opened to be read."""
        *folders, last = name.split("/")
        try:
            with self._entered(folders) as folder:
                self._check(os.stat(last, dir_fd=folder, follow_symlinks=False), name, most)
                flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
                descriptor = os.open(last, flags, dir_fd=folder)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._refusal(name, error) from None
        try:
            # Something else may lie there by now.
            self._check(os.fstat(descriptor), name, most)
        except BreakrankError:
            os.close(descriptor)
            raise
        return open(descriptor, "rb")

    def names(self, name: str = "") -> list[str]:
        """Return the names of what is in a folder, in order."""
        try:
            with self._entered(name.split("/") if name else []) as folder, os.scandir(folder) as entries:
                found = []
                for entry in entries:
                    found.append(entry.name)
                    if len(found) > MOST_NAMES:
                        raise BreakrankError(f"{self.path / name} holds more than {MOST_NAMES} files")
        except FileNotFoundError:
            return []
        except OSError as error:
            raise self._refusal(name, error) from None
        return sorted(found)

    def holds_folder(self, name: str) -> bool:
        """Return whether there is a folder of that name."""
        try:
            with self._entered([name]):
                return True
        except FileNotFoundError:
            return False
        except OSError as error:
            raise self._refusal(name, error) from None

    @contextlib.contextmanager
    def _entered(self, folders: list[str]) -> Iterator[int]:
        """Give a descriptor of a folder in this one, without following a link on the way. Raises `OSError`."""
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
        descriptor = os.open(self.path, flags)
        try:
            for folder in folders:
                inner = os.open(folder, flags | os.O_NOFOLLOW, dir_fd=descriptor)
                os.close(descriptor)
                descriptor = inner
            yield descriptor
        finally:
            os.close(descriptor)

    def _check(self, found: os.stat_result, name: str, most: int) -> None:
        """Raise `BreakrankError` for what is no regular file, or too large a one."""
        path = self.path / name
        if stat.S_ISLNK(found.st_mode):
            raise BreakrankError(f"{path} is a symbolic link, which is not followed; a run directory holds its files")
        if not stat.S_ISREG(found.st_mode):
            raise BreakrankError(f"{path} is no regular file")
        if most and found.st_size > most:
            raise BreakrankError(f"{path} has {found.st_size >> 20} MB; at most {most >> 20} are read")

    def _take(self, file: BinaryIO, size: int, name: str, lines: bool = False) -> bytes:
        """Read from a file, within what may be read of the folder in all."""
        try:
            data = file.readline(size) if lines else file.read(size)
        except OSError as error:
            raise self._refusal(name, error) from None
        self._left -= len(data)
        if self._left < 0:
            raise BreakrankError(f"{self.path} holds more than the {MOST_IN_ALL >> 20} MB of records that are read")
        return data

    def _refusal(self, name: str, error: OSError) -> BreakrankError:
        path = self.path / name
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            return BreakrankError(f"{path}: a folder on the way is a symbolic link, or no folder; nothing is followed")
        return BreakrankError(f"{path} cannot be read: {error.strerror}")


def parse(data: bytes) -> Any:
    """Return what JSON of a stranger says. Raises `ValueError` for what is no JSON, too deep, or too large a number."""
    if nests_deeper(data, DEPTH):
        raise ValueError("it is nested too deeply")
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise ValueError("it is not UTF-8") from None
    return json.loads(text, parse_int=_whole) if _LONG_NUMBER.search(data) else json.loads(text)


def _whole(digits: str) -> int:
    if len(digits) > 20 or abs(int(digits)) >= _MOST_NUMBER:
        raise ValueError("it has a number of more than eight bytes")
    return int(digits)


def plain(text: object) -> str:
    """Return a text for a terminal: on one line, with what is not printed (escape sequences, say) spelled out."""
    line = str(text)
    return line if line.isprintable() else "".join(c if c.isprintable() or c == "\t" else ascii(c)[1:-1] for c in line)
