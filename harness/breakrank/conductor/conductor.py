"""The Conductor: the one loop that owns a run. It starts the ranks, answers them, watches, ends, heals and saves."""

from __future__ import annotations

import contextlib
import math
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from breakrank.conductor.attempt import Attempt
from breakrank.conductor.rank import Rank
from breakrank.conductor.run import Run
from breakrank.files.disk_space import RecordFile, Room
from breakrank.history.reader import LINES
from breakrank.host.session import Session
from breakrank.runners.base import Runner
from breakrank.runners.workdir import View
from breakrank_agent.plan import Plan
from breakrank_agent.protocol.events import HungEvent
from breakrank_agent.protocol.log import encode

#: The phase before a run, with the name of a framework, in which a warm process imports that.
WARMING = "warming up "


@dataclass(frozen=True)
class Progress:
    """The progress of a run: (step, point) by rank, and the seconds that its ranks spent after entering each point.

    `waiting` is the reason why a job has no ranks yet, empty if it waits for nothing.
    """

    phase: str
    attempt: int
    ranks: dict[int, tuple[int, str]]
    spent: dict[str, float] = field(default_factory=dict)
    waiting: str = ""


class Conductor:
    """Conducts one run into `folder`; afterwards everything that can be known of it is in files.

    `view` is the folder of the ranks, by default `work` in the run's. `ends` takes the hung event and decides whether
    ranks that do not move are ended; by default they are. `steps` is the number that the job makes, if the plan does
    not say it, `keep` the number of bytes of each rank's history that stay (0: all). `room` takes note of writes that
    the disk refuses; ranks that cannot be recorded are ended, unless `ends` decides. After `most_s` seconds the ranks
    are ended at the end of a step.
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
        most_s: float = math.inf,
    ) -> None:
        room = room or Room(folder.parent)
        view = view or View(folder / "work")
        self._folder = folder
        self._progress = progress
        self._phase = phase
        self._events = RecordFile(folder / "conductor.jsonl", room, goes_on=True)
        run = Run(plan, folder, session, runner, view, room, self.write, plan.steps or steps, keep, ends)
        self._run = replace(run, over_at=time.monotonic() + most_s)
        if view.notes:
            self.write("view", notes=list(view.notes))

    def run(self) -> None:
        """Start the group, and again as often as it may be restarted, until an attempt needs no other."""
        number: int | None = 0
        run = self._run
        with contextlib.ExitStack() as ends:
            # Each of them is called, whatever the others raise: the last one first.
            for end in (self._remove_lines, self._events.close, partial(run.runner.close, self.write)):
                ends.callback(end)
            ends.callback(run.session.clear)
            if run.launcher is not None:
                ends.callback(run.launcher.end)
            while number is not None:
                attempt = Attempt(run, number, self._show)
                again = attempt.run() or attempt.regrown
                number = None if run.room.lack else _next(run, number, again)
                if run.plan.elastic:
                    ranks = self._run.plan.ranks if attempt.regrown else run.plan.ranks - attempt.lost
                    run = replace(run, plan=replace(run.plan, ranks=ranks))
                    number = number if ranks else None

    def _remove_lines(self) -> None:
        shutil.rmtree(self._folder / LINES, ignore_errors=True)

    def write(self, kind: str, **values: Any) -> None:
        """Append one of the Conductor's own events."""
        event: dict[str, Any] = {"kind": kind, "t": round(time.monotonic(), 6), **values}
        self._events.write(encode(event) + b"\n")

    def _show(self, attempt: int, ranks: dict[int, Rank]) -> None:
        """Show the progress of the ranks."""
        if self._progress is not None:
            spent: dict[str, float] = {}
            for rank in ranks.values():
                for point, seconds in rank.spent.items():
                    spent[point] = spent.get(point, 0.0) + seconds
            where = {n: (r.step, r.point) for n, r in ranks.items()}
            launcher = self._run.launcher
            waiting = "" if launcher is None else launcher.waiting()
            self._progress(Progress(self._phase, attempt, where, spent, waiting))


def _next(run: Run, number: int, again: bool) -> int | None:
    """Return the number of the attempt after this one, or None; `again`: a rank failed, and nothing hung."""
    if run.launcher is not None:
        return run.launcher.follows()
    return number + 1 if again and number < run.plan.restarts else None
