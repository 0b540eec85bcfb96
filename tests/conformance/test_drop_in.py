"""Parts that are dropped in, one file each, are found and tried: a fault, a witness, an oracle and a scenario."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from support.ground import PYTEST

ROOT = Path(__file__).parents[2]

FAULT = '''
"""Faults that a stranger added."""

import signal
from dataclasses import dataclass

from breakrank_agent.protocol.fault import Fault


@dataclass(frozen=True)
class Terminate(Fault, side="outside", witness="ended", delivers=-signal.SIGTERM, certifies="a polite end"):
    """The rank is asked to end, as by a scheduler."""

    def strike(self, target):
        target.signal(signal.SIGTERM)
'''

#: A fault that no witness of ours sees, and its witness.
NEW_FAULT = '''
"""Faults of a rank's priority."""

import os
from dataclasses import dataclass

from breakrank_agent.protocol.fault import Fault


@dataclass(frozen=True)
class Renice(Fault, side="outside", witness="niced", certifies="a rank that yields to others"):
    """The rank runs at a lower priority than its peers."""

    by: int = 5

    def strike(self, target):
        os.setpriority(os.PRIO_PROCESS, target.pid, os.getpriority(os.PRIO_PROCESS, target.pid) + self.by)
'''

WITNESS = '''
"""Witnesses of a rank's priority."""

from pathlib import Path

from breakrank.witnesses import Witness


class Niced(Witness[int]):
    """The kernel lists a higher nice value than before."""

    def look(self, fault, target):
        return int(Path(f"/proc/{target.pid}/stat").read_text().rpartition(")")[2].split()[16])

    def judge(self, fault, evidence):
        before, after = evidence.before, evidence.after
        if before is None or after is None or not before < after:
            return None
        return f"/proc/<pid>/stat: nice {before} became {after}"
'''

ORACLE = '''
"""Whether the job is haunted."""

PROPERTY = "ends"


def judge(history, control, terms):
    return []
'''

SCENARIO = '''
"""A rank is asked to end."""

from breakrank import DETECTED, Case, Job, Scenario, at, faults

SCENARIO = Scenario(
    job=Job(steps=4),
    strikes=[faults.Terminate() @ at(rank=1, step=2)],
    oracles=["ends", "haunted"],
    cases=[Case("torch-plain", "digits_ddp:plain", expect=DETECTED)],
)
'''


def test_one_file_each_is_found_and_tried(tmp_path):
    site = tmp_path / "site"
    for source, target in {
        "harness/breakrank": "breakrank",
        "harness/breakrank_agent": "breakrank_agent",
        "scenarios": "breakrank/scenarios",
        "fixtures": "breakrank/fixtures",
    }.items():
        # With the bytecode, if there is any: several interpreters import it.
        shutil.copytree(ROOT / source, site / target)
    shutil.copytree(ROOT / "tests", tmp_path / "tests", ignore=shutil.ignore_patterns("__pycache__"))
    # Tests of faults that a cluster does start it from there.
    shutil.copytree(ROOT / "fixtures" / "slurm", tmp_path / "fixtures" / "slurm")
    (site / "breakrank_agent" / "faults" / "strangers.py").write_text(FAULT.lstrip())
    (site / "breakrank_agent" / "faults" / "priority.py").write_text(NEW_FAULT.lstrip())
    (site / "breakrank" / "witnesses" / "priority.py").write_text(WITNESS.lstrip())
    (site / "breakrank" / "oracles" / "haunted.py").write_text(ORACLE.lstrip())
    (site / "breakrank" / "scenarios" / "terminated_rank.py").write_text(SCENARIO.lstrip())
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = soak\n")
    chosen = "terminate or haunted or terminated_rank or renice or niced"
    done = subprocess.run(
        [*PYTEST, "-v", "-p", "no:cacheprovider", "tests/conformance", "-k", chosen],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(site), "PYTEST_ADDOPTS": ""},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    for tried in (
        "test_it_lands_on_its_rank_at_its_point_and_nowhere_else[terminate] PASSED",
        "test_replaced_by_a_no_op_it_is_void[terminate] PASSED",
        "test_it_lands_on_its_rank_at_its_point_and_nowhere_else[renice] PASSED",
        "test_replaced_by_a_no_op_it_is_void[renice] PASSED",
        "test_two_looks_at_a_rank_that_was_not_struck_prove_nothing[niced] PASSED",
        "test_it_leaves_a_sound_run_alone[haunted] PASSED",
        "test_its_case_is_as_recorded[terminated_rank::torch-plain] PASSED",
    ):
        assert tried in done.stdout, tried
