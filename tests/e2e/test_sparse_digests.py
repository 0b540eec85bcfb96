"""Runs that look at some steps and some elements only: what is broken in between is found, and sound twins are not."""

from __future__ import annotations

import pytest
from support.plans import PROGRAMS, plan_of

from breakrank.runs.bench import Bench
from breakrank.runs.request import Request
from breakrank.runs.result import Result
from breakrank.runs.saved_run import load_run
from breakrank.verdict import Outcome


def go(bench: Bench, program: str, oracle: str, steps: int = 40, **values: object) -> Result:
    """Run a program of tests/programs/sampled.py with sparse digests."""
    fields = {"steps": steps, "digests": "sparse", "oracles": ("ends", oracle), **values}
    return bench.run(Request(plan_of(f"sampled:{program}", **fields), programs=PROGRAMS))


def test_a_number_that_is_none_is_found_within_four_steps(bench):
    (finding,) = go(bench, "turns_nan", "finite").verdict.findings
    assert (finding.cause, finding.ranks, finding.step) == ("non-finite value", (0, 1), 36)
    assert finding.sentence().endswith("between step 33 and step 36")


def test_finite_numbers_are_none_the_less_so_for_an_infinite_sum(bench):
    assert go(bench, "overflows_when_summed", "finite").verdict.outcome is Outcome.SURVIVED


def test_replicas_part_between_two_digests_and_at_one_step_where_it_is_looked_closely(bench):
    (finding,) = go(bench, "parts", "replicas").verdict.findings
    assert (finding.step, finding.evidence["since"]) == (28, 25)
    (finding,) = go(bench, "parts", "replicas", closely=(25, 28)).verdict.findings
    assert (finding.step, finding.evidence.get("since")) == (27, None)


def test_a_leak_is_found_where_some_steps_have_a_census_and_a_cache_that_fills_is_none(bench):
    leaking = go(bench, "keeps", "leak", 60)
    (finding,) = leaking.verdict.findings
    assert (finding.cause, finding.ranks, finding.step) == ("leak", (0, 1), 4)
    assert finding.places[0].startswith("sampled.py:")
    assert len(load_run(leaking.folder).history.last[0].of_kind("census")) < 40
    assert go(bench, "keeps_some", "leak", 100).verdict.outcome is Outcome.SURVIVED


@pytest.mark.parametrize("program", ["laid_out_otherwise", "laid_out_alike"])
def test_laws_hold_for_the_elements_that_are_looked_at(bench, program):
    result = go(bench, program, "collectives", 4)
    causes = [f.cause for f in result.verdict.findings]
    assert causes == (["layout mismatch"] if program == "laid_out_otherwise" else [])
    assert any("more than 16,384 elements" in note for note in result.verdict.notes)
    calls = [e for e in load_run(result.folder).history.last[0].of_kind("done") if "out" in e]
    looked_at = {(c["n"], c["of"]) for e in calls for c in e["out"] if "of" in c}
    assert looked_at == {(13_334, 40_000), (16_000, 80_000), (6_667, 20_000)}
