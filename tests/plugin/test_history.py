"""A session is remembered: in the history, as lines of JSON, and as a page; workers report to the controller."""

from __future__ import annotations

import json
import sqlite3

import jsonschema
import pytest
from support.remembered import entry, night, remembered

from breakrank.__main__ import main
from breakrank.memory.reading import read
from breakrank.schemas import schema

BROKEN = "Case('broken', 'fake:silent', silent(oracle='race', cause='lost update'))"


@pytest.fixture
def runs(project):
    return project.path / ".breakrank"


def lines_of(path):
    """Return the lines of a file of JSON, each checked against its schema."""
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for line in lines:
        jsonschema.Draft202012Validator(schema(line["schema"])).validate(line)
    for line in lines[1:]:
        if line["verdict"] is not None:
            jsonschema.Draft202012Validator(schema("verdict")).validate(line["verdict"])
    return lines


@pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["alone", "xdist"])
def test_each_result_is_in_the_history_and_a_line_of_json(project, runs, workers):
    project.scenario("many", f"{BROKEN}, Case('void', 'fake:void', SURVIVED), Case('torn', 'fake:broken', SURVIVED)")
    result = project.pytest_process("--scenario=many,racy", "--scenario-json=out/lines.jsonl", *workers)
    assert result.ret == 1
    memory = read(runs)
    (session,) = memory.sessions
    assert (session.kind, session.selected, session.exit) == ("pytest", 5, 1)
    assert "--scenario=many,racy" in session.argv and session.python and session.host and session.ended
    entries = {entry.name: entry for entry in memory.entries[session.id]}
    assert {name: entry.outcome for name, entry in entries.items()} == {
        "many::broken": "SILENT",
        "many::void": "VOID",
        "many::torn": "",
        "racy::broken": "SILENT",
        "racy::sound": "SURVIVED",
    }
    broken = entries["racy::broken"]
    assert (broken.as_recorded, broken.finding) == (True, "race: lost update, rank 1, step 2")
    assert (broken.folder, broken.family, broken.mechanism) == ("racy-broken-0000", "sync", "process")
    assert broken.plan and broken.code and broken.digest and broken.seconds == 0.25
    assert entries["many::torn"].sentence == "the supervisor process is gone; was it killed?"
    first, *others = lines_of(project.path / "out" / "lines.jsonl")
    assert (first["schema"], first["id"]) == ("session", session.id)
    assert {line["name"]: line["outcome"] or "" for line in others} == {n: e.outcome for n, e in entries.items()}
    told = next(line for line in others if line["name"] == "racy::broken")
    assert told["folder"] == str(runs / "racy-broken-0000") and told["verdict"]["outcome"] == "SILENT"


def test_a_case_whose_worker_dies_is_remembered_as_not_tested(project, runs):
    project.scenario("deadly", "Case('a', 'fake:killed', SURVIVED), Case('b', 'fake:sound', SURVIVED)")
    project.pytest_process("--scenario=deadly", "-n", "1", "--max-worker-restart=1")
    entries = {entry.name: entry for entry in read(runs).entries[1]}
    assert entries["deadly::a"].outcome == "" and "the xdist worker" in entries["deadly::a"].sentence
    assert entries["deadly::b"].outcome == "SURVIVED"


def test_a_skipped_case_is_remembered_with_the_reason(project, runs):
    project.scenario(
        "needy", "Case('a', 'fake:sound', SURVIVED, needs=('gpus 99',)), Case('b', 'fake:sound', SURVIVED)"
    )
    project.pytest("--scenario=needy")
    skipped = next(entry for entry in read(runs).entries[1] if entry.case == "a")
    assert skipped.outcome == "" and skipped.sentence and skipped.as_recorded is None


@pytest.mark.parametrize("arguments", [["--collect-only"], ["--scenario-dry-run"]])
def test_a_session_that_runs_nothing_is_not_remembered(project, runs, arguments):
    project.pytest("--scenario=racy", *arguments)
    assert not (runs / "history.sqlite").exists()


