"""The runner `slurm`: ranks of a catalogue program as the tasks of a batch job, one node each as far as there are some.

The job starts the group again as often as the plan says, each time as a step of its own, in torchrun's environment.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from breakrank.errors import BreakrankError
from breakrank.host.slurm_jobs import ask, submitted_by, word_on
from breakrank.runners import environment
from breakrank.runners.engine import Launch
from breakrank.runners.join import JoinRunner
from breakrank.runners.kind import Resources, RunnerKind, RunSpec
from breakrank.runners.slurm.engine import SlurmEngine
from breakrank.runners.workdir import View
from breakrank_agent.plan import Plan
from breakrank_agent.protocol.frameworks import profile

#: Seconds between two looks at whether the job is over.
_LOOK_S = 0.5
#: The batch script. Neither a task that fails nor one that is over ends the others: the ranks have to see to that.
_SCRIPT = """\
#!/bin/sh
for starts in $(seq 0 {restarts}); do
    export BREAKRANK_STARTS=$starts
    srun --kill-on-bad-exit=0 --wait=0 {python} -m breakrank_agent.start.task {programs} {program}
    code=$?
    [ $code = 0 ] && break
done
exit $code
"""


class BatchEngine(SlurmEngine):
    """Starts the ranks of a program by a batch job. `programs` is the folder of the programs."""

    def __init__(self, programs: Path) -> None:
        super().__init__()
        self._programs = programs
        self._looked = 0.0
        self._over = False

    def command(self, plan: Plan, run: Path) -> list[str]:
        """Write the batch script, and return what submits it, and waits."""
        folder = run / "slurm"
        folder.mkdir(mode=0o700)
        programs = folder / "programs"
        shutil.copytree(self._programs, programs, ignore=shutil.ignore_patterns("__pycache__"))
        words = {"python": sys.executable, "programs": str(programs), "program": plan.program}
        quoted = {name: shlex.quote(word) for name, word in words.items()}
        script = folder / "job.sh"
        script.write_text(_SCRIPT.format(restarts=plan.restarts, **quoted))
        nodes = min(plan.ranks, count_nodes())
        size = [f"--ntasks={plan.ranks}", f"--nodes={nodes}", "--requeue", "--open-mode=append"]
        return ["sbatch", "--wait", "--quiet", *size, f"--output={run / 'job.out'}", str(script)]

    def over(self, pid: int) -> bool:
        """Return whether the controller says that the job is over: sbatch asks it ever more seldom."""
        now = time.monotonic()
        if now - self._looked > _LOOK_S:
            self._looked = now
            words = [word_on(number) for number in submitted_by(pid)]
            self._over = bool(words) and all(job is not None and job.over and not job.completing for job in words)
        return self._over

    def prepare(self, launch: Launch) -> dict[str, str]:
        """Add what a program finds in its environment under any runner."""
        plan = launch.plan
        told = {"BREAKRANK_SEED": plan.seed, "BREAKRANK_STEPS": plan.steps, "BREAKRANK_MERGED": plan.merged}
        path = os.pathsep.join(filter(None, [str(launch.agent), launch.env.get("PYTHONPATH", "")]))
        pinned = {**environment.PINNED, **profile(plan.framework).environment, "PYTHONDONTWRITEBYTECODE": "1"}
        given = {
            **{name: str(value) for name, value in told.items()},
            **(pinned if plan.pin else {}),
            "PYTHONPATH": path,
        }
        return {**given, **super().prepare(launch._replace(env={**launch.env, **given}))}


def count_nodes() -> int:
    """Return how many nodes of the default partition are up. Raises `BreakrankError` for none."""
    rows = [line.split() for line in (ask("sinfo", "--noheader", "--format=%P %D %T") or "").splitlines()]
    up = ("idle", "mixed", "allocated", "completing")
    count = sum(int(row[1]) for row in rows if row[0].endswith("*") and row[2] in up)
    if not count:
        raise BreakrankError("Slurm has no node that is up in the default partition: see sinfo")
    return count


class SlurmKind(RunnerKind):
    """Ranks that a batch job of Slurm's starts."""

    name = "slurm"
    needs = ("slurm",)

    @contextlib.contextmanager
    def prepare(self, resources: Resources, spec: RunSpec) -> Iterator[tuple[JoinRunner, View | None]]:
        """Make a runner. Raises `BreakrankError` where there is no Slurm, or for a user's command."""
        if spec.plan.command:
            raise BreakrankError(
                "the runner slurm starts programs of the catalogue; a command of yours starts its ranks by srun"
            )
        yield JoinRunner(resources.session, resources.importable, spec.agent, engine=BatchEngine(spec.programs)), None


RUNNER = SlurmKind()
