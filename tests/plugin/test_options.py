"""A usage error is one clear line, with the cure, and pytest's exit code 4."""

from __future__ import annotations

import json
import sys

import pytest

USAGE = pytest.ExitCode.USAGE_ERROR


def complaint(result):
    """Return the one line that a usage error prints."""
    assert result.ret == USAGE, result.stdout.str() + result.stderr.str()
    assert "Traceback" not in result.stdout.str() + result.stderr.str()
    lines = [line for line in result.errlines if line.strip()]
    assert len(lines) == 1, lines
    return lines[0]


def test_an_unknown_scenario_is_answered_with_the_nearest_names(project):
    assert "unknown scenario 'racey'; did you mean racy" in complaint(project.pytest("--scenario=racey"))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--scenario-ranks=0"], "--scenario-ranks is 0; give a whole number from 1"),
        (["--scenario-ranks=1000"], "--scenario-ranks is 1000; this machine bears"),
        (["--scenario-seed=abc"], "--scenario-seed is 'abc'; give a whole number from 0"),
        (["--scenario-seed=-1"], "give a whole number from 0"),
        (["--scenario-seeds=9"], "--scenario-seeds is '9'; give two whole numbers, as in --scenario-seeds=0..99"),
        (["--scenario-seeds=1..2", "--scenario-repeat=2"], "leave out --scenario-repeat"),
        (["--scenario-repeat=0"], "give a whole number from 1"),
        (["--scenario-restarts=x"], "give a whole number from 0"),
        (["--scenario-deadline=0"], "give a number above 0"),
        (["--scenario-patience=nan"], "give a number from 0"),
        (["--scenario-tolerance=-0.5"], "give a number from 0"),
        (["--scenario-runner=docker"], "--scenario-runner=docker needs an image"),
        (["--scenario-image=some", "--scenario-runner=process"], "--scenario-image is for the runner docker"),
        (["--scenario-compare=some"], "--scenario-compare compares images"),
        (["--scenario-runner=tin"], "use auto, process, hosts, slurm, sandbox or docker"),
        (["--scenario-runner=sandbx"], "did you mean sandbox? Use auto, process, hosts, slurm, sandbox or docker"),
        (["--scenario-framework=jax"], "use torch or tensorflow"),
        (["--scenario-replay=x"], "--scenario-replay runs the saved plan as it is; leave out --scenario"),
    ],
)
def test_a_bad_value_is_answered_with_the_cure(project, arguments, words):
    assert words in complaint(project.pytest("--scenario=racy", *arguments))


def test_a_runner_that_cannot_be_had_here_is_answered_with_the_cure(project, monkeypatch):
    # The doctor finds a reason once a process, and another one where Slurm is installed and does not run.
    monkeypatch.setenv("PATH", "/nowhere")
    said = complaint(project.pytest("--scenario=racy", "--scenario-runner=slurm"))
    assert "--scenario-runner=slurm needs slurm: " in said and "make slurm" in said


@pytest.mark.parametrize("arguments", [["--scenario="], ["--scenario=,"], ["--scenario-dry-run"]])
def test_a_run_without_a_name_is_answered_with_how_to_name_one(project, arguments):
    assert "no scenario is named; use --scenario=NAME" in complaint(project.pytest(*arguments))


@pytest.mark.parametrize(
    "option",
    [
        "slurm=x",
        "record",
        "pin",
    ],
)
def test_an_option_that_comes_later_is_an_ordinary_usage_error_that_names_it(project, option):
    result = project.pytest("--scenario=racy", f"--scenario-{option}")
    assert result.ret == USAGE
    result.stderr.fnmatch_lines([f"*unrecognized arguments: --scenario-{option}"])


def test_a_folder_without_a_plan_cannot_be_replayed(project):
    assert "is no run directory: it has no plan.json" in complaint(project.pytest("--scenario-replay=mine"))


def test_a_damaged_run_directory_cannot_be_replayed(project):
    project.file("run/plan.json", "{")
    assert "run" in complaint(project.pytest("--scenario-replay=run"))


def test_a_run_directory_of_a_newer_version_cannot_be_replayed(project):
    project.file("run/plan.json", json.dumps({"version": 99}))
    assert "upgrade" in complaint(project.pytest("--scenario-replay=run"))


def test_a_run_directory_with_a_damaged_verdict_cannot_be_replayed(project):
    project.pytest("--scenario=racy", "-k", "sound")
    (project.path / ".breakrank/racy-sound-0000/verdict.json").write_text('{"outcome": "VOID"}')
    assert "verdict.json is damaged" in complaint(project.pytest("--scenario-replay=.breakrank/racy-sound-0000"))


def test_a_broken_scenario_file_is_named_with_its_line(project):
    project.file("mine/torn.py", "x = 1\nx.y\n")
    line = complaint(project.pytest("--scenario=racy"))
    assert "torn.py, line 2: AttributeError: 'int' object has no attribute 'y'" in line


