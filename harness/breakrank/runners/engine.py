"""The engine of a launched job: what it takes to start the user's command, to end it, and to know how it ended.

This one needs nothing: the processes of the job are below the command. Where daemons start the ranks, another one says
how they are reached (`breakrank.runners.slurm.engine`).
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Sequence
from pathlib import Path

from breakrank.host.session import Session


class Engine:
    """Starts a command below the supervisor. A job whose ranks are not below it is `remote`."""

    remote = False

    def environment(self, folder: Path) -> dict[str, str]:
        """Return what the command finds in its environment beside our address; files may be made in `folder`."""
        return {}

    def launch(
        self, session: Session, argv: Sequence[str], env: dict[str, str], cwd: Path, ends: Sequence[int], join: int
    ) -> int:
        """Start the command, and return its pid. Raises `BreakrankError`."""
        return session.spawn(argv, env, cwd, ends, join=join)

    def waits_for(self, session: Session, pid: int) -> str:
        """Return what a job waits for before its ranks are started, empty if it does not wait."""
        return ""

    def end(self, session: Session, pid: int) -> None:
        """End the command, and the ranks that it would start."""
        session.signal(pid, signal.SIGKILL)

    def close(self, session: Session, pid: int, write: Callable[..., None], status: int | None) -> int | None:
        """Write what the engine says of the job when it is over; return how the command ended, `status` or worse."""
        return status
