"""Writing to files of the working folder, seen by Python's audit hook before it happens.

Under a controlled schedule each operation on such a file takes a turn of its own: opening (to read, too), renaming,
removing, and each write that a Python file makes to the kernel, so that two ranks can interleave in one file. What C++
writes by itself (`torch.save` to a path) is one operation; `os.write` and files open for both reading and writing take
a turn when they are opened only.
"""

from __future__ import annotations

import builtins
import contextlib
import functools
import hashlib
import io
import os
import sys
from types import FrameType
from typing import Any, Optional

from breakrank_agent.frames import hide
from breakrank_agent.history import members
from breakrank_agent.probe import Agent

WAITS_FOR = ""

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
                _write(agent, "open", _within(agent, args[0]))
            elif agent.watches and args[1] is not None:
                _read(agent, _within(agent, args[0]))
        elif event in _CHANGES:
            path, folder = _CHANGES[event]
            where = _within(agent, args[path], -1 if folder is None else args[folder])
            if event == "os.rename" and agent.watches:
                _move_away(agent, _within(agent, args[0], args[2]))
            _write(agent, "open folder" if event == "os.mkdir" and _may_be_there() else event[3:], where)
        elif event in _LOCKS and agent.watches and not agent.busy:
            _lock(agent, args[0])

    sys.addaudithook(hook)
    if agent.controlled:
        _schedule_open(agent)


def _write(agent: Agent, how: str, path: Optional[str]) -> None:
    if path is not None:
        agent.reach("write", says=members({"path": path, "how": how}))
        agent.take_turn(how, "w", path, site=agent.sites.here().line)


def _read(agent: Agent, path: Optional[str]) -> None:
    if path is not None:
        agent.take_turn("open", "r", path, site=agent.sites.here().line)


def _move_away(agent: Agent, path: Optional[str]) -> None:
    """Record that a rename takes a file away from here; the turn is that of where it goes."""
    if path is not None:
        agent.accesses.access("move", "w", path, None, site=agent.sites.here().line)


def _lock(agent: Agent, descriptor: int) -> None:
    """Record that a file is a lock: who opens it does so for its name, and not for what it holds."""
    with contextlib.suppress(OSError):
        path = _within(agent, os.readlink(f"/proc/self/fd/{descriptor}"))
        if path is not None:
            agent.accesses.access("lock", "r", path, None)


def _may_be_there() -> bool:
    """Whether a folder is being made that may be there already (`exist_ok`): then it does not matter who makes it."""
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
    # What Python caches of imports differs between a first and a second run, and is not the program's doing.
    return None if relative.startswith(os.sep) or "__pycache__" in relative else relative


def _schedule_open(agent: Agent) -> None:
    """Replace `open`, so that files of the working folder that are opened for writing take a turn for each write."""
    plain = io.open

    @functools.wraps(plain)
    def scheduled(file: Any, mode: str = "r", buffering: int = -1, *args: Any, **kwargs: Any) -> Any:
        opener = kwargs.get("opener") or (args[4] if len(args) > 4 else None)
        simple = len(mode) <= 2 and not set(mode).isdisjoint("wxa") and "+" not in mode and opener is None
        path = _within(agent, file) if simple else None
        if path is None or not agent.here:
            return plain(file, mode, buffering, *args, **kwargs)
        try:
            raw = _ScheduledFile(agent, path, file, mode)
        except BaseException as error:
            hide(error)
            raise
        if buffering == 0 and "b" in mode:
            return raw
        buffered: Any = io.BufferedWriter(raw, buffering if buffering > 1 else os.fstat(raw.fileno()).st_blksize)
        return buffered if "b" in mode else _as_text(buffered, mode, buffering == 1, *args, **kwargs)

    io.open = builtins.open = scheduled


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
        # What lies in front of an appended text is not ours, and so a file's whole content is not known.
        self._known = "a" not in mode
        super().__init__(file, mode.replace("b", "").replace("t", ""))

    def write(self, data: Any, /) -> int:
        """Write as ever, in a turn."""
        self._agent.take_turn("write", "w", self._path, site=self._agent.sites.here().line)
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


def digest_file(path: Any) -> dict[str, Any]:
    """Return digest (`file`) and size of the bytes that lie on disk, each None for what cannot be read."""
    digest, size = hashlib.blake2b(digest_size=8), 0
    try:
        with open(path, "rb") as raw:
            for block in iter(lambda: raw.read(1 << 20), b""):
                digest.update(block)
                size += len(block)
    except OSError:
        return {"file": None, "size": None}
    return {"file": digest.hexdigest(), "size": size}
