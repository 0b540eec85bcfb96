"""A night against the nights before it: its exit code, and its summary as text that Markdown does not read."""

from __future__ import annotations

import pytest
from support.remembered import entry, night, remembered

from breakrank.memory.agenda import NOT_STARTED
from breakrank.report.night import night_of

LEFT = entry("a::late", "", sentence=f"{NOT_STARTED} of 2 h 00 min was over", as_recorded=None)


def judged(folder, before, now, **values):
    """Return the last of two nights."""
    return night_of(remembered(folder, (night(1), before), (night(2, **values), now)), 2)


@pytest.mark.parametrize(
    ("before", "now", "status"),
    [
        ([entry()], [entry()], 0),
        ([entry()], [entry(outcome="HUNG", as_recorded=False)], 1),
        ([entry(outcome="HUNG")], [entry()], 0),
        # As wrong as it was the night before.
        ([entry(outcome="HUNG", as_recorded=False)], [entry(outcome="HUNG", as_recorded=False)], 0),
        # No night knows it: the record does.
        ([], [entry(outcome="HUNG", as_recorded=False)], 1),
        ([], [entry(outcome="HUNG")], 0),
        # It could be tested, and cannot be any more.
        ([entry(), entry("a::b")], [entry(), entry("a::b", "", mechanism="", sentence="no torch")], 2),
        ([entry(), entry("a::b")], [entry(), entry("a::b", "VOID")], 2),
        # The budget left no time for it.
        ([entry(), entry("a::late")], [entry(), LEFT], 0),
        ([], [entry(), LEFT, LEFT], 0),
        ([], [LEFT], 2),
        ([], [], 2),
        # Chance is no change.
        ([entry()], [entry(outcome="HUNG", as_recorded=False, again=(entry(), entry()))], 0),
        ([entry()], [entry(outcome="HUNG", as_recorded=False, again=(entry(outcome="HUNG"),))], 1),
    ],
)
def test_the_exit_code(tmp_path, before, now, status):
    assert judged(tmp_path, before, now).status == status


def test_fewer_than_half_of_the_chosen_cases_are_too_little(tmp_path):
    assert judged(tmp_path, [], [entry()], selected=3).status == 2


def test_the_night_that_counts_is_the_last_one_that_tested_the_case(tmp_path):
    sessions = [(night(1), [entry(outcome="DETECTED")]), (night(2), [entry("a::b")]), (night(3), [entry()])]
    found = night_of(remembered(tmp_path, *sessions), 3)
    assert found.changes["better"] == ["racy::one [kill, process]: DETECTED became SURVIVED: "]


def test_the_summary_lists_what_is_worse_flaky_and_not_tested(tmp_path):
    flaky = entry("a::flaky", "HUNG", again=(entry(), entry(outcome="HUNG")))
    void = entry("a::void", "VOID", sentence="the strike did not land")
    found = judged(tmp_path, [entry()], [entry(outcome="SILENT", as_recorded=False), flaky, void, LEFT])
    said = found.to_json()
    assert said["flaky"] == [{"name": "a::flaky", "runs": ["HUNG", "SURVIVED", "HUNG"]}]
    assert said["not_tested"] == {"a::void": "the strike did not land", "a::late": LEFT.sentence}
    assert (said["status"], said["before"], said["not_as_recorded"]) == (1, 1, ["racy::one"])
    assert found.headline == (
        "night 2: something is worse than before; 1 as recorded, 1 changed, 2 not tested; 1 worse, 1 flaky"
    )
    text = found.markdown()
    assert text.startswith("# night 2: something is worse")
    assert "## flaky: 1\n\n- a::flaky: HUNG, SURVIVED, HUNG\n" in text


def test_hostile_names_are_text_in_the_summary(tmp_path):
    odd = "racy::</td><script>x</script>\n# head [l](http://x) `c` | \x1b[31m"
    text = judged(tmp_path, [entry(odd)], [entry(odd, "HUNG", as_recorded=False)]).markdown()
    line = next(line for line in text.splitlines() if "HUNG" in line)
    assert "&lt;script&gt;" in line and "\\# head \\[l\\](http://x) \\`c\\` \\|" in line and "\x1b" not in text
