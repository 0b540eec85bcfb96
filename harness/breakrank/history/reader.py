"""A saved run, read back: what each rank did in each attempt, and what the Conductor saw."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TypeVar

from breakrank.files.bounded import Folder
from breakrank.history.kinds import ConductorKinds, RankKinds
from breakrank.history.rank_file import read_chronicle, read_conductor, read_left
from breakrank_agent.protocol.events import (
    ConductorLine,
    DamagedEvent,
    EndEvent,
    LauncherEvent,
    PayloadEvent,
    PointEvent,
    RankLine,
    ReportEvent,
)
from breakrank_agent.protocol.log import HistoryError

_Line = TypeVar("_Line", RankLine, ConductorLine)

#: Of a run directory, what ranks reach while they live: their logs, and the lines by which they speak when they die.
LINES = "lines"


def lines_of(run: Path, attempt: int) -> Path:
    """Return the folder of what the ranks of one attempt reach of ours."""
    return run / LINES / f"attempt-{attempt}"


def records_of(run: Path, attempt: int) -> Path:
    """Return the folder of what is kept of one attempt."""
    return run / f"attempt-{attempt}"


@dataclass(frozen=True)
class RankHistory(RankKinds):
    """One attempt of one rank. `status` is its exit code, or minus the signal; None: it never ended by itself.

    `ended_by_us` says that the Conductor ended it (a hang, or the end of an attempt that another rank had failed), or
    the job's own launcher after another rank had failed.
    """

    attempt: int
    rank: int
    events: tuple[RankLine, ...] = ()
    status: int | None = None
    ended_by_us: bool = False

    def points(self, point: str) -> list[PointEvent]:
        """Return the entries of one point, in order."""
        return [e for e in self.events if e["kind"] == "point" and e["point"] == point]

    def payloads(self, of: str) -> list[PayloadEvent]:
        """Return the payloads of one point, in order."""
        return [e for e in self.events if e["kind"] == "payload" and e["of"] == of]

    @property
    def end(self) -> EndEvent | None:
        """The event that says that the main module is over, if it is."""
        ends = self.of_kind("end")
        return ends[-1] if ends else None

    @property
    def report(self) -> ReportEvent | None:
        """The report of the rank: an uncaught exception, or a non-zero exit by its own will."""
        reports = self.of_kind("report")
        return reports[-1] if reports else None

    @property
    def last_step(self) -> int:
        """The last step that the rank finished; 0 if none."""
        return max((int(e["step"]) for e in self.points("step")), default=0)

    @property
    def finished(self) -> bool:
        """True if the main module ended without an error."""
        end = self.end
        return end is not None and not end.get("code") and self.report is None

    @property
    def ended_well(self) -> bool:
        """True if the rank ended with exit code 0, or of any signal after its work was completed."""
        if self.status is None or self.report is not None:
            return False
        if self.status < 0:
            return self.finished
        return self.status == 0 and not self.ended_by_us

    def died_of(self) -> str | None:
        """Return the signal that ended the rank before its work was over, if the rank itself reported nothing."""
        if self.status is None or self.status >= 0 or self.ended_by_us:
            return None
        if self.end is not None or self.report is not None:
            return None
        return signal_name(-self.status)


@dataclass(frozen=True)
class History(ConductorKinds):
    """One run: every rank of every attempt, and the Conductor's own events."""

    ranks: Mapping[tuple[int, int], RankHistory] = field(default_factory=dict)
    conductor: tuple[ConductorLine, ...] = ()

    @property
    def attempts(self) -> list[int]:
        """The numbers of the attempts that were started."""
        return [*self._by_attempt]

    def attempt(self, number: int) -> list[RankHistory]:
        """Return the ranks of one attempt, in order."""
        return list(self._by_attempt.get(number, ()))

    @cached_property
    def _by_attempt(self) -> dict[int, list[RankHistory]]:
        """The ranks of each attempt, both in order: a thousand ranks are not to be sorted for each of them."""
        found: dict[int, list[RankHistory]] = {}
        for key in sorted(self.ranks):
            found.setdefault(key[0], []).append(self.ranks[key])
        return found

    @property
    def last(self) -> list[RankHistory]:
        """The ranks of the last attempt."""
        return self.attempt(self.attempts[-1]) if self.ranks else []

    def world(self, attempt: int) -> int:
        """Return how many ranks an attempt was to have, as its ranks say; 0 if none says it."""
        begun = [e for lived in self.attempt(attempt) for e in lived.of_kind("rank")]
        return max((int(e["world"]) for e in begun), default=0)

    @property
    def launcher_failures(self) -> list[LauncherEvent]:
        """The failures of the launcher; none where it only hands on that a rank died after its work was over.

        Torch can abort a process that has come to its end: a thread of gloo is then destroyed before it was joined.
        """
        if self.last and all(lived.ended_well for lived in self.last) and any(lived.status for lived in self.last):
            return []
        return [e for e in self.seen("launcher") if e["status"] and not e["ended"]]

    def exit_position(self, attempt: int, rank: int) -> int | None:
        """Return where among the Conductor's events the rank's exit stands, or None if it never ended."""
        return self._exits.get((attempt, rank))

    @cached_property
    def _exits(self) -> dict[tuple[int, int], int]:
        """The place of the first exit of each rank among the Conductor's events."""
        found: dict[tuple[int, int], int] = {}
        for position, event in enumerate(self.conductor):
            if event["kind"] == "exit":
                found.setdefault((event["attempt"], event["rank"]), position)
        return found

    @cached_property
    def nodes(self) -> dict[tuple[int, int], str]:
        """The node of each rank by attempt and number; those of this machine are not in it."""
        found: dict[tuple[int, int], str] = {}
        for event in self.seen("spawned"):
            found.setdefault((event["attempt"], event["rank"]), event.get("node", ""))
        return {key: node for key, node in found.items() if node}

    def without(self, *kinds: str) -> History:
        """Return the history without events of some kinds."""
        bare = {
            key: replace(lived, events=tuple(e for e in lived.events if e["kind"] not in kinds))
            for key, lived in self.ranks.items()
        }
        return History(bare, tuple(e for e in self.conductor if e["kind"] not in kinds))

    def without_faults(self) -> History:
        """Return the history as an oracle and blame may read it: no fault events, and no word of who struck."""
        return self.without("strike")


