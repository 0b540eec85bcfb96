"""One attempt of a run: the loop that starts all ranks, answers them, watches them, and ends them."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from breakrank.conductor.departures import Departures
from breakrank.conductor.gate import Gate
from breakrank.conductor.inbox import Inbox
from breakrank.conductor.rank import Rank
from breakrank.conductor.rank_group import RankGroup
from breakrank.conductor.run import Run
from breakrank.conductor.strikes import Strikes
from breakrank.conductor.watchdog import Reason, Watchdog
from breakrank.errors import NoSpaceError
from breakrank.host.orphans import find_orphans
from breakrank_agent.plan import Plan
from breakrank_agent.schedules import policy

#: Seconds that one round of the loop may take. A longer one, as where a terminal is held, stops ranks that print.
AWAY_S = 1.0
#: Seconds between two looks at the progress.
_SHOWN_S = 0.1

#: Shows how far the ranks of an attempt are.
Show = Callable[[int, dict[int, Rank]], None]


class Attempt:
    """One start of all ranks."""

    def __init__(self, run: Run, number: int, show: Show) -> None:
        self._run = run
        self._number = number
        self._show_progress = show
        self._group = RankGroup(run, number)
        self._strikes = Strikes(run.plan, number, run.session, run.view, run.write)
        self._gate = _gate_of(run.plan)
        self._inbox = Inbox(run, self._group, self._strikes, self._gate)
        self._departures = Departures(run, self._group, self._inbox)
        self._watchdog = Watchdog(run.plan, run.steps, partial(find_orphans, run.session))
        self._began = self._shown = self._heard = time.monotonic()
        #: When the ranks had last moved as a wait of theirs was told; it is told once.
        self._told_of = 0.0

    def run(self) -> bool:
        """Run to the end; return whether a rank failed and the group may be started again."""
        try:
            self._start()
            hung = self._loop()
            self._strikes.finish()
            # Files that are left are read in their place, once no mount of a strike hides them.
            self._strikes.heal()
            self._departures.tell_what_is_left()
            failed = self._group.failed
            self._group.write("attempt", failed=failed, hung=hung)
            return failed and not hung
        finally:
            self._close()

    @property
    def lost(self) -> int:
        """The number of ranks that a signal has ended that was not ours."""
        return sum((rank.status or 0) < 0 and not rank.ended_by_us for rank in self._group.ranks.values())

    @property
    def regrown(self) -> bool:
        """True if the launcher has ended the attempt to start all ranks of the job again."""
        return self._strikes.regrown

    def _start(self) -> None:
        self._group.make_folders()
        for process in self._run.runner.start(self._run.plan, self._number, self._run.folder, self._run.view):
            self._inbox.admit(process)
        self._inbox.open()

    def _loop(self) -> bool:
        """Answer and watch until every rank has ended; return whether one had to be ended because it hung."""
        launcher = self._run.launcher
        while self._group.live or not (launcher is None or launcher.over()):
            self._excuse()
            self._inbox.wait()
            if self._run.runner.look():
                self._group.move()
            for process in launcher.arrivals() if launcher is not None else ():
                self._inbox.admit(process)
            self._inbox.drain()
            for number in self._strikes.advance():
                self._group.answer(number, {})
            self._take_turn()
            if self._out_of_time():
                return self._departures.end({"why": ""})
            self._departures.dismiss()
            self._departures.let_leave()
            self._show()
            if self._run.room.lack:
                return self._end_unrecorded(self._run.room.lack)
            reason = self._reason_to_end()
            if reason is None or self._departures.let_on(reason, self._strikes.landed):
                continue
            if self._may_end(reason):
                return self._departures.end(reason)
        return False

    def _out_of_time(self) -> bool:
        """Have the ranks end after a step when the run's time is over; return whether they must end without one.

        All of them must come to that step yet: it is as far ahead as they come in a second.
        """
        group, late = self._group, time.monotonic() - self._run.over_at
        if late < 0 or group.ends_after:
            return False
        step = max((rank.step for rank in group.ranks.values()), default=0)
        if not step:
            return late > self._run.plan.deadline_s
        group.ends_after = step + max(2, int(step / max(time.monotonic() - self._began, 1.0)) + 1)
        for rank in group.live.values():
            rank.process.log.end_after(group.ends_after)
        return False

    def _excuse(self) -> None:
        """Do not count against the ranks the time in which nobody heard them: they may have waited for us."""
        now = time.monotonic()
        away, self._heard = now - self._heard, now
        if away > AWAY_S:
            self._told_of += away if self._told_of == self._group.moved else 0.0
            self._group.moved += away

    def _take_turn(self) -> None:
        while self._gate is not None:
            allowed, taken = self._gate.next()
            if taken is not None:
                self._group.write("turn", **taken)
            for who in allowed:
                self._group.answer(who.rank, {"turn": taken["turn"] if taken else None, "thread": who.thread})
            if not allowed and not self._wait_outside(self._gate):
                return

    def _wait_outside(self, gate: Gate) -> bool:
        """Let a rank wait for a lock that a process outside of the schedule may have; return whether one does."""
        who = gate.wait_outside() if any(rank.outsiders for rank in self._group.ranks.values()) else None
        if who is not None:
            self._group.answer(who.rank, {"outside": True, "thread": who.thread})
        return who is not None

    def _show(self) -> None:
        now = time.monotonic()
        if now - self._shown > _SHOWN_S:
            self._shown = now
            self._show_progress(self._number, self._group.ranks)

    # --- the end

    def _end_unrecorded(self, lack: str) -> bool:
        """End ranks that nobody can record; a job that is only watched goes on, and its watcher says so."""
        if self._run.ends is not None:
            raise NoSpaceError(lack)
        return self._departures.end({"why": ""})

    def _may_end(self, reason: Reason) -> bool:
        """Return whether ranks that do not move are to be ended; the watcher of a job is told of them once."""
        if self._run.ends is None:
            return True
        told, self._told_of = self._told_of, self._group.moved
        event: Any = {"kind": "hung", "t": round(time.monotonic(), 6), "attempt": self._number, **reason}
        return told != self._group.moved and bool(reason["why"]) and self._run.ends(event)

    def _reason_to_end(self) -> Reason | None:
        """Return the hung event to write (or `why` empty: a wait after a failure), or None to go on."""
        ranks = self._group.ranks
        if self._run.ends is None and any(rank.damaged for rank in ranks.values()):
            # Nothing can be said of the run any more.
            return {"why": "", "peer": None}
        idle = time.monotonic() - self._group.moved
        if self._strikes.pending:
            self._watchdog.forget()
            return None
        blocked = (self._gate.stuck() if self._gate is not None else None) or {}
        # A rank whose work is over is on its way out: what it leaves behind is known when it is gone.
        stuck = bool(blocked) and blocked.keys() == self._group.live.keys()
        struck = [n for n in ranks if self._strikes.struck_down(n)]
        reason = self._watchdog.judge(ranks, struck, self._launcher_acts(), stuck, idle)
        locked = self._gate.locked if self._gate is not None else {}
        return _with_locks(reason, locked) if reason and reason["why"] and locked else reason

    def _launcher_acts(self) -> bool:
        """Return whether it is the launcher's turn: ranks are still to come, or one has failed and it ends the rest."""
        return self._run.launcher is not None and (self._group.incomplete or self._group.failed)

    def _close(self) -> None:
        """End what the ranks left running, read what is left to read, and give everything back."""
        with contextlib.ExitStack() as ends:
            # Each of them is called, whatever the others raise: the last one first.
            ends.callback(self._inbox.close)
            for rank in reversed(self._group.ranks.values()):
                ends.callback(self._departures.close_rank, rank)
            for end in (self._strikes.close, self._strikes.heal, self._run.runner.end_attempt):
                ends.callback(end)


def _gate_of(plan: Plan) -> Gate | None:
    """Return the gate of a controlled schedule, None for a free one."""
    if plan.schedule.mode != "controlled":
        return None
    return Gate(list(range(plan.ranks)), policy(plan.schedule, str(plan.seed)))


def _with_locks(reason: Reason, locked: dict[int, list[dict[str, str]]]) -> dict[str, Any]:
    """Return the reason that ranks hold locks in a circle: a rank that waits for one of them waits for its locks."""
    named = {"why": "lock cycle", "peer": min(locked), "peers": sorted(locked), "ranks": sorted(locked)}
    return {**reason, **named, "locks": [{"rank": n, **wait} for n, waits in locked.items() for wait in waits]}
