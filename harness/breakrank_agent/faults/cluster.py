"""Faults of a cluster: its controller ends a step, starts a job again, or loses a node. All ranks there are struck."""

from __future__ import annotations

import re
from dataclasses import dataclass

from breakrank_agent.protocol.fault import Fault
from breakrank_agent.protocol.target import Target


@dataclass(frozen=True)
class CancelStep(
    Fault,
    side="outside",
    needs=("slurm",),
    clustered=True,
    witness="step_gone",
    certifies="a step that is cancelled: SIGTERM to each task, then SIGKILL; the job goes on, and may start another",
):
    """The step of the rank is cancelled, as by its owner or a script around it."""

    def strike(self, target: Target) -> None:
        """Have the controller cancel it."""
        target.task.run("scancel", target.task.step())


@dataclass(frozen=True)
class RequeueJob(
    Fault,
    side="outside",
    needs=("slurm",),
    clustered=True,
    witness="requeued",
    certifies="a batch job that its cluster ends and starts again; says nothing about the time that it waits for nodes",
):
    """The job of the rank is requeued, as for a job that is more urgent."""

    def strike(self, target: Target) -> None:
        """Have the controller requeue it."""
        target.task.run("scontrol", "requeue", target.task.job)


@dataclass(frozen=True)
class DownNode(
    Fault,
    side="outside",
    needs=("slurm operator",),
    clustered=True,
    witness="node_down",
    certifies="a node that the controller holds for lost; the node itself still runs, and is told to end its tasks",
):
    """The node of the rank is lost to its cluster, as its controller has it."""

    def strike(self, target: Target) -> None:
        """Have the controller set it down."""
        target.kept["node"] = target.task.node
        reason = f"breakrank strike {target.number}"
        target.task.run("scontrol", "update", f"nodename={target.task.node}", "state=down", f"reason={reason}")

    def heal(self, target: Target) -> None:
        """Have the controller take it back, unless it has done so by itself: it may, once the node registers."""
        node = target.kept["node"]
        try:
            target.task.run("scontrol", "update", f"nodename={node}", "state=resume")
        except OSError:
            if re.search(r"\bState=\S*DOWN", target.task.run("scontrol", "-o", "show", "node", node)):
                raise
