"""Golden histories, written like sentences.

    job = Golden(ranks=2).trains(3)
    job[1].enters("optimize").dies(SIGKILL)
    job[0].enters("collective").reports("RuntimeError", "Connection closed by peer")
    history = job.history()

Every event gets the next millisecond of one clock, so an event that is written later happened later.
"""

from __future__ import annotations

from signal import SIGKILL
from typing import Any

from breakrank.history.reader import History, RankHistory
from breakrank_agent.plan import Plan
from breakrank_agent.protocol.events import ConductorLine, RankLine


class Golden:
    """A job of several ranks, and the Conductor's events."""

    def __init__(self, ranks: int = 2, pid: int = 1000, clock: float = 0.0) -> None:
        self.size = ranks
        self.conductor: list[ConductorLine] = []
        self.attempt = -1
        self._pid = pid
        self._clock = clock
        self._all: dict[tuple[int, int], GoldenRank] = {}
        self.again()

    def __getitem__(self, rank: int) -> GoldenRank:
        return self._all[self.attempt, rank]

    @property
    def ranks(self) -> list[GoldenRank]:
        """The ranks of the last attempt."""
        return [self[rank] for rank in range(self.size)]

    def now(self) -> float:
        """Return the next millisecond."""
        self._clock = round(self._clock + 0.001, 3)
        return self._clock

    def says(self, kind: str, **values: Any) -> Golden:
        """Let the Conductor write an event."""
        self.conductor.append({"kind": kind, "t": self.now(), **values})
        return self

    def again(self) -> Golden:
        """Start the next attempt."""
        self.attempt += 1
        for rank in range(self.size):
            self._all[self.attempt, rank] = GoldenRank(self, self.attempt, rank)
            self._pid += 1
            self.says("spawned", attempt=self.attempt, rank=rank, pid=self._pid)
            self[rank].writes("rank", attempt=self.attempt, slot=rank, rank=rank, world=self.size, pid=self._pid)
        return self

    def trains(self, steps: int, only: int | None = None, first_sample: int = 0) -> Golden:
        """Let every rank, or one only, train for some steps, all on other samples and with the same parameters."""
        for _ in range(steps):
            for one in self.ranks:
                if only in (None, one.rank):
                    begun = one.done
                    one.trains([first_sample + 10 * begun + one.rank])
        return self

    def ends_well(self) -> Golden:
        """Let every rank that still lives end well."""
        for one in self.ranks:
            if one.status is None:
                one.ends()
        return self

    def hangs(
        self, ranks: list[int], why: str = "deadline", peer: int | None = None, shown_by: str = "is away"
    ) -> Golden:
        """Let the Conductor end `ranks`, which wait, and then all others that live; `peer` is the rank to blame."""
        waiting = [
            {"rank": r, "step": self[r].step, "point": self[r].point, "op": self[r].op, "timeout_s": None}
            for r in ranks
        ]
        hung = {"why": why, "peer": peer, "peers": [] if peer is None else [peer], "shown_by": shown_by}
        self.says("hung", attempt=self.attempt, ranks=ranks, waiting=waiting, seconds=0.104, **hung)
        return self.ended_by_us()

    def ended_by_us(self) -> Golden:
        """Let the Conductor end every rank that still lives."""
        for one in self.ranks:
            if one.status is None:
                one.exits(-SIGKILL, by_us=True)
        return self

    def leaves(self, path: str, file: str) -> Golden:
        """Let the Conductor find a file on disk when the attempt is over."""
        return self.says("left", attempt=self.attempt, path=path, file=file, size=10)

    def history(self) -> History:
        """Return the history that was written."""
        return History({key: one.lived() for key, one in self._all.items()}, tuple(self.conductor))


