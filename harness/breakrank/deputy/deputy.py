"""The deputy: one loop on a node, in the place of the Conductor. It decides nothing; it passes on, looks and strikes.

Agents call at the address that they would call on the machine of pytest, and find everything as there. The order of
all that is passed on is kept: the records of a rank come before what the rank said next, and before its end.
"""

from __future__ import annotations

import contextlib
import ctypes
import math
import select
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from breakrank.deputy.door import Door
from breakrank.deputy.leaving import Leaving
from breakrank.deputy.questions import Questions
from breakrank.deputy.rank import Rank
from breakrank.deputy.ranks import Ranks
from breakrank.deputy.watches import Watches
from breakrank.host.supervisor import PR_SET_CHILD_SUBREAPER
from breakrank.host.wire import FULL, LOST_S, Wire, WireCut

#: Seconds between two looks at the logs of the ranks, while they record, and between two looks at watched ranks.
TICK_S, LOOK_S = 0.01, 0.02
#: The same, once the ranks have recorded nothing for a while: looks cost the processor that they train with.
QUIET_TICK_S = 0.08


class Deputy:
    """Serves one wire. `ends` are descriptors that are readable once nobody is left whom to serve.

    `leaving` hears of the end of the step that the ranks are of: when all is told then, nothing is left to do here.
    """

    def __init__(
        self,
        wire: Wire,
        config: dict[str, Any],
        session: str,
        folder: Path,
        ends: list[int],
        over_tcp: bool,
        leaving: Leaving | None = None,
    ) -> None:
        self._wire, self._ends, self._folder, self._leaving = wire, ends, folder, leaving
        self._heard = time.monotonic()
        #: Over the pipes of another program, nothing but its silence may show that a machine is lost.
        self._patience_s = math.inf if over_tcp else 2.0 * LOST_S
        self._looked, self._tick_s = 0.0, TICK_S
        self.ranks = Ranks(folder, session, config["home"], self.say)
        self._door = Door(config["home"], config["secret"], self.say)
        self._watches = Watches(self.say)
        self._questions = Questions(self.ranks, folder, session, config.get("name", ""))
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)

    def serve(self) -> None:
        """Serve until the wire is closed, or one of `ends` is readable. Raises `WireCut` for what cannot be served."""
        # An address that is taken is that of another deputy of this run: by our words the Conductor sees and says that
        # both are on one machine.
        with contextlib.suppress(OSError):
            self._door.open()
        self.say(hello=self._questions.facts())
        with contextlib.ExitStack() as stack:
            for end in (self.ranks.close, self._door.close, self._wire.close):
                stack.callback(end)
            while not self._is_over():
                self._round()

    def say(self, **message: Any) -> None:
        """Tell the Conductor something."""
        self._wire.send(**message)

    def _is_over(self) -> bool:
        if self._leaving is not None and not self.ranks.live and not self._wire.unsent:
            self._leaving.look()
            if self._leaving.due:
                return True
        return bool(select.select(self._ends, [], [], 0)[0]) if self._ends else False

    def _round(self) -> None:
        self._wait()
        for message in self._wire.receive():
            self._heard = time.monotonic()
            self._obey(message)
        if time.monotonic() - self._heard > self._patience_s:
            raise WireCut(f"nothing was heard of the machine that runs pytest for {self._patience_s:g} s")
        self._wire.flush()
        self.ranks.hear_words()
        # When the Conductor takes nothing more, the ranks wait, as they do for one that reads no log.
        if self._wire.unsent < FULL:
            self._door.look()
            moved = self.ranks.pass_on()
            self._tick_s = TICK_S if moved else min(2 * self._tick_s, QUIET_TICK_S)
            self._look()
        self.ranks.report()

    def _wait(self) -> None:
        """Wait until there is something to do."""
        sources = [self._wire, *self._ends, *self._door.sources(), *self.ranks.sources(self._wire.unsent < FULL)]
        sources += [self._leaving] if self._leaving is not None and not self.ranks.live else []
        writers = [self._wire.writer] if self._wire.unsent else []
        # A log wakes nobody who reads it.
        tick_s = min(self._tick_s, LOOK_S) if self._watches.any else self._tick_s
        select.select(sources, writers, [], tick_s if self.ranks.live or self._door.busy else 1.0)

    def _look(self) -> None:
        now = time.monotonic()
        if now - self._looked >= LOOK_S:
            self._looked = now
            self._watches.look()

    # --- orders

    def _obey(self, message: dict[str, Any]) -> None:
        """Do what the Conductor says. Raises `WireCut` for what it cannot say."""
        order: Callable[[dict[str, Any]], Any] | None = getattr(self, f"_do_{message.get('do', '')}", None)
        if order is None:
            raise WireCut(f"the machine that runs pytest says {message.get('do')!r}, which no deputy knows")
        number = message.get("id")
        try:
            value = order(message)
        except OSError as error:
            if number is not None and not isinstance(error, WireCut):
                self.say(answer=number, error=error.strerror or str(error), errno=error.errno or 0)
                return
            raise
        if number is not None:
            self.say(answer=number, value=value)

    def _do_ping(self, message: dict[str, Any]) -> None:
        """Note that the Conductor lives, which every message shows."""

    def _do_ask(self, message: dict[str, Any]) -> Any:
        self.ranks.hear_words()
        return self._questions.answer(message["question"], message["arguments"])

    def _do_signal(self, message: dict[str, Any]) -> bool:
        done = self.ranks.signal(message["pid"], message["signal"])
        self.ranks.report()
        return done

    def _do_watch(self, message: dict[str, Any]) -> None:
        self._watches.begin(message["pid"], message["watch"], message["call"])

    def _do_unwatch(self, message: dict[str, Any]) -> None:
        self._watches.end(message["pid"])

    def _do_spawn(self, message: dict[str, Any]) -> int:
        return self.ranks.spawn(message).pid

    def _do_admit(self, message: dict[str, Any]) -> int:
        pid, line = self._door.take(message["rank"])
        return self.ranks.admit(message["rank"], pid, line, message["boot"]).pid

    def _do_refuse(self, message: dict[str, Any]) -> None:
        self._door.refuse(message["rank"])

    def _do_put(self, message: dict[str, Any]) -> None:
        self._questions.put(message["path"], message["data"], message["more"])

    def _do_shift(self, message: dict[str, Any]) -> None:
        self.ranks.shift = float(message["seconds"])

    def _do_clear(self, message: dict[str, Any]) -> int:
        return self.ranks.clear()

    def _do_say(self, message: dict[str, Any]) -> None:
        self._of(message, lambda rank: rank.tell(message["data"]))

    def _do_stops(self, message: dict[str, Any]) -> None:
        self._of(message, Rank.stops)

    def _do_child(self, message: dict[str, Any]) -> None:
        self._of(message, lambda rank: rank.child(message["name"]))

    def _do_end_after(self, message: dict[str, Any]) -> None:
        self._of(message, lambda rank: rank.end_after(message["step"]))

    def _do_drop(self, message: dict[str, Any]) -> None:
        self.ranks.drop(message["rank"])

    def _of(self, message: dict[str, Any], do: Callable[[Rank], None]) -> None:
        rank = self.ranks.known.get(message["rank"])
        if rank is not None:
            with contextlib.suppress(OSError):
                do(rank)
