"""`python -m breakrank`, which needs no pytest."""

from __future__ import annotations

import sys

import pytest

from breakrank.__main__ import main


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


@pytest.mark.parametrize("arguments", [[], ["nonsense"], ["show"], ["why"], ["why", "train.py"]])
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