class GoldenRank:
    """One rank in one attempt."""

    def __init__(self, job: Golden, attempt: int, rank: int) -> None:
        self.rank, self.status = rank, None
        self.step = self.done = 0
        self.point, self.op, self.params = "start", "", "p0"
        self._job, self._attempt = job, attempt
        self._by_us = False
        self._events: list[RankLine] = []
        self._visits: dict[tuple[int, str], int] = {}

    status: int | None

    def writes(self, kind: str, **values: Any) -> GoldenRank:
        """Record an event."""
        event = {"kind": kind, "n": len(self._events), "seq": "main", "step": self.step, "t": self._job.now()}
        self._events.append({**event, **values})
        return self

    def enters(self, point: str, **values: Any) -> GoldenRank:
        """Enter a point."""
        if point in ("load", "forward", "backward", "optimize") and self.step == self.done:
            self.step += 1
        if point == "collective":
            values = {"op": "allreduce_", "group": "0", "shapes": [[3, 2]], "dtype": "float32", **values}
        self.point, self.op = point, values.get("op", "")
        visit = self._visits[self.step, point] = self._visits.get((self.step, point), 0) + 1
        return self.writes("point", point=point, visit=visit, **values)

    def trains(self, samples: list[int], params: str | None = None, **payload: Any) -> GoldenRank:
        """Do one whole step on the samples with these indices; afterwards the parameters are `params`."""
        self.loads(samples)
        for point in ("forward", "backward", "collective", "optimize"):
            self.enters(point)
        return self.ends_step(params, **payload)

    def loads(self, samples: list[int]) -> GoldenRank:
        """Load the samples with these indices."""
        batch = f"b{samples}"
        return self.enters("load").writes("payload", of="load", indices=samples, samples=None, batch=batch)

    def ends_step(self, params: str | None = None, **payload: Any) -> GoldenRank:
        """End the step with these parameters."""
        self.enters("step")
        self.done = self.step
        return self.holds(params or f"p{self.step}", **payload)

    def holds(self, params: str, **payload: Any) -> GoldenRank:
        """Record the parameters after the step."""
        self.params = params
        payload = {"norm": 1.0, "norms": [1.0], "finite": True, **payload}
        return self.writes("payload", of="step", params=params, **payload)

    def is_placed(self, **where: Any) -> GoldenRank:
        """Record the places of the variables: by default the two devices of a strategy that has run."""
        strategy = {"kind": "MirroredStrategy", "replicas": 2, "devices": ["CPU:0", "CPU:1"]}
        strategy |= {"ran": True, "shared": False}
        known = {"on": {"CPU:0": 2, "CPU:1": 2}, "there": ["CPU:0", "CPU:1"], "asked": [], "strategies": [strategy]}
        return self.writes("placed", **{**known, "plain": [], "aliased": [], **where})

    def saves(self, path: str = "model.pt", file: str | None = None) -> GoldenRank:
        """Save a checkpoint; its digest tells the attempt and the step, unless it is given."""
        file = file or f"a{self._attempt}s{self.done}"
        self.enters("save", path=path)
        return self.writes("payload", of="save", path=path, file=file, size=10, done=self.done)

    def fails_to_save(self, path: str = "model.pt") -> GoldenRank:
        """Begin to save a checkpoint, and have the save raise."""
        return self.enters("save", path=path).writes(
            "raised", point="save", path=path, type="RuntimeError", message="unexpected pos 576 vs 534"
        )

    def opens(self, path: str) -> GoldenRank:
        """Open a file for writing."""
        return self.enters("write", path=path, how="open")

    def closes(self, path: str, file: str | None) -> GoldenRank:
        """Close a file, of which the digest is that of all that was written."""
        return self.writes("payload", of="write", path=path, file=file, size=10, done=self.done)

    def restores(self, file: str, path: str = "model.pt") -> GoldenRank:
        """Restore the checkpoint with this digest."""
        self.enters("restore", path=path)
        return self.writes("payload", of="restore", path=path, file=file, size=10)

    def tells_loss(self, **values: float) -> GoldenRank:
        """Log a loss, with or without a goal."""
        return self.writes("told", name="loss", values=values)

    def accesses(
        self, mode: str, turn: int | None, op: str = "aten::add", key: str = "8:1234", **facts: Any
    ) -> GoldenRank:
        """Read, write or change shared storage, in a turn if there is a schedule."""
        taken = {} if turn is None else {"turn": turn}
        return self.writes("access", op=op, mode=mode, key=key, **taken, **facts)

    def ends(self, code: int = 0, status: int | None = None, **end: Any) -> GoldenRank:
        """Come to the end of the main module, and exit with its code, or with another status."""
        self.enters("end")
        values = {"params": self.params, "norm": 1.0, "finite": True, "state": None, **end}
        self.writes("end", how="returned", code=code, **values)
        return self.exits(code if status is None else status)

    def reports(self, error: str, message: str = "", code: int = 1) -> GoldenRank:
        """Let an exception leave the main thread."""
        self.writes("report", type=error, message=message, code=code, frames=[["train.py", 7, "main"]])
        return self.ends(code=code)

    def dies(self, signal: int) -> GoldenRank:
        """Die of a signal."""
        return self.exits(-signal)

    def exits(self, status: int, by_us: bool = False) -> GoldenRank:
        """Be gone, without another record."""
        self.status, self._by_us = status, by_us
        self._job.says("exit", attempt=self._attempt, rank=self.rank, status=status, ended=by_us)
        return self

    def is_struck(self, strike: int = 0, lands: bool = True, status: int | None = None) -> GoldenRank:
        """Be struck: the strike fires and lands; `status` is how the injector's own act ends the rank."""
        self.writes("strike", strike=strike, phase="fired", point=self.point, visit=1)
        where = {"strike": strike, "rank": self.rank, "attempt": self._attempt}
        if not lands:
            self._job.says("strike", phase="missed", why="ended: not seen within 1 s", **where)
            return self
        if status is not None:
            self._job.says("strike", phase="act", status=status, **where)
        self._job.says("strike", phase="landed", witness="waitpid", **where)
        return self if status is None else self.exits(status)

    def lived(self) -> RankHistory:
        """Return the rank with all that was recorded."""
        return RankHistory(self._attempt, self.rank, tuple(self._events), self.status, self._by_us)


def sound(ranks: int = 2, steps: int = 3) -> History:
    """Return the history of a job in which nothing went wrong."""
    return Golden(ranks).trains(steps).ends_well().history()


def killed(point: str = "optimize", step: int = 2) -> Golden:
    """Return a job of two ranks whose rank 1 was killed by the injector; rank 0 lost its connection."""
    job = Golden().trains(step - 1)
    for one in job.ranks:
        one.loads([10 * (step - 1) + one.rank]).enters("forward").enters("backward").enters("collective")
    if point != "collective":
        job[1].enters(point)
    job[1].is_struck(status=-SIGKILL)
    job[0].reports("RuntimeError", "Connection closed by peer")
    return job


def plan(**values: Any) -> Plan:
    """Return a plan for golden histories: two ranks, three steps, the oracles that need no scenario."""
    fields = {"ranks": 2, "steps": 3, "oracles": ("ends", "progress", "finite", "replicas"), **values}
    return Plan("golden", "case", "module:function", **fields)
