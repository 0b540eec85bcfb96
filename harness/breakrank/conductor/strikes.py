"""The strikes of one attempt, from armed to landed: who is parked for which, what was done, who saw it."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from breakrank.host.session import Session
from breakrank.runners.base import RankProcess
from breakrank.runners.cgroups import Group, Groups
from breakrank.runners.namespaces import Walls
from breakrank.runners.workdir import View
from breakrank.witnesses.witness import WITNESSES, Evidence
from breakrank_agent.kernel.rooted import WorkingFolder
from breakrank_agent.plan import Plan
from breakrank_agent.protocol.events import RankLine
from breakrank_agent.protocol.fault import Fault, Strike

#: How long a strike may take to be seen by its witness before it counts as missed. A limit, not a trigger.
CONFIRM_S = 1.0

#: Witnesses of faults after which a rank does nothing more.
_STRUCK_DOWN = ("ended", "stopped", "frozen")

#: Writes one of the Conductor's events.
Write = Callable[..., None]


@dataclass
class _Target:
    """The rank as a fault sees it."""

    session: Session
    number: int
    rank: int
    pid: int
    folder: str
    holder: int
    carried: Sequence[str]
    peers: Mapping[int, int]
    store: int
    kept: dict[str, Any]
    around: Mapping[int, Walls]
    groups: Groups

    @property
    def group(self) -> Group:
        """The rank's control group. Raises `OSError` where the machine has none for us."""
        return self.groups.of(self.rank, self.pid)

    @property
    def walls(self) -> Walls:
        """What is around the rank. Raises `OSError` if nothing is."""
        return self.walls_of(self.rank)

    def walls_of(self, rank: int) -> Walls:
        """Return what is around a rank of the job. Raises `OSError` if nothing is, or there is no such rank."""
        if rank not in self.around:
            raise OSError(f"there are no walls around a rank {rank}; use --scenario-runner=sandbox")
        return self.around[rank]

    def files(self) -> WorkingFolder:
        """Return the working folder where strikes act: behind the rank's walls, or in the view."""
        walls = self.around.get(self.rank)
        return self._files_of(self.holder if walls is None else walls.pid)

    def seen(self) -> WorkingFolder:
        """Return the working folder as it lies in the rank's own root."""
        return self._files_of(self.pid)

    def _files_of(self, pid: int) -> WorkingFolder:
        walls = self.around.get(self.rank)
        return WorkingFolder(pid, self.folder, self.carried, () if walls is None else walls.mounts)

    def signal(self, number: int) -> None:
        self.session.signal(self.pid, number)

    def start(self, script: str, *arguments: str) -> int:
        walls = self.around[self.rank]
        reader, writer = os.pipe()
        with open(os.devnull, "r+b") as null, os.fdopen(reader) as said:
            ends = [null.fileno(), writer, null.fileno()]
            command = [sys.executable, "-I", "-S", script, *arguments]
            try:
                # The script lies where we are, and not in a container.
                pid = self.session.spawn(command, {}, Path("/"), ends, walls=(walls.pid, walls.flags("net")))
            finally:
                os.close(writer)
            line = said.readline().strip()
        if line != "ready":
            raise OSError(line or f"{Path(script).name} died")
        return pid

    def stop(self, pid: int) -> None:
        self.session.signal(pid, signal.SIGKILL)


@dataclass
class _OnRank:
    """One strike on one rank. `state`: armed, parked, fired, struck, landed, missed or overtaken.

    `again` says that a lasting fault strikes another time, `refused` why the machine would not let it strike, `struck`
    that it was tried from outside, `held` that the rank waits until it is seen, `more` that one that has landed goes
    on.
    """

    index: int
    strike: Strike
    rank: int
    pid: int = 0
    state: str = "armed"
    since: float = 0.0
    again: bool = False
    refused: str = ""
    struck: bool = False
    held: bool = False
    more: bool = False
    evidence: Evidence = field(default_factory=Evidence)
    kept: dict[str, Any] = field(default_factory=dict)


