"""Scripts in the styles that people use, none of which knows of us: the agent changes nothing in their results."""

from __future__ import annotations

import shutil
import signal
from dataclasses import replace
from pathlib import Path

from breakrank.oracles import all_oracles
from breakrank.plan.build import Choices
from breakrank.plan.for_scripts import make_script_plans
from breakrank.plan.scenario import Job, Scenario
from breakrank.plan.script import framework_of
from breakrank.runs.bench import Bench
from breakrank.runs.request import Request
from breakrank.runs.saved_run import load_run
from breakrank_agent.plan import Plan

SCRIPTS = Path(__file__).parents[1] / "scripts"
STYLES = sorted(path.name for path in SCRIPTS.glob("*.py"))
#: The scripts that `make test` runs; `make soak` runs all.
COVERING = ["handlers.py"]
#: Scripts of TensorFlow, and how many steps some of them make.
TENSORFLOW = SCRIPTS / "tensorflow"
STEPS = {"workers.py": 4, "fit.py": 6}


PROGRAM = """\
import runpy
import sys


kept = {{}}


def run():
    sys.argv = {words!r}
    # As in a script, its values outlive it: a wrapper that is freed here can deadlock with a thread of gloo.
    kept.update(runpy.run_path({path!r}, run_name="__main__"))
"""


def as_program(plan: Plan, folder: Path) -> Plan:
    """Return the plan of a program, laid into a folder, that is the script of a plan, which lies there, too.

    Its ranks are forked from a process that has imported torch, which is most of the time of a script that starts cold.
    """
    path = folder / plan.command[0]
    (folder / "as_program.py").write_text(PROGRAM.format(words=list(plan.command), path=str(path)))
    # Of a script each oracle is heard, of a program those that its plan names. A reference would be another run.
    more = tuple(name for name in all_oracles() if name not in (*plan.oracles, "reference"))
    return replace(plan, command=(), program="as_program:run", pin=True, oracles=plan.oracles + more)


def plan_of_script(command, strikes=(), **choices):
    """Return the plan of a script under strikes."""
    scenario = Scenario((), Job(steps=0, data="", deadline_s=60.0), tuple(strikes), name="script")
    (plan,) = make_script_plans(scenario, command.split(), Choices(**choices)).values()
    return plan


def files(folder: Path) -> dict[str, bytes]:
    """Return the content of every file below a folder."""
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


ABORTED = "terminate called without an active exception\n"


def _code(status: int | None) -> int | None:
    """Return the exit code. A process with gloo's threads now and then dies of SIGABRT when its work is over."""
    return 0 if status == -signal.SIGABRT else status


def assert_the_agent_changes_nothing(bench: Bench, style: str, folder: Path) -> None:
    """Assert that a script does the same with the agent and without, and that its steps were seen."""
    shutil.copy(SCRIPTS / style, folder)
    before = files(folder)
    # Without the agent a rank makes no points, and the deadline is for the whole run.
    plan = plan_of_script(style, deadline_s=600.0)
    runs = [bench.run(Request(plan, where=folder, agent=agent)) for agent in (True, False)]
    assert files(folder) == before, "the user's folder was touched"
    with_agent, without = (load_run(result.folder).history for result in runs)
    codes = [{key: _code(lived.status) for key, lived in h.ranks.items()} for h in (with_agent, without)]
    assert codes[0] == codes[1]
    for name in ("rank-0.out", "rank-1.out", "rank-0.err", "rank-1.err"):
        printed = [(result.folder / "attempt-0" / name).read_text().replace(ABORTED, "") for result in runs]
        assert printed[0] == printed[1], name
    written = [files(result.folder / "work") for result in runs]
    assert written[0].keys() == written[1].keys() and written[0]
    for name, content in written[0].items():
        assert content == written[1][name], f"{name} differs with the agent"
    # The agent was in every rank, and saw its steps.
    assert all(lived.of_kind("rank") and lived.last_step >= 3 for lived in with_agent.last)


def assert_the_agent_changes_nothing_of_tensorflow(bench: Bench, style: str, folder: Path) -> None:
    """Assert that a script of TensorFlow does the same with the agent and without, and that its steps were seen."""
    shutil.copy(TENSORFLOW / style, folder)
    # Without the agent a rank makes no points, and the deadline is for the whole of it.
    plan = plan_of_script(style, framework=framework_of([style], folder), deadline_s=600.0)
    runs = [bench.run(Request(plan, where=folder, agent=agent)) for agent in (True, False)]
    with_agent, without = (load_run(result.folder).history for result in runs)
    assert [lived.status for lived in with_agent.last] == [lived.status for lived in without.last] == [0, 0]
    # TensorFlow's C++ writes times and pids on stderr.
    for name in ("rank-0.out", "rank-1.out"):
        printed = [(result.folder / "attempt-0" / name).read_text() for result in runs]
        assert printed[0] == printed[1] and printed[0], name
    written = [files(result.folder / "work") for result in runs]
    assert written[0].keys() == written[1].keys()
    for name in written[0]:
        if name.endswith(".npy"):
            assert written[0][name] == written[1][name], name
    assert [lived.last_step for lived in with_agent.last] == [STEPS[style]] * 2
    told = [event.get("steps_by") for lived in with_agent.last for event in lived.of_kind("note")]
    assert [by for by in told if by] == ["optimizer SGD"] * 2
