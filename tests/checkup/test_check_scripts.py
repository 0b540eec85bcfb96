"""Check-ups of whole scripts: each kind of fault has a broken script and the sound one, which differs by the cure."""

from __future__ import annotations

import functools
import json
from pathlib import Path

import pytest
from support.lasting import soak

from breakrank.__main__ import main
from breakrank.plan.build import Choices
from breakrank.report.health import Health, health
from breakrank.runs.checkup import Order, check_up, light_plan
from breakrank.runs.saved_run import judge_saved, load_run

SCRIPTS = Path(__file__).parent / "scripts"
WHOLE = Path(__file__).parents[1] / "scripts" / "whole"


@pytest.fixture
def check(bench):
    """Check a script as two ranks and return the sheet."""

    def go(command: str, where: Path = SCRIPTS, **order) -> Health:
        words = command.split()
        return health(check_up(bench, Order(light_plan(words, Choices(ranks=2)), where, **order)))

    return go


def states(sheet: Health) -> dict[str, str]:
    return {line.name: line.state for line in sheet.lines}


def wrong(sheet: Health) -> dict[str, str]:
    return {line.name: line.words for line in sheet.wrong}


@pytest.mark.parametrize(
    ("command", "property", "words"),
    [
        ("gathering.py", "collectives", "gathering.py:26"),
        soak("keeping.py", "memory", "keeping.py:"),
    ],
)
def test_a_fault_is_wrong_in_one_property_with_its_line_and_its_sound_twin_is_well(check, command, property, words):
    sound, broken = check(command), check(f"{command} broken")
    assert (sound.status, wrong(sound), states(sound)[property]) == (0, {}, "well"), sound.text("")
    assert (broken.status, list(wrong(broken))) == (1, [property]), broken.text("")
    assert words in wrong(broken)[property]


@pytest.mark.parametrize(
    ("command", "state", "words"),
    [
        soak("resuming.py", "well", "ended like the run that nobody stopped"),
        ("resuming.py broken", "wrong", "differs from the control's"),
        soak("resuming.py anew", "not seen", "began anew"),
    ],
)
def test_a_script_is_killed_in_the_middle_and_goes_on(check, command, state, words):
    sheet = check(command, resume=())
    line = next(line for line in sheet.lines if line.name == "resume")
    assert (line.state, sheet.status) == (state, int(state == "wrong")), sheet.text("")
    assert words in line.words
    assert list(wrong(sheet)) == ["resume"] * (state == "wrong")


@pytest.mark.soak
def test_a_script_goes_on_by_another_command(check):
    sheet = check("resuming.py", resume=("resuming.py", "broken"))
    assert list(wrong(sheet)) == ["resume"], sheet.text("")


@pytest.mark.parametrize(("scale", "state"), [soak("1", "well"), ("0.5", "wrong")])
def test_a_script_is_compared_with_itself_as_one_rank(check, scale, state):
    sheet = check(f"global_batch.py {scale}", WHOLE, reference=("global_batch.py", "1"))
    assert states(sheet)["gradients and optimizer"] == state, sheet.text("")
    assert sheet.status == int(state == "wrong")


@pytest.mark.soak
def test_a_reference_that_fails_is_a_reason_and_no_fault(check):
    sheet = check("global_batch.py 1", WHOLE, reference=("global_batch.py", "no-number"))
    (line,) = [line for line in sheet.lines if line.name == "gradients and optimizer"]
    assert (line.state, sheet.status) == ("not seen", 0), sheet.text("")
    assert line.words.startswith("the reference failed: rank 0 reported ValueError")


@pytest.mark.soak
def test_what_differs_from_run_to_run_is_a_note_and_no_fault(check):
    sheet = check("drawing.py")
    assert (sheet.status, wrong(sheet)) == (0, {}), sheet.text("")
    assert any(note.startswith("not reproducible: from step 1 on") for note in sheet.notes())


def test_a_script_that_fails_by_itself_gets_its_own_error_and_line_and_one_run(check):
    sheet = check("failing.py")
    assert len(sheet.checkup.looks) == 1 and list(wrong(sheet)) == ["ends"]
    assert "FileNotFoundError" in sheet.headline and "(failing.py:8)" in sheet.headline
    assert set(states(sheet).values()) == {"wrong", "not seen"}


def test_a_script_that_trains_nothing_was_not_seen(check):
    sheet = check("idle.py")
    assert sheet.status == 2 and set(states(sheet).values()) == {"not seen"}
    assert sheet.headline.startswith("too little was seen: ")


@pytest.mark.soak
def test_a_budget_ends_each_run_at_the_end_of_a_step_on_all_ranks(check):
    sheet = check("endless.py", budget_s=6.0)
    assert (sheet.status, wrong(sheet)) == (0, {}), sheet.text("")
    assert states(sheet)["replicas"] == "well"
    assert any(
        note.startswith("the budget of 6 s was spent: runs were ended early, light at step") for note in sheet.notes()
    )
    for look in sheet.checkup.looks:
        assert len({lived.last_step for lived in look.saved.history.last}) == 1


@pytest.mark.soak
def test_each_run_is_one_that_can_be_judged_again_and_the_folder_is_untouched(check):
    before = {path: path.stat().st_mtime_ns for path in SCRIPTS.iterdir()}
    sheet = check("resuming.py", resume=())
    for look in sheet.checkup.every:
        saved = load_run(look.saved.folder)
        again = json.loads(json.dumps(judge_saved(saved, look.verdict.void).to_json()))
        assert saved.verdict is not None
        assert {name: saved.verdict[name] for name in again} == again
    assert {path: path.stat().st_mtime_ns for path in SCRIPTS.iterdir()} == before


def test_the_command_prints_one_object_and_leaves_with_the_sheets_status(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(SCRIPTS)
    asked = functools.partial(main, ["check", "--json", "--ranks=1", f"--runs={tmp_path / 'runs'}", "failing.py"])
    assert asked() == 1
    out, err = capsys.readouterr()
    said = json.loads(out)
    assert (said["status"], said["runs"][0]["name"]) == (1, "light")
    assert [one["name"] for one in said["properties"] if one["state"] == "wrong"] == ["ends"]
    assert said["versions"]["torch"] and "runs three times as 1 rank in a private view" in err
