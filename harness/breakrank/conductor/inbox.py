"""The inbox of an attempt: the messages, records, output and crash dump of its ranks, and the reports of their ends."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
from typing import Any

from breakrank.conductor.gate import Gate
from breakrank.conductor.rank import Rank
from breakrank.conductor.rank_group import RankGroup
from breakrank.conductor.run import Run
from breakrank.conductor.strikes import Strikes
from breakrank.conductor.validation import MOST_CHILDREN, Line, made_of, parse_event
from breakrank.history.output import Output
from breakrank.history.rank_file import Chronicle
from breakrank.host.node_pid import Pid, number_of
from breakrank.host.write_watch import WriteWatch
from breakrank.runners.base import RankProcess
from breakrank_agent.kernel.pidfd import take
from breakrank_agent.protocol.checked import Unfit
from breakrank_agent.protocol.events import RankLine
from breakrank_agent.protocol.log import Damaged
from breakrank_agent.schedules import Diverged

#: Seconds that the inbox sleeps when nothing arrives. Nothing is ordered by it.
TICK_S = 0.02
#: The signals by which a launcher ends the other ranks when one has failed.
_ENDS_PEERS = (-signal.SIGTERM, -signal.SIGKILL)


class Inbox:
    """Takes everything that the ranks of a group say, and passes it on: to the strikes, and to the gate."""

    def __init__(self, run: Run, group: RankGroup, strikes: Strikes, gate: Gate | None) -> None:
        self._run = run
        self._group = group
        self._strikes = strikes
        self._gate = gate
        self._lines: dict[int, Line] = {}
        #: The ranks by process. Two attempts have an inbox each.
        self._by_pid: dict[Pid, Rank] = {}
        self._watches: dict[int, WriteWatch] = {}
        self._selector = selectors.DefaultSelector()

    def open(self) -> None:
        """Begin to hear the session, and whatever starts ranks."""
        self._selector.register(self._run.session, selectors.EVENT_READ, None)
        launcher = self._run.launcher
        for source in launcher.sources() if launcher is not None else ():
            self._selector.register(source, selectors.EVENT_READ, None)

    def admit(self, process: RankProcess) -> None:
        """Take a rank in that has been started."""
        base = self._group.records / f"rank-{process.rank}"
        room = self._run.room
        outputs = {name: Output(base.with_suffix(f".{name}"), room) for name in process.pipes}
        chronicle = Chronicle(base.with_suffix(".jsonl"), self._run.keep, room)
        rank = self._group.ranks[process.rank] = Rank(process, chronicle, outputs)
        self._by_pid[process.pid] = rank
        self._lines[process.rank] = Line(self._run.plan, process.rank)
        self._selector.register(process.channel, selectors.EVENT_READ, (process.rank, "channel"))
        self._selector.register(process.words.descriptor, selectors.EVENT_READ, (process.rank, "words"))
        if "crashes" in self._run.plan.evidence:
            process.words.stops(process.pid)
        for name, descriptor in process.pipes.items():
            self._selector.register(descriptor, selectors.EVENT_READ, (process.rank, name))
        self._group.move()
        self._strikes.started(process)
        on = {} if isinstance(process.pid, int) else {"node": process.pid.node.name}
        self._group.write("spawned", rank=process.rank, pid=number_of(process.pid), **on)

    def wait(self) -> None:
        """Take everything that has arrived, or arrives within a tick."""
        for key, _ in self._selector.select(TICK_S):
            if key.data is None:
                continue
            number, what = key.data
            if what == "channel":
                self._hear(self._group.ranks[number])
            elif what == "disk":
                if not self._watches[number].serve():
                    self._selector.unregister(self._watches[number])
            elif what == "words":
                self._take_crash_dump(self._group.ranks[number])
            else:
                self._read_output(self._group.ranks[number], what)
        for report in self._run.session.told():
            self._reported(report)

    def drain(self) -> None:
        """Take the records of all ranks."""
        for rank in self._group.ranks.values():
            self.drain_rank(rank)

    def drain_rank(self, rank: Rank) -> None:
        """Take the records of a rank, unless its record is damaged."""
        if rank.damaged:
            return
        try:
            self._drain_logs(rank)
        except (Unfit, Damaged) as error:
            self._give_up(rank, str(error))
        if rank.left is not None and rank.live:
            # Nobody waits for the end of its process: that belongs to whoever keeps it.
            self._ended(rank, rank.left)
        dropped = sum(log.dropped for log in (rank.process.log, *rank.children))
        if dropped > rank.dropped and not rank.damaged:
            rank.dropped = dropped
            self._group.write("dropped", rank=rank.process.rank, count=rank.dropped)

    def close(self) -> None:
        """Hear nothing more."""
        self._selector.close()
        for watch in self._watches.values():
            watch.close()

    # --- messages

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
                self._group.move()
                # The records that the rank made before it spoke are read first.
                self.drain_rank(rank)
                made_of("what it said", self._take_message, rank, message)
        except Unfit as error:
            self._give_up(rank, str(error))

    def _take_message(self, rank: Rank, message: dict[str, Any]) -> None:
        if "park" in message:
            self._strikes.park(rank.process.rank, message["park"])
        elif "disk" in message:
            self._group.answer(rank.process.rank, {"watched": self._watch_writes(rank, **message)})
        elif "leaves" in message:
            rank.leaves = True
        elif "done" in message:
            rank.done = True
        elif "diverged" in message:
            raise Diverged(f"rank {rank.process.rank}: {message['diverged']}")
        elif "failed" in message:
            raise Unfit(f"the agent could not begin: {message['failed']}")
        elif self._gate is not None:
            self._gate.hear(rank.process.rank, message)

    def _watch_writes(self, rank: Rank, disk: int, tried: bool = False) -> bool:
        """Have the writes of a rank told to the journal of the strikes, if that can be; only see, if it is `tried`."""
        number, pid = rank.process.rank, rank.process.pid
        if not isinstance(pid, int):
            # The filter of a rank of another machine cannot be handed over.
            return False
        try:
            listener = take(pid, disk)
        except OSError:
            return False
        if tried or number in self._watches:
            os.close(listener)
            return tried
        self._watches[number] = self._strikes.watch_writes(number, listener)
        with contextlib.suppress(OSError):
            self._selector.register(self._watches[number], selectors.EVENT_READ, (number, "disk"))
        return True

    def _give_up(self, rank: Rank, why: str) -> None:
        """Take nothing more from a rank with a damaged record, and hang up: the rank goes on without us."""
        if not rank.damaged:
            rank.damaged = True
            self._group.write("damaged", rank=rank.process.rank, why=why[:300])
            with contextlib.suppress(KeyError, ValueError):
                self._selector.unregister(rank.process.channel)
            rank.process.channel.close()

    def _take_crash_dump(self, rank: Rank) -> None:
        words = rank.process.words
        words.hear(self._run.session.signal)
        self._group.move()
        if words.endless:
            self._selector.unregister(words.descriptor)
            self._give_up(rank, "its crash dump does not end")

    def _read_output(self, rank: Rank, name: str) -> None:
        descriptor = rank.process.pipes[name]
        if not rank.outputs[name].drain(descriptor):
            self._selector.unregister(descriptor)

    # --- ends

    def _reported(self, report: dict[str, Any]) -> None:
        rank = self._by_pid.get(report.get("child", 0))
        if rank is not None and rank.live:
            self.drain_rank(rank)
            self._strikes.report(rank.process.rank, report)
            if report["what"] == "ended" and rank.live:
                self._ended(rank, report["status"])
        elif self._run.launcher is not None:
            self._run.launcher.told(report)

    def _ended(self, rank: Rank, status: int | None) -> None:
        """Write down the end of a rank, unless its status is not known."""
        number, others_failed = rank.process.rank, self._group.failed
        rank.status, rank.gone = status, True
        self._group.move()
        by_launcher = self._run.launcher is not None and others_failed and status in _ENDS_PEERS
        rank.ended_by_us = rank.ended_by_us or by_launcher
        if status is not None:
            by = {"by": "launcher"} if by_launcher else {}
            self._group.write("exit", rank=number, status=status, ended=rank.ended_by_us, **by)
        acted = self._strikes.acted(number)
        if acted:
            self._group.write("enforced", rank=number, **acted)
        words = rank.process.words.event()
        if words is not None:
            self._group.write("crash", rank=number, **words)
        if self._gate is not None:
            self._gate.gone(number)

    # --- records

    def _drain_logs(self, rank: Rank) -> None:
        """Take the records of a rank and of its children. Raises `Unfit` or `Damaged`."""
        for line in rank.process.log.drain():
            self._group.move()
            event = parse_event(line)
            made_of(f"an event of the kind {event['kind']!r}", self._follow, rank, event)
            rank.file.append(line)
        # One that it finds here may have children of its own, which come last.
        for log in rank.children:
            for line in log.drain():
                self._group.move()
                event = parse_event(line)
                rank.file.append(line)
                if event["kind"] == "child":
                    self._admit_child(rank, event["name"])

    def _follow(self, rank: Rank, event: RankLine) -> None:
        rank.follow(event)
        if event["kind"] == "point" and rank.point in ("write", "save"):
            self._run.written.add(event.get("path", ""))
        elif event["kind"] == "child":
            self._admit_child(rank, event["name"])
        elif event["kind"] == "end" and self._gate is not None:
            self._gate.gone(rank.process.rank)
        self._strikes.event(rank.process.rank, event)

    def _admit_child(self, rank: Rank, name: str) -> None:
        """Read the log of a process that a rank has started, too: its sequences are the rank's."""
        if name in rank.named or len(rank.named) >= MOST_CHILDREN:
            raise Unfit(f"it has started a child {name!r} before, or {MOST_CHILDREN} others")
        rank.named.add(name)
        # A program may have removed it; a log that is not read is reported as not watched.
        with contextlib.suppress(OSError):
            rank.children.append(rank.process.child_log(self._group.log_of(rank.process.rank, name)))