def picks(lived: RankHistory) -> tuple[int, ...]:
    """Return which of its threads a rank picked, pick by pick, by their numbers; 0 is the main thread."""
    scheduled = (e for e in lived.events if e["kind"] == "access" or e["kind"] == "sync")
    picked = {e["pick"]: e["seq"] for e in scheduled if "pick" in e}
    return tuple(0 if seq == "main" else int(seq.rpartition("-")[2]) for _, seq in sorted(picked.items()))


def signal_name(number: int) -> str:
    """Return `SIGKILL` for 9 and so on; an unknown number as `signal 99`."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def read_history(folder: Path, within: Folder | None = None) -> History:
    """Read the history files of a run directory, as far as they go.

    A record that is damaged ends what is read of its file, and stands among the Conductor's events as `damaged`, with
    `rank` (None: the Conductor's own) and `why`. `within` is a directory that `folder` lies in, and bounds what is read
    with it. Raises `BreakrankError` for a file that is none of a run's: a link, a pipe, one that is too large.
    """
    place = within or Folder(folder)
    base = f"{folder.relative_to(place.path)}/" if folder != place.path else ""
    conductor, why = _as_far_as_it_goes(read_conductor(place, f"{base}conductor.jsonl"))
    damaged = [_damage(0, None, why)] if why else []
    exits = {(e["attempt"], e["rank"]): e for e in conductor if e["kind"] == "exit"}
    started = dict.fromkeys((e["attempt"], e["rank"]) for e in conductor if e["kind"] == "spawned")
    numbers = dict.fromkeys(attempt for attempt, _ in started)
    left = {attempt: place.names(f"{base}{LINES}/attempt-{attempt}") for attempt in numbers}
    ranks: dict[tuple[int, int], RankHistory] = {}
    for attempt, rank in started:
        lies = _Lies(place, base, attempt, rank, tuple(left[attempt]))
        events, why = _as_far_as_it_goes(_records(lies))
        damaged += [_damage(attempt, rank, why)] if why else []
        exit_event = exits.get((attempt, rank))
        ranks[attempt, rank] = RankHistory(
            attempt,
            rank,
            tuple(events),
            exit_event["status"] if exit_event else None,
            bool(exit_event and exit_event["ended"]),
        )
    return History(ranks, (*conductor, *damaged))


@dataclass(frozen=True)
class _Lies:
    """The place of the records of one rank, below `base` in a directory; `left` names the lines of the attempt."""

    place: Folder
    base: str
    attempt: int
    rank: int
    left: tuple[str, ...]


def _records(lies: _Lies) -> Iterator[RankLine]:
    """Yield what is kept of a rank: its file, and its logs.

    If the run was cut short, the rank's own log still holds the events that nobody had drained.
    """
    name, attempt = f"rank-{lies.rank}", f"attempt-{lies.attempt}"
    yield from read_chronicle(lies.place, f"{lies.base}{attempt}/{name}.jsonl")
    logs = [file for file in lies.left if file.startswith(f"{name}.") and file.endswith(".log")]
    for log in sorted(logs, key=lambda file: (file != f"{name}.log", file)):
        yield from read_left(lies.place, f"{lies.base}{LINES}/{attempt}/{log}")


def _as_far_as_it_goes(events: Iterator[_Line]) -> tuple[list[_Line], str]:
    """Return the events up to the first that is damaged, and what is wrong with that; empty if none is."""
    read: list[_Line] = []
    try:
        read.extend(events)
    except HistoryError as error:
        return read, str(error)
    return read, ""


def _damage(attempt: int, rank: int | None, why: str) -> DamagedEvent:
    return {"kind": "damaged", "t": 0.0, "attempt": attempt, "rank": rank, "why": why}
