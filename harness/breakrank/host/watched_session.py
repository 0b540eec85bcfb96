"""A guest: the session of a job that is only watched. It starts the job, and ends nothing.

There is no supervisor: the job is our own child, in a session of its own, and carries no mark of ours, so that nobody
sweeps it. It and all that it has left running go on when we are gone, killed or not. As long
as we are there, what its processes leave behind becomes our child (prctl(2), PR_SET_CHILD_SUBREAPER): how a rank ended
is known even where nobody else waits for it.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from breakrank.errors import BreakrankError
from breakrank.host.node_pid import Pid
from breakrank.host.pidfds import ExitWatch
from breakrank.host.session import NO_WALLS, Session
from breakrank.host.session_name import session_id
from breakrank.host.supervisor import PR_SET_CHILD_SUBREAPER, descendants

#: The seconds that the end of all that is below us may take, after it was killed.
_ENDS_WITHIN_S = 10.0


class Guest(Session):
    """Starts one command, and follows its ranks. `ignored` are signals that it ignores from its start."""

    def __init__(self, ignored: Sequence[int] = ()) -> None:
        self.id = session_id()
        self.mark = {}
        self.kept = set()
        self._ignored = ignored
        self._exit_watch = ExitWatch()
        self._sources = []
        self._poll = select.epoll()
        self._poll.register(self._exit_watch, select.EPOLLIN)
        self._job: subprocess.Popen[bytes] | None = None
        self._queue = []
        #: True if the command could not be started.
        self.refused = False
        self._early: list[int] = []
        #: The end of the command, as waitpid tells it; None while it runs.
        self.status: int | None = None
        #: True if the user has asked for the end of a job that stands still, and it has come to that.
        self.may_end = False
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)

    @property
    def ends_jobs(self) -> bool:
        """True if the user has asked for the end of the job."""
        return self.may_end

    @property
    def started(self) -> bool:
        """True if the command was started."""
        return self._job is not None

    @property
    def supervisor_pid(self) -> int:
        """The process below which the job is: this one."""
        return os.getpid()

    def spawn(
        self,
        argv: Sequence[str],
        env: dict[str, str],
        cwd: Path,
        descriptors: Sequence[int] = (),
        join: int = 0,
        walls: tuple[int, int] = NO_WALLS,
    ) -> int:
        """Start the command with our own stdin, stdout and stderr, and return its pid. Raises `BreakrankError`."""
        try:
            before = self._be_as_we_were if self._ignored else None
            self._job = subprocess.Popen(argv, env=env, cwd=cwd, start_new_session=True, preexec_fn=before)
        except OSError as error:
            self.refused = True
            raise BreakrankError(f"cannot start {argv[0]}: {error.strerror}") from None
        early, self._early = self._early, []
        for number in early:
            self.hand_on(number)
        return self._job.pid

    def _be_as_we_were(self) -> None:
        """In the child: ignore what whoever started us has had us ignore, as nohup(1) does."""
        for number in self._ignored:
            signal.signal(number, signal.SIG_IGN)

    def hand_on(self, number: int) -> None:
        """Send the command's process group a signal that was sent to us; before it is there, as soon as it is."""
        if self._job is None:
            self._early.append(number)
        elif self.status is None:
            with contextlib.suppress(OSError):
                os.killpg(self._job.pid, number)

    def signal(self, pid: Pid, number: int) -> bool:
        """Send a signal to the command or a rank of it, once it may be ended; until then, nothing is sent."""
        if not self.may_end:
            return True
        if not isinstance(pid, int):
            return pid.node.signal(pid.number, number)
        if pid in self._exit_watch:
            return self._exit_watch.signal(pid, number)
        if self._job is None or pid != self._job.pid or self.status is not None:
            return False
        os.kill(pid, number)
        return True

    def own(self, folders: Sequence[str]) -> None:
        """Make nothing of it: nobody is struck."""

    def last(self, argv: Sequence[str], name: str = "sweep") -> None:
        """Make nothing of it: when we are gone, nobody of ours is left who could run it."""

    def renew(self) -> None:
        """Make nothing of it: there is no supervisor."""

    def clear(self) -> int:
        """Follow nobody any more; end what is left of a job that may be ended, and return how many processes it was."""
        self._exit_watch.forget()
        killed: set[int] = set()
        until = time.monotonic() + _ENDS_WITHIN_S
        while self.may_end and time.monotonic() < until:
            self._queue.extend(self._look())
            below = descendants(os.getpid())
            if not below:
                break
            for pid in below:
                killed.add(pid)
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
            select.select([], [], [], 0.005)
        return len(killed)

    def told(self) -> Iterator[dict[str, Any]]:
        """Yield what has come of the command and of the ranks since the last call, without waiting."""
        self._queue.extend(self._look())
        queue, self._queue = self._queue, []
        yield from queue
        yield from self._told_elsewhere()

    def _look(self) -> Iterator[dict[str, Any]]:
        """Wait for each process that has ended below us, after the kernel has told of it whoever follows it."""
        while True:
            try:
                seen = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                seen = None
            yield from self._exit_watch.told()
            if seen is None:
                return
            os.waitid(os.P_PID, seen.si_pid, os.WEXITED)
            if self._job is not None and seen.si_pid == self._job.pid:
                self.status = seen.si_status if seen.si_code == os.CLD_EXITED else -seen.si_status
                self._job.returncode = self.status
                yield {"child": seen.si_pid, "what": "ended", "status": self.status}

    def wait(self) -> int:
        """Wait for the end of the command, and return how it ended."""
        assert self._job is not None
        while self.status is None:
            # Any process may have ended.
            os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)
            for _ in self._look():
                pass
        return self.status

    def close(self) -> None:
        """Leave. Everything that runs goes on."""
        self._poll.close()
        self._exit_watch.close()
