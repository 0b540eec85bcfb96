"""Real runs that are drawn: a hang, a kill with a restart, a race and a crash, each made once a session."""

from __future__ import annotations

from typing import Any

from breakrank.runs.saved_run import SavedRun
from breakrank_agent import faults
from breakrank_agent.plan import Schedule
from breakrank_agent.protocol.trigger import at

NAMES = ("hang", "kill", "race", "crash")


def make(once: Any, name: str) -> SavedRun:
    """Return one of the runs; `once` is the fixture of that name."""
    if name == "hang":
        return once("stuck:skips_the_barrier", ranks=3, steps=5, deadline_s=60.0)[1]
    if name == "kill":
        return once("small:train", faults.Kill() @ at(rank=1, step=2, point="collective"), restarts=1)[1]
    if name == "crash":
        return once("small:segfaults")[1]
    drawn = Schedule("controlled", policy="random")
    return once("ranks:racy", schedule=drawn, steps=1, deadline_s=60.0, oracles=("ends", "progress", "race"))[1]
