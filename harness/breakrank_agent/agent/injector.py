"""Injector: fires the strikes of a rank when they are due, and keeps those that wait for something from a hook."""

from __future__ import annotations

import contextlib
import os
import time
from collections import Counter
from typing import Any, Optional

from breakrank_agent.agent.channel import Channel
from breakrank_agent.agent.model import Model, NoHandles
from breakrank_agent.agent.quiet import Quiet
from breakrank_agent.agent.recorder import Recorder
from breakrank_agent.kernel.seccomp import watch_writes, why_not
from breakrank_agent.plan import Plan
from breakrank_agent.protocol.clock import MAIN
from breakrank_agent.protocol.fault import Strike

#: Names, for messages, of what a hook hands to a strike that waits.
_AWAITED = {
    "batch": "a batch from a loader",
    "wrapper": "a call of a wrapper that reduces gradients, such as DDP's",
    "computation": "a forward pass of a module with parameters",
}

#: A strike and its index in the plan.
Indexed = tuple[int, Strike]


class Injector:
    """The strikes that a plan has for one rank in one attempt."""

    def __init__(
        self,
        plan: Plan,
        rank: int,
        attempt: int,
        recorder: Recorder,
        channel: Optional[Channel],
        model: Model,
        quiet: Quiet,
    ) -> None:
        self._recorder = recorder
        self._channel = channel
        self._model = model
        self._quiet = quiet
        #: Strikes that are armed, by step, point and visit; by point and visit of the run where they name no step.
        self._due: dict[tuple[Optional[int], str, int], list[Indexed]] = {}
        #: The number of times that the rank has entered each point in this attempt.
        self._entered: Counter[str] = Counter()
        #: Strikes of lasting faults that have begun, here or in an earlier attempt, by point.
        self._lasting: dict[str, list[Indexed]] = {}
        #: Strikes from inside that have fired: one that lasts is on record once.
        self._begun: set[int] = set()
        #: Strikes that have fired and wait for what a hook is to hand to them, by what that is.
        self.awaiting: dict[str, list[Indexed]] = {}
        for index, strike in enumerate(plan.strikes):
            trigger = strike.trigger
            if rank in strike.ranks and trigger.attempt == attempt:
                self._due.setdefault((trigger.step, trigger.point, trigger.visit), []).append((index, strike))
            elif rank in strike.ranks and trigger.attempt < attempt and strike.fault.lasts():
                self._lasting.setdefault(trigger.point, []).append((index, strike))
        if self._due or self._lasting:
            recorder.strike = self.strike

    def begin(self) -> None:
        """Record every strike that is armed here."""
        for due in [*self._due.values(), *self._lasting.values()]:
            for index, _ in due:
                self._recorder.record("strike", strike=index, phase="armed")
        if any(strike.fault.journals for due in self._due.values() for _, strike in due):
            self._have_writes_watched()

    def strike(self, step: int, point: str, visit: int) -> None:
        """Fire the strikes that are due at a point."""
        self._entered[point] += 1
        due = [*self._due.pop((step, point, visit), ()), *self._due.pop((None, point, self._entered[point]), ())]
        struck = [*self._lasting.get(point, []), *due]
        for index, strike in due:
            if strike.fault.lasts():
                self._lasting.setdefault(point, []).append((index, strike))
        for index, strike in struck:
            if index in self._begun:
                self._strike_again(index, strike)
                continue
            self._recorder.record("strike", strike=index, phase="fired", point=point, visit=visit)
            if strike.fault.side != "outside":
                self._begun.add(index)
                self._strike_inside(index, strike)
            elif self._channel is not None:
                self._channel.ask({"park": index})

    def strikes_on(self, what: str) -> bool:
        """Return whether a strike is armed that waits for a hook to hand this to it."""
        armed = [*self._due.values(), *self._lasting.values()]
        return any(strike.fault.on == what for due in armed for _, strike in due)

    def take_collective_strikes(self) -> list[Indexed]:
        """Fire and return the strikes that are due on the collective which the main thread is about to issue.

        They come before the point is entered, so that what is on record is what the rank then issues.
        """
        recorder = self._recorder
        if recorder.over or not recorder.here or recorder.sequences.find() != MAIN:
            return []
        visit = recorder.clock.next_visit("collective")
        keys = ((recorder.clock.step, "collective", visit), (None, "collective", self._entered["collective"] + 1))
        taken = []
        for due in (self._due.get(key, []) for key in keys):
            now = [item for item in due if item[1].fault.on == "collective"]
            for item in now:
                due.remove(item)
                recorder.record("strike", strike=item[0], phase="fired", point="collective", visit=visit)
            taken += now
        return taken

    def take_strikes(self, on: str) -> list[Indexed]:
        """Return the strikes that have fired and wait for this: a batch being loaded, a wrapper being called."""
        return self.awaiting.pop(on, [])

    def end(self) -> None:
        """Note the strikes that have waited in vain."""
        for on, waiting in self.awaiting.items():
            for index, _ in waiting:
                text = f"strike {index} waited in vain for {_AWAITED[on]}"
                self._recorder.record("note", text=text, limits=True)

    def _strike_inside(self, index: int, strike: Strike) -> None:
        if strike.fault.on in _AWAITED:
            # It is not there yet: its hook strikes it as soon as it is.
            self.awaiting.setdefault(strike.fault.on, []).append((index, strike))
            return
        looks = {"gradients": self._model.gradients, "optimizer_state": self._model.optimizer_state}
        look = looks.get(strike.fault.witness, self._model.parameters)
        before, ahead = look(), self._ahead(strike)
        wall, computed = time.monotonic(), time.thread_time()
        with self._quiet:
            strike.fault.strike_inside(self._model.handles or NoHandles())
        # The effect of the fault is read again here, by code that knows nothing of the fault.
        took: dict[str, Any] = {"wall_s": time.monotonic() - wall, "cpu_s": time.thread_time() - computed}
        if ahead is not None:
            took["ahead_s"] = [ahead, self._ahead(strike)]
        self._recorder.record("strike", strike=index, phase="seen", before=before, after=look(), **took)

    def _strike_again(self, index: int, strike: Strike) -> None:
        """Strike with a lasting fault from inside that is on record; what it wants may be gone by now."""
        if strike.fault.on in _AWAITED:
            self.awaiting.setdefault(strike.fault.on, []).append((index, strike))
            return
        with self._quiet, contextlib.suppress(LookupError, RuntimeError):
            strike.fault.strike_inside(self._model.handles or NoHandles())

    def _have_writes_watched(self) -> None:
        """Show the Conductor from here on each call that changes files; if it cannot be, the strike is refused there.

        A process whose filter nobody hears can open no file: the Conductor is tried first.
        """
        if self._channel is None or why_not() or not self._channel.ask({"disk": 0, "tried": True}).get("watched"):
            return
        with contextlib.suppress(OSError):
            listener = watch_writes()
            self._channel.ask({"disk": listener})
            os.close(listener)

    def _ahead(self, strike: Strike) -> Optional[float]:
        """Return how far the wall clock is ahead of the kernel's own, by which it dates files, where that is asked."""
        if strike.fault.witness != "clock":
            return None
        with self._quiet:
            file = os.memfd_create("breakrank-clock")
            try:
                os.utime(file)
                return time.time() - os.fstat(file).st_mtime
            finally:
                os.close(file)
