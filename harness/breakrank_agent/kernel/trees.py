"""The contents of a folder, copied and put back by descriptors alone: no link followed, no file written through."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Callable

from breakrank_agent.kernel.rooted import give, mount_of, opened, shown

#: No deeper than this, and no more than so many files and folders.
DEPTH, ENTRIES = 64, 1_000_000
_BLOCK = 1 << 20
#: Errors that end a copy that may lack something.
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO)
#: Why sockets and devices are not copied.
NO_FILE = "it is no file, folder or link"
#: For what lies in a folder: what it is, and how it can be told that it is still the same.
Listing = Mapping[str, tuple[int, ...]]


@dataclass
class Copying:
    """The copying of a folder into another. A file is written anew and then given its name, never written over.

    `left_out` is told of what is not copied, by path and reason, and may raise; `skips` says of a path that it is to
    stay what it is. No more than `limit` bytes are copied, if that is not 0. With `whole`, files keep their owner and
    every bit of their mode, and FIFOs are made, too.
    """

    left_out: Callable[[str, str], None]
    skips: Callable[[str, os.stat_result], bool] = lambda path, state: False
    limit: int = 0
    whole: bool = False
    copied: int = 0
    entries: int = 0

    def copy(self, source: int, to: int, path: str = "", depth: int = 0) -> None:
        """Copy what is in the folder `source` into the folder `to`, both open. Raises `OSError`."""
        mount = mount_of(source)
        for name in sorted(os.listdir(source)):
            one = os.path.join(path, name)
            self.entries += 1
            if self.entries > ENTRIES:
                self.left_out(one, f"there are more than {ENTRIES} files")
                return
            try:
                state = os.stat(name, dir_fd=source, follow_symlinks=False)
                if stat.S_ISDIR(state.st_mode):
                    self._copy_folder(source, to, name, one, depth, mount)
                elif not self.skips(one, state):
                    self._copy_entry(source, to, name, one, state)
            except FileNotFoundError:
                # It is gone meanwhile.
                continue
            except OSError as error:
                if self.whole or error.errno in _NO_ROOM:
                    raise
                self.left_out(one, error.strerror or str(error))

    def _copy_folder(self, source: int, to: int, name: str, path: str, depth: int, mount: int) -> None:
        with opened(_open_folder(name, source)) as inside:
            if mount_of(inside) != mount:
                return self.left_out(path, "another file system is mounted there")
            if depth >= DEPTH:
                return self.left_out(path, f"it lies more than {DEPTH} folders deep")
            state = os.fstat(inside)
            with opened(self._make_folder(to, name, state)) as twin:
                self.copy(inside, twin, path, depth + 1)
                os.utime(twin, ns=(state.st_atime_ns, state.st_mtime_ns))

    def _make_folder(self, to: int, name: str, like: os.stat_result) -> int:
        """Return a folder in another; whatever else has its name goes."""
        with contextlib.suppress(FileExistsError):
            os.mkdir(name, 0o700, dir_fd=to)
        try:
            twin = _open_folder(name, to)
        except OSError as error:
            if error.errno not in (errno.ENOTDIR, errno.ELOOP):
                raise
            os.unlink(name, dir_fd=to)
            os.mkdir(name, 0o700, dir_fd=to)
            twin = _open_folder(name, to)
        if mount_of(twin) != mount_of(to):
            os.close(twin)
            raise OSError(errno.EXDEV, "another file system is mounted there", name)
        self.dress(twin, like)
        return twin

    def _copy_entry(self, source: int, to: int, name: str, path: str, state: os.stat_result) -> None:
        scratch = f".{secrets.token_hex(8)}.tmp"
        if stat.S_ISREG(state.st_mode):
            if self.limit and self.copied + state.st_size > self.limit:
                return self.left_out(path, f"no more than {self.limit // 1_000_000} MB are kept")
            made = self._copy_file(source, name, to, scratch)
        elif stat.S_ISLNK(state.st_mode):
            os.symlink(os.readlink(name, dir_fd=source), scratch, dir_fd=to)
            made = True
        elif stat.S_ISFIFO(state.st_mode) and self.whole:
            os.mkfifo(scratch, 0o600, dir_fd=to)
            os.chmod(scratch, stat.S_IMODE(state.st_mode), dir_fd=to)
            made = True
        else:
            made = False
        if not made:
            return self.left_out(path, NO_FILE)
        if self.whole and os.geteuid() == 0 and not stat.S_ISREG(state.st_mode):
            os.chown(scratch, state.st_uid, state.st_gid, dir_fd=to, follow_symlinks=False)
        self._name(to, scratch, name)

    def _name(self, to: int, scratch: str, name: str) -> None:
        try:
            try:
                os.rename(scratch, name, src_dir_fd=to, dst_dir_fd=to)
            except IsADirectoryError:
                # A folder was there: only an empty one goes.
                os.rmdir(name, dir_fd=to)
                os.rename(scratch, name, src_dir_fd=to, dst_dir_fd=to)
        except OSError:
            with contextlib.suppress(OSError):
                os.unlink(scratch, dir_fd=to)
            raise

    def _copy_file(self, source: int, name: str, to: int, scratch: str) -> bool:
        """Copy a regular file under another name; return whether it still was one."""
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
        with opened(os.open(name, flags, dir_fd=source)) as old:
            state = os.fstat(old)
            if not stat.S_ISREG(state.st_mode):
                return False
            new = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=to)
            try:
                with opened(new):
                    # One that grows meanwhile is copied as it was.
                    self._fill(old, new, state.st_size)
                    self.dress(new, state)
                    os.utime(new, ns=(state.st_atime_ns, state.st_mtime_ns))
            except OSError:
                os.unlink(scratch, dir_fd=to)
                raise
        return True

    def _fill(self, old: int, new: int, size: int) -> None:
        while size > 0 and (block := os.read(old, min(_BLOCK, size))):
            size -= len(block)
            self.copied += len(block)
            while block:
                block = block[os.write(new, block) :]

    def dress(self, descriptor: int, like: os.stat_result) -> None:
        """Give a file or folder its mode; the bits that lend their owner's rights to anybody stay where they are."""
        if self.whole:
            give(f"/proc/self/fd/{descriptor}", like)
        os.fchmod(descriptor, stat.S_IMODE(like.st_mode) & (0o7777 if self.whole else 0o777))


