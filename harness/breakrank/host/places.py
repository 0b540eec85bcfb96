"""Places: whatever takes a process and reads /proc asks the place where the process is.

This machine is `Here`. A process of another node (`NodePid`) carries its place, where the same functions answer. The
questions are a closed list, by name: a deputy answers these and no others.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from breakrank.host import blocked
from breakrank.host.blocked.interpreter import joins_in_vain as _joins_in_vain
from breakrank.host.blocked.threads import pending as _pending
from breakrank.host.blocked.threads import sleeps
from breakrank.host.node_pid import Node, Pid, Place, number_of
from breakrank_agent.kernel import sockets
from breakrank_agent.kernel.sockets import Address, Entry, Link


def _undelivered(pids: Iterable[int]) -> list[list[Any]]:
    """Return the connections of processes that have something to deliver, each with the process before it."""
    return [[pid, *_plain(entry)] for pid, entries in sockets.undelivered(pids).items() for entry in entries]


def _plain(entry: Entry) -> list[Any]:
    return [*entry.link.local, *entry.link.remote, *entry[1:]]


def _ends(pids: Iterable[int]) -> list[list[Any]]:
    """Return the ends of established connections that processes hold."""
    return [[*link.local, *link.remote] for pid in pids for link in sockets.ends(pid)]


#: The questions that any place answers, in plain values.
QUESTIONS: Mapping[str, Callable[..., Any]] = {
    "is_stopped": blocked.is_stopped,
    "sleeps": sleeps,
    "pending": _pending,
    "describe": blocked.describe,
    "joins_in_vain": _joins_in_vain,
    "is_there": lambda pid: os.path.exists(f"/proc/{pid}"),
    "undelivered": _undelivered,
    "ends": _ends,
}


class Here:
    """This machine."""

    @property
    def name(self) -> str:
        """The host name."""
        return os.uname().nodename

    def ask(self, question: str, *arguments: Any) -> Any:
        """Return the answer to a question."""
        return QUESTIONS[question](*arguments)


HERE = Here()


def place_of(pid: Pid) -> Place:
    """Return the place where a process is."""
    return HERE if isinstance(pid, int) else pid.node


def is_stopped(pid: Pid) -> bool:
    """Return whether a process was told to stand still."""
    return bool(place_of(pid).ask("is_stopped", number_of(pid)))


def asleep(pid: Pid) -> bool:
    """Return whether the main thread of a process sleeps in the kernel now."""
    return bool(place_of(pid).ask("sleeps", number_of(pid)))


def pending(pid: Pid, signal: int) -> str:
    """Return how a process will treat a signal that waits for it, empty if none does."""
    return str(place_of(pid).ask("pending", number_of(pid), signal))


def describe(pid: Pid, call: str) -> list[dict[str, Any]]:
    """Return the threads of a process, those alike as one."""
    return list(place_of(pid).ask("describe", number_of(pid), call))


def joins_in_vain(pid: Pid) -> bool:
    """Return whether the main thread of a process joins a thread that wants the lock which it holds itself."""
    return bool(place_of(pid).ask("joins_in_vain", number_of(pid)))


def is_there(pid: Pid) -> bool:
    """Return whether there is such a process."""
    return bool(place_of(pid).ask("is_there", number_of(pid)))


def undelivered(pids: Collection[Pid]) -> dict[Pid, list[Entry]]:
    """Return, by process, its connections that have something to deliver, or are still being made."""
    found: dict[Pid, list[Entry]] = {pid: [] for pid in pids}
    for place, there in by_place(pids).items():
        known = {number_of(pid): pid for pid in there}
        for number, host, port, to_host, to_port, state, inode, timer, tries in place.ask("undelivered", list(known)):
            link = Link(Address(host, port), Address(to_host, to_port))
            found[known[number]].append(Entry(link, state, inode, timer, tries))
    return found


def ends(pids: Collection[Pid]) -> set[Link]:
    """Return the ends of established connections that processes hold."""
    found = set()
    for place, there in by_place(pids).items():
        for host, port, to_host, to_port in place.ask("ends", [number_of(pid) for pid in there]):
            found.add(Link(Address(host, port), Address(to_host, to_port)))
    return found


def by_place(pids: Iterable[Pid]) -> dict[Place, list[Pid]]:
    """Return processes by the place where they are."""
    found: dict[Place, list[Pid]] = {}
    for pid in pids:
        found.setdefault(place_of(pid), []).append(pid)
    return found


def nodes_of(pids: Iterable[Pid]) -> list[Node]:
    """Return the other nodes that processes are on."""
    return list(dict.fromkeys(pid.node for pid in pids if not isinstance(pid, int)))
