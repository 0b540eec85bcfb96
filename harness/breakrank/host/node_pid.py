"""A process of another node: its number counts there alone, so that it goes nowhere without its place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, Union


class Place(Protocol):
    """The place where processes are: a machine whose /proc shows them, which answers questions of a closed list."""

    @property
    def name(self) -> str:
        """The host name."""

    def ask(self, question: str, *arguments: Any) -> Any:
        """Return the answer, in plain values, to a question that the place knows by name. Raises `OSError`."""

    def begin(self, question: str, *arguments: Any) -> Callable[[], Any]:
        """Ask, and return what waits for the answer and returns it: other places can be asked meanwhile."""


class Node(Place, Protocol):
    """A place that is another machine. `work` is the folder of its ranks, `hello` what its deputy told about it."""

    work: str
    hello: dict[str, Any]

    def signal(self, pid: int, number: int) -> bool:
        """Send a signal to a rank there; return False if it has ended."""

    def begin_signal(self, pid: int, number: int) -> Callable[[], Any]:
        """Send a signal to a rank there, and return what waits until that is done."""

    def has_sight(self, pid: int, call: str) -> bool:
        """Return whether a look at a rank has come that was not taken. The rank is watched there from now on."""

    def take_sight(self, pid: int) -> dict[str, Any] | None:
        """Return that look in plain values; None says that the main thread gets on with something."""

    def unwatch(self, pid: int) -> None:
        """Watch a rank no more."""


@dataclass(frozen=True)
class NodePid:
    """A process of another node. It is no number: none of this machine is meant."""

    node: Node
    number: int

    def __str__(self) -> str:
        return f"{self.number} on {self.node.name}"


#: A process: of this machine by its number alone.
Pid = Union[int, NodePid]


def number_of(pid: Pid) -> int:
    """Return the number of a process, as its own place counts."""
    return pid if isinstance(pid, int) else pid.number
