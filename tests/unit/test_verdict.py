"""The rules of the verdict: every combination of ends, findings and reports, and each rule by name.

The table is checked against the rules as the design words them, written down here a second time and in another way: as
questions about one rank at a time, asked from the last rule to the first.
"""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from breakrank.causes import CAUSES, CAUSES_BY_PROPERTY, PROPERTY_OF
from breakrank.errors import BreakrankError
from breakrank.verdict import (
    SURVIVED,
    Blame,
    Ended,
    Finding,
    Outcome,
    Record,
    Verdict,
    decide,
    detected,
    silent,
    survived,
)

W, R, C, S, H, X = Ended.WELL, Ended.REPORTED, Ended.CRASHED, Ended.STRUCK, Ended.HUNG, Ended.COLLATERAL


def objection(*ranks: int) -> Finding:
    """Return any finding about these ranks."""
    return Finding("replicas", "replicas differ", ranks, 3)


def by_the_design(ends: tuple[Ended, ...], accused: tuple[int, ...] | None, launcher: bool) -> Outcome:
    """Return the outcome as the design words it: a later line overrules those above it, so rule 1 is the last."""
    somebody_reported = launcher or any(end is R for end in ends)
    outcome = Outcome.VOID
    if not somebody_reported and accused is None and W in ends and all(end in (W, S) for end in ends):
        outcome = Outcome.SURVIVED
    if somebody_reported:
        outcome = Outcome.DETECTED
    if accused is not None and not somebody_reported:
        outcome = Outcome.SILENT
    if accused is not None and any(end is W and rank in accused for rank, end in enumerate(ends)):
        outcome = Outcome.SILENT
    for end, stronger in ((C, Outcome.CRASHED), (H, Outcome.HUNG)):
        if end in ends:
            outcome = stronger
    return Outcome.VOID if all(end is S for end in ends) else outcome


COMBINATIONS = [ends for ranks in (1, 2, 3) for ends in itertools.product(Ended, repeat=ranks)]


def accusations(ends: tuple[Ended, ...]) -> list[tuple[int, ...] | None]:
    """Return no finding, one that names no rank, and one on each single rank, well or not."""
    return [None, (), *((rank,) for rank in range(len(ends)))]


@pytest.mark.parametrize("launcher", [False, True], ids=["ranks-alone", "launcher-reports"])
@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_every_combination_of_ends_findings_and_reports_has_the_outcome_of_the_design(
    ranks: int, launcher: bool
) -> None:
    tried = 0
    for ends in (c for c in COMBINATIONS if len(c) == ranks):
        for accused in accusations(ends):
            findings = [] if accused is None else [objection(*accused)]
            got = decide(dict(enumerate(ends)), findings, launcher_reported=launcher)
            assert got is by_the_design(ends, accused, launcher), (ends, accused, launcher)
            tried += 1
    assert tried == 6**ranks * (ranks + 2)


@pytest.mark.parametrize("ends", [(W, W), (H, W), (C, S), (R, R)])
def test_a_reason_why_nothing_can_be_said_overrules_every_other_rule(ends: tuple[Ended, ...]) -> None:
    assert decide(dict(enumerate(ends)), [objection(0)], ["strike 0 never fired"]) is Outcome.VOID


def test_rule_1_a_job_whose_every_rank_the_injector_ended_is_void() -> None:
    assert decide({0: S, 1: S}, [objection(0)]) is Outcome.VOID


def test_rule_1_a_job_without_ranks_is_void() -> None:
    assert decide({}, []) is Outcome.VOID


def test_rule_1_what_no_rule_matches_is_void() -> None:
    assert decide({0: W, 1: X}, []) is Outcome.VOID


def test_rule_2_a_rank_that_we_had_to_end_is_a_hang_whatever_the_others_did() -> None:
    assert decide({0: H, 1: C, 2: R}, [objection(0)]) is Outcome.HUNG


def test_rule_2_a_wait_for_a_rank_that_the_injector_stopped_is_a_hang() -> None:
    assert decide({0: H, 1: S}, []) is Outcome.HUNG


def test_rule_3_a_signal_that_nobody_sent_is_a_crash_although_another_rank_reported() -> None:
    assert decide({0: R, 1: C}, [objection(0)]) is Outcome.CRASHED


def test_rule_4_an_objection_that_no_rank_reported_is_silent() -> None:
    assert decide({0: W, 1: W}, [objection()]) is Outcome.SILENT


def test_rule_4_an_objection_to_a_rank_that_ended_well_is_silent_although_another_reported() -> None:
    assert decide({0: W, 1: R}, [objection(0)]) is Outcome.SILENT


def test_rule_5_an_objection_to_a_rank_that_reported_stays_detected() -> None:
    assert decide({0: W, 1: R}, [objection(1)]) is Outcome.DETECTED


def test_rule_5_a_report_of_the_launcher_alone_is_a_report() -> None:
    assert decide({0: W, 1: S}, [], launcher_reported=True) is Outcome.DETECTED


def test_rule_6_a_job_survives_if_the_injector_itself_ended_every_rank_that_did_not_end_well() -> None:
    assert decide({0: W, 1: S}, []) is Outcome.SURVIVED


