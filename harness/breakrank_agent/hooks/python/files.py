"""Writing to files of the working folder, seen by Python's audit hook before it happens.

Under a controlled schedule each operation on such a file takes a turn of its own: opening (to read, too), renaming,
removing, and each write that a Python file makes to the kernel, so that two ranks can interleave in one file. A write
of C++ itself (`torch.save` to a path) is one operation.

Opening a file to change it in place (`r+b`), or to append, touches none of its bytes. Each later read and write is
on record by its range of bytes, `os.pwrite` and its like included; what is appended is so as such, since the kernel
puts each write at the end as a whole.
"""

from __future__ import annotations

import builtins
import contextlib
import fcntl
import functools
import hashlib
import io
import mmap
import os
import sys
from collections.abc import Iterator
from types import FrameType
from typing import Any, Callable, Optional

from breakrank_agent.agent.agent import Agent
from breakrank_agent.agent.interpose import interpose
from breakrank_agent.agent.tracebacks import hide
from breakrank_agent.protocol.log import members

WAITS_FOR = ""
IN_CHILDREN = True

_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_LOCKS = ("fcntl.flock", "fcntl.lockf")
#: Audit events that change a path, with the positions of that path and of the folder that it is relative to, if any.
_CHANGES = {
    "os.rename": (1, 3),
    "os.remove": (0, 1),
    "os.truncate": (0, None),
    "os.mkdir": (0, 2),
    "os.rmdir": (0, 1),
}


def install(agent: Agent) -> None:
    """Turn each file of the working folder that is opened for writing, renamed or removed into a `write` point.

    An audit hook cannot be taken off again: it lives as long as the rank, and costs a comparison for other events.
    """

    def hook(event: str, args: tuple[Any, ...]) -> None:
        if event == "open":
            if isinstance(args[2], int) and args[2] & _WRITES:
                _open_to_write(agent, args[2], _within(agent, args[0]))
            elif agent.watches and args[1] is not None:
                _read(agent, _within(agent, args[0]))
        elif event in _CHANGES:
            path, folder = _CHANGES[event]
            where = _within(agent, args[path], -1 if folder is None else args[folder])
            if event == "os.rename":
                _rename(agent, _within(agent, args[0], args[2]), where)
            else:
                _write(agent, "open folder" if event == "os.mkdir" and _may_be_there() else event[3:], where)
        elif event in _LOCKS and agent.watches and not agent.busy:
            _lock(agent, args[0])
        elif event == "mmap.__new__":
            _map(agent, args[0], args[2])

    sys.addaudithook(hook)
    if agent.watches:
        _watch_open(agent)
        _watch_descriptors(agent)


def _write(agent: Agent, how: str, path: Optional[str], **more: str) -> None:
    if path is not None:
        agent.reach("write", says=members({"path": path, "how": how, **more}))
        agent.take_turn(how, "w", path, site=agent.sites.here().line)


def _open_to_write(agent: Agent, flags: int, path: Optional[str]) -> None:
    """Record that a file is opened to be written; what is not emptied is touched when it is written to."""
    if path is not None and not flags & os.O_TRUNC and flags & (os.O_RDWR | os.O_WRONLY) and not flags & os.O_EXCL:
        agent.reach("write", says=members({"path": path, "how": "open"}))
        if flags & os.O_APPEND:
            agent.take_turn("append", "w", path, site=agent.sites.here().line)
    else:
        _write(agent, "open", path)


def _map(agent: Agent, descriptor: int, access: int) -> None:
    """Record that a file is mapped, so that it may be changed from here on; look after one that is only read."""
    reads = access in (mmap.ACCESS_READ, mmap.ACCESS_COPY)
    with contextlib.suppress(OSError):
        if reads and descriptor > 2 and not agent.busy and agent.services.mapped is not None:
            agent.services.mapped.meet(os.readlink(f"/proc/self/fd/{descriptor}"))
        elif agent.watches and not reads and (path := _opened(agent, descriptor)) is not None:
            agent.take_turn("map", "w", path, site=agent.sites.here().line)


def _opened(agent: Agent, descriptor: int) -> Optional[str]:
    """Return the path of an open file of the working folder."""
    if descriptor <= 2 or agent.busy or not agent.sees:
        return None
    name = os.readlink(f"/proc/self/fd/{descriptor}")
    return _within(agent, name) if name.startswith(os.sep) else None


def _read(agent: Agent, path: Optional[str]) -> None:
    if path is not None:
        agent.take_turn("open", "r", path, site=agent.sites.here().line)


def _rename(agent: Agent, source: Optional[str], path: Optional[str]) -> None:
    """Record that a rename takes a file away from one path, and where it goes; the turn is that of the latter."""
    if source is not None and agent.watches:
        agent.accesses.access("move", "w", source, None, site=agent.sites.here().line)
    _write(agent, "rename", path, **({} if source is None else {"source": source}))


