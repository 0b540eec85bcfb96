"""A task of Slurm's that runs a program of the catalogue.

It is started as `python -m breakrank_agent.start.task FOLDER MODULE:FUNCTION`. It has torchrun's contract from what
Slurm sets, calls home as a rank, and runs the program as any rank does. Attempts are counted over the starts in one
job, and over the starts of a job that is requeued.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from typing import NoReturn

from breakrank_agent.start import join
from breakrank_agent.start.boot import run_here, run_program

#: The first host of a list as Slurm writes it: `n[01-04,7],m3` is n01 first.
_FIRST = re.compile(r"([^,\[]+)(?:\[([^-,\]]+)[^\]]*\])?")
#: Ports for the store of rank 0: one for each step, from the first one on.
_FIRST_PORT, _PORTS = 20000, 20000
#: Environment: how many starts of the group in this job went before.
STARTS = "BREAKRANK_STARTS"


def main(folder: str, program: str) -> NoReturn:
    """Be a rank, and end as the program does."""
    os.environ.update(contract(os.environ))
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    come = join.come_home(rank, world)
    if come is None:
        sys.path.insert(0, folder)
        sys.exit(run_program(None, program))
    spec, line = come
    channel = os.dup(line.fileno())
    line.close()
    sys.exit(run_here({**spec, "channel": channel, "programs": folder, "program": program}))


def contract(environment: Mapping[str, str]) -> dict[str, str]:
    """Return what torchrun would set for this task."""
    rank, world = environment["SLURM_PROCID"], environment["SLURM_NTASKS"]
    starts = int(environment.get(STARTS, "0")) + int(environment.get("SLURM_RESTART_COUNT", "0"))
    number = int(environment["SLURM_JOB_ID"]) * 31 + int(environment["SLURM_STEP_ID"])
    return {
        "RANK": rank,
        "WORLD_SIZE": world,
        "LOCAL_RANK": environment.get("SLURM_LOCALID", "0"),
        "GROUP_RANK": environment.get("SLURM_NODEID", "0"),
        "ROLE_RANK": rank,
        "ROLE_NAME": "default",
        "ROLE_WORLD_SIZE": world,
        "MASTER_ADDR": first_host(environment["SLURM_STEP_NODELIST"]),
        "MASTER_PORT": str(_FIRST_PORT + number % _PORTS),
        "TORCHELASTIC_RESTART_COUNT": str(starts),
    }


def first_host(nodes: str) -> str:
    """Return the first host of a list."""
    found = _FIRST.match(nodes)
    return f"{found[1]}{found[2] or ''}" if found else nodes


if __name__ == "__main__":
    main(*sys.argv[1:])
