"""The strikes of one attempt, from armed to landed."""

from __future__ import annotations

import enum
import time
from dataclasses import dataclass, field
from typing import Any

from breakrank.conductor.reach import Far, Near, Reach
from breakrank.conductor.run import Write
from breakrank.conductor.struck_rank import StruckRank
from breakrank.host.disk_journal import DiskJournal
from breakrank.host.node_pid import NodePid, Pid, number_of
from breakrank.host.session import Session
from breakrank.host.slurm_task import Task, task_of
from breakrank.host.write_watch import WriteWatch
from breakrank.runners.base import RankProcess
from breakrank.runners.cgroups import Groups
from breakrank.runners.namespaces import Walls
from breakrank.runners.workdir import View
from breakrank.witnesses import Evidence, witness_of
from breakrank_agent.plan import Plan
from breakrank_agent.protocol.events import RankLine
from breakrank_agent.protocol.fault import GoesOn, Heals, Releases, Strike


class State(enum.Enum):
    """The state of one strike on one rank."""

    #: The point has not come.
    ARMED = "armed"
    #: The rank waits at the point of a strike from outside.
    PARKED = "parked"
    #: The fault has struck, and its witness has not seen it.
    STRUCK = "struck"
    #: The witness has seen it.
    LANDED = "landed"
    #: The witness has not seen it in time, or the machine refused it.
    MISSED = "missed"
    #: The rank ended before the strike.
    OVERTAKEN = "overtaken"
    #: Its effects were undone.
    HEALED = "healed"


@dataclass
class _OnRank:
    """One strike on one rank.

    `again`: a lasting fault strikes another time. `refused`: the machine's reason not to let it strike. `struck`: it
    was tried from outside. `held`: the rank waits until it is seen. `due`: it was, and the rank may go on. `more`: it
    has landed and goes on.
    """

    index: int
    strike: Strike
    rank: int
    pid: Pid = 0
    state: State = State.ARMED
    since: float = 0.0
    again: bool = False
    refused: str = ""
    struck: bool = False
    held: bool = False
    due: bool = False
    more: bool = False
    evidence: Evidence[Any] = field(default_factory=Evidence)
    kept: dict[str, Any] = field(default_factory=dict)

    @property
    def within_s(self) -> float:
        """The seconds within which the witness must see the strike."""
        return witness_of(self.strike.fault).within_s


