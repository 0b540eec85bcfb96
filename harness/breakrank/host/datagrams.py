"""Find whether anything gets from one rank's network into another's: probes with datagrams of our own."""

from __future__ import annotations

import contextlib
import secrets
import select
import time
from collections import Counter
from collections.abc import Iterable, Mapping

from breakrank_agent.protocol.target import Walls

#: From which rank's network to which.
Way = tuple[int, int]
#: The number of datagrams that go each way.
COUNT = 8
#: The seconds after which the next one counts as lost. A limit: on a way that is open they are there at once.
_WAIT_S = 0.1
#: The same where it is the time that matters.
_SLOW_S = 2.0


class Probes:
    """Datagrams between the networks of a job's ranks. `walls` are around each rank."""

    def __init__(self, walls: Mapping[int, Walls]) -> None:
        self.walls = walls
        self._token = secrets.token_bytes(8)
        self.arrived: Counter[Way] = Counter()
        #: Those that the sender's own kernel would not send.
        self.refused: Counter[Way] = Counter()

    def send(self, ways: Iterable[Way], count: int = COUNT, size: int = 0) -> None:
        """Send `count` datagrams each way, of `size` bytes at least. Raises `OSError` where walls are gone."""
        for source, target in ways:
            there = self.walls[target].datagrams().getsockname()
            data = (self._token + bytes((source, target))).ljust(size, b"\0")
            for _ in range(count):
                try:
                    self.walls[source].datagrams().sendto(data, there)
                except OSError:
                    self.refused[source, target] += 1

    def hear(self) -> Counter[Way]:
        """Take in what has come by now; return how many arrived so far, by way."""
        for walls in self.walls.values():
            with contextlib.suppress(OSError):
                while True:
                    data = walls.datagrams().recv(65536)
                    if data.startswith(self._token):
                        self.arrived[data[8], data[9]] += 1
        return self.arrived

    def take(self, ways: Iterable[Way], count: int = COUNT, size: int = 0) -> dict[Way, int]:
        """Send, wait for what comes, and return for each way how many of `count` datagrams arrived."""
        ways = list(ways)
        self.send(ways, count, size)
        listening = [self.walls[target].datagrams() for _, target in ways]
        while sum(self.hear().values()) < count * len(ways):
            if not select.select(listening, [], [], _WAIT_S)[0]:
                break
        return {way: self.arrived[way] for way in ways}


def fastest(walls: Mapping[int, Walls], way: Way) -> float | None:
    """Return the seconds that the fastest of a few datagrams, one after the other, took this way; None if none came."""
    took = []
    for _ in range(3):
        probe, began = Probes(walls), time.monotonic()
        probe.send([way], 1)
        if select.select([walls[way[1]].datagrams()], [], [], _SLOW_S)[0] and probe.hear()[way]:
            took.append(time.monotonic() - began)
    return min(took, default=None)


def both_ways(ranks: Iterable[int], others: Iterable[int]) -> list[Way]:
    """Return the ways between each of `ranks` and each of `others`, there and back."""
    ones, rest = list(ranks), list(others)
    return [way for one in ones for other in rest if one != other for way in ((one, other), (other, one))]
