"""Each public report in `reports.csv` is cited by a scenario or has a reason, and each citation has the right form.

The docstrings of all scenarios are read. The form says nothing of whether the report is there: no network is asked.
"""

from __future__ import annotations

import re

import pytest
from support.reported import CITED, REPORT, cases_of, citations, docstring_of, noticed, reports, shown

from breakrank import DETECTED, SURVIVED, Case, Scenario, crashed, hung, silent
from breakrank.plan.catalogue import load_scenarios

CITING = [one for one in load_scenarios().values() if CITED.lower() in docstring_of(one).lower()]
CASE = re.compile(r"`((?:torch|tf)-[\w-]+)`")


@pytest.mark.parametrize("scenario", CITING, ids=lambda one: one.name)
def test_a_scenario_cites_reports_in_the_right_form(scenario):
    text = docstring_of(scenario)
    assert text.count(CITED) == 1, f"write {CITED!r}, once"
    numbered = [word.strip("(),.;:") for word in text.split() if re.search(r"#(PR)?\d", word)]
    wrong = [word for word in numbered if not REPORT.fullmatch(word)]
    assert not wrong, f"{wrong}: write owner/name#7, or owner/name#PR7 for a pull request"
    assert {report for report, _ in citations(text)} == set(numbered), f"cite reports behind {CITED!r}"


@pytest.mark.parametrize("scenario", CITING, ids=lambda one: one.name)
def test_a_case_that_is_named_behind_a_citation_is_one_of_the_scenario(scenario):
    named = {name for _, remark in citations(docstring_of(scenario)) for name in CASE.findall(remark)}
    assert named <= {case.name for case in scenario.cases}


@pytest.mark.parametrize("report", reports(), ids=lambda one: one.report)
def test_a_report_has_a_case_or_a_reason(report):
    assert REPORT.fullmatch(report.report)
    assert re.fullmatch(r"[A-Z][^|]*[^.|]\.", report.what), "one sentence"
    if report.report in shown():
        assert not report.without, "a scenario cites the report: remove the reason"
    else:
        assert report.without, "no scenario cites the report: give the reason"


def test_no_report_is_listed_twice():
    names = [one.report for one in reports()]
    assert len(names) == len(set(names))


def test_a_remark_belongs_to_the_citations_before_it():
    text = f"First line.\n\n{CITED} a/b#1 and a/b#PR2 (both,\nas `torch-x` shows) and\nc/d.e#3."
    assert list(citations(text)) == [
        ("a/b#1", "both, as `torch-x` shows"),
        ("a/b#PR2", "both, as `torch-x` shows"),
        ("c/d.e#3", ""),
    ]


def test_a_remark_chooses_cases_and_else_the_first_broken_one_of_each_framework_is_shown():
    cases = [
        Case("torch-sound", "hogwild:locked", SURVIVED),
        Case("torch-broken", "hogwild:plain", silent()),
        Case("torch-worse", "hogwild:plain", hung()),
        Case("tf-broken", "leaky_keras:activations", silent(), framework="tensorflow"),
    ]
    scenario = Scenario(cases=cases)
    assert cases_of(scenario, "as `torch-worse` shows") == [cases[2]]
    assert cases_of(scenario, "a remark with `code`") == [cases[1], cases[3]]
    assert cases_of(Scenario(cases=cases[:1]), "") == cases[:1]


@pytest.mark.parametrize(
    ("case", "words"),
    [
        (Case("a", "averaging:plain", hung(oracle="progress", cause="participant missing")), "our oracle `progress`"),
        (Case("a", "averaging:plain", DETECTED), "the framework"),
        (Case("a", "averaging:comparing", DETECTED), "the user's guard"),
        (Case("a", "stopping:by_itself", DETECTED), "the framework"),
        (Case("a", "averaging:plain", crashed()), "the kernel"),
        (Case("a", "averaging:plain", SURVIVED), "nobody: no harm was done"),
    ],
)
def test_the_page_says_who_notices(case, words):
    assert noticed(case) == words
