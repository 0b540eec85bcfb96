"""The end of a step on this node: the epilogs of its tasks say that they are over, and the last one waits for us.

A cluster may kill whatever is left of a step as soon as its last task and that task's epilog are over. All that the
deputy knows of the ranks has to be told until then, and its folder removed.
"""

from __future__ import annotations

import contextlib
import os
import socket
import struct

#: The address at which epilogs call, beside that of the ranks, and the word for one that need not wait.
SUFFIX, GO = "-over", b"go"
#: The most bytes that an epilog says, and its seconds.
_MOST_BYTES, _SAYS_WITHIN_S = 64, 1.0


class Leaving:
    """Counts the tasks that are over, of so many on this node. Raises `OSError` if somebody has the address."""

    def __init__(self, home: str, tasks: int) -> None:
        self._tasks = tasks
        self._over: set[bytes] = set()
        #: The processes that have called.
        self.callers: set[int] = set()
        self._waiting: list[socket.socket] = []
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(f"\0{home}{SUFFIX}")
        self._listener.listen(64)
        self._listener.setblocking(False)

    @property
    def due(self) -> bool:
        """True if all tasks are over."""
        return len(self._over) >= self._tasks

    def fileno(self) -> int:
        """Return the descriptor that is readable when an epilog calls."""
        return self._listener.fileno()

    def look(self) -> None:
        """Take in the epilogs that have called. The last one is let go when this process has ended."""
        with contextlib.suppress(OSError):
            while True:
                line, _ = self._listener.accept()
                with contextlib.suppress(OSError):
                    self._hear(line)

    def _hear(self, line: socket.socket) -> None:
        credentials = line.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        line.settimeout(_SAYS_WITHIN_S)
        pid, user, _ = struct.unpack("3i", credentials)
        if user == os.geteuid():
            self._over.add(line.recv(_MOST_BYTES))
            self.callers.add(pid)
        if self.due:
            self._waiting.append(line)
            return
        line.sendall(GO)
        line.close()
