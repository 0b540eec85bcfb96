"""The request for a run: its plan, its code, and all other settings of the run."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from breakrank.conductor.conductor import Progress
from breakrank.plan.catalogue import packaged_programs
from breakrank.runners.kind import RunSpec
from breakrank.verdict import Record
from breakrank_agent.plan import Plan

Watch = Callable[[Progress], None]


@dataclass(frozen=True)
class Request:
    """One run that is asked for. `record` is what is known of the case, `progress` is told how far the ranks are.

    `programs` is the folder of the plan's programs, by default the packaged one. `where` is the folder of a user's
    script: it runs in a private view of it, or, `in_place`, in the folder itself. Without `agent` the ranks run as if
    we were not there, and nothing is judged: the verdict is VOID. `replayed` is the plan that this one replays, whose
    control, under its own schedule, serves both. After `most_s` seconds the ranks are ended at the end of a step.
    """

    plan: Plan
    record: Record | None = None
    programs: Path | None = None
    progress: Watch | None = None
    agent: bool = True
    replayed: Plan | None = None
    where: Path | None = None
    in_place: bool = False
    most_s: float = math.inf

    @property
    def code(self) -> Path:
        """The folder of the programs. Raises `BreakrankError` if none is named and ours are not installed."""
        return self.programs or packaged_programs()

    def spec(self, folder: Path) -> RunSpec:
        """Return what a runner has to know of the run in the run directory `folder`."""
        return RunSpec(self.plan, folder, self.code, self.agent, self.where, self.in_place)