def _lock(agent: Agent, descriptor: int) -> None:
    """Record that a file is a lock: who opens it does so for its name, and not for what it holds."""
    with contextlib.suppress(OSError):
        path = _within(agent, os.readlink(f"/proc/self/fd/{descriptor}"))
        if path is not None:
            agent.accesses.access("lock", "r", path, None)


def _may_be_there() -> bool:
    """Return whether a folder may be there already that is being made (`exist_ok`): then its maker does not matter."""
    frame: Optional[FrameType] = sys._getframe(2)
    while frame is not None and frame.f_code.co_name in ("mkdir", "makedirs", "ensure_dir"):
        if frame.f_locals.get("exist_ok"):
            return True
        frame = frame.f_back
    return False


def _within(agent: Agent, path: Any, folder: int = -1) -> Optional[str]:
    """Return a path as it reads from the working folder, or None for one that lies elsewhere, or is the agent's own.

    `folder` is the descriptor of the folder that the path is relative to, or -1.
    """
    if agent.busy or not isinstance(path, (str, bytes, os.PathLike)):
        return None
    if folder >= 0:
        path = os.path.join(os.readlink(f"/proc/self/fd/{folder}"), os.fsdecode(path))
    relative = agent.relative(path)
    # The files in which Python caches imports differ between a first and a second run, and are not the program's doing.
    return None if relative.startswith(os.sep) or "__pycache__" in relative else relative


def _watch_open(agent: Agent) -> None:
    """Replace `open`, so that files of the working folder that are changed in place say which bytes are touched.

    Under a controlled schedule those that are written anew take a turn for each write, too. By hand, since what is
    opened is another file than the original would return.
    """
    plain = io.open

    @functools.wraps(plain)
    def watched(file: Any, mode: str = "r", buffering: int = -1, *args: Any, **kwargs: Any) -> Any:
        opener = kwargs.get("opener") or (args[4] if len(args) > 4 else None)
        kind = _kind(agent, mode) if isinstance(mode, str) and opener is None else None
        path = _within(agent, file) if kind is not None else None
        try:
            if kind is None or path is None or not agent.sees:
                return plain(file, mode, buffering, *args, **kwargs)
            raw = kind(agent, path, file, mode)
        except BaseException as error:
            hide(error)
            raise
        if buffering == 0 and "b" in mode:
            return raw
        size = buffering if buffering > 1 else os.fstat(raw.fileno()).st_blksize
        buffered: Any = io.BufferedWriter(raw, size) if isinstance(raw, _ScheduledFile) else _BufferInPlace(raw, size)
        return buffered if "b" in mode else _as_text(buffered, mode, buffering == 1, *args, **kwargs)

    io.open = builtins.open = watched


def _kind(agent: Agent, mode: str) -> Any:
    """Return what a file that is opened so is made of, or None if it is left as it is."""
    if not set(mode) <= set("rwxabt+") or len(set(mode) & set("rwxa")) != 1 or {"b", "t"} <= set(mode):
        return None
    if "+" in mode and not set(mode).isdisjoint("ra"):
        return _FileInPlace
    return _ScheduledFile if agent.controlled and "+" not in mode and "r" not in mode else None


def _watch_descriptors(agent: Agent) -> None:
    """Wrap what reads and writes by a descriptor."""

    def watch(name: str, mode: str, size_of: Callable[[Any], int], placed: bool) -> None:
        def touching(descriptor: int, what: Any, *place: int) -> None:
            with contextlib.suppress(OSError):
                path = _opened(agent, descriptor)
                if path is not None:
                    at = place[0] if placed else os.lseek(descriptor, 0, os.SEEK_CUR)
                    _touch(agent, path, descriptor, mode, at, size_of(what))

        interpose(os, name, touching)

    def size_of(data: Any) -> int:
        return memoryview(data).nbytes

    for name, placed in (("write", False), ("pwrite", True)):
        watch(name, "w", size_of, placed)
    for name, placed in (("read", False), ("pread", True)):
        watch(name, "r", int, placed)


def _touch(agent: Agent, path: str, descriptor: int, mode: str, at: int, size: int) -> None:
    """Record that some bytes of a file are read or written, in a turn."""
    site = agent.sites.here().line
    if mode == "w" and fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_APPEND:
        agent.take_turn("append", "w", path, site=site)
    elif size > 0:
        agent.take_turn("read" if mode == "r" else "write", mode, path, site=site, bytes=(at, at + size))


