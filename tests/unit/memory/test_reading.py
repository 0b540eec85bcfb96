"""Questions to the memory: the sessions that are compared, earlier results, order under a budget, and flaky plans."""

from __future__ import annotations

import pytest
from support.remembered import entry, night, remembered, session

from breakrank.errors import BreakrankError
from breakrank.memory.agenda import Agenda, agenda
from breakrank.memory.entries import NIGHTLY
from breakrank.memory.reading import before, database, flaky, matching, pair, read
from breakrank.memory.spans import duration, seconds_of


def numbers(found):
    new, old = found
    return new.id, old.id


class TestPair:
    """The two sessions that `breakrank diff` compares."""

    def test_the_last_one_is_held_against_the_last_before_that_tested_one_of_its_cases(self, tmp_path):
        other = (session(2), [entry("other::case")])
        untested = (session(3), [entry(outcome="VOID")])
        memory = remembered(tmp_path, (session(1), [entry()]), other, untested, (session(4), [entry()]))
        assert numbers(pair(memory)) == (4, 1)
        assert numbers(pair(memory, "#4", "2")) == (4, 2)

    @pytest.mark.parametrize(
        ("asked", "words"),
        [
            (("9",), "there is no session '9'; give a number"),
            (("last", "x"), "there is no session 'x'"),
            (("9" * 5000,), "there is no session"),
            (("last",), "no session before #1 tested one of its cases"),
        ],
    )
    def test_a_session_that_is_not_there_is_one_line(self, tmp_path, asked, words):
        memory = remembered(tmp_path, (session(), [entry()]))
        with pytest.raises(BreakrankError, match=words):
            pair(memory, *asked)

    def test_an_empty_history_is_one_line(self, tmp_path):
        with pytest.raises(BreakrankError, match="no session that tested a case"):
            pair(remembered(tmp_path, (session(), [entry(outcome="")])))


def test_the_last_steady_result_before_a_session_counts(tmp_path):
    flaky_one = entry(outcome="SILENT", again=(entry(),))
    sessions = [
        (night(1), [entry(outcome="DETECTED"), entry("racy::two", outcome="HUNG")]),
        (night(2), [flaky_one]),
        (night(3, exit=None), [entry(outcome="CRASHED")]),
        (night(4, image="other"), [entry(outcome="HUNG")]),
        (session(5), [entry(outcome="HUNG")]),
        (night(6), [entry(outcome="VOID"), entry("racy::two", outcome="")]),
        (night(7), [entry(outcome="SURVIVED")]),
    ]
    memory = remembered(tmp_path, *sessions)
    found = {one.name: one.outcome for one in before(memory, NIGHTLY, "", 7).values()}
    assert found == {"racy::one": "DETECTED", "racy::two": "HUNG"}


class TestFlaky:
    """Equal plans on equal programs."""

    @pytest.mark.parametrize("values", [{"outcome": "HUNG"}, {"digest": "e"}, {"finding": "race: lost update"}])
    def test_a_plan_with_two_results_is_flaky(self, tmp_path, values):
        memory = remembered(tmp_path, (session(1), [entry()]), (session(2), [entry(**values)]))
        (found,) = flaky(memory)
        assert [one.session for one in found.entries] == [1, 2]

    @pytest.mark.parametrize("values", [{}, {"plan": "q"}, {"code": "b"}, {"outcome": "VOID", "digest": ""}])
    def test_other_plans_and_other_programs_are_none(self, tmp_path, values):
        later = entry(**{"digest": "e", **values}) if values else entry()
        assert flaky(remembered(tmp_path, (session(1), [entry()]), (session(2), [later]))) == []

    def test_further_attempts_count(self, tmp_path):
        (found,) = flaky(remembered(tmp_path, (session(), [entry(again=(entry(outcome="HUNG"), entry()))])))
        assert found.outcomes == {"SURVIVED": 2, "HUNG": 1}


