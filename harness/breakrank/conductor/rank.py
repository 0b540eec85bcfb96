"""One rank in one attempt, as the Conductor knows it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from breakrank.analysis.wait_for import Ledger, Wait
from breakrank.history.output import Output
from breakrank.history.rank_file import Chronicle
from breakrank.runners.base import Log, RankProcess
from breakrank_agent.protocol.clock import MAIN
from breakrank_agent.protocol.events import PointEvent, RankLine

#: The fields of a collective's own event that a hung event keeps.
_TOLD = ("op", "group", "c", "p", "peer", "root", "site", "shapes", "dtype", "said")


@dataclass
class Rank:
    """One rank: its process, its files, its last point, and its end.

    `left`: the exit code of a rank whose process stays.
    `done`: it has made the plan's last step, and stands by until the others have. `released`: it was told to end before
    they have. `leaves`: its work is over, and it
    asks for leave to end. `children` are the logs of processes that it has started, and that are watched. `named` are
    the names of all that it said it has started. `outsiders`: it has started some, which are under no schedule.
    `spoke`: its agent has recorded something. `damaged`: its records and messages make no sense any more.
    """

    process: RankProcess
    file: Chronicle
    outputs: dict[str, Output]
    named: set[str] = field(default_factory=set)
    outsiders: bool = False
    damaged: bool = False
    spoke: bool = False
    children: list[Log] = field(default_factory=list)
    ledger: Ledger = field(default_factory=Ledger)
    step: int = 0
    point: str = "start"
    status: int | None = None
    gone: bool = False
    ended_by_us: bool = False
    reported: bool = False
    finished: bool = False
    left: int | None = None
    done: bool = False
    released: bool = False
    leaves: bool = False
    dropped: int = 0
    since: float | None = None
    spent: dict[str, float] = field(default_factory=dict)
    _timeout_s: float | None = None
    _last: PointEvent | None = None

    @property
    def live(self) -> bool:
        """True until the process has ended."""
        return not self.gone

    @property
    def failed(self) -> bool:
        """True if the rank ended otherwise than well."""
        return self.gone and (self.reported or not (self.status == 0 or self.finished))

    def follow(self, event: RankLine) -> None:
        """Take the next event of the rank."""
        self.step, self.spoke = event["step"], True
        self.ledger.take(event)
        if event["kind"] == "point":
            if self.since is not None and event["seq"] == MAIN:
                self.spent[self.point] = self.spent.get(self.point, 0.0) + event["t"] - self.since
            self.since = event["t"]
            self.point, self._last = event["point"], event
        elif event["kind"] == "group":
            self._timeout_s = event.get("timeout_s", self._timeout_s)
        elif event["kind"] == "child" or (event["kind"] == "note" and event.get("outsiders")):
            self.outsiders = True
        elif event["kind"] == "report":
            self.reported = True
        elif event["kind"] == "end":
            self.finished = True
            self.left = int(event["code"] or 0) if event.get("stays") else None

    def timeout_s(self, wait: Wait | None = None, lost: bool = False) -> float | None:
        """Return the seconds after which the rank's wait, for a silent one if `lost`, raises; None if not known."""
        known = self.ledger.timeout_s(wait.event.get("group", ""), lost) if wait is not None else None
        return self._timeout_s if known is None else known

    def waits_in(self, wait: Wait | None, lost: bool = False) -> dict[str, Any]:
        """Return the place of the rank's wait for a hung event; without a wait, the place where it was last seen."""
        place = {"rank": self.process.rank, "step": self.step, "timeout_s": self.timeout_s(wait, lost)}
        if wait is None:
            last: Mapping[str, Any] = self._last if self._last is not None else {}
            after = {"after": last["op"]} if self.point == "collective" else {}
            told = {name: last[name] for name in _TOLD if name in last and name != "op"}
            return {**place, "point": self.point, "op": "", **(told | after if after else {})}
        event: Mapping[str, Any] = wait.event
        told = {name: event[name] for name in _TOLD if name in event}
        return {**place, "step": wait.event["step"], "point": wait.event["point"], **told, "lacks": list(wait.lacks)}
