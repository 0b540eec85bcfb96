"""When a collective of torch is over: its work was waited for, or is found to be complete at a later point.

Python waits by `Work.wait`, by a future, or by the operator `wait_tensor` of functional collectives. C++, such as DDP's
reducer, waits unseen: what it started is looked at on entering each later point. Nothing is ever called back from a
thread of gloo: it would wait for the GIL, and whoever has the GIL may wait for it.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from typing import Any, Optional, Protocol

from breakrank_agent.frames import hide
from breakrank_agent.history import members
from breakrank_agent.hooks.collectives import Part
from breakrank_agent.probe import Agent

WAITS_FOR = "torch"

_libraries: list[Any] = []  # a torch.library.Library lives as long as it is referred to


class Watched(Protocol):
    """What a collective reads and writes, where that is asked for."""

    def after(self, waited: bool) -> str:
        """Return what the record of its completion says of it, as JSON."""


class Flight:
    """A collective that is under way. `asked`: Python has its work, and may wait for it."""

    __slots__ = ("asked", "facts", "future", "part", "watched", "work")

    def __init__(self, facts: str, asked: bool, watched: Optional[Watched], part: Part) -> None:
        self.facts = facts
        self.part = part
        self.asked = asked
        self.watched = watched
        self.work: Any = None
        #: Whether somebody has its future: what hangs on that may have changed the tensors before we see it complete.
        self.future = False


def install(agent: Agent) -> None:
    """See every way to wait for a work."""
    import torch

    if not torch.distributed.is_available():
        return
    works = Works(agent, torch.distributed.Work)
    agent.works = works
    agent.look_back = works.look_back
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

    def __init__(self, agent: Agent, kind: Any) -> None:
        self._agent = agent
        self._unbox = kind.unbox
        self._wait = kind.wait
        self._is_completed = kind.is_completed
        self._flying: dict[int, Flight] = {}

    def start(self, facts: str, asked: bool, watched: Optional[Watched], part: Part) -> Flight:
        """Take a collective in that is about to be called."""
        return Flight(facts, asked, watched, part)

    @contextlib.contextmanager
    def waiting(self, *works: Any) -> Iterator[None]:
        """Under a controlled schedule, have the ranks that a wait is for come first.

        Where it is not known which these are, the others move on while this rank waits, and their order is not ours.
        """
        turns = self._agent.turns
        if turns is None or turns.me() is None:
            yield
            return
        flights = [self._flying.get(id(work)) for work in works]
        if not flights or any(flight is None or not flight.part.key for flight in flights):
            with turns.standing_aside():
                yield
            return
        for flight in flights:
            if flight is not None and flight.asked:
                turns.ask({"collective": ["wait", *flight.part]}, waits=True)
        yield

    def fly(self, flight: Flight, result: Any) -> None:
        """Keep the work that the call has returned; a call without one is over."""
        boxed = result[-1] if isinstance(result, (tuple, list)) and result else result
        flight.work = self._unbox(boxed) if type(boxed).__name__ == "ScriptObject" else None
        if flight.work is None:
            self._land(flight, waited=True)
        else:
            self._flying[id(flight.work)] = flight

    def fail(self, flight: Flight, error: BaseException) -> None:
        """The call, or the wait for it, has raised."""
        self._agent.complete(flight.facts + members({"error": type(error).__name__}))

    def of(self, work: Any) -> Optional[Flight]:
        """Return the flight that a work belongs to, if it is under way."""
        return self._flying.get(id(work))

    def with_futures(self) -> list[Any]:
        """Return the works under way of which somebody has the future."""
        return [flight.work for flight in self._flying.values() if flight.future]

    def waited(self, work: Any, error: Optional[BaseException] = None) -> None:
        """The work was waited for."""
        flight = self._flying.pop(id(work), None)
        if flight is None:
            return
        if error is not None:
            self.fail(flight, error)
        else:
            self._land(flight, waited=True)

    def look_back(self) -> None:
        """Find what has been completed meanwhile."""
        if not self._flying:
            return
        for key, flight in list(self._flying.items()):
            if self._is_completed(flight.work) and self._flying.pop(key, None) is not None:
                try:
                    # It does not wait any more; it raises what the collective failed of.
                    self._wait(flight.work)
                except Exception as error:
                    self.fail(flight, error)
                else:
                    self._land(flight, waited=False)

    def forget(self) -> None:
        """Hold nothing of a group that is being destroyed."""
        self.look_back()
        self._flying.clear()

    def _land(self, flight: Flight, waited: bool) -> None:
        seen = flight.watched is not None and not flight.future and (waited or not flight.asked)
        says = flight.watched.after(waited) if seen and flight.watched is not None else ""
        self._agent.complete(flight.facts + says)


def _watch_waits(kind: Any, works: Works) -> None:
    wait, is_completed, get_future = kind.wait, kind.is_completed, kind.get_future

    @functools.wraps(wait)
    def waiting(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            with works.waiting(self):
                result = wait(self, *args, **kwargs)
        except BaseException as error:
            hide(error)
            works.waited(self, error)
            raise
        works.waited(self)
        return result

    @functools.wraps(is_completed)
    def asking(self: Any) -> bool:
        done = bool(is_completed(self))
        if done:
            works.look_back()
        return done

    @functools.wraps(get_future)
    def handing_out(self: Any) -> Any:
        flight = works.of(self)
        if flight is not None:
            flight.future = True
        return get_future(self)

    kind.wait, kind.is_completed, kind.get_future = waiting, asking, handing_out


def _watch_future(kind: Any, works: Works) -> None:
    wait = kind.wait

    @functools.wraps(wait)
    def waiting(self: Any) -> Any:
        try:
            with works.waiting(*works.with_futures()):
                return wait(self)
        except BaseException as error:
            hide(error)
            raise
        finally:
            works.look_back()

    kind.wait = waiting
