"""A terminal of 80 columns: nothing that is written there wraps, colours are pytest's, and Ctrl-C ends it well."""

from __future__ import annotations

import re

import pytest
from support.screens import CONTROL, rows

from breakrank.report.layout import cells

LONG = "a-case-with-a-name-as-long-as-any-in-the-catalogue"
COPIED = re.compile(r"  +(pytest --scenario|\.breakrank/)")


@pytest.fixture
def many(project):
    """Add scenarios whose names and records are long."""
    cases = (
        f"Case('{LONG}', 'fake:silent', SURVIVED), Case('b', 'fake:void', SURVIVED), Case('c', 'fake:sound', DETECTED)"
    )
    project.scenario("long_name_of_a_scenario", cases, doc="A summary of many words. " * 9)
    return project


@pytest.mark.parametrize("columns", [80, 110])
@pytest.mark.parametrize(
    "arguments",
    [
        ("--scenario-list",),
        ("--scenario-list", "-v"),
        ("--scenario=all", "--scenario-list", "-k", "torch and not ddp"),
        ("--scenario=racy,long_name_of_a_scenario",),
        ("--scenario=racy,long_name_of_a_scenario", "--scenario-repeat=2", "--scenario-runner=sandbox"),
    ],
)
def test_no_row_wraps(many, columns, arguments):
    written = rows(many.on_a_terminal(columns, *arguments))
    # The command that is there to be copied, and the folder, stay whole. The header and the last summary are pytest's.
    theirs = ("rootdir", "FAILED ")
    wide = [row for row in written if cells(row) > columns and not COPIED.match(row) and not row.startswith(theirs)]
    assert wide == [] and len(written) > 5


def test_the_list_has_a_line_a_scenario_and_fits_100_columns(many):
    written = [row for row in rows(many.on_a_terminal(200, "--scenario-list")) if row]
    families = [row for row in written if not row.startswith(" ")]
    assert "sync" in families and "process" in families
    assert sum(row.startswith("  killed_rank ") for row in written) == 1
    assert max(map(cells, written)) <= 100 and "torch-plain" not in "".join(written)


@pytest.mark.parametrize(("arguments", "coloured"), [((), True), (("--color=no",), False)])
def test_colours_are_those_of_pytest(many, arguments, coloured):
    written = many.on_a_terminal(80, "--scenario=racy", *arguments)
    assert ("\x1b[32mSILENT" in written) is coloured
    assert bool(re.search("\x1b\\[[0-9;]+m", written)) is coloured


def test_no_color_is_heeded(many):
    written = many.on_a_terminal(80, "--scenario=racy", NO_COLOR="1")
    assert "SILENT    racy::broken" in written and not re.search("\x1b\\[3[0-9]m", written)


def test_a_changed_outcome_is_red_and_an_untested_one_yellow(many):
    written = many.on_a_terminal(80, "--scenario=long_name_of_a_scenario")
    red, yellow = "\x1b[31m\x1b[1m", "\x1b[33m"
    assert f"{red}SURVIVED" in written and f"{yellow}VOID" in written and f"{red}0 as recorded" in written


def test_before_ranks_run_the_warm_process_is_announced_with_the_place_of_the_case(project):
    project.scenario("waits", "Case('a', 'fake:waits', SURVIVED), Case('b', 'fake:sound', SURVIVED)")
    said = "[1/2] starting the warm process (imports torch, once)"
    assert said in project.on_a_terminal(80, "--scenario=waits", press=said)


def test_under_xdist_the_terminal_shows_which_cases_run(project):
    pytest.importorskip("xdist")
    written = project.on_a_terminal(80, "--scenario=racy", "-n2")
    assert "breakrank: 2 cases of 1 scenario, 2 ranks" in CONTROL.sub("", written)
    assert re.search(r"\[[12]/2\] racy::(broken|sound)", written)
    assert "2 as recorded, 0 changed, 0 not tested" in written


THREE = "Case('a', 'fake:sound', SURVIVED), Case('b', 'fake:{}', SURVIVED), Case('c', 'fake:sound', SURVIVED)"


