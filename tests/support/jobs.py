"""Training in the styles that people use, under each launcher of this machine: a table of runs and their records.

The scripts in `scripts/jobs` know nothing of us. Each is written for torchrun; any other launcher gives it the same
variables.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from breakrank import DETECTED, SURVIVED, silent
from breakrank.plan.build import Choices
from breakrank.plan.catalogue import load_scenarios
from breakrank.plan.for_scripts import make_script_plans
from breakrank.runs.bench import Bench
from breakrank.runs.request import Request
from breakrank.runs.result import Result
from breakrank.verdict import Record

SCRIPTS = Path(__file__).parents[1] / "scripts" / "jobs"
#: Below the ports that the kernel gives away, and another one in each process of the tests.
PORT = 20000 + os.getpid() % 10000
TWO = "--standalone --nproc-per-node=2"

#: The commands that start a script as two ranks, by name; the first is our own runner.
LAUNCHERS = {
    "ranks": "{}",
    "torchrun": f"torchrun {TWO} {{}}",
    "torch.distributed.run": f"python -m torch.distributed.run {TWO} {{}}",
    "accelerate": "accelerate launch --multi_gpu --num_processes 2 {}",
    "mpirun": f"mpirun --oversubscribe -n 2 -x MASTER_ADDR=127.0.0.1 -x MASTER_PORT={PORT} ./openmpi.sh {{}}",
    "shell": "./ranks.sh {}",
    "spawn": "python -u spawn.py {}",
}
#: The cures for launchers that a machine may lack.
CURES = {"accelerate": "pip install accelerate", "mpirun": "apt-get install openmpi-bin"}

SURVIVES = {("baseline", ""): SURVIVED, ("leaky_layer", ""): SURVIVED}
NOTICES = {
    ("killed_rank", "kill-collective"): DETECTED,
    ("killed_rank", "kill-optimize"): DETECTED,
    ("dropped_link", "drop_link-collective"): DETECTED,
    ("dropped_link", "drop_link-collective-2"): DETECTED,
    ("mismatched_shards", "cast_batch-load"): DETECTED,
}
#: A changed batch that still fits is trained on, and no output shows that it was changed.
TRUSTS = silent(oracle="control", rank=1, step=2, cause="batch mismatch")
SWAPPED, SHIFTED = ("mismatched_shards", "swap_columns-load"), ("mismatched_shards", "shift_labels-load")
#: The records of each script by scenario and way of striking, under any launcher: seen under three of them or more.
KNOWN: dict[str, dict[tuple[str, str], Record]] = {
    # The labels of this script are numbers, of which none is out of range.
    "ddp_tutorial": {**SURVIVES, **NOTICES, SWAPPED: TRUSTS, SHIFTED: TRUSTS},
    "image_classification": {**SURVIVES, **NOTICES, SWAPPED: TRUSTS, SHIFTED: DETECTED},
    "small_gpt": {**SURVIVES, **NOTICES, SWAPPED: TRUSTS, SHIFTED: DETECTED},
    "leaking_gpt": {("leaky_layer", ""): silent(oracle="leak", step=4, cause="leak")},
}
#: Scenarios whose blame a script's user can believe.
BLAMED = ("killed_rank", "mismatched_shards")


class Row(NamedTuple):
    """One line of the table."""

    launcher: str
    script: str
    scenario: str
    way: str = ""

    @property
    def record(self) -> Record:
        return KNOWN[self.script][self.scenario, self.way]


#: Shown in `tests/e2e/test_join.py`: the other name of torchrun, and a killed rank.
ELSEWHERE = {"torch.distributed.run", "killed_rank"}
#: Every other launcher, script and scenario at least once.
COVERING = [
    Row("ranks", "ddp_tutorial", "dropped_link", "drop_link-collective"),
    Row("torchrun", "small_gpt", "baseline"),
    Row("accelerate", "ddp_tutorial", "baseline"),
    Row("mpirun", "image_classification", "leaky_layer"),
    Row("shell", "image_classification", *SHIFTED),
    Row("spawn", "leaking_gpt", "leaky_layer"),
]
TABLE = [Row(launcher, script, *way) for launcher in LAUNCHERS for script, ways in KNOWN.items() for way in ways]


def search_path() -> str:
    """Return the PATH, with the programs that are installed beside this interpreter first."""
    return os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]])


def lacking() -> dict[str, str]:
    """Return the launchers that this machine lacks, with their cures."""
    programs = {name: LAUNCHERS[name].split()[0] for name in CURES}
    return {name: CURES[name] for name, program in programs.items() if not shutil.which(program, path=search_path())}


#: Open MPI asks root to mean it.
ENVIRONMENT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


def here(rows: list[Row]) -> list[Row]:
    """Return the rows that this machine can run."""
    return [row for row in rows if row.launcher not in lacking()]


def lay(folder: Path) -> None:
    """Lay the scripts into a folder, and a twin of one that leaks: it sums its losses up with their graphs."""
    shutil.copytree(SCRIPTS, folder, dirs_exist_ok=True)
    text = (folder / "small_gpt.py").read_text()
    # Of what is kept in 20 steps each takes a census: without accumulation it is half as much.
    leaking = text.replace("total += loss.item()", "total = total + loss").replace("default=2)", "default=1)")
    (folder / "leaking_gpt.py").write_text(leaking)


def run(bench: Bench, row: Row, folder: Path) -> Result:
    """Run a row's script under its launcher through its scenario."""
    command = LAUNCHERS[row.launcher].format(f"{row.script}.py").split()
    # A launcher that imports torch before its ranks do takes minutes on a busy machine. No row ends by the deadline.
    plans = make_script_plans(load_scenarios()[row.scenario], command, Choices(deadline_s=600.0))
    (plan,) = [plan for name, plan in plans.items() if name.endswith(row.way)]
    return bench.run(Request(plan, row.record, where=folder))


def assert_known(bench: Bench, row: Row, folder: Path, patch: pytest.MonkeyPatch) -> None:
    """Run a row, and compare with what is known of it; the folder stays as it was."""
    for name, value in {**ENVIRONMENT, "PATH": search_path()}.items():
        patch.setenv(name, value)
    lay(folder)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    result = run(bench, row, folder)
    assert result.as_recorded, (row, result.verdict.to_json())
    if row.scenario in BLAMED and row.record == DETECTED:
        assert result.verdict.blame.ranks == (1,)
    if row.script == "leaking_gpt":
        assert "leaking_gpt.py" in result.verdict.sentence()
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
