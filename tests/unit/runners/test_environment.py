"""The variables of a plan, as each rank has them."""

from __future__ import annotations

from breakrank.runners.environment import has_own, of_rank

GIVEN = {"TZ": "UTC0", "TZ@1": "FAR-14", "LC_ALL@10": "C"}


def test_a_variable_with_a_rank_behind_its_name_is_that_ranks_alone() -> None:
    assert of_rank(GIVEN, 0) == {"TZ": "UTC0"}
    assert of_rank(GIVEN, 1) == {"TZ": "FAR-14"}
    assert of_rank(GIVEN, 10) == {"TZ": "UTC0", "LC_ALL": "C"}


def test_ranks_with_variables_of_their_own_are_told_from_others() -> None:
    assert [rank for rank in range(12) if has_own(GIVEN, rank)] == [1, 10]
