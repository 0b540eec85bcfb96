"""`python -m breakrank`, which needs no pytest."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

import breakrank
from breakrank.__main__ import main
from breakrank.runs.listing import find_run


@pytest.fixture
def run(project):
    project.pytest("--scenario=racy", "-k", "broken")
    return project.path / ".breakrank/racy-broken-0000"


def test_show_explains_a_saved_run_again(run, capsys):
    assert main(["show", str(run)]) == 0
    assert "racy::broken: SILENT: 1 of 2 updates arrived" in capsys.readouterr().out


def test_judge_says_whether_it_agrees_with_the_saved_verdict(run, capsys):
    """The made-up history holds no race, so its new verdict is not the saved one."""
    assert main(["judge", str(run)]) == 1
    assert "this differs from the saved verdict in" in capsys.readouterr().out


@pytest.mark.parametrize("command", ["show", "judge"])
def test_a_bad_run_directory_is_one_line(command, tmp_path, capsys):
    assert main([command, str(tmp_path)]) == 4
    captured = capsys.readouterr()
    assert captured.err.count("\n") == 1 and "is no run directory" in captured.err and not captured.out


@pytest.mark.parametrize("arguments", [[], ["why"], ["why", "train.py"]])
def test_bad_usage_has_the_exit_code_of_pytest(arguments):
    with pytest.raises(SystemExit) as exit:
        main(arguments)
    assert exit.value.code == 4


@pytest.mark.parametrize(("command", "word"), [("list", "scenario"), ("doctor", "python")])
def test_list_and_doctor_answer_without_pytest(command, word, project):
    code = f"import sys; from breakrank.__main__ import main; main(['{command}']); assert 'pytest' not in sys.modules"
    result = project.pytester.run(sys.executable, "-c", code)
    assert result.ret == 0
    assert word in result.stdout.str()


def saved(runs, name, as_recorded, seconds):
    """Make what `show` looks at to find a run: its plan, its verdict, and when that was written."""
    folder = runs / name
    folder.mkdir(parents=True)
    (folder / "plan.json").write_text("{}")
    (folder / "verdict.json").write_text(json.dumps({"outcome": "SILENT", "as_recorded": as_recorded}))
    os.utime(folder / "verdict.json", (seconds, seconds))
    return folder


def test_the_latest_run_that_went_wrong_is_meant_where_none_is_named(tmp_path):
    runs = tmp_path / "runs"
    saved(runs, "early", False, 100)
    wrong = saved(runs, "late", False, 200)
    saved(runs, "latest", True, 300)
    assert find_run("", runs) == wrong
    assert find_run("early", runs) == runs / "early"
    assert find_run(str(runs / "early"), tmp_path) == runs / "early"
    assert find_run("nowhere", runs) == Path("nowhere")


@pytest.mark.parametrize(("names", "words"), [((), "there is no run in"), (("fine",), "went wrong; name the one")])
def test_without_a_run_that_went_wrong_one_line_says_so(names, words, tmp_path, capsys):
    for name in names:
        saved(tmp_path, name, True, 100)
    assert main(["show", "--runs", str(tmp_path)]) == 4
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1 and words in err


def test_the_version_is_said_with_those_that_it_runs_on(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert not ended.value.code
    assert capsys.readouterr().out.startswith(f"breakrank {breakrank.__version__} (Python 3")


@pytest.mark.parametrize(
    ("word", "words"),
    [
        ("chek", "there is no command 'chek'; did you mean check?"),
        ("zzz", "there is no command 'zzz'; there are check, "),
    ],
)
def test_a_misspelt_command_is_one_line_with_the_nearest_name(word, words, capsys):
    assert main([word, "train.py"]) == 4
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1 and words in err
