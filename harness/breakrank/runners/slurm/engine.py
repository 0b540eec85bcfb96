"""The engine Slurm: its jobs are known before the command begins, ended by scancel, and asked of the controller.

SIGKILL of srun ends nothing: its tasks are children of daemons. A command waits behind a gate until the supervisor
knows what to do for the job when we are gone.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from breakrank.host import slurm_jobs as jobs
from breakrank.host.session import Session
from breakrank.host.supervisor import descendants, is_running
from breakrank.nodes.bootstrap import start
from breakrank.runners.base import RankProcess
from breakrank.runners.engine import End, Engine, Launch
from breakrank.runners.join_socket import AnyCaller
from breakrank.runners.slurm.command import PROGRAMS
from breakrank.runners.slurm.deputies import CallerThere, Deputies
from breakrank.runners.slurm.on_node import write_scripts
from breakrank_agent.protocol.entry import GUEST, HOME, SECRET

#: The variables that name what runs before and after each task, and Slurm's words where a node does not find it.
_SCRIPTS = {"prolog": "SLURM_TASK_PROLOG", "epilog": "SLURM_TASK_EPILOG"}
_UNSEEN = "user task_prolog can not be executed"
#: The first line by which a program of Slurm's refuses a command.
_REFUSED = re.compile(r"^(?:srun|sbatch|salloc): error: .*$", re.MULTILINE)
#: The name under which the supervisor keeps the program that ends our jobs.
_LAST = "slurm"
#: The command that waits for a line on descriptor 3, and then is the command that follows; without a line, it ends.
_GATE = ("/bin/sh", "-c", 'read -r _ <&3 && exec 3<&- && exec "$@"', "sh")
#: Seconds between two questions for what a job waits.
_ASKED_S = 2.0
#: Seconds that srun and sbatch may take to end once they are told to.
_ENDS_WITHIN_S = 10.0
#: Seconds that the controller may take to know that a job is over whose command has ended.
_KNOWN_WITHIN_S = 10.0


class SlurmEngine(Engine):
    """Starts one command that has Slurm start the ranks, and hears of them from a deputy on each node."""

    daemons = "Slurm's daemons start it"

    def __init__(self) -> None:
        self._asked = 0.0
        self._waits = ""
        self._deputies: Deputies | None = None
        self._folder = Path()

    def prepare(self, launch: Launch) -> dict[str, str]:
        """Write the task prolog of this run, and expect the deputies that it starts."""
        session, env = launch.session, launch.env
        if HOME not in env:
            return {}
        guest = not session.ends_jobs
        self._deputies = Deputies(session, launch.folder, launch.work)
        self._folder = launch.folder / "slurm"
        command, sent = start(self._deputies.settings(env[HOME], env[SECRET], guest))
        given = {name: env[name] for name in (HOME, SECRET, GUEST) if name in env}
        settings = {"environment": given, "home": HOME, "agent": str(launch.agent), "command": command, "guest": guest}
        users = {what: env.get(name, "") for what, name in _SCRIPTS.items()}
        written = write_scripts(self._folder, settings, sent, users)
        return {_SCRIPTS[what]: path for what, path in written.items()}

    def launch(
        self, session: Session, argv: Sequence[str], env: dict[str, str], cwd: Path, ends: Sequence[int], join: int
    ) -> int:
        """Start the command behind the gate, and open that when the supervisor knows what ends the job."""
        if not session.ends_jobs:
            return session.spawn(argv, env, cwd, ends, join=join)
        gate, opens = os.pipe()
        try:
            pid = session.spawn([*_GATE, *argv], env, cwd, [*ends, gate], join=join)
            session.last([sys.executable, "-I", "-S", str(jobs.__file__), str(pid)], _LAST)
            os.write(opens, b"\n")
        finally:
            os.close(gate)
            os.close(opens)
        return pid

    def sources(self) -> list[int]:
        """Return descriptors that are readable when a deputy has come."""
        return self._deputies.sources() if self._deputies is not None else []

    def callers(self) -> Iterable[AnyCaller]:
        """Return the ranks that have called at the nodes since the last time."""
        return self._deputies.callers() if self._deputies is not None else ()

    def admit(self, caller: AnyCaller, boot: dict[str, Any], folder: Path) -> RankProcess:
        """Have a caller of a node taken in."""
        assert self._deputies is not None
        assert isinstance(caller, CallerThere)
        return self._deputies.admit(caller, boot, folder)

    def waits_for(self, session: Session, pid: int) -> str:
        """Return what jobs of ours wait for, asked every other second."""
        if time.monotonic() - self._asked > _ASKED_S:
            words = [jobs.word_on(number) for number in jobs.submitted_by(pid)]
            self._waits = ", ".join(f"job {job.number} waits: {job.reason}" for job in words if job and job.waits)
            self._asked = time.monotonic()
        return self._waits

    def end(self, session: Session, pid: int) -> None:
        """Cancel the jobs, tell srun and sbatch to end, and wait a while for it."""
        if not session.ends_jobs:
            return
        jobs.end(jobs.submitted_by(pid))
        for below in (pid, *descendants(pid)):
            _terminate(below, session)
        until = time.monotonic() + _ENDS_WITHIN_S
        while is_running(pid) and time.monotonic() < until:
            time.sleep(0.01)

    def close(self, session: Session, pid: int, write: Callable[..., None], end: End) -> End:
        """Write the controller's word on each job. A command that ends with 0 has failed if its job has."""
        closed = tuple(self._reasons(folder=self._folder))
        if self._deputies is not None:
            closed += tuple(self._deputies.refused)
            self._deputies.close(write, end.attempt)
            self._deputies = None
            shutil.rmtree(self._folder, ignore_errors=True)
        words = list(_settled(jobs.submitted_by(pid))) if pid else []
        for job in words:
            write("job", **job._asdict())
        if session.ends_jobs and pid:
            jobs.end([job.number for job in words if not job.over])
            session.last([], _LAST)
        failed = [job for job in words if job.failed]
        status = failed[-1].status or -failed[-1].signal or 1 if end.status == 0 and failed else end.status
        return End(end.attempt, status, (*end.closed, *closed))

    def _reasons(self, folder: Path) -> Iterator[str]:
        """Yield why no deputy listens on nodes, as the prolog or Slurm itself has said it."""
        for said in sorted(folder.glob("said-*")):
            yield said.read_text(errors="replace").strip()
        with contextlib.suppress(OSError):
            printed = (folder.parent / "launcher.err").read_text(errors="replace")
            refused = _REFUSED.search(printed)
            if refused is not None and self._deputies is not None and not self._deputies.nodes:
                yield refused[0].strip()
            if _UNSEEN in printed:
                yield (
                    f"the nodes do not see the run directory, {folder.parent}: choose a folder that they share, with "
                    "the ini option scenario_runs"
                )


def _settled(numbers: Sequence[str]) -> Iterator[jobs.Job]:
    """Yield the controller's word on jobs whose command has ended; it may take a moment until it knows of that."""
    until = time.monotonic() + _KNOWN_WITHIN_S
    for number in numbers:
        job = jobs.word_on(number)
        while job is not None and not job.over and time.monotonic() < until:
            time.sleep(0.05)
            job = jobs.word_on(number)
        if job is not None:
            yield job


def _terminate(pid: int, session: Session) -> None:
    """Send SIGTERM to a process of ours that is a program of Slurm's. It is held before it is looked at."""
    with contextlib.suppress(OSError):
        held = os.pidfd_open(pid)
        try:
            name = Path(f"/proc/{pid}/comm").read_text().strip()
            mark = "".join(f"{key}={value}" for key, value in session.mark.items()).encode()
            if name in PROGRAMS and mark in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                signal.pidfd_send_signal(held, signal.SIGTERM)
        finally:
            os.close(held)
