"""The identity of a process: the rank that its launcher has written down for it, or that it is a launcher itself."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Optional

#: Programs that start ranks and are none.
LAUNCHERS = frozenset(
    (
        *("torchrun", "torch.distributed.run", "torch.distributed.launch", "accelerate", "accelerate.commands.launch"),
        *("deepspeed", "deepspeed.launcher.runner", "deepspeed.launcher.launch", "horovodrun"),
        *("mpirun", "mpiexec", "mpiexec.hydra", "orterun", "prterun", "srun"),
    )
)
#: The variables that launchers set for a process, the innermost launcher first: its rank, the world size, its local
#: rank, the number of ranks on this machine. Slurm sets its own for a batch script, too, which is no rank: they count
#: in a step alone (`_STEP`).
VARIABLES = (
    ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"),
    ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"),
    ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_NTASKS_PER_NODE"),
)
_STEP, _TASKS, _NODE = "SLURM_STEP_ID", "SLURM_STEP_TASKS_PER_NODE", "SLURM_NODEID"
#: One kind of node in such a list: `2(x3)` is two tasks on each of three nodes.
_NODES = re.compile(r"(\d+)(?:\(x(\d+)\))?")


class Identity(NamedTuple):
    """The numbers of a rank that its launcher has set; None for those that it has not."""

    rank: int
    world: Optional[int] = None
    local_rank: Optional[int] = None
    local_world: Optional[int] = None


def find_identity(environment: Mapping[str, str]) -> Optional[Identity]:
    """Return the identity that the innermost launcher has set, or None if there was none."""
    for names in VARIABLES:
        of_slurm = names[0].startswith("SLURM_")
        if of_slurm and not environment.get(_STEP):
            continue
        rank, world, local_rank, local_world = (_number(environment.get(name, "")) for name in names)
        if rank is not None:
            local_world = tasks_here(environment) or local_world if of_slurm else local_world
            return Identity(rank, world, local_rank, local_world)
    return None


def tasks_here(environment: Mapping[str, str]) -> Optional[int]:
    """Return how many tasks of its step are on the node of a process; None if that is not written down."""
    node, here = _number(environment.get(_NODE, "")), 0
    for tasks, count in _NODES.findall(environment.get(_TASKS, "")):
        here += int(count or 1)
        if node is not None and node < here:
            return int(tasks)
    return None


def is_launcher(command: Sequence[str]) -> bool:
    """Return whether a command line starts ranks: `torchrun …`, `python -m torch.distributed.run …`, `srun …`."""
    words = iter(command)
    program = os.path.basename(next(words, ""))
    if not program.startswith("python"):
        return program in LAUNCHERS
    for word in words:
        if word in ("-X", "-W"):
            next(words, "")
        elif word == "-m":
            return next(words, "") in LAUNCHERS
        elif word == "-c" or not word.startswith("-"):
            return os.path.basename(word) in LAUNCHERS
    return False


def own_command() -> list[str]:
    """Return the command line of this process, as early as `sitecustomize` runs."""
    words = getattr(sys, "orig_argv", None)
    if words is not None:
        return list(words)
    with open("/proc/self/cmdline", "rb") as file:
        return [os.fsdecode(word) for word in file.read().split(b"\0")[:-1]]


def _number(text: str) -> Optional[int]:
    return int(text) if text.isdecimal() else None