class Strikes:
    """All strikes that are due in one attempt."""

    def __init__(self, plan: Plan, attempt: int, session: Session, view: View, write: Write) -> None:
        self._attempt = attempt
        self._view = view
        self._pids: dict[int, Pid] = {}
        self._store = 0
        self._around: dict[int, Walls] = {}
        self._groups = Groups(session)
        #: The files of the ranks as they are on disk, if their writes are watched.
        self._journal: DiskJournal | None = None
        self._watches: dict[int, WriteWatch] = {}
        self._session = session
        self._write = write
        self._all = [
            _OnRank(index, strike, rank)
            for index, strike in enumerate(plan.strikes)
            if strike.trigger.attempt == attempt or (strike.fault.lasts() and strike.trigger.attempt < attempt)
            for rank in strike.ranks
        ]

    def started(self, process: RankProcess) -> None:
        """Take note of a rank that exists now."""
        self._pids[process.rank] = process.pid
        self._store = process.store
        if process.walls is not None:
            self._around[process.rank] = process.walls
        for item in self._of(process.rank):
            item.pid = process.pid

    def park(self, rank: int, index: int) -> None:
        """Take note of a rank that waits at the point of a strike from outside."""
        for item in self._of(rank):
            if item.index == index:
                item.again = item.state in (State.LANDED, State.MISSED) or item.strike.trigger.attempt < self._attempt
                item.state = State.PARKED

    def watch_writes(self, rank: int, listener: int) -> WriteWatch:
        """Keep from here on what a rank brings to disk; `listener` is the descriptor of its filter.

        Raises `LookupError` if no strike asks for it.
        """
        asking = [item for item in self._of(rank) if item.strike.fault.journals]
        if not asking:
            raise LookupError(f"no strike on rank {rank} asks for its writes")
        # Of a rank of another node nobody can take the filter (`Inbox`).
        assert isinstance(asking[0].pid, int)
        target = self._target(asking[0], asking[0].pid)
        self._journal = self._journal or DiskJournal()
        self._watches[rank] = WriteWatch(listener, target.seen(), self._journal)
        return self._watches[rank]

    def event(self, rank: int, event: RankLine) -> None:
        """Take an event of the rank: a strike has fired or was seen, or the rank went on after one."""
        for item in self._of(rank):
            mine = event if event["kind"] == "strike" and event["strike"] == item.index else None
            if mine is not None and mine["phase"] == "fired" and item.strike.fault.side == "inside":
                item.state, item.since = State.STRUCK, time.monotonic()
                item.evidence.before = self._reach(item).look()
            elif mine is not None and mine["phase"] == "seen":
                item.evidence.seen = mine
            elif item.state in (State.STRUCK, State.LANDED) and mine is None:
                item.evidence.silent = False

    def report(self, rank: int, report: dict[str, Any]) -> None:
        """Take a report of waitpid on a rank."""
        for item in self._of(rank):
            if item.state == State.STRUCK:
                item.evidence.reports.append(report)
            elif report["what"] == "ended" and item.state in (State.ARMED, State.PARKED):
                item.state = State.OVERTAKEN

    def advance(self) -> list[int]:
        """Strike where every rank of a strike has come, look for witnesses, and return the ranks to release."""
        released: list[int] = []
        for item in self._all:
            if item.more:
                self._go_on(item)
            if item.state == State.PARKED and item.again:
                self._strike([item])
        for index in sorted({item.index for item in self._all}):
            members = [i for i in self._all if i.index == index and i.state != State.OVERTAKEN]
            if members and all(i.state == State.PARKED for i in members):
                self._strike(members)
        for item in self._all:
            if item.state == State.STRUCK and (self._settled(item) or self._is_set(item)) and item.held:
                item.held, item.due = False, True
        for item in self._all:
            if item.due and not self._bound(item):
                item.due = False
                if isinstance(item.strike.fault, Releases):
                    self._reach(item).release()
                released.append(item.rank)
        return released

    def _bound(self, item: _OnRank) -> bool:
        """Return whether a rank waits for a peer: a cluster lets all ranks of a step go on together."""
        return item.strike.fault.clustered and any(other.held and other.index == item.index for other in self._all)

    @property
    def pending(self) -> bool:
        """True if a rank is parked, or a strike waits for its witness: then no wait is proof of a hang.

        If nothing holds the rank, as after a strike from inside, and no witness sees the strike soon, its wait is like
        any other.
        """
        now = time.monotonic()
        return any(
            item.state == State.PARKED
            or item.more
            or item.due
            or (item.state == State.STRUCK and (item.held or now - item.since < item.within_s))
            for item in self._all
        )

    @property
    def landed(self) -> bool:
        """True if a strike has landed."""
        return any(item.state == State.LANDED for item in self._all)

    @property
    def regrown(self) -> bool:
        """True if a strike has landed after which all ranks of the job are started again."""
        return any(item.state == State.LANDED and item.strike.fault.regrows for item in self._all)

    def struck_down(self, rank: int) -> bool:
        """Return whether a landed strike has ended or stopped the rank."""
        return any(i.state == State.LANDED and witness_of(i.strike.fault).halts for i in self._of(rank))

    def finish(self) -> None:
        """End the attempt: each strike that fired and was not seen has missed."""
        for item in self._all:
            if item.state in (State.PARKED, State.STRUCK):
                self._settle(item, "nobody saw it before the attempt was over")

    def heal(self) -> None:
        """Undo the effects of strikes, the last one first, once, of those that no witness saw, too."""
        for item in reversed(self._all):
            fault, reached = item.strike.fault, item.struck or item.state == State.LANDED
            if item.state == State.HEALED or not reached or not isinstance(fault, Heals):
                continue
            landed, item.state = item.state == State.LANDED, State.HEALED
            # It has done all that it keeps, seen or not.
            taken = landed or bool(item.kept)
            try:
                self._reach(item).heal()
            except ProcessLookupError:
                # The effects went with the rank.
                continue
            except (OSError, KeyError) as error:
                if landed or (taken and isinstance(error, OSError)):
                    self._say(item, "unhealed", why=str(error))
                continue
            if landed:
                self._say(item, "healed")

    def acted(self, rank: int) -> dict[str, int]:
        """Return how often the kernel had to enforce the limits of a rank's control group, by controller."""
        return self._groups.acted(rank)

    def close(self) -> None:
        """Remove the control groups and the journal, when nothing of the attempt lives any more."""
        self._groups.remove()
        if self._journal is not None:
            self._journal.close()

    def _of(self, rank: int) -> list[_OnRank]:
        return [item for item in self._all if item.rank == rank]

    def _strike(self, members: list[_OnRank]) -> None:
        for item in members:
            # The records until now were made before the strike.
            item.evidence = Evidence(before=self._reach(item).look())
            item.state, item.held = State.STRUCK, True
        # A cluster strikes peers, too: all looks come before.
        for item in members:
            if item.again and not item.evidence.before:
                # Nothing has come back that a lasting fault could strike.
                continue
            item.struck = True
            try:
                self._reach(item).strike()
            except OSError as error:
                item.refused = str(error)
        # Programs that strike take their time on a busy machine: the time of the witness counts from here.
        for item in members:
            item.since = time.monotonic()

    def _go_on(self, item: _OnRank) -> None:
        try:
            item.more = self._reach(item).goes_on()
        except OSError as error:
            item.more = False
            self._settle(item, str(error))

    def _reach(self, item: _OnRank) -> Reach:
        """Return what strikes and looks where the rank is."""
        fault = item.strike.fault
        if isinstance(item.pid, int) or fault.clustered:
            # The controller of a cluster is asked from here.
            return Near(fault, self._target(item, number_of(item.pid), task_of(item.pid)))
        peers = {r: p.number for r, p in self._pids.items() if isinstance(p, NodePid) and p.node is item.pid.node}
        peers.pop(item.rank, None)
        facts = {"number": item.index, "rank": item.rank, "pid": item.pid.number, "peers": peers, "store": self._store}
        return Far(item.pid, {**facts, "folder": item.pid.node.work}, item.kept)

    def _target(self, item: _OnRank, pid: int, task: Task | None = None) -> StruckRank:
        peers = {rank: other for rank, other in self._pids.items() if rank != item.rank and isinstance(other, int)}
        view = str(self._view.folder), self._view.holder, self._view.carries
        where = *view, peers, self._store, item.kept, self._around, self._groups, self._journal
        return StruckRank(self._session, item.index, item.rank, pid, *where, self._watches.get(item.rank), task)

    def _settled(self, item: _OnRank) -> bool:
        if item.refused:
            self._settle(item, item.refused)
            return True
        if item.again and not item.evidence.before:
            item.state = State.LANDED
            return True
        witness = self._reach(item).judge(item.evidence)
        if witness is not None:
            item.state = State.LANDED
            if item.strike.fault.own_act() is not None:
                self._say(item, "act", status=item.strike.fault.own_act())
            self._say(item, "landed", witness=witness)
            item.more = isinstance(item.strike.fault, GoesOn)
            return True
        if time.monotonic() - item.since > item.within_s and item.held:
            self._settle(item, f"{item.strike.fault.witness}: not seen within {item.within_s:g} s")
            return True
        return False

    def _is_set(self, item: _OnRank) -> bool:
        """Return whether the fault is armed and takes effect only once the rank goes on."""
        return self._reach(item).is_set(item.evidence)

    def _settle(self, item: _OnRank, why: str) -> None:
        item.state = State.MISSED
        self._say(item, "missed", why=why)

    def _say(self, item: _OnRank, phase: str, **values: Any) -> None:
        self._write("strike", strike=item.index, rank=item.rank, attempt=self._attempt, phase=phase, **values)