def test_rule_6_a_job_whose_rank_we_ended_for_another_did_not_survive() -> None:
    assert decide({0: W, 1: S, 2: X}, []) is not Outcome.SURVIVED


@pytest.mark.parametrize(
    ("record", "matches"),
    [
        (silent(oracle="replicas", rank=1, step=3, cause="replicas differ"), True),
        (silent(rank=0), False),
        (silent(step=2), False),
        (silent(oracle="control"), False),
        (silent(cause="wrong result"), False),
        (detected(oracle="replicas"), False),
    ],
)
def test_a_record_matches_the_first_finding_only(record: Record, matches: bool) -> None:
    first, second = objection(1, 2), Finding("control", "wrong result", (0,), 3)
    if record.cause is None and record.oracle is None:
        record = Record(record.outcome, "replicas", record.rank, record.step)
    assert record.matches(Outcome.SILENT, [first, second]) is matches


@pytest.mark.parametrize(
    ("record", "allowed"),
    [
        (SURVIVED, {"well", "noticed"}),
        (silent(oracle="control"), {"well", "noticed", "harmed", "raced"}),
        (silent(oracle="race", step=7), {"raced"}),
    ],
    ids=["sound", "harm at some seeds", "found at each seed"],
)
def test_what_a_record_allows_at_another_seed(record: Record, allowed: set[str]) -> None:
    verdicts = {
        "well": (Outcome.SURVIVED, []),
        "noticed": (Outcome.DETECTED, []),
        "harmed": (Outcome.SILENT, [Finding("control", "wrong result", (0,), 1)]),
        "raced": (Outcome.DETECTED, [objection(0), Finding("race", "data race", (0,), 1)]),
        "void": (Outcome.VOID, []),
    }
    assert {name for name, verdict in verdicts.items() if record.allows(*verdict)} == allowed


def test_a_record_without_a_finding_does_not_match_a_verdict_with_one() -> None:
    assert SURVIVED.matches(Outcome.SURVIVED, [])
    assert not SURVIVED.matches(Outcome.SURVIVED, [objection(0)])


def test_a_record_of_survival_refuses_a_finding() -> None:
    with pytest.raises(BreakrankError, match="SURVIVED has no finding"):
        survived(cause="wrong result")


def test_a_record_with_an_unknown_cause_is_refused_with_the_known_ones() -> None:
    with pytest.raises(BreakrankError, match="'gremlins'; causes are training incomplete"):
        silent(cause="gremlins")


@pytest.mark.parametrize(("field", "words"), [
    ({"oracle": 3}, "oracle=3; it has to be the name of one"),
    ({"rank": (0, 1)}, r"rank=\(0, 1\); it has to be one whole number"),
    ({"step": "3"}, "step='3'; it has to be one whole number"),
    ({"rank": True}, "rank=True; it has to be one whole number"),
])  # fmt: skip
def test_a_record_with_a_value_of_the_wrong_kind_is_refused(field: dict[str, Any], words: str) -> None:
    with pytest.raises(BreakrankError, match=f"a record has {words}, or to be left out"):
        silent(**field)


def test_a_finding_with_an_unknown_cause_is_refused() -> None:
    with pytest.raises(ValueError, match="gremlins"):
        Finding("replicas", "gremlins")


@pytest.mark.parametrize("wrong", [
    {"oracle": None}, {"ranks": (None,)}, {"step": None}, {"attempt": "1"}, {"places": ("train.py:7", None)},
])  # fmt: skip
def test_a_finding_that_names_nothing_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="a finding has names for the oracle and places, and numbers otherwise"):
        Finding(**{"oracle": "replicas", "cause": "replicas differ", **wrong})


def test_each_cause_belongs_to_one_property() -> None:
    assert len(CAUSES) == sum(map(len, CAUSES_BY_PROPERTY.values()))
    assert PROPERTY_OF.keys() == CAUSES.keys() and set(PROPERTY_OF.values()) == set(CAUSES_BY_PROPERTY)


@pytest.mark.parametrize("cause", CAUSES)
def test_every_cause_makes_a_sentence_even_where_the_evidence_lacks_a_fact(cause: str) -> None:
    assert Finding("any", cause, (0, 2), 3).sentence()


def test_a_verdict_of_a_crash_says_the_crash_first_and_one_of_a_detection_the_report() -> None:
    crash = Verdict(Outcome.CRASHED, (objection(0),), crashed=("rank 1 died of SIGSEGV at step 2",))
    found = Verdict(Outcome.DETECTED, (objection(0),), reported=("rank 0 reported ValueError at step 2",))
    assert crash.sentence() == "rank 1 died of SIGSEGV at step 2"
    assert found.sentence() == "rank 0 reported ValueError at step 2"


def test_a_void_verdict_says_its_first_reason() -> None:
    assert Verdict(Outcome.VOID, void=("the control failed", "no step was seen")).sentence() == "the control failed"


def test_blame_says_who_and_why() -> None:
    assert Blame((0, 2), "died").words() == "ranks 0 and 2: died"
    assert Blame().words() == "nobody can be named"
