"""Real ranks record gradients that are not reduced, and the verdict has the right cause, or none."""

from __future__ import annotations

import pytest

from breakrank.plan.scenario import DEFAULT_ORACLES
from breakrank.verdict import Outcome
from breakrank_agent import faults
from breakrank_agent.protocol.trigger import at

FLIP = faults.FlipBit(parameter=0) @ at(rank=1, step=2)


def first(result):
    """Return the first finding, and the names of the parameters that diverged."""
    finding = result.verdict.findings[0]
    return finding.oracle, finding.cause, finding.ranks, finding.step, finding.evidence.get("parameters")


def test_a_wrapper_that_waits_for_a_layer_nobody_uses_reduces_none(run):
    result, _ = run("wrapping:spare_layer_unsaid", steps=1)
    assert result.verdict.outcome is Outcome.SILENT
    assert first(result) == ("replicas", "reduction incomplete", (0, 1), 1, ["used.weight"])
    assert "for lack of spare.weight, spare.bias" in result.verdict.sentence()


@pytest.mark.parametrize("program", ["spare_layer", "accumulates"])
def test_a_flipped_bit_is_not_explained_by_what_a_sound_program_does(run, program):
    result, _ = run(f"wrapping:{program}", FLIP)
    assert first(result) == ("replicas", "replicas differ", (1,), 2, ["used.weight"])


@pytest.mark.parametrize("program", ["spare_layer", "accumulates", "many_layers", "compiled"])
def test_nothing_is_objected_to_where_all_is_reduced(run, program):
    result, saved = run(f"wrapping:{program}")
    assert result.verdict.outcome is Outcome.SURVIVED, result.verdict
    told = [e for lived in saved.history.last for e in lived.of_kind("unsynced")]
    assert bool(told) == (program == "spare_layer")
    assert all(set(e) & {"bypassed", "unreduced", "unwrapped", "unfinished"} == set() for e in told)


def test_many_parameters_are_recorded_several_together(run):
    _, saved = run("wrapping:many_layers", steps=1)
    (names,) = saved.history.last[0].of_kind("names")
    (step,) = saved.history.last[0].payloads("step")
    assert len(names["names"]) == len(step["parts"]) == 150
    assert names["names"][1] == "1.weight and the 1 after it"


def test_gradients_that_are_added_up_and_not_averaged_are_not_what_one_rank_has(run):
    result, saved = run("small:train", oracles=(*DEFAULT_ORACLES, "reference"))
    assert result.verdict.outcome is Outcome.SILENT
    assert first(result)[:4] == ("reference", "reference mismatch", (0, 1), 1)
    assert saved.reference.world(0) == 1


def test_a_zeroed_gradient_is_seen_by_another_reading_and_parts_the_replicas(run):
    result, saved = run("small:train", faults.ZeroGradients() @ at(rank=1, step=3, point="optimize"))
    found = [(f.cause, f.ranks, f.step) for f in result.verdict.findings]
    assert found[:2] == [("parameters frozen", (1,), 3), ("replicas differ", (1,), 3)]
    (landed,) = [e for e in saved.history.seen("strike") if e["phase"] == "landed"]
    assert landed["witness"].startswith("gradients read again")
