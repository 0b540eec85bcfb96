"""The Conductor: the one loop that owns a run. It starts the ranks, answers them, watches, ends, heals and saves."""

from __future__ import annotations

import contextlib
import json
import os
import select
import selectors
import shutil
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from breakrank.analysis.wait_for import lags
from breakrank.conductor.gate import Turnstile
from breakrank.conductor.left_files import tell_remains
from breakrank.conductor.rank import Rank
from breakrank.conductor.stack_dump import take_stacks
from breakrank.conductor.strikes import Strikes
from breakrank.conductor.validation import MOST_CHILDREN, Line, made_of, parse_event
from breakrank.conductor.watchdog import Watchdog
from breakrank.errors import NoSpaceError
from breakrank.files.disk_space import RecordFile, Room, unwritable
from breakrank.history.output import Output
from breakrank.history.rank_file import Chronicle
from breakrank.history.reader import LINES, lines_of, records_of
from breakrank.host.orphans import find_heirs
from breakrank.host.session import Session
from breakrank.runners.base import RankProcess, Runner
from breakrank.runners.workdir import View
from breakrank_agent.kernel.rooted import WorkingFolder
from breakrank_agent.plan import Plan
from breakrank_agent.protocol.checked import Unfit
from breakrank_agent.protocol.events import HungEvent, RankLine
from breakrank_agent.protocol.log import Damaged, LogReader, encode
from breakrank_agent.schedules import Diverged, policy

#: How long the loop sleeps when nothing calls it. Nothing is ordered by it.
TICK_S = 0.02
#: How long a rank that is through lingers for peers that do not move.
LINGER_S = 0.5
#: How long one round of the loop may take. A longer one, as where a terminal is held, stops ranks that print.
AWAY_S = 1.0
#: How a launcher ends the other ranks when one has failed.
_ENDS_PEERS = (-signal.SIGTERM, -signal.SIGKILL)


@dataclass(frozen=True)
class Progress:
    """How far a run is: rank to (step, point), and the seconds that its ranks spent after entering each point."""

    phase: str
    attempt: int
    ranks: dict[int, tuple[int, str]]
    spent: dict[str, float] = field(default_factory=dict)


class Conductor:
    """Conducts one run into `folder`; afterwards everything that can be known of it is in files.

    `view` is where the ranks run, by default `work` in the folder.
    `ends` is asked, with the hung event, whether ranks that do not move are ended; by default they are. `steps` is how
    many the job makes, where the plan does not say it, `keep` how many bytes of each rank's history stay (0: all).
    `room` is told what the disk does not take; ranks that nobody can record are ended, unless `ends` is to be asked.
    """

    def __init__(
        self,
        plan: Plan,
        folder: Path,
        session: Session,
        runner: Runner,
        progress: Callable[[Progress], None] | None = None,
        phase: str = "run",
        view: View | None = None,
        ends: Callable[[HungEvent], bool] | None = None,
        steps: int = 0,
        keep: int = 0,
        room: Room | None = None,
    ) -> None:
        self.plan = plan
        self.folder = folder
        self.view = view or View(folder / "work")
        self.session = session
        self.runner = runner
        self.ends = ends
        self.steps = plan.steps or steps
        self.keep = keep
        self._progress = progress
        self._phase = phase
        #: The files of the working folder that ranks have written, in any attempt.
        self.written: set[str] = set()
        self.room = room or Room(folder.parent)
        self._events = RecordFile(folder / "conductor.jsonl", self.room, goes_on=True)
        if self.view.notes:
            self.write("view", notes=list(self.view.notes))

    def run(self) -> None:
        """Start the group, and again as often as it may be restarted, until an attempt needs no other."""
        number: int | None = 0
        with contextlib.ExitStack() as ends:
            # Each of them is called, whatever the others raise: the last one first.
            for end in (self._remove_lines, self._events.close, self.runner.close, self._sum_up):
                ends.callback(end)
            ends.callback(self.runner.end)
            ends.callback(self.session.clear)
            while number is not None:
                attempt = Attempt(self, number)
                again = attempt.run()
                number = None if self.room.lack else self.runner.follows(number, again)
                if self.plan.elastic:
                    self.plan = replace(self.plan, ranks=self.plan.ranks - attempt.lost)
                    number = number if self.plan.ranks else None

    def _sum_up(self) -> None:
        self.runner.sum_up(self.write)

    def _remove_lines(self) -> None:
        shutil.rmtree(self.folder / LINES, ignore_errors=True)

    def write(self, kind: str, **values: Any) -> None:
        """Append one of the Conductor's own events."""
        event: dict[str, Any] = {"kind": kind, "t": round(time.monotonic(), 6), **values}
        self._events.write(encode(event) + b"\n")

    def show(self, attempt: int, ranks: dict[int, Rank]) -> None:
        """Tell whoever watches how far the ranks are."""
        if self._progress is not None:
            spent: dict[str, float] = {}
            for rank in ranks.values():
                for point, seconds in rank.spent.items():
                    spent[point] = spent.get(point, 0.0) + seconds
            self._progress(Progress(self._phase, attempt, {n: (r.step, r.point) for n, r in ranks.items()}, spent))


