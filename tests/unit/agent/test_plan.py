"""A plan reads back as it was written, and refuses what it does not know."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from typing import Any

import pytest

from breakrank import faults
from breakrank_agent.faults import all_faults
from breakrank_agent.plan import VERSION, Plan, Schedule, strike_from_json
from breakrank_agent.protocol.fault import Strike
from breakrank_agent.protocol.trigger import POINTS, PlanError, Trigger, all_but, at


def full() -> Plan:
    """Return a plan with something in every field."""
    strikes = (
        Strike(faults.Kill(), at("one", 3, "collective", visit=2, attempt=1), ranks=(1,)),
        Strike(faults.FlipBit(parameter=2, bit=7), at(all_but(0), 2), ranks=(1, 2)),
        Strike(faults.Kill(), at(0, point="save", visit=2), ranks=(0,)),
    )
    return Plan(
        "killed_rank",
        "torch-ddp",
        "digits_ddp:main",
        seed=7,
        ranks=3,
        restarts=1,
        patience_s=1.5,
        tolerance=1e-6,
        control="same",
        data="digits",
        oracles=("ends", "control"),
        schedule=Schedule("controlled", "replay", split=True, choices=(0, 1, 1), threads=((0, 1), ())),
        strikes=strikes,
        environment={"OMP_NUM_THREADS": "1"},
    )


def test_a_plan_reads_back_as_it_was_written() -> None:
    assert Plan.loads(full().dumps()) == full()
    assert Plan.loads(full().dumps()).dumps() == full().dumps()


@pytest.mark.parametrize("name", all_faults())
def test_every_fault_reads_back_as_it_was_written(name: str) -> None:
    strike = Strike(all_faults()[name](), at(1, 2), ranks=(1,))
    assert strike_from_json(json.loads(json.dumps(strike.to_json()))) == strike


def test_plans_that_differ_have_other_keys() -> None:
    assert full().key() == full().key()
    assert dataclasses.replace(full(), seed=8).key() != full().key()


def spoil(change: Callable[[dict[str, Any]], Any]) -> str:
    """Return the text of a full plan after a change to its JSON."""
    raw = full().to_json()
    change(raw)
    return json.dumps(raw)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda p: p.update(color="red"), "the plan has an unknown field 'color'; fields are apart, case, closely"),
        (lambda p: p.pop("seed"), "the plan has no field 'seed'"),
        (lambda p: p.update(version=VERSION + 1), f"version {VERSION + 1}, this Breakrank reads {VERSION}; upgrade"),
        (
            lambda p: p.update(version=VERSION - 1),
            f"version {VERSION - 1}, this Breakrank reads {VERSION}; run",
        ),
        (lambda p: p.pop("version"), "it has no version"),
        (lambda p: p["strikes"][0].update(when=3), "the strike has an unknown field 'when'"),
        (lambda p: p["strikes"][0]["trigger"].update(seconds=3), "the trigger has an unknown field 'seconds'"),
        (lambda p: p["strikes"][0]["trigger"].update(point="lunch"), "unknown point 'lunch'; points are start, load"),
        (lambda p: p["strikes"][0]["fault"].update(name="gremlin"), "unknown fault 'gremlin'; faults are "),
        (lambda p: p["strikes"][0]["fault"].update(force=9), "fault 'kill': "),
        (lambda p: p["schedule"].update(speed=2), "the schedule has an unknown field 'speed'"),
        (lambda p: p.update(schedule=[]), "the schedule is list, not an object"),
    ],
)
def test_a_plan_that_cannot_be_used_says_what_is_wrong(change: Callable[[dict[str, Any]], Any], says: str) -> None:
    with pytest.raises(PlanError) as caught:
        Plan.loads(spoil(change), "runs/1/plan.json")
    assert str(caught.value).startswith("runs/1/plan.json: ")
    assert says in str(caught.value)


@pytest.mark.parametrize("text", ["", "{", "[]", "3", "null"])
def test_what_is_no_plan_is_refused_by_name(text: str) -> None:
    with pytest.raises(PlanError, match=r"^plan\.json: "):
        Plan.loads(text, "plan.json")


@pytest.mark.parametrize("point", POINTS)
def test_a_trigger_may_name_every_point(point: str) -> None:
    assert at(0, 1, point).point == point


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"rank": 0, "step": 1, "point": "lunch"}, "unknown point 'lunch'"),
        ({"rank": "middle", "step": 1}, "unknown rank selector 'middle'"),
        ({"rank": 0, "step": -1}, "step and attempt count from 0"),
        ({"rank": 0, "step": 1, "visit": 0}, "visit from 1"),
        ({"rank": 0, "step": 1, "attempt": -1}, "attempt count from 0"),
    ],
)
def test_a_trigger_that_cannot_be_is_refused(values: dict[str, Any], says: str) -> None:
    with pytest.raises(PlanError, match=says):
        Trigger(**values)


@pytest.mark.parametrize(
    ("rank", "chosen"),
    [(2, (2,)), ("first", (0,)), ("last", (3,)), ("all", (0, 1, 2, 3)), ("one", (1,)), (all_but(2), (0, 1, 3))],
)
def test_a_selector_chooses_its_ranks(rank: int | str, chosen: tuple[int, ...]) -> None:
    assert at(rank, 1).select(ranks=4, draw=9) == chosen


@pytest.mark.parametrize("rank", [4, -1, all_but(0)])
def test_a_selector_that_chooses_no_rank_of_the_job_is_refused(rank: int | str) -> None:
    with pytest.raises(PlanError, match="the job has ranks 0 to"):
        at(rank, 1).select(ranks=1 if rank == all_but(0) else 4, draw=0)


def test_a_strike_says_its_coordinates() -> None:
    assert Strike(faults.Kill(), at(1, 3, "collective", 2)).words() == "kill at rank 1, step 3, collective, visit 2"


@pytest.mark.parametrize(
    ("visit", "words"), [(1, "1st"), (2, "2nd"), (3, "3rd"), (4, "4th"), (11, "11th"), (22, "22nd")]
)
def test_a_trigger_without_a_step_says_which_visit_of_the_run(visit: int, words: str) -> None:
    assert at(0, point="save", visit=visit).words() == f"rank 0, {words} save of the run"