class Strikes:
    """All strikes that are due in one attempt."""

    def __init__(self, plan: Plan, attempt: int, session: Session, view: View, write: Write) -> None:
        self._attempt = attempt
        self._view = view
        self._pids: dict[int, int] = {}
        self._store = 0
        self._around: dict[int, Walls] = {}
        self._groups = Groups(session)
        self._session = session
        self._write = write
        self._all = [
            _OnRank(index, strike, rank)
            for index, strike in enumerate(plan.strikes)
            if strike.trigger.attempt == attempt or (strike.fault.lasts() and strike.trigger.attempt < attempt)
            for rank in strike.ranks
        ]

    def started(self, process: RankProcess) -> None:
        """A rank exists now."""
        self._pids[process.rank] = process.pid
        self._store = process.store
        if process.walls is not None:
            self._around[process.rank] = process.walls
        for item in self._of(process.rank):
            item.pid = process.pid

    def park(self, rank: int, index: int) -> None:
        """A rank waits at the point of a strike from outside."""
        for item in self._of(rank):
            if item.index == index:
                item.again = item.state in ("landed", "missed") or item.strike.trigger.attempt < self._attempt
                item.state = "parked"

    def event(self, rank: int, event: RankLine) -> None:
        """Take what the rank recorded: that a strike fired, was seen, or that the rank went on after one."""
        for item in self._of(rank):
            mine = event if event["kind"] == "strike" and event["strike"] == item.index else None
            if mine is not None and mine["phase"] == "fired" and item.strike.fault.side == "inside":
                item.state, item.since = "struck", time.monotonic()
                item.evidence.before = self._look(item)
            elif mine is not None and mine["phase"] == "seen":
                item.evidence.seen = mine
            elif item.state in ("struck", "landed") and mine is None:
                item.evidence.silent = False

    def report(self, rank: int, report: dict[str, Any]) -> None:
        """Take what waitpid told of a rank."""
        for item in self._of(rank):
            if item.state == "struck":
                item.evidence.reports.append(report)
            elif report["what"] == "ended" and item.state in ("armed", "parked"):
                item.state = "overtaken"

    def advance(self) -> list[int]:
        """Strike where every rank of a strike has come, look for witnesses, and return the ranks to release."""
        released: list[int] = []
        for item in self._all:
            if item.more:
                self._go_on(item)
            if item.state == "parked" and item.again:
                self._strike([item])
        for index in sorted({item.index for item in self._all}):
            members = [i for i in self._all if i.index == index and i.state != "overtaken"]
            if members and all(i.state == "parked" for i in members):
                self._strike(members)
        for item in self._all:
            if item.state == "struck" and (self._settled(item) or self._is_set(item)) and item.held:
                item.held = False
                item.strike.fault.release(self._target(item))
                released.append(item.rank)
        return released

    @property
    def pending(self) -> bool:
        """Whether a rank is parked, or a strike waits for its witness: then no wait is proof of a hang.

        Where nothing holds the rank, as when it was struck from inside, and nobody sees it soon, its wait is like any
        other.
        """
        now = time.monotonic()
        return any(
            item.state == "parked"
            or item.more
            or (item.state == "struck" and (item.held or now - item.since < CONFIRM_S))
            for item in self._all
        )

    def struck_down(self, rank: int) -> bool:
        """Return whether a landed strike has ended or stopped the rank."""
        return any(i.state == "landed" and i.strike.fault.witness in _STRUCK_DOWN for i in self._of(rank))

    def finish(self) -> None:
        """The attempt is over: whatever fired and was not seen has missed."""
        for item in self._all:
            if item.state in ("parked", "struck"):
                self._settle(item, "nobody saw it before the attempt was over")

    def heal(self) -> None:
        """Undo what strikes left, the last one first, once; of one that nobody saw, whatever it did."""
        for item in reversed(self._all):
            reached = item.state != "healed" and (item.struck or item.state == "landed")
            if not reached or type(item.strike.fault).heal is Fault.heal:
                continue
            landed, item.state = item.state == "landed", "healed"
            # It has taken all that it keeps, seen or not.
            taken = landed or bool(item.kept)
            try:
                item.strike.fault.heal(self._target(item))
            except ProcessLookupError:
                # What was struck in a rank went with the rank.
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
        """Give back what held the limits, when nothing of the attempt lives any more."""
        self._groups.remove()

    def _of(self, rank: int) -> Iterable[_OnRank]:
        return [item for item in self._all if item.rank == rank]

    def _strike(self, members: list[_OnRank]) -> None:
        for item in members:
            # What the rank recorded until now was before the strike.
            item.evidence = Evidence(before=self._look(item))
            item.state, item.held = "struck", True
            if item.again and not item.evidence.before:
                # Nothing has come back that a lasting fault could take away.
                continue
            item.struck = True
            try:
                item.strike.fault.strike(self._target(item))
            except OSError as error:
                item.refused = str(error)
        # Programs that strike take their time on a busy machine: whether anybody sees it counts from here.
        for item in members:
            item.since = time.monotonic()

    def _go_on(self, item: _OnRank) -> None:
        try:
            item.more = item.strike.fault.goes_on(self._target(item))
        except OSError as error:
            item.more = False
            self._settle(item, str(error))

    def _target(self, item: _OnRank) -> _Target:
        peers = {rank: pid for rank, pid in self._pids.items() if rank != item.rank}
        view = str(self._view.folder), self._view.holder, self._view.carries
        where = *view, peers, self._store, item.kept, self._around, self._groups
        return _Target(self._session, item.index, item.rank, item.pid, *where)

    def _look(self, item: _OnRank) -> Any:
        look = WITNESSES[item.strike.fault.witness].look
        return look(item.strike.fault, self._target(item)) if look is not None else None

    def _settled(self, item: _OnRank) -> bool:
        if item.refused:
            self._settle(item, item.refused)
            return True
        if item.again and not item.evidence.before:
            item.state = "landed"
            return True
        item.evidence.earlier, item.evidence.after = item.evidence.after, self._look(item)
        witness = WITNESSES[item.strike.fault.witness].judge(item.strike.fault, item.evidence)
        if witness is not None:
            item.state = "landed"
            if item.strike.fault.own_act() is not None:
                self._say(item, "act", status=item.strike.fault.own_act())
            self._say(item, "landed", witness=witness)
            item.more = type(item.strike.fault).goes_on is not Fault.goes_on
            return True
        if time.monotonic() - item.since > CONFIRM_S and item.held:
            self._settle(item, f"{item.strike.fault.witness}: not seen within {CONFIRM_S:g} s")
            return True
        return False

    def _is_set(self, item: _OnRank) -> bool:
        """Whether all is ready for what only comes when the rank goes on."""
        ready = WITNESSES[item.strike.fault.witness].set
        return ready is not None and ready(item.strike.fault, item.evidence)

    def _settle(self, item: _OnRank, why: str) -> None:
        item.state = "missed"
        self._say(item, "missed", why=why)

    def _say(self, item: _OnRank, phase: str, **values: Any) -> None:
        self._write("strike", strike=item.index, rank=item.rank, attempt=self._attempt, phase=phase, **values)