def test_a_broken_scenario_file_does_not_break_the_list_with_a_traceback(project):
    project.file("mine/torn.py", "x.y")
    assert "torn.py, line 1: NameError" in complaint(project.pytest("--scenario-list"))


def test_a_missing_folder_of_scenarios_is_named(project):
    project.pytester.makeini("[pytest]\nscenario_paths = nowhere\n")
    assert "nowhere, which is no folder" in complaint(project.pytest("--scenario=all"))


def test_no_right_to_write_run_directories_is_said_before_anything_runs(project):
    line = complaint(project.pytest("--scenario=racy", "-o", "scenario_runs=/proc/no"))
    assert "cannot write run directories to /proc/no" in line and "scenario_runs" in line


def test_no_room_for_run_directories_is_said_before_anything_runs(project, monkeypatch):
    import breakrank.plugin.session_state as active

    monkeypatch.setattr(active, "_ROOM_BYTES", 2**60)
    assert "make room" in complaint(project.pytest("--scenario=racy"))


def test_a_missing_framework_that_every_case_needs_is_a_usage_error(project):
    project.scenario("tensor", "Case('a', 'fake:sound', SURVIVED, framework='nosuchframework')")
    line = complaint(project.pytest("--scenario=tensor"))
    assert "nosuchframework is not installed for this interpreter" in line and "pip install" in line


def test_a_trigger_beyond_the_ranks_that_were_asked_for_is_a_usage_error(project):
    project.scenario("struck", "Case('a', 'fake:sound', SURVIVED)", more="strikes=[faults.Kill() @ at(rank=3, step=1)]")
    assert "rank [3]" in complaint(project.pytest("--scenario=struck", "--scenario-ranks=2"))


OTHER = """
def pytest_addoption(parser):
    parser.addoption("--scenario", action="store", dest="scenario_name", help="of another plugin")

def pytest_configure(config):
    config.issue_config_time_warning(UserWarning("theirs is %r" % config.option.scenario_name), 1)
"""


@pytest.mark.parametrize("plugins", [("breakrank.plugin", "other"), ("other", "breakrank.plugin")])
class TestAnotherPluginOwnsTheOption:
    def test_using_it_is_one_clear_line(self, project, plugins):
        project.file("other.py", OTHER)
        line = complaint(project.pytest_process("--scenario=racy", plugins=plugins))
        assert "the plugin 'other' has an option --scenario of its own; add -p no:other" in line

    def test_not_using_it_changes_nothing(self, project, plugins):
        project.file("other.py", OTHER)
        project.file("test_mine.py", "def test_mine(): pass")
        result = project.pytest_process(plugins=plugins)
        result.assert_outcomes(passed=1, warnings=1)


def test_a_conftest_that_owns_the_option_is_named(project):
    project.file("conftest.py", OTHER)
    line = complaint(project.pytest_process("--scenario=racy"))
    assert "conftest.py' has an option --scenario of its own; rename it there" in line


def test_a_value_that_is_a_folder_is_not_taken_for_a_test_path(project):
    """Our options come late, so pytest would look for conftests in a folder that has the name of a value."""
    project.file("racy/conftest.py", "raise RuntimeError('read')")
    project.pytest("--scenario", "racy").assert_outcomes(passed=2)


def test_the_plugin_imports_no_framework_and_no_docker(project):
    code = "import sys, breakrank.plugin.session_state, breakrank.plugin.listing; print(*sys.modules)"
    modules = project.pytester.run(sys.executable, "-c", code).stdout.str().split()
    assert not {"torch", "tensorflow", "docker", "numpy"} & set(modules)


def test_without_our_options_the_plugin_loads_nothing_and_adds_no_hooks(project):
    project.file(
        "test_mine.py",
        """
        import sys
        def test_mine(pytestconfig):
            assert not pytestconfig.pluginmanager.has_plugin("breakrank-active")
            assert "breakrank.runs.bench" not in sys.modules and "breakrank.plan.catalogue" not in sys.modules
        """,
    )
    result = project.pytest_process("--strict-markers", plugins=["breakrank.plugin"])
    result.assert_outcomes(passed=1)
    assert [line for line in result.outlines if "breakrank" in line and not line.startswith("plugins: ")] == []
    assert not (project.path / ".breakrank").exists()


def test_the_help_shows_our_options(project):
    project.pytest("--help").stdout.fnmatch_lines(["*Breakrank*", "*--scenario=NAME*", "*--scenario-doctor*"])


def test_a_value_of_ours_that_is_not_used_is_not_checked(project):
    """An ini file's addopts may hold our options for those who run scenarios."""
    project.file("test_mine.py", "def test_mine(): pass")
    project.pytest("--scenario-seed=abc").assert_outcomes(passed=1)
