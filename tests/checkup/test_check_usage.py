"""The command line of a check-up: what cannot be run is one line with exit code 4."""

from __future__ import annotations

from pathlib import Path

import pytest

from breakrank.__main__ import main
from breakrank.cli.check import Wishes

SCRIPTS = Path(__file__).parent / "scripts"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "check needs a script or a job"),
        (["nowhere.py"], "there is no nowhere.py in"),
        (["no-launcher", "train.py"], "is neither a Python script nor a program that is found here"),
        (["--ranks=0", "idle.py"], "--ranks is '0'; give a whole number from 1"),
        (["--ranks=two", "idle.py"], "--ranks is 'two'; give a whole number from 1"),
        (["--ranks=1000", "idle.py"], "1000 ranks cannot be run here"),
        (["--steps=-1", "idle.py"], "--steps is '-1'; give a whole number from 1"),
        (["--deadline=0", "idle.py"], "--deadline is '0'; give a whole number from 1"),
        (["--budget=soon", "idle.py"], "--budget is 'soon'; give a whole number from 1"),
        (["--step=what", "idle.py"], "--step is 'what': give the function whose return ends a step"),
        (["--framework=jax", "idle.py"], "--framework is 'jax'; use torch or tensorflow"),
        (["--reference=nowhere.py", "idle.py"], "there is no nowhere.py in"),
        (["--reference=torchrun idle.py", "idle.py"], "name a Python script, as in --reference='train.py --epochs 2'"),
        (["--reference='x", "idle.py"], "No closing quotation"),
        (["--resume", "--steps=3", "idle.py"], "--resume compares how the script ends; leave out --steps"),
        (["--ranks=2", "python3", "-c", "pass"], "starts its ranks itself: say there, not here, how many ranks"),
    ],
)
def test_a_check_that_cannot_be_run_is_one_line(monkeypatch, tmp_path, capsys, arguments, words):
    monkeypatch.chdir(SCRIPTS)
    assert main(["check", f"--runs={tmp_path / 'runs'}", *arguments]) == 4
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1 and words in err
    assert not list(tmp_path.glob("runs/checkup-*"))


@pytest.mark.parametrize(
    ("arguments", "resume", "job"),
    [
        (["train.py"], None, ["train.py"]),
        (["--resume", "train.py"], "", ["train.py"]),
        (["--ranks", "4", "--resume", "train.py"], "", ["train.py"]),
        (["--resume=again.py", "--ranks=4", "train.py"], "again.py", ["train.py"]),
        (["train.py", "--resume", "last"], None, ["train.py", "--resume", "last"]),
        (["--ranks", "4", "train.py", "--resume"], None, ["train.py", "--resume"]),
    ],
)
def test_an_option_of_the_script_is_the_scripts(monkeypatch, arguments, resume, job):
    asked: list[tuple[list[str], Wishes]] = []
    monkeypatch.setattr(
        "breakrank.cli.check.check", lambda job, runs, wishes, as_json: asked.append((job, wishes)) or 0
    )
    assert main(["check", *arguments]) == 0
    assert [(job, wishes.resume) for job, wishes in asked] == [(job, resume)]
