"""The output of a run, and the conditions under which it passes."""

from __future__ import annotations

import pytest


def test_a_broken_case_that_is_as_recorded_passes_and_still_prints_its_sentence(project):
    result = project.pytest("--scenario=racy")
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(
        ["SILENT *racy::broken *race: lost update, rank 1, step 2", "  1 of 2 updates arrived*"]
    )
    result.stdout.fnmatch_lines(["2 as recorded, 0 changed, 0 not tested"])


def test_the_header_says_what_runs_with_the_scenarios_defaults(project):
    project.pytest("--scenario=racy").stdout.fnmatch_lines(["breakrank: 2 cases of 1 scenario, 2 ranks"])
    said = project.pytest("--scenario=racy", "-v", "-k", "broken", "--scenario-seed=3").stdout
    said.fnmatch_lines(
        [
            "breakrank: seed 3, runner process",
            "breakrank: runs in *.breakrank",
            "breakrank: 2 ranks, 5 steps, deadline 30 s: racy",
            "breakrank: 1 case of 1 scenario (1 deselected), 2 ranks, seed 3",
        ]
    )


def test_a_changed_case_fails_with_sentence_record_events_blame_files_and_replay_line(project):
    project.scenario("changed", "Case('bad', 'fake:silent', SURVIVED)")
    result = project.pytest("--scenario=changed")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "changed::bad: SILENT: 1 of 2 updates arrived*",
            "  changed.py:3 says expect=SURVIVED; it came to SILENT: change it to",
            "    expect=silent(oracle='race', cause='lost update'), or look why",
            "*rank 0  1 2*",
            "*rank 0 *rank 1*",
            "*1 reads in sub (step 2)",
            "*2 reads in sub*",
            "*blame:",
            "*rank 1: it wrote what it had read before",
            "*replay:",
            "*pytest --scenario-replay *changed-bad-0000",
            "0 as recorded, 0 changed, 1 not as written, 0 not tested",
            "FAILED changed::bad - SILENT, on record SURVIVED: *",
        ]
    )
    assert "Traceback" not in result.stdout.str()
    again = project.pytest("--scenario=changed")
    again.stdout.fnmatch_lines(["0 as recorded, 1 changed, 0 not tested"])


def test_a_record_of_one_runner_holds_there_alone(project):
    project.scenario("placed", "Case('one', 'fake:sound', DETECTED, on={'sandbox': SURVIVED})")
    project.pytest("--scenario=placed", "--scenario-runner=process").assert_outcomes(failed=1)
    result = project.pytest("--scenario=placed", "--scenario-runner=sandbox")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["SURVIVED  placed::one  sandbox"])
    project.pytest("--scenario-list", "-v").stdout.fnmatch_lines(
        ["  placed *1  Made up.", "*one *DETECTED; in sandbox: SURVIVED"]
    )


def test_a_record_of_a_runner_that_nobody_knows_is_an_error_of_the_scenario(project):
    project.scenario("placed", "Case('one', 'fake:sound', SURVIVED, on={'cluster': DETECTED})")
    result = project.pytest("--scenario=placed")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        ["*placed.py, line 3: the case 'one': it has a record under a runner 'cluster'; runners are pr*"]
    )


def test_a_void_fails_and_counts_as_not_tested(project):
    project.scenario("empty", "Case('a', 'fake:void', SURVIVED)")
    result = project.pytest("--scenario=empty")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["empty::a: VOID: the strike did not land", "0 as recorded, 0 changed, 1 not tested"])


def test_an_error_of_ours_while_running_is_one_line(project):
    project.scenario("torn", "Case('a', 'fake:broken', SURVIVED)")
    result = project.pytest("--scenario=torn")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["torn::a: the supervisor process is gone; was it killed?"])
    result.stdout.fnmatch_lines(["0 as recorded, 0 changed, 1 not tested"])
    assert "Traceback" not in result.stdout.str() and "items.py" not in result.stdout.str()


def test_an_interruption_shows_no_frame_of_the_engine_and_closes_the_bench(project):
    project.scenario("stopped", "Case('a', 'fake:interrupt', SURVIVED)")
    result = project.pytest_process("--scenario=stopped")
    assert result.ret == pytest.ExitCode.INTERRUPTED
    assert "fake_bench.py" not in result.stdout.str() and "Traceback" not in result.stdout.str() + result.stderr.str()
    assert (project.path / ".breakrank/closed").exists()


def test_repeats_that_agree_pass_and_are_counted(project):
    result = project.pytest("--scenario=racy", "--scenario-repeat=3", "-k", "sound")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["SURVIVED *racy::sound *3/3"])
    assert len(list((project.path / ".breakrank").glob("racy-sound-*"))) == 3


def test_repeats_that_differ_fail_with_the_first_difference(project):
    project.scenario("flaky", "Case('a', 'fake:flaky', SURVIVED)")
    result = project.pytest("--scenario=flaky", "--scenario-repeat=3")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["flaky::a: run 2 of 3 differs from run 1: *", "*flaky::a *1/3*"])


