"""Machines that read results: JUnit's file, GitHub's actions, and JSON of the commands, each in its published form."""

from __future__ import annotations

import json
import re
from xml.etree import ElementTree

import jsonschema
import pytest

from breakrank.__main__ import main
from breakrank.schemas import schema

LAUNCH = """
    def test_a_job(launch):
        first = launch("train.py sound")
        assert launch("train.py silent").survived
"""


@pytest.fixture
def launching(project):
    project.file("train.py", "pass\n")
    project.file("test_mine.py", LAUNCH)
    return project


def cases(project):
    tree = ElementTree.parse(project.path / "junit.xml")
    return {case.attrib["name"]: case for case in tree.iter("testcase")}


@pytest.mark.parametrize("workers", [(), ("-n1",)])
def test_junit_has_properties_and_explanations_of_what_a_test_launched(launching, workers):
    launching.pytest_process("test_mine.py", "--junitxml=junit.xml", *workers).assert_outcomes(failed=1)
    case = cases(launching)["test_a_job"]
    told = [(one.attrib["name"], one.attrib["value"]) for one in case.iter("property")]
    assert [value for name, value in told if name == "outcome"] == ["SURVIVED", "SILENT"]
    assert ("finding", "race: lost update, rank 1, step 2") in told and "run_directory" in dict(told)
    (said,) = (node.text for node in case.iter("system-out"))
    assert "SURVIVED: no rank reported" in said and "SILENT: 1 of 2 updates arrived" in said and "  blame:" in said


@pytest.mark.parametrize("workers", [(), ("-n1",)])
def test_junits_message_is_one_line_without_a_folder_and_the_text_the_whole(project, workers):
    project.scenario("changed", "Case('bad', 'fake:silent', SURVIVED)")
    project.pytest_process("--scenario=changed", "--junitxml=junit.xml", *workers)
    (failure,) = cases(project)["bad"].iter("failure")
    said = "SILENT, on record SURVIVED: 1 of 2 updates arrived: rank 1 wrote over the other"
    assert failure.attrib["message"] == said
    assert "what the ranks did:" in failure.text and "pytest --scenario-replay" in failure.text


@pytest.fixture
def actions(project, monkeypatch):
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_WORKSPACE", str(project.path))
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(project.path / "summary.md"))
    return project


def test_github_is_told_of_what_is_not_as_recorded(actions, launching):
    actions.scenario("changed", "Case('bad', 'fake:silent', SURVIVED), Case('void', 'fake:void', SURVIVED)")
    result = actions.pytest_process("--scenario=changed,racy", "test_mine.py")
    result.stdout.fnmatch_lines(
        [
            "::error title=SILENT%3A test_mine.py%3A%3Atest_a_job::1 of 2 updates arrived: rank 1 wrote over the other",
            "::error title=SILENT%3A changed%3A%3Abad::1 of 2 * (on record SURVIVED)",
            "::error title=VOID%3A changed%3A%3Avoid::the strike did not land (on record SURVIVED)",
        ]
    )
    table = (actions.path / "summary.md").read_text().splitlines()
    assert table[2] == "| case | outcome | on record | what happened |" and len(table) == 7
    assert table[5] == "| changed::bad | SILENT | SURVIVED | 1 of 2 updates arrived: rank 1 wrote over the other |"


def test_without_a_failure_github_is_told_nothing(actions):
    assert "::error" not in actions.pytest("--scenario=racy").stdout.str()
    assert not (actions.path / "summary.md").exists()


def test_nobody_but_github_is_told(project, monkeypatch):
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)
    project.scenario("changed", "Case('bad', 'fake:silent', SURVIVED)")
    assert "::error" not in project.pytest("--scenario=changed").stdout.str()


def printed(capsys, *arguments, code=0):
    assert main([*arguments, "--json"]) == code
    return json.loads(capsys.readouterr().out)


def test_the_list_as_json_keeps_to_its_schema(capsys):
    form = printed(capsys, "list", "killed_rank", "family:memory")
    jsonschema.Draft202012Validator(schema("list")).validate(form)
    (killed,) = (one for one in form["scenarios"] if one["name"] == "killed_rank")
    assert {one["family"] for one in form["scenarios"]} == {"process", "memory"}
    alone = next(case for case in killed["cases"] if case["name"] == "torch-alone")
    assert alone["record"] == {
        "outcome": "SILENT",
        "oracle": "control",
        "cause": "wrong result",
        "rank": 0,
        "step": None,
    }
    assert alone["by_ranks"]["3"]["oracle"] == "replicas" and alone["id"] == "killed_rank::torch-alone"


def test_pytests_list_as_json_is_the_same_and_heeds_the_choice(project):
    result = project.pytest("--scenario=racy", "-k", "broken", "--scenario-list=json")
    form = json.loads(result.stdout.str())
    jsonschema.Draft202012Validator(schema("list")).validate(form)
    assert [case["id"] for one in form["scenarios"] for case in one["cases"]] == ["racy::broken"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--scenario-list=jsn",), "--scenario-list is 'jsn'; did you mean json?"),
        (("--scenario-list", "--scenario=rcay"), "unknown scenario 'rcay'; did you mean racy"),
        (("--scenario-list", "-k", "a b"), "Wrong expression passed to '-k': a b"),
    ],
)
def test_a_list_that_cannot_be_is_one_line(project, arguments, says):
    result = project.pytest(*arguments)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    (line,) = [line for line in result.errlines if line]
    assert says in line


@pytest.mark.parametrize("words", ["broken", "not broken", "racy and sound", "scenario", "nothing", "BROKEN or other"])
def test_the_list_has_the_cases_that_would_be_collected(project, words):
    listed = project.pytest("--scenario=racy", "-k", words, "--scenario-list=json").stdout.str()
    ids = [case["id"] for one in json.loads(listed)["scenarios"] for case in one["cases"]]
    collected = project.pytest("--scenario=racy", "-k", words, "--collect-only", "-q").outlines
    assert ids == [line for line in collected if re.fullmatch(r"racy::\w+", line)]


def test_what_the_doctor_finds_keeps_to_its_schema(capsys):
    form = printed(capsys, "doctor")
    jsonschema.Draft202012Validator(schema("doctor")).validate(form)
    assert form["checks"][0]["name"] == "python"


def test_a_saved_run_is_shown_and_judged_in_the_form_of_a_verdict(project, capsys):
    project.pytest("--scenario=racy", "-k", "broken")
    run = str(project.path / ".breakrank/racy-broken-0000")
    capsys.readouterr()
    check = jsonschema.Draft202012Validator(schema("verdict"))
    shown = printed(capsys, "show", run)
    judged = printed(capsys, "judge", run, code=1)
    check.validate(shown)
    check.validate(judged)
    assert (shown["outcome"], shown["as_recorded"]) == ("SILENT", True)
    (project.path / ".breakrank/racy-broken-0000/verdict.json").unlink()
    check.validate(printed(capsys, "show", run))
