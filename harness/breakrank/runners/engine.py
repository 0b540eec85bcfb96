"""The engine of a launched job: what it takes to start the user's command, to end it, and to know how it ended.

This one needs nothing: the processes of the job are below the command. Another one says how ranks are reached that
daemons start (`breakrank.runners.slurm.engine`).
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from breakrank.host.session import Session
from breakrank.plan.script import command_line
from breakrank.runners.base import RankProcess
from breakrank.runners.join_socket import AnyCaller
from breakrank_agent.plan import Plan


class Launch(NamedTuple):
    """The launch of a command: its environment, which has the address that agents call, and its places.

    `folder` is the run directory, in which files may be made, `work` that of the ranks, `agent` the agent's copy.
    """

    session: Session
    plan: Plan
    env: dict[str, str]
    folder: Path
    work: Path
    agent: Path


class End(NamedTuple):
    """The end of a command in an attempt: its status, and why ranks could not be reached."""

    attempt: int
    status: int | None
    closed: tuple[str, ...] = ()


class Engine:
    """Starts a command below the supervisor. `daemons` says who starts the ranks of a job that are not below it."""

    daemons = ""

    @property
    def remote(self) -> bool:
        """True if the ranks of the job are not below the command."""
        return bool(self.daemons)

    def command(self, plan: Plan, run: Path) -> list[str]:
        """Return the command that is started; files may be made in the run directory. Raises `BreakrankError`."""
        return command_line(plan.command)

    def prepare(self, launch: Launch) -> dict[str, str]:
        """Return what the command finds in its environment beside what it has already. Raises `BreakrankError`."""
        return {}

    def sources(self) -> list[int]:
        """Return descriptors that are readable when there may be callers."""
        return []

    def callers(self) -> Iterable[AnyCaller]:
        """Return the ranks that have called elsewhere since the last time."""
        return ()

    def admit(self, caller: AnyCaller, boot: dict[str, Any], folder: Path) -> RankProcess:
        """Have a caller of elsewhere taken in. Raises `ProcessLookupError` if it has ended since."""
        raise NotImplementedError

    def launch(
        self, session: Session, argv: Sequence[str], env: dict[str, str], cwd: Path, ends: Sequence[int], join: int
    ) -> int:
        """Start the command, and return its pid. Raises `BreakrankError`."""
        return session.spawn(argv, env, cwd, ends, join=join)

    def waits_for(self, session: Session, pid: int) -> str:
        """Return what a job waits for before its ranks are started, empty if it does not wait."""
        return ""

    def over(self, pid: int) -> bool:
        """Return whether the job is over though its command has not ended yet."""
        return False

    def end(self, session: Session, pid: int) -> None:
        """End the command, and the ranks that it would start."""
        session.signal(pid, signal.SIGKILL)

    def close(self, session: Session, pid: int, write: Callable[..., None], end: End) -> End:
        """Write what the engine says of the job when it is over; return how the command ended, as it said or worse."""
        return end
