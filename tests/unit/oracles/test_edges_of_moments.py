"""States of no one moment: what is named, and of which rank, step and attempt."""

from __future__ import annotations

import pytest
from support.asking import ask
from support.golden import Golden

from breakrank.oracles import Abstain


def test_tensors_that_changed_in_a_save_are_named_by_the_first_rank() -> None:
    job = Golden(2).trains(3)
    job[1].writes("changed", path="b.pt", count=2, of=4, site="train.py:7")
    job[0].writes("changed", path="a.pt", count=1, of=4, site="").writes("changed", path="c.pt", count=1, of=4, site="")
    (found,) = ask("moments", job.ends_well().history())
    assert (found.cause, found.ranks, found.step, found.places) == ("changed while saved", (0, 1), 3, ())
    assert found.sentence().startswith("ranks 0 and 1 saved a.pt in a thread at step 3")
    assert "1 of 4 tensors" in found.sentence()


def test_a_file_that_was_written_over_is_named_with_the_line_that_mapped_it() -> None:
    job = Golden(2)
    job[1].writes("overwritten", path="best.pt", site="train.py:7")
    (found,) = ask("moments", job.ends_well().history())
    assert (found.cause, found.ranks, found.step) == ("mapped file overwritten", (1,), 1)
    assert found.places == ("train.py:7",)
    assert found.sentence().startswith("best.pt was written over while rank 1 had it mapped (train.py:7)")


def test_of_several_the_first_is_told_with_its_line() -> None:
    job = Golden(1).trains(1)
    job[0].writes("changed", path="a.pt", count=1, of=4, site="train.py:5")
    for number in (7, 8):
        job[0].writes("overwritten", path=f"{number}.pt", site=f"train.py:{number}")
    changed, overwritten = ask("moments", job.ends_well().history())
    assert (changed.places, changed.evidence["at"]) == (("train.py:5",), " (train.py:5)")
    assert (overwritten.places, overwritten.evidence["path"]) == (("train.py:7",), "7.pt")


def test_the_first_attempt_that_shows_it_counts() -> None:
    job = Golden(1).trains(2)
    job[0].writes("changed", path="a.pt", count=1, of=1, site="").writes("overwritten", path="a.pt", site="")
    job.ended_by_us().again().trains(1)
    job[0].writes("changed", path="b.pt", count=1, of=1, site="").writes("overwritten", path="b.pt", site="")
    findings = ask("moments", job.ends_well().history())
    assert [(f.cause, f.attempt, f.step) for f in findings] == [
        ("changed while saved", 0, 2),
        ("mapped file overwritten", 0, 2),
    ]


def test_nothing_is_said_of_a_job_that_saves_and_loads_nothing() -> None:
    with pytest.raises(Abstain, match="nothing was saved or loaded"):
        ask("moments", Golden(2).trains(1).ends_well().history())


def test_saves_and_loads_are_looked_at() -> None:
    job = Golden(2).trains(1)
    job[0].saves()
    assert ask("moments", job.ends_well().history()) == []
    job = Golden(2)
    job[1].restores("f")
    assert ask("moments", job.ends_well().history()) == []
