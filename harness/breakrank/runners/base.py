"""What every runner hands to the Conductor: started ranks, and what is to be known of how they are started."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Protocol

from breakrank.host.crash_dump import LastWords
from breakrank.runners.namespaces import Walls
from breakrank.runners.workdir import View
from breakrank_agent.plan import Plan
from breakrank_agent.protocol.log import LogReader


@dataclass
class RankProcess:
    """One started rank: its process, the log it writes, the line to its agent, its output, the port of its store.

    `world` is how many ranks its group has; through `words` comes what it says when it dies; `walls` are around it, if
    its runner puts any up.
    """

    rank: int
    pid: int
    log: LogReader
    channel: socket.socket
    words: LastWords
    pipes: dict[str, int] = field(default_factory=dict)
    store: int = 0
    world: int = 0
    walls: Walls | None = None

    def close(self) -> None:
        """Give back what the Conductor holds of the rank."""
        self.channel.close()
        self.words.close()
        for descriptor in self.pipes.values():
            os.close(descriptor)
        self.log.close()


class Runner(Protocol):
    """How ranks come to exist. `launches`: by a program that also ends them when one has failed, and may restart."""

    launches: ClassVar[bool]

    def start(self, plan: Plan, attempt: int, folder: Path, view: View) -> Iterable[RankProcess]:
        """Start the ranks of an attempt, and yield those that exist. Raises `BreakrankError`."""

    def sources(self) -> Sequence[int]:
        """Return descriptors that are readable when there may be arrivals."""

    def arrivals(self) -> Iterable[RankProcess]:
        """Yield the ranks of the attempt that have come since the last call."""

    def told(self, report: dict[str, Any]) -> None:
        """Take what waitpid told of a process that is no rank."""

    def over(self) -> bool:
        """Whether no rank is to come in this attempt."""

    def follows(self, attempt: int, again: bool) -> int | None:
        """Return the number of the attempt after this one, or None; `again`: a rank failed, and nothing hung."""

    def end_attempt(self) -> None:
        """End what the ranks of an attempt that is over have left running, if the next one cannot need it."""

    def end(self) -> None:
        """End whatever starts ranks, and give everything back."""

    def sum_up(self, write: Callable[..., None]) -> None:
        """The run is over: write what is to be known of whatever started the ranks."""

    def close(self) -> None:
        """Strikes are healed, and nothing of the run is left to start or to end: give back what outlived attempts."""
