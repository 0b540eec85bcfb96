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


#: The questions about one process that are asked of all ranks at once: a node has one answer for all that it has.
_OF_EACH: Mapping[str, Callable[..., Any]] = {
    "is_stopped": blocked.is_stopped,
    "sleeps": sleeps,
    "pending": _pending,
    "describe": blocked.describe,
    "joins_in_vain": _joins_in_vain,
}
#: The questions that any place answers, in plain values.
QUESTIONS: Mapping[str, Callable[..., Any]] = {
    "of_each": lambda question, asked: [_OF_EACH[question](*words) for words in asked],
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

    def begin(self, question: str, *arguments: Any) -> Callable[[], Any]:
        """Return what returns the answer to a question."""
        return lambda: self.ask(question, *arguments)


HERE = Here()


def place_of(pid: Pid) -> Place:
    """Return the place where a process is."""
    return HERE if isinstance(pid, int) else pid.node


def stopped_among(pids: Collection[Pid]) -> set[Pid]:
    """Return the processes that were told to stand still."""
    return {pid for pid, said in _of_each("is_stopped", {pid: () for pid in pids}).items() if said}


def asleep(pids: Collection[Pid]) -> bool:
    """Return whether the main threads of all these processes sleep in the kernel now."""
    return all(_of_each("sleeps", {pid: () for pid in pids}).values())


def pending(pid: Pid, signal: int) -> str:
    """Return how a process will treat a signal that waits for it, empty if none does."""
    return str(_of_each("pending", {pid: (signal,)})[pid])


def describe(calls: Mapping[Pid, str]) -> dict[Pid, list[dict[str, Any]]]:
    """Return the threads of each process, those alike as one; `calls` say what each is in."""
    return {
        pid: list(said) for pid, said in _of_each("describe", {pid: (call,) for pid, call in calls.items()}).items()
    }


def joining_in_vain(pids: Collection[Pid]) -> set[Pid]:
    """Return the processes whose main thread joins a thread that wants the lock which it holds itself."""
    return {pid for pid, said in _of_each("joins_in_vain", {pid: () for pid in pids}).items() if said}


def _of_each(question: str, asked: Mapping[Pid, tuple[Any, ...]]) -> dict[Pid, Any]:
    """Return the answers to a question about each process; all places find theirs at the same time."""
    there = by_place(asked)
    found: dict[Pid, Any] = {}
    words = {place: [[number_of(pid), *asked[pid]] for pid in pids] for place, pids in there.items()}
    for place, answer in _of_places("of_each", {place: (question, own) for place, own in words.items()}).items():
        # `strict` of zip came with Python 3.10, and nodes may have 3.9.
        found |= dict(zip(there[place], answer))
    return found


def _of_places(question: str, asked: Mapping[Place, tuple[Any, ...]]) -> dict[Place, Any]:
    """Return the answers of places to a question. All are asked before the first is waited for."""
    begun = {place: place.begin(question, *words) for place, words in asked.items()}
    return {place: answer() for place, answer in begun.items()}


def is_there(pid: Pid) -> bool:
    """Return whether there is such a process."""
    return bool(place_of(pid).ask("is_there", number_of(pid)))


def undelivered(pids: Collection[Pid]) -> dict[Pid, list[Entry]]:
    """Return, by process, its connections that have something to deliver, or are still being made."""
    found: dict[Pid, list[Entry]] = {pid: [] for pid in pids}
    there = {place: {number_of(pid): pid for pid in own} for place, own in by_place(pids).items()}
    for place, said in _of_places("undelivered", {place: (list(known),) for place, known in there.items()}).items():
        for number, host, port, to_host, to_port, state, inode, timer, tries in said:
            link = Link(Address(host, port), Address(to_host, to_port))
            found[there[place][number]].append(Entry(link, state, inode, timer, tries))
    return found


def ends(pids: Collection[Pid]) -> set[Link]:
    """Return the ends of established connections that processes hold."""
    there = {place: ([number_of(pid) for pid in own],) for place, own in by_place(pids).items()}
    return {
        Link(Address(host, port), Address(to_host, to_port))
        for said in _of_places("ends", there).values()
        for host, port, to_host, to_port in said
    }


def by_place(pids: Iterable[Pid]) -> dict[Place, list[Pid]]:
    """Return processes by the place where they are."""
    found: dict[Place, list[Pid]] = {}
    for pid in pids:
        found.setdefault(place_of(pid), []).append(pid)
    return found


def nodes_of(pids: Iterable[Pid]) -> list[Node]:
    """Return the other nodes that processes are on."""
    return list(dict.fromkeys(pid.node for pid in pids if not isinstance(pid, int)))
