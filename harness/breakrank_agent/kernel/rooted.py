"""Paths that somebody else lays out, resolved inside of their root: a rank's, a container's, and never ours.

openat2(2) does it where the kernel has it (Linux 5.6), else a walk from folder to folder. The result is a descriptor
(O_PATH): what a name stands for may be swapped a moment later, what a descriptor stands for stays the same.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fnmatch
import glob
import os
import secrets
import stat
from collections.abc import Iterable, Iterator
from typing import Any

#: The number of openat2(2), on every architecture, and how it is to resolve.
_OPENAT2 = 437
_NO_MAGICLINKS, _NO_SYMLINKS, _IN_ROOT = 0x02, 0x04, 0x10
#: Its errors where there is none, where a sandbox forbids it, and where something was renamed meanwhile.
_NOT_BY_THE_KERNEL = (errno.ENOSYS, errno.EPERM, errno.EAGAIN)
#: As many links as the kernel follows in a path.
_LINKS = 40
#: As many files and folders as are looked at for one pattern.
_GLOBBED = 100_000

_libc = ctypes.CDLL(None, use_errno=True)


class _How(ctypes.Structure):
    """The arguments of openat2(2), struct open_how."""

    _fields_ = [("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64)]


class OutsideError(OSError):
    """A path leads out of the working folder."""


def open_root(pid: int = 0) -> int:
    """Return a descriptor of the root of a process, or of ours. Raises `OSError` if it is gone."""
    return os.open(f"/proc/{pid}/root" if pid else "/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)


def resolve(root: int, path: str, links: bool = True) -> int:
    """Return a descriptor of what a path leads to inside of the folder `root`, which `..` and absolute links end at.

    Without `links`, a path that has a symbolic link in it is refused (ELOOP). Raises `OSError`.
    """
    if "\0" in path:
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), path)
    try:
        return _by_the_kernel(root, path, links)
    except OSError as error:
        if error.errno not in _NOT_BY_THE_KERNEL:
            raise
    return _by_a_walk(root, path, links)


def _by_the_kernel(root: int, path: str, links: bool) -> int:
    how = _How(os.O_PATH | os.O_CLOEXEC, 0, _IN_ROOT | _NO_MAGICLINKS | (0 if links else _NO_SYMLINKS))
    name, size = os.fsencode(path or "."), ctypes.c_size_t(ctypes.sizeof(how))
    found = int(_libc.syscall(ctypes.c_long(_OPENAT2), ctypes.c_int(root), name, ctypes.byref(how), size))
    if found < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), path)
    return found


def _by_a_walk(root: int, path: str, links: bool) -> int:
    """Open one name after the other. A link is a text here, a magic one, too, and leads no further than `root`."""
    come, rest, followed = [os.dup(root)], path.split("/")[::-1], 0
    try:
        while rest:
            name = rest.pop()
            if name == "..":
                # Back to where we have come from, also if that was moved meanwhile.
                _must_be_folder(come[-1], path)
                if len(come) > 1:
                    os.close(come.pop())
            elif name not in ("", "."):
                found = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=come[-1])
                come.append(found)
                if stat.S_ISLNK(os.fstat(found).st_mode):
                    followed += 1
                    if not links or followed > _LINKS:
                        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
                    text = os.readlink("", dir_fd=found)
                    os.close(come.pop())
                    while text.startswith("/") and len(come) > 1:
                        os.close(come.pop())
                    rest += text.split("/")[::-1]
            else:
                _must_be_folder(come[-1], path)
        return come.pop()
    finally:
        for descriptor in come:
            os.close(descriptor)


def _must_be_folder(descriptor: int, path: str) -> None:
    if not stat.S_ISDIR(os.fstat(descriptor).st_mode):
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)


def mount_of(descriptor: int) -> int:
    """Return the number of the mount that an open file or folder is seen through (proc(5), fdinfo)."""
    with open(f"/proc/self/fdinfo/{descriptor}", encoding="ascii", errors="replace") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("mnt_id:"))


def reopen(descriptor: int, flags: int) -> int:
    """Return another descriptor of the very same file or folder, opened to be used. It never waits, as for a FIFO."""
    return os.open(f"/proc/self/fd/{descriptor}", flags | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)


def path_in(root: int, descriptor: int) -> str:
    """Return the path of an open file or folder as it is seen from `root`, without any link in it."""
    top, path = (os.readlink(f"/proc/self/fd/{one}") for one in (root, descriptor))
    return path if top == "/" or not path.startswith(top) else path[len(top) :] or "/"


def shown(path: str) -> str:
    """Return a path as a line can show it: a name may have any bytes in it."""
    return "".join(one if one.isprintable() else "?" for one in path)


def give(path: str, like: os.stat_result) -> None:
    """Give a file to another one's owner: where we are root, a rank in a container may be somebody else."""
    if os.geteuid() == 0:
        os.chown(path, like.st_uid, like.st_gid)


