"""The placement of variables and work: a place that the program does not intend is named, and nothing else is."""

from __future__ import annotations

from typing import Any

import pytest
from support import asking
from support.golden import Golden, sound

from breakrank.history.reader import History
from breakrank.oracles import Abstain
from breakrank.verdict import Finding

MIRRORED = {"kind": "MirroredStrategy", "replicas": 2, "devices": ["CPU:0", "CPU:1"], "ran": True, "shared": False}
WORKERS = {"kind": "MultiWorkerMirroredStrategy", "replicas": 2, "devices": ["CPU:0"], "ran": True, "shared": False}
ALONE = {"on": {"CPU:0": 2}, "there": ["CPU:0"]}


#: The card, of two, that a program trains on.
CARD = {"strategies": [], "on": {"GPU:0": 2}, "there": ["CPU:0", "GPU:0", "GPU:1"]}


def ask(history: History, control: History | None = None) -> list[Finding]:
    return asking.ask("placement", history, control)


def running(**where: Any) -> History:
    """Return the records of one rank whose variables are placed so."""
    job = Golden(1).trains(1)
    job[0].is_placed(**where)
    return job.ends_well().history()


def placed(**where: Any) -> list[Finding]:
    """Return the findings on one rank whose variables are placed so."""
    return ask(running(**where))


def test_abstains_where_nobody_recorded_a_place():
    with pytest.raises(Abstain, match="no rank recorded where"):
        ask(sound())


@pytest.mark.parametrize(
    "where",
    [
        {},
        {"strategies": [], **ALONE},
        {"strategies": [], "on": {"GPU:0": 2}, "there": ["CPU:0", "GPU:0"]},
        {"strategies": [WORKERS], **ALONE},
        # A strategy that never ran, but has one replica.
        {"strategies": [{**MIRRORED, "replicas": 1, "devices": ["CPU:0"], "ran": False}], **ALONE},
        # Variables beside a strategy whose replicas do not assign to them: a reduced gradient is applied once.
        {"plain": ["weights"], "on": {"CPU:0": 1}},
    ],
)
def test_leaves_sound_places_alone(where):
    assert placed(**where) == []


@pytest.mark.parametrize(
    ("where", "cause", "sentence"),
    [
        (
            {"asked": [{"device": "GPU:9", "site": "train.py:7"}], "strategies": [], **ALONE},
            "device missing",
            "rank 0 asked for GPU:9, which is not there, and trained on CPU:0 at step 1",
        ),
        (
            {"strategies": [{**MIRRORED, "devices": ["GPU:0", "CPU:0"]}]},
            "device missing",
            "rank 0 asked for GPU:0, which is not there, and trained on CPU:0 and CPU:1 at step 1",
        ),
        (
            {"on": {"CPU:0": 4}, "strategies": []},
            "single device",
            "all that rank 0 trained at step 1 lay on CPU:0, and nothing of it on CPU:1",
        ),
        (
            {"strategies": [{**MIRRORED, "ran": False}]},
            "strategy bypassed",
            "rank 0 made step 1 past the MirroredStrategy: of 2 replicas one computed",
        ),
        (
            {"strategies": [{**MIRRORED, "shared": True}]},
            "batch not split",
            "rank 0 handed one batch to all 2 replicas of the MirroredStrategy at step 1",
        ),
        (
            {"aliased": ["hidden"], "strategies": [], **ALONE},
            "aliased parameters",
            "rank 0 trained hidden twice at step 1: two layers have one memory",
        ),
    ],
)
def test_objects_to(where, cause, sentence):
    (finding,) = placed(**where)
    assert (finding.cause, finding.ranks, finding.step, finding.sentence()) == (cause, (0,), 1, sentence)


@pytest.mark.parametrize(
    ("control", "found"),
    [(None, []), (CARD, []), ({**CARD, "on": {"GPU:0": 1, "GPU:1": 1}}, ["single device"])],
    ids=["no-control", "control-on-one", "control-on-both"],
)
def test_objects_to_a_card_that_is_idle_only_where_the_control_uses_it(control, found):
    model = running(**control) if control else None
    assert [finding.cause for finding in ask(running(**CARD), model)] == found


def test_objects_to_a_variable_beside_the_strategy_that_each_replica_updates():
    job = Golden(1).trains(1)
    job[0].writes("assigned", parts=[0], how="replica_after_replica", site="train.py:9")
    job[0].is_placed(plain=["weights"], on={"CPU:0": 1})
    (finding,) = ask(job.ends_well().history())
    assert (finding.cause, finding.places) == ("variable not mirrored", ("train.py:9",))


@pytest.mark.parametrize(("params", "found"), [(("a", "b"), ["variable not mirrored"]), (("a", "a"), [])])
def test_objects_to_variables_beside_the_strategy_of_several_workers_if_they_part(params, found):
    job = Golden()
    for one in job.ranks:
        one.trains([one.rank], params=params[one.rank])
        one.is_placed(plain=["weights"], strategies=[WORKERS], **ALONE)
    assert [finding.cause for finding in ask(job.ends_well().history())] == found


@pytest.mark.parametrize(("sizes", "idle"), [([4, 0], "replica 1 of rank 0"), ([4, 4], ""), ([0, 0], "")])
def test_objects_to_a_replica_with_an_empty_batch_while_another_has_a_full_one(sizes, idle):
    job = Golden(1)
    job[0].enters("load").writes("payload", of="load", samples=[], batch="b", sizes=sizes, shapes=[])
    job[0].is_placed()
    found = ask(job.ends_well().history())
    assert [finding.evidence["idle"] for finding in found] == [idle] * bool(idle)


def test_objects_to_a_worker_with_an_empty_batch():
    job = Golden()
    for one in job.ranks:
        shapes = [[0, 64], [0]] if one.rank else [[8, 64], [8]]
        one.enters("load").writes("payload", of="load", samples=[], batch=str(shapes), shapes=shapes)
    (finding,) = ask(job.ends_well().history())
    assert (finding.cause, finding.ranks, finding.step) == ("idle replica", (1,), 1)
