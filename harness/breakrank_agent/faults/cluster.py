"""Faults of a cluster: its controller ends a step, starts a job again, or loses a node. All ranks there are struck."""

from __future__ import annotations

import re
import signal
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
class PreemptJob(
    Fault,
    side="outside",
    needs=("slurm preemption",),
    clustered=True,
    witness="requeued",
    certifies="a batch job that gives its node to a more urgent one, and starts again when that is over",
):
    """The job of the rank gives way to another one, which is more urgent, wants the whole node, and is over at once."""

    def strike(self, target: Target) -> None:
        """Submit the more urgent job."""
        urgent = ["sbatch", "--parsable", f"--partition={target.task.urgent()}", "--time=1"]
        urgent += [f"--nodelist={target.task.node}", "--exclusive", "--output=/dev/null", "--wrap=true"]
        target.kept["urgent"] = target.task.run(*urgent).strip()

    def heal(self, target: Target) -> None:
        """Cancel the more urgent job, should it still wait."""
        target.task.run("scancel", "--quiet", target.kept["urgent"])


@dataclass(frozen=True)
class SignalStep(
    Fault,
    side="outside",
    needs=("slurm",),
    clustered=True,
    witness="sigusr_waits",
    delivers=-signal.SIGUSR1,
    certifies="a SIGUSR1 that the controller sends to each task of the step; says nothing about the end of the job",
):
    """The step of the rank is sent SIGUSR1, as by its owner (`scancel --signal=USR1`).

    It is sent while the step stands still, so that it can be seen to wait for a rank before it is taken. A process that
    does not expect SIGUSR1 ends by it. Strike all ranks: no task of the step is left out.
    """

    def strike(self, target: Target) -> None:
        """Have the controller send SIGSTOP, then SIGUSR1. A second one, for a peer, is the first one still."""
        target.kept["step"] = target.task.step()
        for name in ("STOP", "USR1"):
            target.task.run("scancel", f"--signal={name}", target.kept["step"])

    def release(self, target: Target) -> None:
        """Have the controller send SIGCONT: the ranks take the SIGUSR1 now."""
        if "step" in target.kept:
            target.task.run("scancel", "--signal=CONT", target.kept["step"])


@dataclass(frozen=True)
class NearTimeLimit(
    Fault,
    side="outside",
    needs=("slurm",),
    clustered=True,
    witness="warned",
    delivers=-signal.SIGUSR1,
    certifies="the warning before a time limit, as the controller sends it; says nothing about the limit itself",
):
    """The time limit of the job comes near, and the controller sends the SIGUSR1 that was asked for.

    The job has to be submitted with `--signal=USR1@SECONDS`, with the `seconds` of the fault, and a longer time limit.
    Its limit is brought down to these seconds from now, so that the warning is due. The step stands still until the
    controller has sent it, which may take half a minute: the SIGCONT that comes with it lets the ranks go on.
    """

    seconds: int = 900

    def strike(self, target: Target) -> None:
        """Have the controller stop the step, and bring the limit down, unless it did so for a peer."""
        target.kept["step"] = target.task.step()
        if target.task.seconds_left() > self.seconds:
            target.task.run("scancel", "--signal=STOP", target.kept["step"])
            target.task.run("scontrol", "update", f"jobid={target.task.job}", f"endtime=now+{self.seconds}")

    def release(self, target: Target) -> None:
        """Have the controller send SIGCONT, should no warning have come."""
        if "step" in target.kept:
            target.task.run("scancel", "--signal=CONT", target.kept["step"])


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


@dataclass(frozen=True)
class LoseDaemon(
    Fault,
    side="outside",
    needs=("slurm hosts",),
    clustered=True,
    witness="daemon_silent",
    certifies="a node whose daemon dies and comes back, while its tasks go on; says nothing about a node that is lost",
):
    """The daemon of the rank's node (slurmd) is killed; it is there again when the attempt is over."""

    def strike(self, target: Target) -> None:
        """Have the cluster's keeper kill it."""
        target.task.turn(f"{target.task.node}.slurmd", on=False)

    def heal(self, target: Target) -> None:
        """Have the keeper start it again."""
        target.task.turn(f"{target.task.node}.slurmd", on=True)
