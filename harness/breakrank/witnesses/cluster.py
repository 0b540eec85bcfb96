"""Witnesses of a cluster: the controller's own word on a step, a job and a node."""

from __future__ import annotations

import contextlib
import re
import signal
from typing import NamedTuple

from breakrank.witnesses import Evidence, Witness
from breakrank_agent.protocol.fault import Fault
from breakrank_agent.protocol.target import Target

#: Seconds that a controller may take for a strike: a step ends after its epilogs, and a daemon is asked now and then.
_CONTROLLER_S = 90.0


class Steps(NamedTuple):
    """The steps of a job that run."""

    running: frozenset[str]


class StepGone(Witness[Steps]):
    """The controller lists a step no more that ran before the strike."""

    within_s = _CONTROLLER_S

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

    within_s = _CONTROLLER_S

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

    within_s = _CONTROLLER_S

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


class SigusrWaits(Witness[str]):
    """The kernel of the node lists the SIGUSR1 as sent to the rank and not yet taken, which it did not before."""

    def look(self, fault: Fault, target: Target) -> str | None:
        """Return how the rank will treat the signal if it waits for it; None if it does not."""
        with contextlib.suppress(OSError):
            return target.task.pending(signal.SIGUSR1) or None
        return None

    def judge(self, fault: Fault, evidence: Evidence[str]) -> str | None:
        """Compare the two looks."""
        if evidence.before or not evidence.after:
            return None
        return f"/proc/<pid>/status on the node: SIGUSR1 is pending, and {evidence.after}"


class Limit(NamedTuple):
    """The limit of a job, and whether the rank stands still: then the limit is not asked for."""

    still: bool
    limit: str


class Warned(Witness[Limit]):
    """The controller has a nearer limit than before, and the rank, which it had stopped, goes on: it was warned.

    With the warning, and at no other time, the controller sends SIGCONT.
    """

    within_s = _CONTROLLER_S

    def look(self, fault: Fault, target: Target) -> Limit | None:
        """Return both; None if one is not said."""
        with contextlib.suppress(OSError):
            still = target.task.stands_still()
            return Limit(still, "" if still else target.task.says("EndTime"))
        return None

    def judge(self, fault: Fault, evidence: Evidence[Limit]) -> str | None:
        """Compare the looks before and after, and the last two."""
        before, earlier, after = evidence.before, evidence.earlier, evidence.after
        if before is None or earlier is None or after is None or not earlier.still or after.still:
            return None
        return f"scontrol show job: EndTime {after.limit}; the step goes on" if after.limit < before.limit else None


class DaemonSilent(Witness[str]):
    """The controller says that the node does not respond, which it did before."""

    within_s = _CONTROLLER_S

    def look(self, fault: Fault, target: Target) -> str | None:
        """Return the state of the node, which ends in a star if it does not respond; None if it is not said."""
        with contextlib.suppress(OSError):
            return target.task.run("sinfo", "--noheader", f"--nodes={target.task.node}", "--format=%T").split()[0]
        return None

    def judge(self, fault: Fault, evidence: Evidence[str]) -> str | None:
        """Compare the two states."""
        before, after = evidence.before, evidence.after
        return f"sinfo: {after}" if before and after and after.endswith("*") and not before.endswith("*") else None