class _FileInPlace(io.FileIO):
    """A file that is changed where it is: what it reads from the kernel and writes to it is on record."""

    def __init__(self, agent: Agent, path: str, file: Any, mode: str) -> None:
        self._agent = agent
        self._path = path
        #: True if a buffer in front records each read: it reads more than it is asked for.
        self.buffered = False
        super().__init__(file, mode.replace("b", "").replace("t", ""))

    def touches(self, mode: str, size: int, at: Optional[int] = None) -> None:
        """Record that the next bytes, or those from `at` on, are read or written."""
        # The file itself refuses an operation that it cannot do.
        with contextlib.suppress(OSError, ValueError):
            _touch(self._agent, self._path, self.fileno(), mode, self.tell() if at is None else at, size)

    def write(self, data: Any, /) -> int:
        """Write as ever, in a turn."""
        self.touches("w", memoryview(data).nbytes)
        return super().write(data)

    def readinto(self, data: Any, /) -> Any:
        """Read as ever."""
        if not self.buffered:
            self.touches("r", memoryview(data).nbytes)
        return super().readinto(data)

    def readall(self) -> Any:
        """Read as ever."""
        if not self.buffered:
            self.touches("r", os.fstat(self.fileno()).st_size - self.tell())
        return super().readall()

    def read(self, size: Optional[int] = -1, /) -> Any:
        """Read as ever."""
        if not self.buffered and size is not None and size >= 0:
            self.touches("r", size)
        return super().read(size)

    def truncate(self, size: Optional[int] = None, /) -> int:
        """Cut as ever."""
        self._agent.take_turn("truncate", "w", self._path, site=self._agent.sites.here().line)
        return super().truncate(size)


class _BufferInPlace(io.BufferedRandom):
    """The buffer of such a file: what somebody asks of it is read, and not what it reads ahead."""

    def __init__(self, raw: _FileInPlace, size: int) -> None:
        super().__init__(raw, size)
        self._raw = raw
        raw.buffered = True

    def _reads(self, size: Optional[int]) -> None:
        with contextlib.suppress(OSError, ValueError):
            at = self.tell()
            asked = os.fstat(self.fileno()).st_size - at if size is None or size < 0 else size
            self._raw.touches("r", asked, at)

    def read(self, size: Optional[int] = -1, /) -> bytes:
        """Read as ever."""
        self._reads(size)
        return super().read(size)

    def read1(self, size: int = -1, /) -> bytes:
        """Read as ever."""
        self._reads(size)
        return super().read1(size)

    def readinto(self, data: Any, /) -> int:
        """Read as ever."""
        self._reads(memoryview(data).nbytes)
        return super().readinto(data)

    def readline(self, size: Optional[int] = -1, /) -> bytes:
        """Read as ever; how much that is shows afterwards."""
        line = super().readline(size)
        self._raw.touches("r", len(line), self.tell() - len(line))
        return line


def _as_text(
    buffered: Any,
    mode: str,
    line_buffering: bool,
    encoding: Optional[str] = None,
    errors: Optional[str] = None,
    newline: Optional[str] = None,
    closefd: bool = True,
    opener: Any = None,
) -> Any:
    """Return the text layer that `open` would have put on top, from the rest of its arguments."""
    text: Any = io.TextIOWrapper(buffered, encoding, errors, newline, line_buffering)
    text.mode = mode
    return text


class _ScheduledFile(io.FileIO):
    """A file that is open for writing: each write to the kernel waits for a turn; closed, it says what was written."""

    def __init__(self, agent: Agent, path: str, file: Any, mode: str) -> None:
        self._agent = agent
        self._path = path
        self._size = 0
        self._digest = hashlib.blake2b(digest_size=8)
        # The text in front of an appended one is not ours, and so a file's whole content is not known.
        self._appends = "a" in mode
        self._known = not self._appends
        super().__init__(file, mode.replace("b", "").replace("t", ""))

    def write(self, data: Any, /) -> int:
        """Write as ever, in a turn."""
        how = "append" if self._appends else "write"
        self._agent.take_turn(how, "w", self._path, site=self._agent.sites.here().line)
        self._known = self._known and self.tell() == self._size
        written = super().write(data)
        self._digest.update(memoryview(data).cast("B")[:written])
        self._size += written
        return written

    def truncate(self, size: Optional[int] = None, /) -> int:
        """Cut as ever; what is left of the writes is then not known."""
        self._known = False
        return super().truncate(size)

    def close(self) -> None:
        """Close as ever, and record what this rank has made of the file."""
        if self.closed:
            return
        super().close()
        file = self._digest.hexdigest() if self._known else None
        self._agent.payload("write", path=self._path, file=file, size=self._size, done=self._agent.clock.done)


def blocks_of(path: Any) -> Iterator[bytes]:
    """Yield what is in a file, a MiB at a time."""
    with open(path, "rb") as raw:
        yield from iter(lambda: raw.read(1 << 20), b"")


def digest_file(*paths: Any) -> dict[str, Any]:
    """Return digest (`file`) and size of the bytes that lie on disk in a file, or in several one after the other.

    Each is None for what cannot be read.
    """
    digest, size = hashlib.blake2b(digest_size=8), 0
    try:
        for block in (block for path in paths for block in blocks_of(path)):
            digest.update(block)
            size += len(block)
    except OSError:
        return {"file": None, "size": None}
    return {"file": digest.hexdigest(), "size": size}