def test_ctrl_c_says_what_was_not_run_and_how_to_go_on(project):
    project.scenario("stopped", THREE.format("waits"))
    written = project.on_a_terminal(80, "--scenario=stopped", "-k", "a or b or c", press="[2/3] starting")
    assert re.search(
        r"2 not run; go on with\r\n  pytest .*--scenario=stopped -k 'a or b or c' --scenario-resume\r", written
    )
    assert "1 as recorded" in written
    assert "Traceback" not in written and "KeyboardInterrupt" in written
    project.scenario("stopped", THREE.format("sound"))
    rest = project.pytest("--scenario=stopped", "--scenario-resume")
    rest.assert_outcomes(passed=2, deselected=1)
    rest.stdout.fnmatch_lines(["breakrank: 2 cases of 1 scenario (1 deselected), 2 ranks"])
    done = project.pytest("--scenario=stopped", "--scenario-resume")
    assert done.ret == pytest.ExitCode.USAGE_ERROR
    done.stderr.fnmatch_lines(["ERROR: breakrank: the last session left nothing; leave out --scenario-resume"])


def test_a_run_that_stops_at_its_first_failure_goes_on_after_it(project):
    project.scenario("stopped", THREE.format("void"))
    assert "1 not run; go on with" in project.pytest("--scenario=stopped", "-x").stdout.str()
    project.pytest("--scenario=stopped", "-x", "--scenario-resume").assert_outcomes(passed=1, deselected=2)


def test_a_list_of_the_cases_leaves_nothing_to_go_on_with(project):
    project.scenario("stopped", THREE.format("void"))
    assert "not run" not in project.pytest("--scenario=stopped", "--collect-only", "-q").stdout.str()


def test_where_the_history_cannot_be_written_the_cases_are_named(project):
    project.scenario("stopped", THREE.format("void"))
    (project.path / ".breakrank").mkdir()
    (project.path / ".breakrank" / "history.sqlite").write_text("no database")
    result = project.pytest("--scenario=stopped", "-x")
    result.stdout.fnmatch_lines(["1 not run; go on with", "  pytest * --scenario=stopped::c"])


def test_what_was_all_run_is_not_spoken_of(project):
    assert "not run" not in project.pytest("--scenario=racy").stdout.str()
    assert "not run" not in project.pytest("--scenario=racy", "--scenario-dry-run").stdout.str()


@pytest.mark.parametrize("presses", [0, 1, 2])
def test_ctrl_c_pressed_again_and_while_the_session_closes_leaves_no_traceback(project, monkeypatch, presses):
    monkeypatch.setenv("FAKE_PRESSES", str(presses // 2))
    project.scenario("stopped", THREE.format("twice" if presses else "interrupt"))
    result = project.pytest_process("--scenario=stopped")
    said = result.stdout.str() + result.stderr.str()
    assert result.ret == pytest.ExitCode.INTERRUPTED and (project.path / ".breakrank/closed").exists()
    assert "Traceback" not in said and "INTERNALERROR" not in said and "fake_bench.py" not in said
    result.stdout.fnmatch_lines(["2 not run; go on with"])


def test_ctrl_c_while_a_session_closes_that_nobody_interrupted_changes_nothing(project, monkeypatch):
    monkeypatch.setenv("FAKE_PRESSES", "1")
    result = project.pytest_process("--scenario=racy")
    result.assert_outcomes(passed=2)
    assert result.ret == 0 and "Traceback" not in result.stdout.str() + result.stderr.str()
    result.stdout.fnmatch_lines(["2 as recorded, 0 changed, 0 not tested"])


def test_whoever_does_not_want_to_wait_is_let_go(project, monkeypatch):
    monkeypatch.setenv("FAKE_PRESSES", "3")
    result = project.pytest_process("--scenario=racy")
    assert result.ret == pytest.ExitCode.INTERRUPTED and not (project.path / ".breakrank/closed").exists()
    assert "Traceback" not in result.stdout.str() + result.stderr.str()
    result.stderr.fnmatch_lines(
        ["breakrank: the ranks are being ended; two more Ctrl-C leave that to their supervisor"]
    )
