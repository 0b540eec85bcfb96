"""Started ranks, and the two contracts that the Conductor knows: a runner's, and a launcher's beside it."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from breakrank.host.node_pid import Pid
from breakrank.runners.namespaces import Walls
from breakrank.runners.workdir import View
from breakrank_agent.plan import Plan
from breakrank_agent.protocol.log import LogReader


class Log(Protocol):
    """The records of a rank: read from its log (`LogReader`), or sent by a deputy."""

    dropped: int

    def drain(self) -> list[bytes]:
        """Return the records written since the last call, and give their room back. Raises `Damaged`."""

    def end_after(self, step: int) -> None:
        """Have the rank end after a step."""

    def close(self) -> None:
        """Read no more of it."""


class Words(Protocol):
    """The crash dump of a rank: read from its FIFO (`CrashDump`), or sent by a deputy."""

    descriptor: int

    @property
    def endless(self) -> bool:
        """True if the rank wrote more than is kept."""

    @property
    def waits(self) -> bool:
        """True if the rank stands still because its dump is not read yet."""

    def stops(self, pid: Any) -> None:
        """Have the kernel stop the rank, which is this process, as soon as it speaks."""

    def hear(self, send: Callable[[Any, int], object]) -> None:
        """Take what was said; `send(pid, signal)` lets the process go on."""

    def event(self) -> dict[str, Any] | None:
        """Return the values of the Conductor's event, None if the rank said nothing."""

    def close(self) -> None:
        """Give everything back."""


def _read_log(path: Path) -> Log:
    return LogReader(str(path))


@dataclass
class RankProcess:
    """One started rank: its process, the log it writes, the line to its agent, its output, the port of its store.

    `world` is how many ranks its group has; through `words` comes what it says when it dies; `walls` are around it, if
    its runner puts any up. `child_log` opens the log of a process that it has started, by its path.
    """

    rank: int
    pid: Pid
    log: Log
    channel: socket.socket
    words: Words
    pipes: dict[str, int] = field(default_factory=dict)
    store: int = 0
    world: int = 0
    walls: Walls | None = None
    child_log: Callable[[Path], Log] = _read_log

    def close(self) -> None:
        """Give back what the Conductor holds of the rank."""
        self.channel.close()
        self.words.close()
        for descriptor in self.pipes.values():
            os.close(descriptor)
        self.log.close()


class StartsOwnRanks(Exception):
    """A script of which we started the ranks starts its ranks itself: it is to be started once, by itself."""


class Runner(Protocol):
    """Starts the ranks of one run, attempt by attempt."""

    def start(self, plan: Plan, attempt: int, folder: Path, view: View) -> Iterable[RankProcess]:
        """Start the ranks of an attempt, and yield those that exist. Raises `BreakrankError`."""

    def look(self) -> bool:
        """Look at what the ranks have started, again and again while they run; return whether it has moved.

        Raises `StartsOwnRanks`.
        """

    def end_attempt(self) -> None:
        """End what the ranks of an attempt that is over have left running, if the next one cannot need it."""

    def close(self, write: Callable[..., None]) -> None:
        """Write the events that only the end of the run shows, and give everything back: strikes are healed.

        `write(kind, **values)` appends an event of the Conductor's.
        """


@runtime_checkable
class Launcher(Protocol):
    """The part of a runner whose ranks are started by a program that also ends them, and may restart them.

    They arrive whenever that program starts them. A runner without this part has started all ranks of an attempt when
    `start` is over, and the plan alone says whether another attempt follows.
    """

    def waiting(self) -> str:
        """Return the reason why none of its ranks has been started yet, empty if the job waits for nothing."""

    def sources(self) -> Sequence[int]:
        """Return descriptors that are readable when there may be arrivals."""

    def arrivals(self) -> Iterable[RankProcess]:
        """Yield the ranks of the attempt that have come since the last call."""

    def told(self, report: dict[str, Any]) -> None:
        """Take what waitpid told of a process that is no rank."""

    def over(self) -> bool:
        """Return whether no rank is to come in this attempt."""

    def follows(self) -> int | None:
        """Return the number of the attempt that has begun after this one, or None."""

    def end(self) -> None:
        """End the program, so that it starts no more ranks."""