def test_a_replay_is_no_new_result(project, runs):
    project.pytest("--scenario=racy", "-k", "broken")
    project.pytest(f"--scenario-replay={runs / 'racy-broken-0000'}")
    assert [len(entries) for entries in read(runs).entries.values()] == [1]


@pytest.mark.parametrize(
    ("text", "words"),
    [(b"no database", "is damaged"), (None, "was written by a newer Breakrank")],
    ids=["bad", "newer"],
)
def test_a_history_that_cannot_be_used_is_one_line_and_the_session_goes_on(project, runs, text, words):
    runs.mkdir()
    if text is None:
        with sqlite3.connect(runs / "history.sqlite") as connection:
            connection.execute("PRAGMA user_version = 99")
    else:
        (runs / "history.sqlite").write_bytes(text * 1000)
    result = project.pytest("--scenario=racy", "--scenario-json=lines.jsonl", "--scenario-report=site")
    result.assert_outcomes(passed=2)
    told = [line for line in result.outlines if line.startswith("breakrank: ") and "history.sqlite" in line]
    assert len(told) == 2 and all(words in line for line in told)
    assert told[0].startswith("breakrank: the history does not have all of this session: ")
    assert told[1].startswith("breakrank: no report was written: ")
    first, *others = lines_of(project.path / "lines.jsonl")
    assert first["id"] is None and len(others) == 2


def test_two_sessions_with_one_program_changed_between_them_differ_in_that_case(project, runs, capsys):
    project.pytest("--scenario=racy")
    project.scenario("racy", f"{BROKEN}, Case('sound', 'fake:fickle', SURVIVED)")
    project.pytest("--scenario=racy")
    capsys.readouterr()
    assert main(["diff", "--runs", str(runs)]) == 1
    text = " ".join(capsys.readouterr().out.split())
    assert "worse: 1 racy::sound [process]: SURVIVED became SILENT" in text and "racy::broken" not in text
    # The program is another one: that is no flakiness.
    assert main(["flaky", "--runs", str(runs)]) == 0
    assert "no plan came to two results" in capsys.readouterr().out


def test_the_page_is_written_when_it_is_asked_for(project):
    result = project.pytest("--scenario=racy", "--scenario-report=site")
    result.stdout.fnmatch_lines(["breakrank: report: */site/index.html"])
    assert "racy::broken" in (project.path / "site" / "index.html").read_text()


def test_lines_that_find_no_room_are_one_line_and_the_session_goes_on(project, runs):
    result = project.pytest("--scenario=racy", "--scenario-json=/dev/full")
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(["breakrank: /dev/full is not whole: No space left on device"])
    assert len(read(runs).entries[1]) == 2


class TestRetries:
    """A case whose result is new is tried again."""

    def test_a_case_that_comes_to_the_same_each_time_has_changed(self, project, runs):
        project.scenario("turned", "Case('a', 'fake:fickle', SURVIVED)")
        result = project.pytest("--scenario=turned", "--scenario-retries=2", "--scenario-json=lines.jsonl")
        result.stdout.fnmatch_lines(["turned::a: changed: SILENT (control: wrong result, *) in each of 3 runs"])
        (entry,) = read(runs).entries[1]
        assert [one.outcome for one in (entry, *entry.again)] == ["SILENT"] * 3 and not entry.flaky
        assert entry.sentence == "the result of rank 0 differs from the control's, first at step 2"
        _, line = lines_of(project.path / "lines.jsonl")
        assert [one["folder"] for one in line["again"]] == [str(runs / f"turned-a-000{n}") for n in (1, 2)]

    def test_a_case_that_comes_to_this_and_that_is_flaky(self, project, runs):
        project.scenario("moody", "Case('a', 'fake:moody', SURVIVED)")
        result = project.pytest("--scenario=moody", "--scenario-retries=2")
        result.stdout.fnmatch_lines(["moody::a: flaky: SILENT (control: *) in 1, SURVIVED in 2 of 3 runs"])
        result.assert_outcomes(failed=1)
        assert read(runs).entries[1][0].flaky

    def test_a_result_that_is_known_is_not_tried_again(self, project, runs):
        project.scenario("turned", "Case('a', 'fake:fickle', SURVIVED)")
        for _ in range(2):
            project.pytest("--scenario=turned,racy", "--scenario-retries=1")
        again = [{e.name: len(e.again) for e in entries} for entries in read(runs).entries.values()]
        assert again == [
            {"turned::a": 1, "racy::broken": 0, "racy::sound": 0},
            {"turned::a": 0, "racy::broken": 0, "racy::sound": 0},
        ]


