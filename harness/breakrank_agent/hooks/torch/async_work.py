"""Completion of torch's collectives: a work was waited for, or is found to be complete at a later point.

Python waits by `Work.wait`, by a future, or by the operator `wait_tensor` of functional collectives. C++, such as DDP's
reducer, waits unseen: what it started is looked at on entering each later point. Nothing is ever called back from a
thread of gloo: it would wait for the GIL, and whoever has the GIL may wait for it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any, Callable, NamedTuple, Optional, Protocol

from breakrank_agent.agent.agent import Agent
from breakrank_agent.agent.interpose import interpose, receiver
from breakrank_agent.agent.tracebacks import hide
from breakrank_agent.protocol.log import members

WAITS_FOR = "torch"

_libraries: list[Any] = []  # a torch.library.Library lives as long as it is referred to


class Watched(Protocol):
    """The contents of a collective, if they are asked for."""

    def after(self, waited: bool) -> str:
        """Return what the record of its completion says of it, as JSON."""


class Part(NamedTuple):
    """A collective or a message that several ranks take part in: a name that is the same in each, and how many.

    The key is empty where that cannot be known: a message from anybody. `asked`: Python has its work, and waits later.
    """

    key: str
    size: int
    asked: bool


class Flight:
    """A collective that is under way: its record's facts as JSON, its contents where they are watched, its work.

    `early`: it is over when its future is. A device's future says no more than that the device has been given the work.
    """

    __slots__ = ("early", "facts", "future", "number", "part", "watched", "work")

    def __init__(self, facts: str, number: int, watched: Optional[Watched], early: bool) -> None:
        self.facts = facts
        self.number = number
        self.watched = watched
        self.early = early
        self.work: Any = None
        #: The collective that it is a part of, under a controlled schedule.
        self.part: Optional[Part] = None
        #: True if somebody has its future: callbacks may have changed the tensors before we see it complete.
        self.future = False


def install(agent: Agent) -> None:
    """See every way to wait for a work."""
    import torch

    if not torch.distributed.is_available():
        return
    if agent.watches:
        # Gloo copies what it has scattered as it is waited for: that is the collective's write, none of the program's.
        interpose(torch.distributed.Work, "wait", around=lambda *_, **__: agent.quietly())
    works = Works(agent, torch.distributed.Work, torch.ScriptObject)
    agent.services.works = works
    agent.recorder.look_back_while(works.flying, works.look_back)
    if agent.turns is not None:
        _wait_in_turn(torch.distributed.Work, works, lambda work: [work])
        _wait_in_turn(torch._C.Future, works, lambda _: works.with_futures())
    _watch_waits(torch.distributed.Work, works)
    _watch_future(torch._C.Future, works)
    library = torch.library.Library("_c10d_functional", "IMPL")
    after = torch._C._dispatch_keyset_full_after(torch._C.DispatchKey.BackendSelect)
    redispatch = torch.ops._c10d_functional.wait_tensor.default.redispatch

    def wait_tensor(keyset: Any, *args: Any) -> Any:
        try:
            waited = redispatch(keyset & after, *args)
        except BaseException as error:
            hide(error)
            raise
        works.look_back()
        return waited

    library.impl("wait_tensor", wait_tensor, "BackendSelect", with_keyset=True)
    _libraries.append(library)


class Works:
    """The collectives that are under way, by the identity of their works."""

    def __init__(self, agent: Agent, kind: Any, boxed: type[Any]) -> None:
        self._agent = agent
        self._boxed = boxed
        self._unbox = kind.unbox
        self._wait = kind.wait
        self._is_completed = kind.is_completed
        self._get_future = kind.get_future
        self.flying: dict[int, Flight] = {}

    @contextlib.contextmanager
    def waiting(self, *works: Any) -> Iterator[None]:
        """Under a controlled schedule, have the ranks that a wait is for come first.

        If these are not known, the others move on while this rank waits, and their order is not ours.
        """
        turns = self._agent.turns
        if turns is None or turns.me() is None:
            yield
            return
        flights = [self.flying.get(id(work)) for work in works]
        parts = [flight.part for flight in flights if flight is not None and flight.part is not None]
        if not flights or len(parts) < len(flights) or not all(part.key for part in parts):
            with turns.standing_aside():
                yield
            return
        for part in parts:
            if part.asked:
                turns.ask({"collective": ["wait", part.key, part.size]}, waits=True)
        yield

    def fly(self, flight: Flight, result: Any) -> None:
        """Keep the work that the call has returned; a call without one is over."""
        boxed = result[-1] if isinstance(result, (tuple, list)) and result else result
        # A box may be empty: over NCCL, of a call that nobody asked to wait for.
        work = flight.work = self._unbox(boxed) if type(boxed) is self._boxed else None
        if work is None:
            self._land(flight, waited=True)
            return
        self.flying[id(work)] = flight

    def fail(self, flight: Flight, error: BaseException) -> None:
        """Complete a flight whose call, or the wait for it, has raised."""
        self._agent.complete(flight.facts, flight.number, members({"error": type(error).__name__}))

    def of(self, work: Any) -> Optional[Flight]:
        """Return the flight that a work belongs to, if it is under way."""
        return self.flying.get(id(work))

    def hand_out(self, work: Any) -> None:
        """Note that somebody gets the future of a work."""
        flight = self.of(work)
        if flight is not None:
            flight.future = True

    def with_futures(self) -> list[Any]:
        """Return the works under way of which somebody has the future."""
        return [flight.work for flight in self.flying.values() if flight.future]

    def waited(self, work: Any, _: Any) -> None:
        """Take a work that was waited for for over."""
        flight = self.flying.pop(id(work), None)
        if flight is not None:
            self._land(flight, waited=True)

    def wait_failed(self, work: Any, error: BaseException) -> None:
        """Take a work for over of which the wait has raised."""
        flight = self.flying.pop(id(work), None)
        if flight is not None:
            self.fail(flight, error)

    def _is_over(self, flight: Flight) -> bool:
        """Return whether a work, or its future, is complete: DDP's reducer waits for the future alone."""
        if self._is_completed(flight.work):
            return True
        try:
            return flight.early and bool(self._get_future(flight.work).done())
        except RuntimeError:
            # A backend without futures.
            return False

    def look_back(self) -> None:
        """Find what has been completed meanwhile."""
        if self.flying:
            for flight in list(self.flying.values()):
                if self._is_over(flight):
                    self.look_at(flight.work)

    def look_at(self, work: Any) -> None:
        """Take a work that is complete for over, if it is under way."""
        flight = self.flying.pop(id(work), None)
        if flight is None:
            return
        try:
            # It does not wait any more; it raises what the collective failed of.
            self._wait(work)
        except Exception as error:
            self.fail(flight, error)
        else:
            self._land(flight, waited=False)

    def forget(self) -> None:
        """Hold nothing of a group that is being destroyed."""
        self.look_back()
        self.flying.clear()

    def _land(self, flight: Flight, waited: bool) -> None:
        # Until Python has waited for a work, what it writes is not the program's to change.
        says = "" if flight.watched is None or flight.future else flight.watched.after(waited)
        self._agent.complete(flight.facts, flight.number, says)


def _wait_in_turn(kind: Any, works: Works, of: Callable[[Any], list[Any]]) -> None:
    """Under a controlled schedule, let those move that a wait is for."""

    def waiting(this: Any, *_: Any, **__: Any) -> AbstractContextManager[None]:
        return works.waiting(*of(this))

    interpose(kind, "wait", around=waiting)


def _watch_waits(kind: Any, works: Works) -> None:
    def asked(work: Any, done: Any) -> None:
        if done:
            works.look_at(work)

    interpose(kind, "wait", receiver, works.waited, works.wait_failed)
    interpose(kind, "is_completed", receiver, asked)
    interpose(kind, "get_future", works.hand_out)


def _watch_future(kind: Any, works: Works) -> None:
    def waited(*_: Any) -> None:
        works.look_back()

    interpose(kind, "wait", after=waited, failed=waited)
