"""Cases have one record for any number of ranks, another one from some number on, or are for some numbers alone."""

from __future__ import annotations

import pytest

from breakrank import SURVIVED, Case, Job, Scenario, silent
from breakrank.errors import BreakrankError
from breakrank.plan.build import Choices, make_plan
from breakrank.verdict import Outcome

WRONG = silent(oracle="control", rank=-1, step=2, cause="wrong result")
PARTED = silent(oracle="replicas", cause="replicas differ")


def plan(case, ranks, own=2):
    return make_plan(Scenario(cases=[case], job=Job(ranks=own)), case, Choices(ranks=ranks))


def test_a_record_from_some_number_of_ranks_on_holds_for_each_greater_one():
    case = Case("one", "module:function", WRONG, at={3: PARTED, 8: SURVIVED}, on={"docker": SURVIVED})
    assert [case.record("process", ranks).outcome for ranks in (3, 7, 8, 9)] == [Outcome.SILENT] * 2 + [
        Outcome.SURVIVED
    ] * 2
    assert case.record("process", 4) == PARTED
    assert case.record("docker", 2) is SURVIVED and case.record("docker", 3) == PARTED
    assert "from 3 ranks on: SILENT (replicas, replicas differ)" in case.words()


@pytest.mark.parametrize("ranks", [1, 2, 5])
def test_a_record_may_name_the_last_rank(ranks):
    record = Case("one", "module:function", WRONG).record("process", ranks)
    assert record.rank == ranks - 1
    assert record.words().endswith(f"rank {ranks - 1}, step 2)")
    assert "the last rank" in WRONG.words()


def test_a_program_for_some_numbers_of_ranks_is_refused_with_others():
    case = Case("one", "module:function", SURVIVED, sizes=(2, 4))
    assert plan(case, 4).ranks == 4
    with pytest.raises(BreakrankError, match="the program module:function is for 2 or 4 ranks, not for 3"):
        plan(case, 3)
    assert case.words() == "SURVIVED; for 2 or 4 ranks alone"


def test_a_program_of_one_rank_is_for_one_and_a_script_for_any():
    with pytest.raises(BreakrankError, match="is for 1 rank, not for 3"):
        plan(Case("one", "module:function", SURVIVED), 3, own=1)
    assert plan(Case("one", "", SURVIVED), 3, own=1).ranks == 3
