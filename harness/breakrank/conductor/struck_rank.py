"""One rank of an attempt as a fault from outside sees it."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from breakrank.host.blocked.threads import switches_at_rest
from breakrank.host.disk_journal import DiskJournal
from breakrank.host.session import Session
from breakrank.host.slurm_task import Task
from breakrank.host.write_watch import WriteWatch
from breakrank.runners.cgroups import Group, Groups
from breakrank.runners.namespaces import Walls
from breakrank_agent.kernel.rooted import WorkingFolder

#: The equal looks at all ranks, a tick apart at least, after which they are at rest.
_LOOKS = 10


@dataclass
class StruckRank:
    """The rank as a fault sees it: the `Target` that the contract of faults describes."""

    session: Session
    number: int
    rank: int
    pid: int
    folder: str
    holder: int
    carried: Sequence[str]
    peers: Mapping[int, int]
    store: int
    kept: dict[str, Any]
    around: Mapping[int, Walls]
    groups: Groups
    journal: DiskJournal | None = None
    watch: WriteWatch | None = None
    task_of_rank: Task | None = None

    @property
    def group(self) -> Group:
        """The rank's control group. Raises `OSError` where the machine has none for us."""
        return self.groups.of(self.rank, self.pid)

    @property
    def disk(self) -> DiskJournal:
        """The disk below the working folder. Raises `OSError` if the writes of the rank are not watched."""
        if self.journal is None:
            raise OSError("the writes of this rank are not watched here")
        return self.journal

    @property
    def calls(self) -> WriteWatch:
        """The rank's calls on files. Raises `OSError` if they are not watched."""
        if self.watch is None:
            raise OSError("the calls of this rank on files are not watched here")
        return self.watch

    @property
    def task(self) -> Task:
        """The task of Slurm's that the rank is. Raises `OSError` if it is none."""
        if self.task_of_rank is None:
            raise OSError("the rank is no task of Slurm's; use --scenario-runner=slurm")
        return self.task_of_rank

    @property
    def walls(self) -> Walls:
        """The walls around the rank. Raises `OSError` if there are none."""
        return self.walls_of(self.rank)

    def walls_of(self, rank: int) -> Walls:
        """Return the walls around a rank of the job. Raises `OSError` if there are none, or no such rank."""
        if rank not in self.around:
            raise OSError(f"there are no walls around a rank {rank}; use --scenario-runner=sandbox")
        return self.around[rank]

    def files(self) -> WorkingFolder:
        """Return the working folder where strikes act: behind the rank's walls, or in the view."""
        walls = self.around.get(self.rank)
        return self._files_of(self.holder if walls is None else walls.pid)

    def laid(self) -> WorkingFolder:
        """Return the working folder as it lies in the view."""
        return WorkingFolder(self.holder, self.folder, self.carried)

    def seen(self) -> WorkingFolder:
        """Return the working folder as it lies in the rank's own root."""
        return self._files_of(self.pid)

    def _files_of(self, pid: int) -> WorkingFolder:
        walls = self.around.get(self.rank)
        return WorkingFolder(pid, self.folder, self.carried, () if walls is None else walls.mounts)

    def at_rest(self) -> bool:
        """Return whether no thread of the ranks runs, and no main thread has run since the first of several looks."""
        now = switches_at_rest([self.pid, *self.peers.values()])
        first, looks = self.kept.get("at_rest", (None, 0))
        looks = looks + 1 if now is not None and now == first else 0
        self.kept["at_rest"] = now, looks
        return looks >= _LOOKS

    def signal(self, number: int) -> None:
        """Send a signal to the rank."""
        self.session.signal(self.pid, number)

    def start(self, script: str, *arguments: str) -> int:
        """Start a script of ours in the rank's network, and return its pid once it is ready. Raises `OSError`."""
        walls = self.around[self.rank]
        reader, writer = os.pipe()
        with open(os.devnull, "r+b") as null, os.fdopen(reader) as said:
            ends = [null.fileno(), writer, null.fileno()]
            command = [sys.executable, "-I", "-S", script, *arguments]
            try:
                # The script lies where we are, and not in a container.
                pid = self.session.spawn(command, {}, Path("/"), ends, walls=(walls.pid, walls.flags("net")))
            finally:
                os.close(writer)
            line = said.readline().strip()
        if line != "ready":
            raise OSError(line or f"{Path(script).name} died")
        return pid

    def stop(self, pid: int) -> None:
        """End a process that `start` has started."""
        self.session.signal(pid, signal.SIGKILL)
