"""Files as a failure of power would leave them: each with the content of its last fsync, and each folder's names, too.

A strict disk: nothing reaches it by itself. The content of a file is as of the last fsync of that file, and the names
in a folder (new, renamed, removed) are as of the last fsync of the folder. All that lay there at the beginning is on
disk. Each file and folder that is kept stays open, so that its number names no other one.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import BinaryIO, NamedTuple, cast

from breakrank_agent.kernel.rooted import give, opened, reopen, shown

#: A file or folder: the number of its device, and its own.
Key = tuple[int, int]


class Entry(NamedTuple):
    """A name in a folder: the mode of what it names, its key, and the text of a link."""

    mode: int
    key: Key
    link: str = ""


@dataclass
class _File:
    """A file that was changed, or may be: a descriptor of it, and its content on disk; None if it has none yet."""

    pin: int
    like: os.stat_result
    content: BinaryIO | None


@dataclass
class _Folder:
    """A folder in which names were changed: a descriptor of it, and the names on disk."""

    pin: int
    like: os.stat_result
    names: dict[str, Entry]


class DiskJournal:
    """Keeps of the working folder what has reached the disk, from the moment on at which changes are told to it.

    Descriptors are of files and folders that lie in the working folder, opened by O_PATH. Methods raise `OSError`.
    """

    def __init__(self) -> None:
        self._files: dict[Key, _File] = {}
        self._folders: dict[Key, _Folder] = {}
        #: All that lay in a folder before its first change.
        self._old: set[Key] = set()
        #: The reason for which not all was kept.
        self.lack = ""

    def will_change(self, folder: int, name: str) -> None:
        """Take note of a name that is about to come to a folder, or to leave it, or to stand for something else."""
        self._keep_folder(folder)
        with contextlib.suppress(FileNotFoundError), opened(_look(folder, name)) as found:
            self.keep(found, folder)

    def keep(self, found: int, folder: int) -> None:
        """Keep a file that is about to be written to, or all that lies in a folder; `folder` is the one above."""
        state = os.fstat(found)
        if stat.S_ISDIR(state.st_mode):
            self._keep_folder(found)
            for name in self._folders[_key(state)].names:
                with contextlib.suppress(FileNotFoundError), opened(_look(found, name)) as one:
                    self.keep(one, found)
        elif stat.S_ISREG(state.st_mode) and _key(state) not in self._files:
            made_since = _key(os.fstat(folder)) in self._folders and _key(state) not in self._old
            self._files[_key(state)] = _File(os.dup(found), state, None if made_since else _copy_of(found))

    def file_synced(self, found: int) -> None:
        """Take note of a file that is brought to disk."""
        state = os.fstat(found)
        kept = self._files.get(_key(state))
        if kept is None:
            self._files[_key(state)] = _File(os.dup(found), state, _copy_of(found))
        else:
            if kept.content is not None:
                kept.content.close()
            kept.like, kept.content = state, _copy_of(found)

    def folder_synced(self, found: int) -> None:
        """Take note of a folder that is brought to disk: of the names in it, and not of the files."""
        kept = self._folders.get(_key(os.fstat(found)))
        if kept is not None:
            kept.names = _names_in(found)
            for name, entry in kept.names.items():
                if stat.S_ISREG(entry.mode) and entry.key not in self._old:
                    with opened(_look(found, name)) as one:
                        self.keep(one, found)

    def all_synced(self) -> None:
        """Take note of all files and folders, which are brought to disk at once (sync(2))."""
        for folder in [one for one in self._folders.values() if _is_there(one.pin)]:
            self.folder_synced(folder.pin)
        for file in [one for one in self._files.values() if os.fstat(one.pin).st_nlink]:
            self.file_synced(file.pin)

    def roll_back(self) -> None:
        """Leave what is on disk, and nothing else. It can be done again. Raises `OSError` if not all was kept."""
        if self.lack:
            raise OSError(f"not every write was seen: {self.lack}")
        for file in self._files.values():
            if os.fstat(file.pin).st_nlink:
                _rewrite(file)
        for folder in self._folders.values():
            if _is_there(folder.pin):
                with opened(reopen(folder.pin, os.O_RDONLY | os.O_DIRECTORY)) as there:
                    self._restore(there, folder.names)

    def names(self) -> Iterator[tuple[int, Mapping[str, bytes | None]]]:
        """Yield each folder that was changed and is there, with its names on disk and the digests of their contents.

        The digest is None for anything but a file, and for a file that nobody has touched.
        """
        for folder in self._folders.values():
            if _is_there(folder.pin):
                yield folder.pin, {name: self._digest(entry) for name, entry in folder.names.items()}

    def close(self) -> None:
        """Give everything back."""
        for file in self._files.values():
            os.close(file.pin)
            if file.content is not None:
                file.content.close()
        for folder in self._folders.values():
            os.close(folder.pin)
        self._files, self._folders = {}, {}

    def _keep_folder(self, found: int) -> None:
        state = os.fstat(found)
        if _key(state) not in self._folders:
            names = _names_in(found)
            self._folders[_key(state)] = _Folder(os.dup(found), state, names)
            self._old |= {entry.key for entry in names.values()}

    def _digest(self, entry: Entry) -> bytes | None:
        kept = self._files.get(entry.key)
        return None if kept is None else hashlib.sha256(_bytes_of(kept)).digest()

    def _restore(self, folder: int, names: Mapping[str, Entry]) -> None:
        """Bring the names in an open folder to what they were."""
        now = _names_in(folder)
        for name, entry in now.items():
            if name not in names or names[name].key != entry.key:
                _remove(folder, name, entry)
        for name, entry in names.items():
            if name not in now or now[name].key != entry.key:
                self._make(folder, name, entry)

    def _make(self, folder: int, name: str, entry: Entry) -> None:
        """Make anew what a name stood for."""
        file, below = self._files.get(entry.key), self._folders.get(entry.key)
        if stat.S_ISLNK(entry.mode):
            os.symlink(entry.link, name, dir_fd=folder)
        elif below is not None:
            os.mkdir(name, stat.S_IMODE(entry.mode), dir_fd=folder)
            with opened(os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=folder)) as made:
                give(f"/proc/self/fd/{made}", below.like)
                self._restore(made, below.names)
        elif file is not None:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
            with os.fdopen(os.open(name, flags, 0o600, dir_fd=folder), "wb") as made_file:
                made_file.write(_bytes_of(file))
                made_file.flush()
                _dress(made_file.fileno(), file.like)
        elif stat.S_ISREG(entry.mode) or stat.S_ISDIR(entry.mode):
            raise OSError(f"{shown(name)} has gone unseen")


def _key(state: os.stat_result) -> Key:
    return state.st_dev, state.st_ino


def _look(folder: int, name: str) -> int:
    return os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)


def _names_in(folder: int) -> dict[str, Entry]:
    found = {}
    with opened(reopen(folder, os.O_RDONLY | os.O_DIRECTORY)) as there, os.scandir(there) as names:
        for one in names:
            # A name may leave meanwhile, by another process.
            with contextlib.suppress(FileNotFoundError):
                state = one.stat(follow_symlinks=False)
                link = os.readlink(one.name, dir_fd=there) if stat.S_ISLNK(state.st_mode) else ""
                found[one.name] = Entry(state.st_mode, _key(state), link)
    return found


def _is_there(folder: int) -> bool:
    """Return whether a folder that is open still has a name."""
    return not os.readlink(f"/proc/self/fd/{folder}").endswith(" (deleted)")


def _copy_of(found: int) -> BinaryIO:
    """Return a copy of a file that has no name anywhere."""
    copy = cast(BinaryIO, tempfile.TemporaryFile())  # noqa: SIM115 - it stays open for as long as the journal lives
    with os.fdopen(reopen(found, os.O_RDONLY), "rb") as source:
        shutil.copyfileobj(source, copy)
    return copy


def _bytes_of(file: _File) -> bytes:
    if file.content is None:
        return b""
    file.content.seek(0)
    return file.content.read()


def _rewrite(file: _File) -> None:
    """Bring a file in its place to its content on disk."""
    content = _bytes_of(file)
    with os.fdopen(reopen(file.pin, os.O_RDWR), "r+b") as there:
        if there.read() != content:
            there.seek(0)
            there.truncate()
            there.write(content)
            there.flush()
            _dress(there.fileno(), file.like)


def _dress(descriptor: int, like: os.stat_result) -> None:
    """Give a file the owner, the mode and the time of the last change that it had."""
    give(f"/proc/self/fd/{descriptor}", like)
    os.fchmod(descriptor, stat.S_IMODE(like.st_mode))
    os.utime(descriptor, ns=(like.st_atime_ns, like.st_mtime_ns))


def _remove(folder: int, name: str, entry: Entry) -> None:
    if stat.S_ISDIR(entry.mode):
        shutil.rmtree(f"/proc/self/fd/{folder}/{name}")
    else:
        os.unlink(name, dir_fd=folder)