def test_a_search_says_at_how_many_seeds_there_was_which_outcome_and_where_something_was_corrupted_first(project):
    project.scenario("fickle", "Case('a', 'fake:fickle', silent(oracle='control'))")
    result = project.pytest("--scenario=fickle", "--scenario-seeds=1..4")
    result.assert_outcomes(passed=1)
    said = "SURVIVED at 2 (first 1), SILENT at 2 (first 2); corrupted at 2 of 4 seeds, first at seed 2: the result of *"
    shown = " ".join(result.stdout.str().split())
    assert f"SILENT fickle::a 4/4 control: wrong result, rank 0, step 2 {said[:60]}" in shown
    result.stdout.fnmatch_lines(["1 as recorded, 0 changed, *"])


@pytest.mark.parametrize(
    ("seeds", "record", "why"),
    [
        ("1..4", "SURVIVED", "seed 2: SILENT: the result of rank 0 differs *"),
        ("1..4", "silent(oracle='race')", "seed 1: SURVIVED: no rank reported *"),
        ("1..1", "silent(oracle='control')", "what is on record, SILENT (control), came at no seed"),
    ],
)
def test_a_search_runs_every_seed_and_then_says_which_of_them_the_record_does_not_allow(project, seeds, record, why):
    project.scenario("fickle", f"Case('a', 'fake:fickle', {record})")
    result = project.pytest("--scenario=fickle", f"--scenario-seeds={seeds}")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["fickle::a: *; corrupted at *", f"  {why}", "0 as recorded, * 0 not tested"])
    assert len(list((project.path / ".breakrank").glob("fickle-a-*"))) == int(seeds[-1])


def test_a_replay_that_comes_out_the_same_passes_alone(project):
    project.file("test_mine.py", "def test_mine(): pass")
    project.pytest("--scenario=racy", "-k", "broken")
    result = project.pytest("--scenario-replay=.breakrank/racy-broken-0000", "-v")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["replay::racy-broken PASSED*"])


def test_a_replay_that_diverges_fails_and_is_not_tested(project, monkeypatch):
    project.pytest("--scenario=racy", "-k", "broken")
    monkeypatch.setenv("FAKE_DIGEST", "another")
    result = project.pytest("--scenario-replay=.breakrank/racy-broken-0000")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["replay::racy-broken: the replay is not the saved run*", "*0 changed, 1 not tested"])


def test_a_dry_run_says_the_plans_and_runs_nothing(project):
    project.scenario("struck", "Case('a', 'x:y', SURVIVED)", more="strikes=[faults.Kill() @ at(rank='last', step=3)]")
    result = project.pytest("--scenario=struck", "--scenario-dry-run")
    assert result.ret == 0
    result.stdout.fnmatch_lines(
        [
            "struck::a",
            "*2 ranks run x:y (torch) for 5 steps*",
            "*Struck by kill at *step 3*(ranks 1)*",
            "*The control is *",
        ]
    )
    assert not (project.path / ".breakrank").exists()


def test_a_dry_run_is_not_distributed(project):
    pytest.importorskip("xdist")
    result = project.pytest_process("--scenario=racy", "--scenario-dry-run", "-n2", "-k", "sound")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["racy::sound"])
    assert "racy::broken" not in result.stdout.str()


def test_the_list_shows_cases_records_needs_and_families(project):
    result = project.pytest("--scenario-list")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["sync", "  racy *2  Made up."])
    project.pytest("--scenario-list", "-v").stdout.fnmatch_lines(
        ["  racy *2  Made up.", "*broken *SILENT (race, lost update)"]
    )


def test_the_doctor_examines_the_machine(project):
    result = project.pytest("--scenario-doctor")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["python *", "torch *", "cores *", "/dev/shm *", "ptrace *", "docker *", "leftovers *"])


def test_on_a_terminal_one_line_shows_where_the_ranks_are_and_is_taken_away(project):
    project.scenario("slow", "Case('a', 'fake:slow', SURVIVED)")
    text = project.on_a_terminal(80, "--scenario=slow")
    assert "[1/1] rank 0 step 4 collective │ rank 1 step 4 backward" in text
    assert "\x1b[K\x1b[A" in text


def test_elsewhere_a_short_run_shows_no_progress(project):
    project.scenario("slow", "Case('a', 'fake:slow', SURVIVED)")
    assert "step 4 collective" not in project.pytest("--scenario=slow").stdout.str()


def test_elsewhere_a_long_run_shows_a_line_now_and_then(project, monkeypatch):
    import breakrank.plugin.progress as progress

    monkeypatch.setattr(progress, "_QUIET_S", 0.2)
    project.scenario("slow", "Case('a', 'fake:slow', SURVIVED)")
    project.pytest("--scenario=slow").stdout.fnmatch_lines(
        ["[[]1/1] slow::a after 0 s: rank 0 step * collective │ rank 1 *"]
    )
