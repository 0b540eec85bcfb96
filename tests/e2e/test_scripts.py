"""A user's own script, unmodified: the agent changes nothing in what it does, and its folder stays as it was."""

from __future__ import annotations

import os
import shutil

import pytest
from support import styles
from support.lasting import soak
from support.styles import SCRIPTS, plan_of_script

from breakrank.conductor.conductor import Progress
from breakrank.errors import BreakrankError
from breakrank.oracles import all_oracles
from breakrank.plan.script import check_script
from breakrank.runs.request import Request
from breakrank.runs.saved_run import load_run
from breakrank.verdict import Outcome
from breakrank_agent import faults
from breakrank_agent.protocol.trigger import at


@pytest.mark.parametrize(("scale", "cause"), [soak("1", None), soak("0.5", "gradients scaled")])
def test_a_script_is_compared_with_itself_as_one_rank_on_the_same_global_batches(bench, tmp_path, scale, cause):
    """In `make test` a check-up finds the broken one: tests/checkup/test_check_scripts.py."""
    shutil.copy(SCRIPTS / "whole" / "global_batch.py", tmp_path)
    plan = plan_of_script(f"global_batch.py {scale}", reference=("global_batch.py", "1"))
    findings = bench.run(Request(plan, where=tmp_path)).verdict.findings
    assert [(f.cause, f.ranks, f.step) for f in findings] == ([] if cause is None else [(cause, (0, 1), 1)])


@pytest.mark.parametrize("style", styles.COVERING)
def test_the_agent_changes_nothing(bench, tmp_path, style):
    styles.assert_the_agent_changes_nothing(bench, style, tmp_path)


def test_a_killed_rank_is_detected_and_the_two_controls_agree(bench, tmp_path):
    shutil.copy(SCRIPTS / "plain_loop.py", tmp_path)
    kill = faults.Kill() @ at(rank=1, step=3, point="collective")
    result = bench.run(Request(plan_of_script("plain_loop.py", [kill]), where=tmp_path))
    assert result.verdict.outcome is Outcome.DETECTED
    assert result.verdict.blame.ranks == (1,)
    assert not any("not reproducible" in note for note in result.verdict.notes)


@pytest.mark.soak
def test_a_wrapper_that_is_bypassed_once_is_found_in_a_script(bench, tmp_path):
    shutil.copy(SCRIPTS / "jobs" / "ddp_tutorial.py", tmp_path)
    strike = faults.BypassWrapper() @ at(rank="all", step=2, point="forward")
    verdict = bench.run(Request(plan_of_script("ddp_tutorial.py --epochs 1", [strike]), where=tmp_path)).verdict
    first = verdict.findings[0]
    assert (verdict.outcome, first.cause, first.step) == (Outcome.SILENT, "wrapper bypassed", 2), verdict.sentence()


def test_a_script_that_is_not_reproducible_is_never_silent_on_the_result_alone(bench, tmp_path):
    text = (SCRIPTS / "plain_loop.py").read_text().replace("manual_seed(7)", "seed()")
    (tmp_path / "drifting.py").write_text(text)
    placebo = faults.Placebo() @ at(rank=0, step=2, point="backward")
    result = bench.run(Request(plan_of_script("drifting.py", [placebo], ranks=1), where=tmp_path))
    assert any(note.startswith("result not comparable: not reproducible by itself") for note in result.verdict.notes)
    assert result.verdict.outcome is Outcome.SURVIVED or "control" not in {f.oracle for f in result.verdict.findings}


#: The result is read from a file outside of the script's folder. There is no framework, so the script starts at once.
READING = """
import breakrank_agent

for _ in range(4):
    breakrank_agent.step()
breakrank_agent.state(read=int(open({path!r}).read()))
"""


def test_the_second_control_is_the_one_of_the_run_before(bench, tmp_path):
    outside = tmp_path / "outside"
    outside.write_text("7")
    (tmp_path / "job").mkdir()
    (tmp_path / "job" / "reading.py").write_text(READING.format(path=str(outside)))
    placebo = faults.Placebo() @ at(rank=1, step=2, point="step")
    phases, notes = [], []
    for seed in (7, 7, 8, 8):
        outside.write_text(str(seed))
        seen: list[Progress] = []
        result = bench.run(
            Request(plan_of_script("reading.py", [placebo]), where=tmp_path / "job", progress=seen.append)
        )
        phases.append(list(dict.fromkeys(one.phase for one in seen)))
        notes.append([note for note in result.verdict.notes if "not reproducible by itself" in note])
    assert phases == [["control", "second control", "run"], *[["control", "run"]] * 3]
    assert [len(found) for found in notes] == [0, 0, 1, 0]


def test_a_script_that_does_not_train_says_nothing(bench, tmp_path):
    (tmp_path / "idle.py").write_text("print('hello')\n")
    result = bench.run(Request(plan_of_script("idle.py"), where=tmp_path))
    assert result.verdict.outcome is Outcome.VOID
    assert "nothing was seen" in result.verdict.sentence()
    assert (result.folder / "attempt-0" / "rank-0.out").read_text() == "hello\n"


def test_a_script_that_deletes_its_own_folder_deletes_a_view(bench, tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "precious.txt").write_text("mine")
    # One rank alone: two that delete the same tree get in each other's way.
    lines = ["import os, shutil", "if os.environ['RANK'] == '0':", "    shutil.rmtree('data')"]
    (tmp_path / "wild.py").write_text("\n".join([*lines, "    print(os.path.exists('data'))", ""]))
    result = bench.run(Request(plan_of_script("wild.py"), where=tmp_path))
    assert (result.folder / "attempt-0" / "rank-0.out").read_text() == "False\n"
    assert (tmp_path / "data" / "precious.txt").read_text() == "mine"


def test_a_sitecustomize_of_the_users_own_still_runs(bench, tmp_path, monkeypatch):
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text("import builtins\nbuiltins.CUSTOM = 'mine'\n")
    (tmp_path / "custom.py").write_text("import sys\nprint(CUSTOM, sys.argv, __name__)\n")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path / "site"), os.environ.get("PYTHONPATH", "")]))
    result = bench.run(Request(plan_of_script("custom.py --a 1"), where=tmp_path))
    assert (result.folder / "attempt-0" / "rank-1.out").read_text() == "mine ['custom.py', '--a', '1'] __main__\n"
    assert load_run(result.folder).history.ranks[0, 1].of_kind("rank")


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("missing.py", "there is no missing.py in"),
        ("broken.py", "broken.py, line 2 is no Python"),
        ("no-such-launcher train.py", "is neither a Python script nor a program"),
        ("python", "is neither a Python script nor a program"),
    ],
)
def test_what_cannot_be_run_is_said_in_one_line(tmp_path, command, words):
    (tmp_path / "broken.py").write_text("x = 1\ny = (\n")
    with pytest.raises(BreakrankError, match=words) as caught:
        check_script(command.split(), tmp_path)
    assert "\n" not in str(caught.value)


def test_every_default_oracle_can_judge_a_script():
    assert set(plan_of_script("train.py").oracles) <= set(all_oracles())
