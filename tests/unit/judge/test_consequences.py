"""Deaths that only follow: those in a collective that ranks called unlike, or in a later one of its group."""

from __future__ import annotations

from signal import SIGABRT, SIGSEGV
from typing import Any

import pytest
from support.golden import Golden

from breakrank.judge.consequences import without_consequences
from breakrank.verdict import Finding

#: Ranks called the second collective of group 0 unlike.
UNLIKE: dict[str, Any] = {"group": "0", "number": 2}
PLACES = ("rank 1: all_reduce 2 (3×2 × float32, train.py:8)",)


def told(job: Golden, *, attempt: int = 0, oracle: str = "collectives", evidence: Any = None, cause: str = "") -> bool:
    """Return whether the death of rank 1 is told beside a finding on unlike calls of this attempt."""
    death = Finding("crash", cause or "killed by a signal", (1,), 1, job.attempt)
    known = UNLIKE if evidence is None else evidence
    unlike = Finding(oracle, "dtype mismatch", (1,), 1, attempt, PLACES, known)
    other = Finding("finite", "non-finite value", (0,), 1)
    left = without_consequences(job.history(), [other, death], [other, unlike, death])
    assert left[0] == other
    return left[1:] == [death]


def dies(**call: Any) -> Golden:
    """Return a job whose rank 1 dies in this collective."""
    job = Golden().trains(1)
    job[1].enters("collective", **{"site": "train.py:8", **call}).dies(SIGABRT)
    return job


@pytest.mark.parametrize(("call", "is_told"), [
    ({"c": 2}, False),
    ({"c": 3}, False),
    ({"c": 3, "site": "train.py:9"}, False),
    ({"c": 1}, True),
    ({"c": 2, "site": "train.py:9"}, True),
    ({"c": 3, "group": "5"}, True),
    ({"op": "recv_", "p": 3, "peer": 0}, True),
])  # fmt: skip
def test_a_death_in_the_unlike_collective_or_a_later_one_of_its_group_is_left_out(call: Any, is_told: bool) -> None:
    assert told(dies(**call)) is is_told


def test_a_death_outside_of_collectives_is_told() -> None:
    job = Golden().trains(1)
    job[1].enters("load").dies(SIGSEGV)
    assert told(job)


def test_another_death_or_attempt_or_finding_is_no_consequence() -> None:
    assert told(dies(c=2), cause="out of memory")
    assert told(dies(c=2), oracle="race")
    assert told(dies(c=2), evidence={"shown": "call 1 of new_group makes a group of several ranks"})
    again = Golden().trains(1)
    again.ended_by_us().again()[1].enters("collective", c=2, site="train.py:8").dies(SIGABRT)
    assert told(again)
    assert not told(again, attempt=1)


def test_one_that_follows_from_any_of_several_findings_is_left_out() -> None:
    job = dies(c=2)
    death = Finding("crash", "killed by a signal", (1,), 1)
    unlike = [
        Finding("collectives", "dtype mismatch", (0,), 1, evidence={"group": "5", "number": 1}),
        Finding("collectives", "dtype mismatch", (1,), 1, places=PLACES, evidence=UNLIKE),
    ]
    assert without_consequences(job.history(), [death], unlike) == []