class WorkingFolder:
    """The ranks' working folder as it lies in the root of a process, and the files below it.

    A path counts from the folder, and links in it are followed. Each method raises `OutsideError` for a path that leads
    out of the folder: to a place elsewhere, or to another file system that is mounted below it, which may be anybody's.
    `carried` are mounts below that the folder's view has made for itself, `mounts` the numbers of our own.
    """

    def __init__(self, pid: int, folder: str, carried: Iterable[str] = (), mounts: Iterable[int] = ()) -> None:
        self.root = open_root(pid)
        self._name = folder
        self._mounts = set(mounts)
        try:
            self.descriptor = resolve(self.root, folder)
        except OSError:
            os.close(self.root)
            raise
        self._mounts.add(mount_of(self.descriptor))
        for path in carried:
            with contextlib.suppress(OSError), opened(resolve(self.root, os.path.join(folder, path))) as found:
                self._mounts.add(mount_of(found))

    def __enter__(self) -> WorkingFolder:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give the descriptors back."""
        os.close(self.descriptor)
        os.close(self.root)

    def find(self, path: str) -> int:
        """Return a descriptor (O_PATH) of what a path leads to. Raises `OSError`."""
        found = resolve(self.root, os.path.join(self._name, path))
        try:
            self.must_contain(found, path)
        except OSError:
            os.close(found)
            raise
        return found

    def must_contain(self, descriptor: int, path: str) -> None:
        """Raise `OutsideError` if an open file or folder, which `path` has led to, does not lie in the folder."""
        where, home = self.path_of(descriptor), self.path_of(self.descriptor)
        if where != home and not where.startswith(home.rstrip("/") + "/"):
            raise OutsideError(f"{shown(path)} leads out of the working folder, to {shown(where)}")
        if mount_of(descriptor) not in self._mounts:
            to = f"what is mounted at or above {shown(where)}"
            raise OutsideError(f"{shown(path)} leads out of the working folder, to {to}")

    def nearest(self, path: str) -> int:
        """Return a descriptor of what a path leads to or, where that is missing, of what lies above it."""
        while True:
            try:
                return self.find(path)
            except FileNotFoundError:
                if not path.strip("/"):
                    raise
                path = os.path.dirname(path.rstrip("/"))

    def path_of(self, descriptor: int) -> str:
        """Return the path of an open file or folder as the ranks see it, without any link in it."""
        return path_in(self.root, descriptor)

    def real(self, path: str) -> str:
        """Return the path that the ranks see something at that may be yet to come, without the links in it."""
        rest: list[str] = []
        while True:
            try:
                with opened(self.find(path)) as found:
                    return os.path.join(self.path_of(found), *reversed(rest))
            except FileNotFoundError:
                if not path.strip("/"):
                    raise
                path, name = os.path.split(path.rstrip("/"))
                rest.append(name)

    def open(self, path: str) -> int:
        """Return a descriptor of a regular file, to be read. Raises `OSError` for anything else."""
        with opened(self.find(path)) as found:
            if not stat.S_ISREG(os.fstat(found).st_mode):
                raise OSError(f"{shown(path)} is no regular file")
            return reopen(found, os.O_RDONLY)

    def read(self, path: str, limit: int) -> bytes:
        """Return what is in a regular file of up to `limit` bytes. Raises `OSError`."""
        with os.fdopen(self.open(path), "rb") as file:
            content = file.read(limit + 1)
        if len(content) > limit:
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), path)
        return content

    def replace(self, path: str, content: bytes) -> None:
        """Put another file in the place of one, in one go and for its owner; other names of the old one keep that."""
        with contextlib.ExitStack() as stack:
            old = stack.enter_context(opened(self.find(path)))
            above, name = os.path.split(self.path_of(old))
            folder = stack.enter_context(opened(resolve(self.root, above, links=False)))
            self.must_contain(folder, os.path.dirname(path))
            put(folder, name, content, os.fstat(old))

    def make(self, path: str) -> int:
        """Return a descriptor of a folder, which is made, with those above it, for their owner, where it is missing.

        Raises `OSError`, also where an absolute path leads to nothing.
        """
        try:
            above = self.find(path)
        except FileNotFoundError:
            if path.startswith("/"):
                raise
            above, made = os.dup(self.descriptor), ""
            for name in filter(None, path.split("/")):
                made = os.path.join(made, name)
                with opened(above):
                    above = self._make(made, above, name)
        try:
            _must_be_folder(above, path)
        except OSError:
            os.close(above)
            raise
        return above

    def _make(self, path: str, above: int, name: str) -> int:
        with contextlib.suppress(FileNotFoundError):
            return self.find(path)
        try:
            os.mkdir(name, dir_fd=above)
        except FileExistsError:
            raise OSError(f"{shown(path)} is a symbolic link to nothing") from None
        made = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=above)
        give(f"/proc/self/fd/{made}", os.fstat(above))
        return made

    def glob(self, pattern: str) -> list[str]:
        """Return the paths that match a pattern, sorted; those that lead out are left out.

        If nothing else matches, the first of them is raised: `OutsideError`.
        """
        matches, refused = [], []
        for path in self._matches(pattern):
            try:
                os.close(self.find(path))
                matches.append(path)
            except OutsideError as error:
                refused.append(error)
            except OSError:
                continue
        if refused and not matches:
            raise refused[0]
        return sorted(matches)

    @contextlib.contextmanager
    def writable(self, pattern: str, least: int) -> Iterator[int]:
        """Open the last file that matches a pattern, of `least` bytes or more, to change it where it lies.

        Raises `OSError` where there is none, and for a file with another name, which may lie outside of the folder.
        """
        paths = self.glob(pattern)
        if not paths:
            raise FileNotFoundError(f"there is no {pattern} in the working folder")
        name = shown(paths[-1])
        with opened(self.find(paths[-1])) as found:
            state = os.fstat(found)
            if not stat.S_ISREG(state.st_mode) or state.st_size < least:
                raise OSError(f"{name} is no file, or has fewer bytes than {least}")
            if state.st_nlink > 1:
                raise OSError(f"{name} has another name, too")
            with opened(reopen(found, os.O_RDWR)) as file:
                yield file

    def _matches(self, pattern: str) -> list[str]:
        found = ["/" if pattern.startswith("/") else ""]
        for part in filter(None, pattern.split("/")):
            if part == "**":
                found = [path for above in found for path in (above, *self._below(above))]
            elif glob.has_magic(part):
                found = [path for above in found for path in self._matches_in(above, part)]
            else:
                found = [os.path.join(above, part) for above in found]
            if len(found) > _GLOBBED:
                raise OSError(f"{pattern} matches more than {_GLOBBED} files")
        return found

    def _matches_in(self, above: str, part: str) -> list[str]:
        """Return what matches one part of a pattern in a folder; the folder itself, for `glob` to see, if it is out."""
        try:
            return [os.path.join(above, name) for name in self._names(above) if fnmatch.fnmatchcase(name, part)]
        except OutsideError:
            return [above]

    def _names(self, path: str) -> list[str]:
        """Return what is in a folder; nothing for what is none. Raises `OutsideError`."""
        try:
            with opened(self.find(path)) as found, opened(reopen(found, os.O_RDONLY | os.O_DIRECTORY)) as folder:
                return sorted(os.listdir(folder))
        except OutsideError:
            raise
        except OSError:
            return []

    def _below(self, path: str) -> Iterator[str]:
        """Yield the folders below one, those behind links not."""
        for name in self._names(path):
            one = os.path.join(path, name)
            with contextlib.suppress(OSError), opened(self.find(one)) as found, opened(self.find(path)) as above:
                is_link = self.path_of(found) != os.path.join(self.path_of(above), name)
                if not is_link and stat.S_ISDIR(os.fstat(found).st_mode):
                    yield one
                    yield from self._below(one)


@contextlib.contextmanager
def opened(descriptor: int) -> Iterator[int]:
    """Have a descriptor closed in the end."""
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def put(folder: int, name: str, content: Any, like: os.stat_result) -> None:
    """Put a file with this content, and another one's mode and owner, in a folder, in the place of what is there."""
    scratch = f".{secrets.token_hex(8)}.tmp"
    descriptor = os.open(
        scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=folder
    )
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            give(f"/proc/self/fd/{descriptor}", like)
            os.fchmod(descriptor, stat.S_IMODE(like.st_mode))
        os.rename(scratch, name, src_dir_fd=folder, dst_dir_fd=folder)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(scratch, dir_fd=folder)
        raise
