"""The ends of forward and backward passes: on record where a plan asks for them, in their order, and drawn."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from support.golden import Golden

from breakrank.doctor import missing_framework
from breakrank.history.reader import RankHistory
from breakrank.timeline.draw import draw
from breakrank.timeline.model import DONE, PHASE

PASSES = [("point", "forward"), ("passed", "forward"), ("point", "backward"), ("passed", "backward")]
LACK = missing_framework("tensorflow")
JOBS = pytest.mark.parametrize(
    ("program", "values"),
    [
        ("small:train", {"steps": 2}),
        pytest.param(
            "updates:applied_in_a_function",
            {"framework": "tensorflow", "ranks": 1, "steps": 2, "deadline_s": 30.0},
            marks=pytest.mark.skipif(bool(LACK), reason=LACK),
        ),
    ],
)


def passes(lived: RankHistory) -> Sequence[tuple[str, str]]:
    """Return what is on record of forward and backward passes."""
    told = [e for e in lived.events if e["kind"] in ("point", "passed")]
    return [(e["kind"], e["point"]) for e in told if e["point"] in ("forward", "backward")]


@JOBS
def test_each_pass_has_its_end(run, program, values):
    _, saved = run(program, **values)
    assert [passes(lived) for lived in saved.history.last] == [2 * PASSES] * len(saved.history.last)
    drawn = [bar for bar in draw(saved.history).bars if bar.kind == PHASE and bar.name in ("forward", "backward")]
    assert drawn and {bar.ending for bar in drawn} == {DONE}


@JOBS
def test_nothing_of_it_is_on_record_where_it_is_not_asked_for(run, program, values):
    _, saved = run(program, evidence=(), **values)
    assert [passes(lived) for lived in saved.history.last] == [2 * PASSES[::2]] * len(saved.history.last)


def test_the_end_of_a_pass_within_which_another_phase_began_changes_nothing():
    job = Golden(ranks=1)
    job[0].enters("forward").enters("load")
    job[0].writes("passed", point="forward").exits(0)
    _, load = [bar for bar in draw(job.history()).bars if bar.kind == PHASE]
    assert (load.name, load.ending == DONE) == ("load", False)