class TestBudget:
    """No case is started when the time is over."""

    @pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["alone", "xdist"])
    def test_cases_that_are_not_started_are_not_tested(self, project, runs, workers):
        result = project.pytest_process("--scenario=racy", "--scenario-budget=0.000001s", *workers)
        result.stdout.fnmatch_lines(["0 as recorded, 0 changed, 2 not tested"])
        assert {entry.sentence for entry in read(runs).entries[1]} == {"not started: the budget of 0.0 s was over"}

    def test_cases_that_never_ran_come_first(self, project, runs):
        project.pytest("--scenario=racy", "-k", "broken")
        project.pytest("--scenario=racy", "--scenario-budget=1h")
        assert [entry.case for entry in read(runs).entries[2]] == ["sound", "broken"]


class TestSession:
    """A session is gone on with."""

    def test_cases_that_it_has_are_left_out(self, project, runs):
        project.pytest("--scenario=racy", "-k", "broken")
        result = project.pytest("--scenario=racy", "--scenario-resume=1")
        result.assert_outcomes(passed=1, deselected=1)
        memory = read(runs)
        assert [entry.case for entry in memory.entries[1]] == ["broken", "sound"]
        assert len(memory.sessions) == 1 and memory.sessions[0].selected == 2

    def test_the_last_one_is_gone_on_with_where_no_number_is_given(self, project, runs):
        project.pytest("--scenario=racy", "-k", "sound")
        project.pytest("--scenario=racy", "-k", "broken")
        project.pytest("--scenario=racy", "--scenario-resume").assert_outcomes(passed=1, deselected=1)
        assert [[entry.case for entry in entries] for entries in read(runs).entries.values()] == [
            ["sound"],
            ["broken", "sound"],
        ]

    @pytest.mark.parametrize(
        ("number", "words"),
        [("", "has no session of pytest to go on with"), ("=9", "has no session 9"), ("=1", "ran on the image new")],
    )
    def test_one_that_is_not_there_or_ran_elsewhere_is_one_line(self, project, runs, number, words):
        runs.mkdir()
        remembered(runs, (night(1, image="new"), [entry()]))
        result = project.pytest("--scenario=racy", f"--scenario-resume{number}")
        assert result.ret == pytest.ExitCode.USAGE_ERROR
        (line,) = [line for line in result.errlines if line.strip()]
        assert words in line


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--scenario=racy", "--scenario-budget=soon"], "--scenario-budget is 'soon'; give a span of time"),
        (["--scenario=racy", "--scenario-resume=3"], "so no session to go on with"),
        (["--scenario=racy", "--scenario-resume=0"], "give a whole number from 1"),
        (["--scenario=racy", "--scenario-retries=-1"], "give a whole number from 0"),
        (["--scenario=racy", "--scenario-json=mine"], "mine cannot be written: Is a directory"),
        (["--scenario=racy", "--scenario-json="], "--scenario-json needs a path"),
        (["--scenario-json=lines.jsonl"], "--scenario-json needs a scenario"),
        (["--scenario-replay=x", "--scenario-report=site"], "leave out --scenario-report"),
    ],
)
def test_a_value_that_cannot_be_is_one_line_with_the_cure(project, arguments, words):
    result = project.pytest(*arguments)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    (line,) = [line for line in result.errlines if line.strip()]
    assert words in line
