"""`breakrank nightly`: it says what is worse than last night, and goes on after it was killed. tests/soak has more."""

from __future__ import annotations

import json
import signal

import pytest
from support.nights import lay, night, resumed
from support.remembered import night as made_up
from support.remembered import remembered

from breakrank.__main__ import main
from breakrank.memory.reading import read


def test_a_killed_night_is_gone_on_with_and_no_case_is_run_twice_or_left_out(tmp_path):
    """It is killed while the second case runs."""
    before, rest, memory = resumed(tmp_path, "running 2")
    assert len(before) == 1
    names = [entry.name for entry in memory.entries[2]]
    assert sorted(names) == ["small::c0", "small::c1", "small::c2", "small::turned"]
    assert rest.returncode == 1, rest.stdout + rest.stderr
    assert "3 selected" in rest.stdout or "1 deselected" in rest.stdout
    said = json.loads((tmp_path / ".breakrank" / "nightly" / "summary.json").read_text())
    assert (said["night"], said["before"], said["tested"]) == (2, 1, 4)
    (worse,) = said["worse"]
    assert worse.startswith("small::turned [process]: SURVIVED became SILENT")


def test_the_second_night_is_held_against_the_first_and_writes_page_and_summary(tmp_path):
    lay(tmp_path)
    first = night(tmp_path, "-o", "first", more=["-n", "2"])
    assert first.returncode == 0, first.stdout + first.stderr
    lay(tmp_path, "fickle")
    second = night(tmp_path, "-o", "second", "--budget", "1h")
    assert second.returncode == 1
    assert second.stdout.splitlines()[-1] == (
        "breakrank: night 2: something is worse than before; 3 as recorded, 1 changed, 0 not tested; 1 worse"
    )
    assert sorted(path.name for path in (tmp_path / "second").iterdir()) == [
        *("index.html", "summary.json", "summary.md", "timelines"),
    ]
    assert "## worse: 1" in (tmp_path / "second" / "summary.md").read_text()
    third = night(tmp_path, "-o", "third")
    # As bad as the night before: not worse.
    assert third.returncode == 0 and "## not as on record: 1" in (tmp_path / "third" / "summary.md").read_text()
    turned = [next(e for e in read(tmp_path / ".breakrank").entries[n] if e.case == "turned") for n in (1, 2, 3)]
    assert [len(entry.again) for entry in turned] == [0, 2, 0]
    session = read(tmp_path / ".breakrank").sessions[1]
    assert (session.exit, session.selected) == (1, 4) and session.python and session.breakrank


def test_a_pytest_that_dies_is_an_error_of_ours_and_the_night_can_be_gone_on_with(tmp_path):
    lay(tmp_path, "killed")
    died = night(tmp_path)
    assert died.returncode == 3
    assert died.stdout.splitlines()[-1] == (
        "breakrank: night 1 was cut short; go on with it by: breakrank nightly --resume"
    )
    lay(tmp_path)
    assert night(tmp_path, "--resume").returncode == 0
    assert [entry.outcome for entry in read(tmp_path / ".breakrank").entries[1]] == ["SURVIVED"] * 4


def test_a_budget_that_leaves_no_time_is_too_little(tmp_path):
    lay(tmp_path)
    done = night(tmp_path, "--budget", "0.000001s")
    assert done.returncode == 2
    assert "too little was tested; 0 as recorded, 0 changed, 4 not tested" in done.stdout


def test_a_scenario_that_nobody_knows_leaves_no_night_behind(tmp_path):
    lay(tmp_path)
    done = night(tmp_path, "--scenario=smal")
    assert done.returncode == 4 and "did you mean small" in done.stderr
    assert read(tmp_path / ".breakrank").sessions == ()


@pytest.mark.parametrize("ended", [True, False])
def test_where_no_night_was_cut_short_one_line_says_so(tmp_path, capsys, ended):
    if ended:
        remembered(tmp_path, (made_up(1), []))
    assert main(["nightly", "--resume", "--runs", str(tmp_path)]) == 4
    assert capsys.readouterr().err == f"breakrank: no night in {tmp_path} was cut short; leave out --resume\n"


def test_a_history_that_cannot_be_used_is_said_before_anything_runs(tmp_path, capsys):
    (tmp_path / "history.sqlite").write_text("no database" * 1000)
    assert main(["nightly", "--runs", str(tmp_path)]) == 4
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1 and "is damaged: file is not a database; move it away" in err


def test_the_history_of_a_stranger_adds_no_word_to_pytests_command_line(tmp_path, capsys):
    remembered(tmp_path, (made_up(1, exit=None, argv=("--scenario=small", "-pevil")), []))
    assert main(["nightly", "--resume", "--runs", str(tmp_path)]) == 4
    assert "night 1 was begun with -pevil, which no night is" in capsys.readouterr().err


def test_an_interrupt_ends_the_night_and_it_can_be_gone_on_with(tmp_path):
    lay(tmp_path, "interrupt")
    done = night(tmp_path)
    assert done.returncode == 130 != -signal.SIGINT
    lay(tmp_path)
    assert night(tmp_path, "--resume").returncode == 0