def _open_folder(name: str, folder: int) -> int:
    return os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)


def listed(folder: int) -> Listing:
    """Return what lies in an open folder, by path. Raises `OSError`, also for what lies too deep."""
    return {path: _print_of(state) for path, state in _walk(folder, mount_of(folder))}


def _print_of(state: os.stat_result) -> tuple[int, ...]:
    """Return what changes with whatever is done to a file; of a folder, only which one it is."""
    same = (state.st_dev, state.st_ino, stat.S_IFMT(state.st_mode))
    if stat.S_ISDIR(state.st_mode):
        return same
    return (*same, state.st_mode, state.st_size, state.st_mtime_ns, state.st_ctime_ns)


def _walk(folder: int, mount: int, path: str = "", depth: int = 0) -> Iterator[tuple[str, os.stat_result]]:
    """Yield the path and the state of each entry, folders before what is in them."""
    for name in sorted(os.listdir(folder)):
        one = os.path.join(path, name)
        state = os.stat(name, dir_fd=folder, follow_symlinks=False)
        yield one, state
        if stat.S_ISDIR(state.st_mode):
            with opened(_open_folder(name, folder)) as inside:
                if depth >= DEPTH:
                    raise OSError(f"{shown(one)} lies more than {DEPTH} folders deep")
                if mount_of(inside) == mount:
                    yield from _walk(inside, mount, one, depth + 1)


def put_back(taken: int, to: int, was_taken: Listing, was_there: Listing) -> None:
    """Do in the folder `to` what was done since in the folder `taken`, into which it had been copied.

    `was_there` lists the one as it was, and `was_taken` the other: only what is listed is removed, if it is still the
    same, and only what has changed since, or has come, is written. Raises `OSError`.
    """
    now = listed(taken)
    for path in sorted(was_there.keys() - now.keys(), reverse=True):
        if path in was_taken:
            _remove(to, path, was_there[path])
    for path in sorted(was_there.keys() & now.keys(), reverse=True):
        if path in was_taken and was_taken[path][2] != now[path][2]:
            # A folder where a file was, or the other way round.
            _remove(to, path, was_there[path])

    def refuse(path: str, why: str) -> None:
        # A thing that was never there to be taken, such as a socket that a rank has made, is not put back.
        if why != NO_FILE:
            raise OSError(f"{shown(path)}: {why}")

    def skips(path: str, state: os.stat_result) -> bool:
        return was_taken.get(path) == _print_of(state)

    Copying(refuse, skips, whole=True).copy(taken, to)


def _remove(folder: int, path: str, was: tuple[int, ...]) -> None:
    """Remove a file, or an empty folder, if it is still the one that it was."""
    above, _, name = path.rpartition("/")
    with contextlib.ExitStack() as stack, contextlib.suppress(FileNotFoundError, NotADirectoryError):
        for part in filter(None, above.split("/")):
            folder = stack.enter_context(opened(_open_folder(part, folder)))
        state = os.stat(name, dir_fd=folder, follow_symlinks=False)
        if _print_of(state)[:3] != was[:3]:
            return
        if not stat.S_ISDIR(state.st_mode):
            os.unlink(name, dir_fd=folder)
            return
        try:
            os.rmdir(name, dir_fd=folder)
        except OSError as error:
            # Somebody else has put something there.
            if error.errno != errno.ENOTEMPTY:
                raise