class Attempt:
    """One start of all ranks."""

    def __init__(self, conductor: Conductor, number: int) -> None:
        self._conductor = conductor
        self._plan = conductor.plan
        self._session = conductor.session
        self._number = number
        self._records, self._reached = records_of(conductor.folder, number), lines_of(conductor.folder, number)
        self._ranks: dict[int, Rank] = {}
        self._selector = selectors.DefaultSelector()
        self._strikes = Strikes(self._plan, number, self._session, conductor.view, conductor.write)
        self._watchdog = Watchdog(self._plan, conductor.steps, partial(find_heirs, self._session))
        self._turnstile: Turnstile | None = None
        self._lines: dict[int, Line] = {}
        self._moved = self._shown = self._heard = time.monotonic()
        self._told_of = 0.0
        if self._plan.schedule.mode == "controlled":
            chooser = policy(self._plan.schedule, str(self._plan.seed))
            self._turnstile = Turnstile(list(range(self._plan.ranks)), chooser)

    def run(self) -> bool:
        """Run to the end; return whether a rank failed and the group may be started again."""
        try:
            self._start()
            hung = self._loop()
            self._strikes.finish()
            # What is left is read where it lies when nothing is in the way any more.
            self._strikes.heal()
            self._tell_what_is_left()
            failed = any(rank.failed for rank in self._ranks.values())
            self._conductor.write("attempt", attempt=self._number, failed=failed, hung=hung)
            return failed and not hung
        finally:
            self._close()

    @property
    def lost(self) -> int:
        """How many ranks a signal has ended that was not ours."""
        return sum((rank.status or 0) < 0 and not rank.ended_by_us for rank in self._ranks.values())

    def _make_folders(self) -> None:
        """Make the places of what is kept of the attempt, and of what ranks reach. Raises `BreakrankError`."""
        try:
            for folder in (self._records, self._reached.parent, self._reached):
                folder.mkdir(mode=0o700, exist_ok=True)
            plan = self._reached.parent / "plan.json"
            if not plan.exists():
                # An elastic job's later attempts have fewer ranks, and the same plan.
                plan.write_text(self._plan.dumps())
        except OSError as error:
            raise unwritable(f"cannot begin attempt {self._number}", self._conductor.folder.parent, error) from None

    def _start(self) -> None:
        self._make_folders()
        self._selector.register(self._session, selectors.EVENT_READ, None)
        runner, view = self._conductor.runner, self._conductor.view
        for process in runner.start(self._plan, self._number, self._conductor.folder, view):
            self._admit(process)
        for source in runner.sources():
            self._selector.register(source, selectors.EVENT_READ, None)

    def _admit(self, process: RankProcess) -> None:
        """Take a rank in that has been started."""
        base = self._records / f"rank-{process.rank}"
        room = self._conductor.room
        outputs = {name: Output(base.with_suffix(f".{name}"), room) for name in process.pipes}
        chronicle = Chronicle(base.with_suffix(".jsonl"), self._conductor.keep, room)
        self._ranks[process.rank] = Rank(process, chronicle, outputs)
        self._lines[process.rank] = Line(self._plan, process.rank)
        self._selector.register(process.channel, selectors.EVENT_READ, (process.rank, "channel"))
        self._selector.register(process.words.descriptor, selectors.EVENT_READ, (process.rank, "words"))
        if "crash" in self._plan.oracles:
            process.words.stops(process.pid)
        for name, descriptor in process.pipes.items():
            self._selector.register(descriptor, selectors.EVENT_READ, (process.rank, name))
        self._moved = time.monotonic()
        self._strikes.started(process)
        self._conductor.write("spawned", attempt=self._number, rank=process.rank, pid=process.pid)

    def _loop(self) -> bool:
        """Answer and watch until every rank has ended; return whether one had to be ended because it hung."""
        while any(rank.live for rank in self._ranks.values()) or not self._conductor.runner.over():
            self._excuse()
            self._wait()
            for process in self._conductor.runner.arrivals():
                self._admit(process)
            self._drain()
            for number in self._strikes.advance():
                self._answer(number, {})
            self._take_turn()
            self._dismiss()
            self._let_leave()
            self._show()
            if self._conductor.room.lack:
                return self._end_unrecorded(self._conductor.room.lack)
            reason = self._reason_to_end()
            if reason is not None and self._may_end(reason):
                return self._end(reason)
        return False

    def _end_unrecorded(self, lack: str) -> bool:
        """End ranks that nobody can record; a job that is only watched goes on, and whoever watches it says so."""
        if self._conductor.ends is not None:
            raise NoSpaceError(lack)
        return self._end({"why": ""})

    def _may_end(self, reason: dict[str, Any]) -> bool:
        """Whether ranks that do not move are to be ended; who only watches is told of it once."""
        if self._conductor.ends is None:
            return True
        told, self._told_of = self._told_of, self._moved
        event: Any = {"kind": "hung", "t": round(time.monotonic(), 6), "attempt": self._number, **reason}
        return told != self._moved and bool(reason["why"]) and self._conductor.ends(event)

    # --- hearing

    def _excuse(self) -> None:
        """Do not count against the ranks the time in which nobody heard them: they may have waited for us."""
        now = time.monotonic()
        away, self._heard = now - self._heard, now
        if away > AWAY_S:
            self._told_of += away if self._told_of == self._moved else 0.0
            self._moved += away

    def _wait(self) -> None:
        for key, _ in self._selector.select(TICK_S):
            if key.data is None:
                continue
            number, what = key.data
            if what == "channel":
                self._hear(self._ranks[number])
            elif what == "words":
                self._hear_last_words(self._ranks[number])
            else:
                self._read_output(self._ranks[number], what)
        for report in self._session.told():
            self._reported(report)

    def _hear(self, rank: Rank) -> None:
        try:
            data = rank.process.channel.recv(65536)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._selector.unregister(rank.process.channel)
            return
        try:
            for message in self._lines[rank.process.rank].take(data):
                self._moved = time.monotonic()
                # The records that the rank made before it spoke are read first.
                self._drain_rank(rank)
                made_of("what it said", self._take_message, rank, message)
        except Unfit as error:
            self._give_up(rank, str(error))

    def _take_message(self, rank: Rank, message: dict[str, Any]) -> None:
        if "park" in message:
            self._strikes.park(rank.process.rank, message["park"])
        elif "leaves" in message:
            rank.leaves = True
        elif "done" in message:
            rank.done = True
        elif "diverged" in message:
            raise Diverged(f"rank {rank.process.rank}: {message['diverged']}")
        elif "failed" in message:
            raise Unfit(f"the agent could not begin: {message['failed']}")
        elif self._turnstile is not None:
            self._turnstile.hear(rank.process.rank, message)

    def _give_up(self, rank: Rank, why: str) -> None:
        """Take nothing more from a rank whose record is damaged, and hang up: it goes on as if nobody asked."""
        if not rank.damaged:
            rank.damaged = True
            self._conductor.write("damaged", attempt=self._number, rank=rank.process.rank, why=why[:300])
            with contextlib.suppress(KeyError, ValueError):
                self._selector.unregister(rank.process.channel)
            rank.process.channel.close()

    def _hear_last_words(self, rank: Rank) -> None:
        words = rank.process.words
        words.hear(self._session.signal)
        self._moved = time.monotonic()
        if words.endless:
            self._selector.unregister(words.descriptor)
            self._give_up(rank, "what it says as its last words does not end")

    def _read_output(self, rank: Rank, name: str) -> None:
        descriptor = rank.process.pipes[name]
        if not rank.outputs[name].drain(descriptor):
            self._selector.unregister(descriptor)

    def _reported(self, report: dict[str, Any]) -> None:
        found = [r for r in self._ranks.values() if r.process.pid == report.get("child") and r.live]
        if not found:
            self._conductor.runner.told(report)
        for rank in found:
            number = rank.process.rank
            self._drain_rank(rank)
            self._strikes.report(number, report)
            if report["what"] == "ended":
                self._ended(rank, report["status"])

    def _ended(self, rank: Rank, status: int | None) -> None:
        """Write down how a rank ended, unless nobody can tell."""
        number = rank.process.rank
        others_failed = any(other.failed for other in self._ranks.values())
        rank.status, rank.gone, self._moved = status, True, time.monotonic()
        by_launcher = self._conductor.runner.launches and others_failed and status in _ENDS_PEERS
        rank.ended_by_us = rank.ended_by_us or by_launcher
        if status is not None:
            by = {"by": "launcher"} if by_launcher else {}
            self._conductor.write(
                "exit", attempt=self._number, rank=number, status=status, ended=rank.ended_by_us, **by
            )
        acted = self._strikes.acted(number)
        if acted:
            self._conductor.write("enforced", attempt=self._number, rank=number, **acted)
        words = rank.process.words.event()
        if words is not None:
            self._conductor.write("crash", attempt=self._number, rank=number, **words)
        if self._turnstile is not None:
            self._turnstile.gone(number)

    def _drain(self) -> None:
        for rank in self._ranks.values():
            self._drain_rank(rank)

    def _drain_rank(self, rank: Rank) -> None:
        if rank.damaged:
            return
        try:
            self._drain_logs(rank)
        except (Unfit, Damaged) as error:
            self._give_up(rank, str(error))
        dropped = sum(log.dropped for log in (rank.process.log, *rank.children))
        if dropped > rank.dropped and not rank.damaged:
            rank.dropped = dropped
            self._conductor.write("dropped", attempt=self._number, rank=rank.process.rank, count=rank.dropped)

    def _drain_logs(self, rank: Rank) -> None:
        """Take what a rank and its children have recorded. Raises `Unfit` or `Damaged`."""
        for line in rank.process.log.drain():
            self._moved = time.monotonic()
            event = parse_event(line)
            made_of(f"an event of the kind {event['kind']!r}", self._follow, rank, event)
            rank.file.append(line)
        # One that it finds here may have children of its own, which come last.
        for log in rank.children:
            for line in log.drain():
                self._moved = time.monotonic()
                event = parse_event(line)
                rank.file.append(line)
                if event["kind"] == "child":
                    self._admit_child(rank, event["name"])

    def _follow(self, rank: Rank, event: RankLine) -> None:
        rank.follow(event)
        if event["kind"] == "point" and rank.point in ("write", "save"):
            self._conductor.written.add(event.get("path", ""))
        elif event["kind"] == "child":
            self._admit_child(rank, event["name"])
        elif event["kind"] == "end" and self._turnstile is not None:
            self._turnstile.gone(rank.process.rank)
        self._strikes.event(rank.process.rank, event)

    def _admit_child(self, rank: Rank, name: str) -> None:
        """Read the log of a process that a rank has started, too: what it says are sequences of the rank's."""
        if name in rank.named or len(rank.named) >= MOST_CHILDREN:
            raise Unfit(f"it has started a child {name!r} before, or {MOST_CHILDREN} others")
        rank.named.add(name)
        # A program may have removed it; what is not read is said to be not watched.
        with contextlib.suppress(OSError):
            rank.children.append(LogReader(str(self._log_of(rank.process.rank, name))))

    def _log_of(self, number: int, child: str = "") -> Path:
        """Return where the log of a rank lies, or that of its child."""
        name = f"rank-{number}.{child}.log" if child else f"rank-{number}.log"
        return self._reached / name

    # --- answering

    def _answer(self, number: int, message: dict[str, Any]) -> None:
        self._moved = time.monotonic()
        # A rank that was killed where it waited needs no answer.
        with contextlib.suppress(OSError):
            self._ranks[number].process.channel.send(json.dumps(message).encode() + b"\n")

    def _dismiss(self) -> None:
        """Let the ranks go that have made the plan's last step, all of them at once: one that is gone is missed."""
        live = {n: r for n, r in self._ranks.items() if r.live}
        if self._plan.until and all(rank.done for rank in live.values()) and not self._missing():
            for number in live:
                self._answer(number, {})

    def _let_leave(self) -> None:
        """Let ranks end that are through, once no peer needs what they have sent, or nobody has moved for long."""
        leaving = {number: rank for number, rank in self._ranks.items() if rank.leaves}
        if not leaving:
            return
        idle = time.monotonic() - self._moved > LINGER_S
        peers = [peer.ledger for peer in self._ranks.values() if peer.live]
        for number, rank in leaving.items():
            if idle or not any(lags(peer, rank.ledger) for peer in peers):
                rank.leaves = False
                self._answer(number, {})

    def _take_turn(self) -> None:
        while self._turnstile is not None:
            allowed, taken = self._turnstile.next()
            if taken is not None:
                self._conductor.write("turn", attempt=self._number, **taken)
            for who in allowed:
                self._answer(who.rank, {"turn": taken["turn"] if taken else None, "thread": who.thread})
            if not allowed and not self._wait_outside():
                return

    def _wait_outside(self) -> bool:
        """Let a rank wait for a lock that a process outside of the schedule may have; return whether one does."""
        assert self._turnstile is not None
        who = self._turnstile.wait_outside() if any(rank.outsiders for rank in self._ranks.values()) else None
        if who is not None:
            self._answer(who.rank, {"outside": True, "thread": who.thread})
        return who is not None

    def _show(self) -> None:
        now = time.monotonic()
        if now - self._shown > 0.1:
            self._shown = now
            self._conductor.show(self._number, self._ranks)

    # --- ending

    def _reason_to_end(self) -> dict[str, Any] | None:
        """Return the hung event to write (or `why` empty: a wait after a failure), or None to go on."""
        if self._conductor.ends is None and any(rank.damaged for rank in self._ranks.values()):
            # Nothing can be said of the run any more.
            return {"why": "", "peer": None}
        idle = time.monotonic() - self._moved
        if self._strikes.pending:
            self._watchdog.forget()
            return None
        blocked = (self._turnstile.stuck() if self._turnstile is not None else None) or {}
        # A rank whose work is over is on its way out: what it leaves behind is known when it is gone.
        stuck = bool(blocked) and blocked.keys() == {n for n, r in self._ranks.items() if r.live}
        struck = [n for n in self._ranks if self._strikes.struck_down(n)]
        reason = self._watchdog.judge(self._ranks, struck, self._launcher_acts(), stuck, idle)
        locked = self._turnstile.locked if self._turnstile is not None else {}
        if not (reason and reason["why"] and locked):
            return reason
        # Whoever waits for such a rank waits for its locks.
        named = {"why": "lock cycle", "peer": min(locked), "peers": sorted(locked), "ranks": sorted(locked)}
        return {**reason, **named, "locks": [{"rank": n, **wait} for n, waits in locked.items() for wait in waits]}

    def _launcher_acts(self) -> bool:
        """Whether it is the launcher's turn: ranks are still to come, or one has failed and it ends the others."""
        failed = any(rank.failed for rank in self._ranks.values())
        return self._conductor.runner.launches and (self._missing() or failed)

    def _missing(self) -> bool:
        """Whether ranks of the group are still to come."""
        return any(len(self._ranks) < rank.process.world for rank in self._ranks.values())

    def _end(self, reason: dict[str, Any]) -> bool:
        """End every rank that is left, after their stacks were taken; return whether this was a hang, and final.

        Who waits for a rank that the plan has stopped does not hang: that rank would have gone on.
        """
        held = [n for n in reason.get("peers", ()) if n in self._ranks and self._ranks[n].done]
        hung = bool(reason["why"]) and not held
        if held:
            self._conductor.write("held", attempt=self._number, rank=held[0], waiting=reason["ranks"])
        if hung:
            self._conductor.write("hung", attempt=self._number, **reason)
        standing = {n: r for n, r in self._ranks.items() if r.live}
        for number, text in take_stacks(self._session, self._reached, standing, reason["why"]).items():
            self._conductor.write("stacks", attempt=self._number, rank=number, text=text)
        live = list(standing.values())
        self._conductor.runner.end()
        # All of them stand still before the first is ended: none is to report the loss of another.
        for what in (signal.SIGSTOP, signal.SIGKILL):
            for rank in live:
                rank.ended_by_us = True
                self._session.signal(rank.process.pid, what)
        while any(rank.live for rank in self._ranks.values()):
            self._wait()
        return hung or bool(held)

    def _tell_what_is_left(self) -> None:
        """Write down the bytes of each file that the ranks wrote in the working folder, now that nobody writes."""
        view = self._conductor.view
        written = sorted(path for path in self._conductor.written if path and not os.path.isabs(path))
        # The view goes with whoever holds it.
        with (
            contextlib.suppress(OSError),
            WorkingFolder(view.holder, str(view.folder), view.carries) as files,
        ):
            for told in tell_remains(files, written):
                self._conductor.write("left", attempt=self._number, **told)

    def _close(self) -> None:
        """End what the ranks left running, read what is left to read, and give everything back."""
        with contextlib.ExitStack() as ends:
            # Each of them is called, whatever the others raise: the last one first.
            ends.callback(self._selector.close)
            for rank in reversed(self._ranks.values()):
                ends.callback(self._close_rank, rank)
            for end in (self._strikes.close, self._strikes.heal, self._conductor.runner.end_attempt):
                ends.callback(end)

    def _close_rank(self, rank: Rank) -> None:
        """Read what is left to read of a rank, and hang up on it."""
        with contextlib.ExitStack() as ends:
            for end in (partial(self._remove_logs, rank), rank.process.close, rank.file.close):
                ends.callback(end)
            self._read_what_is_left(rank)

    def _read_what_is_left(self, rank: Rank) -> None:
        self._drain_rank(rank)
        for name in rank.outputs:
            while select_readable(rank.process.pipes[name]):
                if not rank.outputs[name].drain(rank.process.pipes[name]):
                    break
            rank.outputs[name].close()
        if rank.file.left_out:
            self._conductor.write("left_out", attempt=self._number, rank=rank.process.rank, count=rank.file.left_out)

    def _remove_logs(self, rank: Rank) -> None:
        """Remove what was drained into the history file; a crash of ours would leave it to be read."""
        for log in rank.children:
            log.close()
        own = self._log_of(rank.process.rank)
        for path in (own, *own.parent.glob(f"{own.stem}.*.log")):
            path.unlink(missing_ok=True)
        stacks = own.with_suffix(".stacks")
        if stacks.exists() and stacks.stat().st_size:
            stacks.rename(self._records / stacks.name)


def select_readable(descriptor: int) -> bool:
    """Return whether a read would not block."""
    return bool(select.select([descriptor], [], [], 0)[0])
