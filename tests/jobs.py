"""Training in the styles that people use, under each launcher of this machine: what is run, and what is known of it.

The scripts in `scripts/jobs` know nothing of us. Each is written for torchrun; what starts it otherwise says to it what
torchrun would.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from breakrank.catalogue import load_scenarios
from breakrank.run import Bench, Choices, Result, make_script_plans

SCRIPTS = Path(__file__).parent / "scripts" / "jobs"
#: Below the ports that the kernel gives away, and another one in each process of the tests.
PORT = 20000 + os.getpid() % 10000
TWO = "--standalone --nproc-per-node=2"

#: What starts a script as two ranks, by name; the first is our own runner.
LAUNCHERS = {
    "ranks": "{}",
    "torchrun": f"torchrun {TWO} {{}}",
    "torch.distributed.run": f"python -m torch.distributed.run {TWO} {{}}",
    "accelerate": "accelerate launch --multi_gpu --num_processes 2 {}",
    "mpirun": f"mpirun --oversubscribe -n 2 -x MASTER_ADDR=127.0.0.1 -x MASTER_PORT={PORT} ./openmpi.sh {{}}",
    "shell": "./ranks.sh {}",
    "spawn": "python -u spawn.py {}",
}
#: How to get those that a machine may lack.
CURES = {"accelerate": "pip install accelerate", "mpirun": "apt-get install openmpi-bin"}
