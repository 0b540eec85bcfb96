"""The jobs that a command of ours has submitted: how they are found, ended, and what the controller says of them.

A job is ours if the session (setsid(2)) that submitted it is the one that the supervisor gave our command, on this host
(`AllocNode:Sid` of scontrol). Jobs of the user's are never among them.

The supervisor runs this file as a script, with the standard library alone, when its owner is gone:
`python -I -S slurm_jobs.py SID STEP…` ends the jobs of that session, and steps in an allocation of somebody else's.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

#: Seconds that one question to the controller may take.
_ANSWERS_IN_S = 30.0
#: States in which a job is over (squeue(1), JOB STATE CODES).
OVER = frozenset(
    (
        *("BOOT_FAIL", "CANCELLED", "COMPLETED", "COMPLETING", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY"),
        *("PREEMPTED", "REVOKED", "TIMEOUT"),
    )
)


class Job(NamedTuple):
    """The controller's word on a job: its number, its state, the reason, and how it ended."""

    number: str
    state: str
    reason: str
    nodes: str
    restarts: int
    status: int
    signal: int

    @property
    def waits(self) -> bool:
        """True if it has no nodes yet."""
        return self.state == "PENDING"

    @property
    def completing(self) -> bool:
        """True if processes of it are being ended; it may be started again afterwards."""
        return self.state == "COMPLETING"

    @property
    def over(self) -> bool:
        """True if it will run no more, as the controller knows."""
        return self.state in OVER

    @property
    def failed(self) -> bool:
        """True if the controller says that it did not end well."""
        return self.over and (self.state not in ("COMPLETED", "COMPLETING") or bool(self.status or self.signal))


def ask(*command: str) -> str | None:
    """Return what a program of Slurm's prints, or None if it is not there, or does not answer."""
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=_ANSWERS_IN_S)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.decode(errors="replace") if done.returncode == 0 else None


def no_slurm() -> str:
    """Return why no job can be submitted here, with the cure, or the empty string."""
    missing = next((name for name in ("srun", "sbatch", "scontrol", "squeue") if shutil.which(name) is None), "")
    if missing:
        return f"no Slurm: {missing} is not on the PATH; work on a login node (in a clone, as root: make slurm)"
    try:
        done = subprocess.run(["sinfo", "--noheader"], capture_output=True, text=True, timeout=_ANSWERS_IN_S)
    except (OSError, subprocess.SubprocessError) as error:
        return f"Slurm does not answer: {error}"
    if done.returncode:
        why = (done.stderr.strip().splitlines() or ["sinfo failed"])[-1]
        return f"Slurm does not answer: {why}; name its configuration by SLURM_CONF (in a clone, as root: make slurm)"
    return ""


def no_operator() -> str:
    """Return why nodes cannot be set down and taken back from here, or the empty string."""
    lack = no_slurm()
    if lack:
        return lack
    found = re.search(r"^SlurmUser\s*=\s*\S*?\((\d+)\)", ask("scontrol", "show", "config") or "", re.MULTILINE)
    operators = {0, int(found[1])} if found else {0}
    return "" if os.geteuid() in operators else "not an operator of Slurm's: only root and its SlurmUser set nodes down"


def no_preemption() -> str:
    """Return why no job can be preempted here by a more urgent one, or the empty string."""
    lack = no_slurm()
    if lack:
        return lack
    config = ask("scontrol", "show", "config") or ""
    if not re.search(r"^PreemptType\s*=\s*preempt/partition_prio", config, re.MULTILINE):
        return "no partition of this cluster preempts another (PreemptType is not preempt/partition_prio)"
    default = next((name for name, row in _partitions().items() if row.get("Default") == "YES"), "")
    return "" if partitions_above(default) else "no partition has a higher PriorityTier than the default one"


def partitions_above(name: str) -> list[str]:
    """Return the partitions whose jobs take nodes from those of another: of a higher tier, and with its nodes."""
    rows = _partitions()
    own = rows.get(name, {})
    return [
        other
        for other, row in rows.items()
        if _whole(row.get("PriorityTier", "")) > _whole(own.get("PriorityTier", ""))
        and row.get("Nodes") == own.get("Nodes")
        and own.get("PreemptMode") == "REQUEUE"
    ]


def _partitions() -> dict[str, dict[str, str]]:
    """Return what the controller says of each partition."""
    lines = (ask("scontrol", "--oneliner", "show", "partition") or "").splitlines()
    rows = [dict(re.findall(r"(\w+)=(\S*)", line)) for line in lines]
    return {row["PartitionName"]: row for row in rows if "PartitionName" in row}


def switches() -> Path:
    """Return the folder by which hosts of the test cluster, `make slurm`, are turned off. Raises `OSError`."""
    settings = os.environ.get("SLURM_CONF", "")
    folder = Path(settings).resolve().parent.parent / "off"
    if settings and folder.is_dir() and os.access(folder, os.W_OK):
        return folder
    raise OSError("only the hosts of the test cluster can be turned off and on: make slurm, as root")


def no_hosts() -> str:
    """Return why no host can be turned off here, or the empty string."""
    lack = no_slurm()
    if not lack:
        try:
            switches()
        except OSError as error:
            return str(error)
    return lack


def submitted_by(session: int) -> list[str]:
    """Return the numbers of the jobs that a session of this host has submitted and that the controller knows."""
    table = ask("squeue", "--me", "--noheader", "--states=all", "--Format=JobID:24,AllocSID:16,AllocNodes:256")
    rows = [line.split() for line in (table or "").splitlines()]
    hosts = _host_names()
    return [row[0] for row in rows if len(row) == 3 and row[1] == str(session) and _short(row[2]) in hosts]


def _host_names() -> set[str]:
    """Return the names of this host: Slurm takes its own one, or the one that its address leads to."""
    return {_short(socket.gethostname()), _short(socket.getfqdn())}


def _short(host: str) -> str:
    return host.partition(".")[0]


def word_on(number: str) -> Job | None:
    """Return what the controller says of a job; None if it does not answer, or knows of no such job any more."""
    text = ask("scontrol", "--oneliner", "show", "job", number)
    if not text:
        return None
    # The command comes last, and may hold anything: what is said first counts.
    said = dict(reversed(re.findall(r"(?:^|\s)([A-Za-z:/]+)=(\S*)", text.splitlines()[0])))
    status, _, number_of_signal = said.get("ExitCode", "0:0").partition(":")
    return Job(
        number,
        said.get("JobState", ""),
        said.get("Reason", ""),
        said.get("NodeList", "").replace("(null)", ""),
        _whole(said.get("Restarts", "")),
        _whole(status),
        _whole(number_of_signal),
    )


def end(jobs: Sequence[str]) -> None:
    """End jobs and steps: first as the user would, then what is left of them at once."""
    if jobs:
        ask("scancel", "--quiet", *jobs)
        ask("scancel", "--quiet", f"--signal={signal.SIGKILL.name.removeprefix('SIG')}", "--full", *jobs)


def _whole(text: str) -> int:
    return int(text) if text.isdecimal() else 0


if __name__ == "__main__":
    end([*submitted_by(int(sys.argv[1])), *sys.argv[2:]])
