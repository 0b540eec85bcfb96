"""A user's own script: by `--scenario-train`, and by the fixture `launch`."""

from __future__ import annotations

import pytest
from support.lasting import soak

#: It updates by hand: torch's optimizers import torch's compiler, which takes as long as torch.
BY_HAND = """\
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
weight = torch.ones(2, requires_grad=True)
for _ in range(4):
    weight.sum().backward()
    dist.all_reduce(weight.grad)
    with torch.no_grad():
        weight -= 0.1 * weight.grad
    weight.grad = None
if dist.get_rank() == 0:
    torch.save(weight, "final.pt")
dist.destroy_process_group()
"""
STRUCK = """\
from breakrank import at, faults

def test_training_notices_a_killed_rank(launch):
    run = launch("by_hand.py --steps 4", faults=[faults.Kill() @ at(rank=1, step=2)])
    assert run.detected and run.blame.ranks == (1,), run.explain()
"""
SOUND = """\
def test_training_is_sound(launch):
    run = launch(["by_hand.py"])
    assert run.survived, run.explain()
    assert (run.folder / "work" / "final.pt").exists()
"""


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("nowhere.py", "there is no nowhere.py in"),
        ("broken.py", "broken.py, line 1 is no Python"),
        ("no-launcher train.py", "'no-launcher train.py' is neither a Python script nor a program that is found here"),
        ("'train.py", "No closing quotation"),
        ("", "--scenario-train needs a command"),
        ("torchrun --nproc-per-node=2 nowhere.py", "there is no nowhere.py in"),
        ("/nowhere/train.py", "there is no /nowhere/train.py"),
    ],
)
def test_a_script_that_cannot_be_run_is_one_line(project, command, words):
    project.file("broken.py", "x = (")
    result = project.pytest("--scenario=racy", f"--scenario-train={command}")
    assert result.ret == 4
    (line,) = [text for text in result.errlines if text.strip()]
    assert words in line


def test_a_script_without_a_scenario_is_refused_in_one_line(project):
    project.file("train.py", "print(1)")
    result = project.pytest("--scenario-train=train.py")
    assert result.ret == 4
    assert "--scenario-train needs a scenario, as in --scenario=baseline" in result.stderr.str()


def test_a_script_has_one_item_per_scenario_and_no_record(project):
    project.file("train.py", "print(1)")
    result = project.pytest("--scenario=racy", "--scenario-train=train.py --epochs 2")
    result.stdout.fnmatch_lines(["breakrank: train.py --epochs 2 runs three times*", "SURVIVED *racy::train.py"])
    result.assert_outcomes(passed=1)


def test_a_scenario_has_strikes_of_its_own_for_scripts(project):
    project.file("train.py", "print(1)")
    result = project.pytest("--scenario=mismatched_shards", "--scenario-train=train.py", "--collect-only", "-q")
    struck = ("swap_columns", "shift_labels", "cast_batch")
    result.stdout.fnmatch_lines([f"mismatched_shards::train.py-{fault}-load" for fault in struck])


def test_a_scenario_that_strikes_only_its_own_programs_is_refused_in_one_line(project):
    strike = "faults.ReexportShard() @ at(rank=1, step=0, point='start')"
    project.scenario("bound", "Case('one', 'fake:sound', SURVIVED)", more=f"strikes=[{strike}]")
    project.file("train.py", "print(1)")
    result = project.pytest("--scenario=bound", "--scenario-train=train.py")
    assert result.ret == 4
    assert "bound: it strikes only the programs that come with it, not a script" in result.stderr.str()


@pytest.mark.parametrize(("more", "refused"), [("family='sync'", True), ("schedule=controlled('random')", False)])
def test_a_scenario_whose_fault_lies_in_its_programs_says_nothing_of_a_script(project, more, refused):
    project.scenario("inside", "Case('one', 'fake:sound', SURVIVED, control='fake:sound')", more=more)
    project.file("train.py", "print(1)")
    result = project.pytest("--scenario=inside", "--scenario-train=train.py", "--collect-only")
    assert (result.ret == 4) is refused
    assert ("inside: it strikes nothing: its fault lies in the programs" in result.stderr.str()) is refused


@pytest.mark.parametrize("test", [STRUCK, soak(SOUND)], ids=["struck", "sound"])
def test_the_fixture_launches_strikes_and_judges(project, test):
    project.file("by_hand.py", BY_HAND)
    project.file("test_mine.py", test)
    result = project.pytest_process("test_mine.py", plugins=["breakrank.plugin"])
    result.assert_outcomes(passed=1)
    kept = {path.name for path in project.path.iterdir()}
    assert "final.pt" not in kept, "the user's folder was touched"
