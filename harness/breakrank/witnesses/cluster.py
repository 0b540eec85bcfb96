"""Witnesses of a cluster: the controller's own word on a step, a job and a node."""

from __future__ import annotations

import contextlib
import re
from typing import NamedTuple

from breakrank.witnesses import Evidence, Witness
from breakrank_agent.protocol.fault import Fault
from breakrank_agent.protocol.target import Target


class Steps(NamedTuple):
    """The steps of a job that run."""

    running: frozenset[str]


class StepGone(Witness[Steps]):
    """The controller lists a step no more that ran before the strike."""

    def look(self, fault: Fault, target: Target) -> Steps | None:
        """Return the steps that run; None if the controller does not say."""
        with contextlib.suppress(OSError):
            return Steps(frozenset(target.task.steps()))
        return None

    def judge(self, fault: Fault, evidence: Evidence[Steps]) -> str | None:
        """Compare the two lists."""
        if not evidence.before or evidence.after is None:
            return None
        gone = sorted(evidence.before.running - evidence.after.running)
        return f"squeue --steps: {gone[0].partition('.')[2]} is gone" if gone else None


class Requeued(Witness[int]):
    """The controller counts one restart more of the job."""

    def look(self, fault: Fault, target: Target) -> int | None:
        """Return how many it counts; None if it does not say."""
        with contextlib.suppress(OSError):
            found = re.search(r"\bRestarts=(\d+)", target.task.run("scontrol", "-o", "show", "job", target.task.job))
            return int(found[1]) if found else None
        return None

    def judge(self, fault: Fault, evidence: Evidence[int]) -> str | None:
        """Compare the two counts."""
        if evidence.before is None or evidence.after is None or evidence.after <= evidence.before:
            return None
        return f"scontrol show job: {evidence.after} restarts"


class NodeDown(Witness[str]):
    """The controller says that the node is down, which it was not before."""

    def look(self, fault: Fault, target: Target) -> str | None:
        """Return the state of the node; None if the controller does not say."""
        with contextlib.suppress(OSError):
            found = re.search(r"\bState=(\S+)", target.task.run("scontrol", "-o", "show", "node", target.task.node))
            return found[1] if found else None
        return None

    def judge(self, fault: Fault, evidence: Evidence[str]) -> str | None:
        """Compare the two states."""
        if not evidence.before or not evidence.after or "DOWN" in evidence.before or "DOWN" not in evidence.after:
            return None
        return f"scontrol show node: {evidence.after}"