class TestAgenda:
    """A session that knows those before it."""

    def test_never_run_comes_first_then_longest_not_tested_then_slowest(self, tmp_path):
        first = [entry("a::old"), entry("a::quick"), entry("a::slow")]
        second = [entry("a::quick", seconds=1.0), entry("a::slow", seconds=9.0), entry("a::never", outcome="VOID")]
        remembered(tmp_path, (night(1), first), (night(2), second))
        known = agenda(tmp_path)
        assert sorted(["a::quick", "a::slow", "a::old", "a::never"], key=known.place) == [
            *("a::never", "a::old", "a::slow", "a::quick"),
        ]

    def test_a_session_that_is_gone_on_with_leaves_out_what_has_an_outcome(self, tmp_path):
        lost = entry("a::lost", outcome="", sentence="the worker died")
        remembered(tmp_path, (night(1, exit=None), [entry("a::done"), entry("a::void", outcome="VOID"), lost]))
        assert set(agenda(tmp_path, 1).done) == {"a::done", "a::void"}

    def test_a_result_is_new_against_the_last_one_of_the_same_plan_or_else_against_the_record(self, tmp_path):
        remembered(tmp_path, (night(1), [entry(outcome="SILENT", finding="f", as_recorded=False)]))
        known = Agenda.loads(agenda(tmp_path).dumps())
        same = ("racy::one", "kill, process", "p")
        assert not known.changed(*same, ("SILENT", "f"), as_recorded=False)
        assert known.changed(*same, ("SURVIVED", ""), as_recorded=True)
        other = ("racy::one", "kill, process", "another plan")
        assert known.changed(*other, ("SILENT", "f"), as_recorded=False)
        assert not known.changed(*other, ("SURVIVED", ""), as_recorded=True)

    @pytest.mark.parametrize("made", [True, False])
    def test_a_session_that_is_not_there_is_one_line(self, tmp_path, made):
        if made:
            remembered(tmp_path, (night(1), [entry()]))
        with pytest.raises(
            BreakrankError, match="session 5" if made else "there is no history in .*, and so no session to go on with"
        ):
            agenda(tmp_path, 5)
        assert made or agenda(tmp_path) == Agenda()


def test_a_case_is_meant_by_its_name_a_part_of_it_or_a_glob(tmp_path):
    cases = [entry("racy::one"), entry("racy::one-more"), entry("other::two")]
    memory = remembered(tmp_path, (session(), cases))
    assert list(matching(memory, "racy::one")) == ["racy::one"]
    assert list(matching(memory, "one")) == ["racy::one", "racy::one-more"]
    assert list(matching(memory, "o*::t*")) == ["other::two"]


def test_sessions_since_a_moment_are_read(tmp_path):
    remembered(tmp_path, (session(1), [entry()]), (session(9), [entry()]))
    assert [one.id for one in read(tmp_path, "2026-11-05T00:00:00Z").sessions] == [2]


def test_without_a_history_one_line_says_how_to_name_it(tmp_path):
    with pytest.raises(BreakrankError, match=r"there is no history at .*; name the folder of the runs by --runs"):
        database(tmp_path)


@pytest.mark.parametrize(
    ("text", "seconds"), [("90", 90), ("90s", 90), ("1.5m", 90), ("2h", 7200), ("14d", 1209600), ("1w", 604800)]
)
def test_a_span_of_time_is_read(text, seconds):
    assert seconds_of(text, "--budget") == seconds


@pytest.mark.parametrize("text", ["", "0", "-1", "1y", "nan", "1e9", "9" * 400, "2h30m", "٣"])
def test_what_is_no_span_of_time_is_one_line(text):
    with pytest.raises(BreakrankError, match=r"--budget is .*; give a span of time above 0"):
        seconds_of(text, "--budget")


@pytest.mark.parametrize(
    ("seconds", "words"), [(0.25, "0.2 s"), (12.4, "12 s"), (59.6, "60 s"), (180, "3 min"), (7500, "2 h 05 min")]
)
def test_a_duration_is_said_in_short(seconds, words):
    assert duration(seconds) == words
