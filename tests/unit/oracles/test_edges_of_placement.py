"""Places of variables and batches: which ranks are named together, and which are left alone."""

from __future__ import annotations

from typing import Any

import pytest
from support.asking import ask
from support.golden import Golden

from breakrank.history.reader import History
from breakrank.verdict import Finding

STRATEGY = {"kind": "MirroredStrategy", "replicas": 2, "devices": ["CPU:0", "CPU:1"], "ran": True, "shared": False}
ALONE = {"on": {"CPU:0": 2}, "there": ["CPU:0"], "strategies": []}


def placed(*wheres: dict[str, Any], steps: int = 1) -> History:
    """Return a job whose ranks recorded these places after their first steps."""
    job = Golden(len(wheres)).trains(steps)
    for one, where in zip(job.ranks, wheres, strict=True):
        one.is_placed(**where)
    return job.ends_well().history()


def loaded(*steps: list[Any]) -> list[Finding]:
    """Return what is found on batches, by step and rank: sizes of replicas, or a payload."""
    job = Golden(len(steps[0]))
    for batches in steps:
        for one, batch in zip(job.ranks, batches, strict=True):
            told = batch if isinstance(batch, dict) else {"sizes": batch}
            one.enters("load").writes("payload", of="load", samples=[], batch="b", **told)
        for one in job.ranks:
            one.ends_step()
    job.ranks[0].is_placed(**ALONE)
    return ask("placement", job.ends_well().history())


class TestWhoIsNamed:
    def test_ranks_with_the_same_wrong_place_share_a_finding(self) -> None:
        wrong = {"aliased": ["hidden", "head"], **ALONE}
        (found,) = ask("placement", placed(wrong, ALONE, wrong, steps=2))
        assert found == Finding("placement", "aliased parameters", (0, 2), 2, 0, (), {"names": "hidden and head"})

    def test_of_one_cause_the_first_record_is_told(self) -> None:
        job = Golden(2).trains(1)
        job[1].is_placed(aliased=["a"], **ALONE)
        job.trains(1)
        job[0].is_placed(aliased=["b"], **ALONE)
        job[0].is_placed(aliased=["c"], **ALONE)
        found = ask("placement", job.ends_well().history())
        assert [(f.cause, f.ranks, f.step) for f in found] == [("aliased parameters", (0,), 2)]

    def test_causes_of_one_record_are_told_each(self) -> None:
        found = ask("placement", placed({"aliased": ["a"], "strategies": [{**STRATEGY, "ran": False, "shared": True}]}))
        assert [f.cause for f in found] == ["strategy bypassed", "batch not split", "aliased parameters"]

    def test_places_of_an_earlier_attempt_are_not_judged(self) -> None:
        job = Golden(1).trains(1)
        job[0].is_placed(aliased=["a"], **ALONE)
        job.ended_by_us().again().trains(1)
        job[0].is_placed(**ALONE)
        assert ask("placement", job.ends_well().history()) == []
        job[0].is_placed(aliased=["a"], **ALONE)
        assert [f.attempt for f in ask("placement", job.history())] == [1]

    def test_batches_are_judged_where_no_place_is_on_record(self) -> None:
        job = Golden(1)
        job[0].enters("load").writes("payload", of="load", samples=[], batch="b", sizes=[4, 0])
        assert [f.cause for f in ask("placement", job.ends_well().history())] == ["idle replica"]


class TestDevices:
    def test_the_first_device_that_was_asked_for_in_vain_is_told_with_its_line(self) -> None:
        asked = [{"device": "GPU:9", "site": "train.py:7"}, {"device": "GPU:8", "site": "train.py:8"}]
        (found,) = ask("placement", placed({**ALONE, "asked": asked}))
        assert (found.places, found.evidence) == (
            ("train.py:7",),
            {"device": "GPU:9", "site": "train.py:7", "on": "CPU:0"},
        )

    def test_the_first_device_of_a_strategy_that_is_not_there_is_told_without_a_line(self) -> None:
        gone = {**STRATEGY, "devices": ["CPU:0", "GPU:1", "GPU:0"]}
        (found,) = ask("placement", placed({"strategies": [gone]}))
        assert (found.places, found.evidence) == ((), {"device": "GPU:1", "site": "", "on": "CPU:0 and CPU:1"})

    @pytest.mark.parametrize(
        ("where", "idle"),
        [
            ({"on": {"CPU:0": 2}, "there": ["CPU:0", "CPU:1", "CPU:2"], "strategies": []}, "CPU:1 and CPU:2"),
            ({"on": {"CPU:0": 2}, "there": ["CPU:0", "GPU:0"], "strategies": []}, ""),
            ({"on": {"CPU:0": 1, "CPU:1": 1}, "strategies": []}, ""),
            ({"on": {"CPU:0": 2}, "strategies": [STRATEGY]}, ""),
            ({"on": {"CPU:0": 2}, "strategies": [{**STRATEGY, "replicas": 1, "devices": ["CPU:0"]}]}, "CPU:1"),
        ],
    )
    def test_a_device_of_the_same_kind_on_which_nothing_lies_is_idle_unless_a_strategy_spreads(
        self, where: dict[str, Any], idle: str
    ) -> None:
        found = ask("placement", placed(where))
        assert [(f.cause, f.evidence) for f in found] == (
            [("single device", {"device": "CPU:0", "idle": idle})] if idle else []
        )


class TestStrategies:
    @pytest.mark.parametrize(
        "spared",
        [{"replicas": 1, "devices": ["CPU:0"], "ran": False, "shared": True}, {"ran": True}, {"shared": False}],
    )
    def test_a_strategy_that_is_as_it_should_be_is_left_alone(self, spared: dict[str, Any]) -> None:
        assert ask("placement", placed({"strategies": [{**STRATEGY, **spared}]})) == []

    def test_a_strategy_whose_variables_lie_beside_it_was_not_bypassed(self) -> None:
        assert ask("placement", placed({"plain": ["w"], "strategies": [{**STRATEGY, "ran": False}]})) == []

    def test_of_several_strategies_each_one_is_looked_at(self) -> None:
        shared = {**STRATEGY, "kind": "Other", "shared": True, "devices": ["CPU:0", "CPU:1"]}
        (found,) = ask("placement", placed({"strategies": [STRATEGY, shared]}))
        assert found.evidence == {"kind": "Other", "replicas": 2}

    @pytest.mark.parametrize(
        ("how", "plain", "strategy", "objects"),
        [
            ("replica_after_replica", ["a", "b"], STRATEGY, True),
            ("once", ["a", "b"], STRATEGY, False),
            ("replica_after_replica", [], STRATEGY, False),
            ("replica_after_replica", ["a"], {**STRATEGY, "replicas": 1}, False),
        ],
    )
    def test_a_variable_beside_a_strategy_of_several_is_harmed_if_each_replica_assigns_to_it(
        self, how: str, plain: list[str], strategy: dict[str, Any], objects: bool
    ) -> None:
        job = Golden(1).trains(1)
        job[0].writes("assigned", parts=[0], how=how, site="train.py:9")
        job[0].is_placed(plain=plain, strategies=[strategy])
        found = ask("placement", job.ends_well().history())
        evidence = {"kind": "MirroredStrategy", "names": "a and b", "site": "train.py:9"}
        assert [(f.cause, f.evidence) for f in found] == ([("variable not mirrored", evidence)] if objects else [])

    def test_a_variable_beside_a_strategy_whose_workers_part_has_no_line(self) -> None:
        job = Golden(2)
        for one in job.ranks:
            one.trains([one.rank], f"p{one.rank}").is_placed(plain=["w"])
        (found,) = ask("placement", job.ends_well().history())
        assert (found.cause, found.ranks, found.places) == ("variable not mirrored", (0, 1), ())
        assert found.evidence == {"kind": "MirroredStrategy", "names": "w", "site": ""}

    @pytest.mark.parametrize(("plain", "objects"), [(["b"], True), (["a", "b"], False), (["b", "b"], True)])
    def test_variables_beside_a_strategy_that_stay_alike_are_held_so_by_hand(
        self, plain: list[str], objects: bool
    ) -> None:
        job = Golden(2)
        for one in job.ranks:
            one.writes("names", names=["a", "b"], eps=1e-7)
            one.writes("payload", of="step", step=1, params=f"p{one.rank}", parts=["same", f"own{one.rank}"])
            one.is_placed(plain=plain)
        found = ask("placement", job.ends_well().history())
        names = "b (2 variables)" if plain == ["b", "b"] else "b"
        assert [f.evidence["names"] for f in found] == ([names] if objects else [])

    def test_ranks_that_part_at_different_steps_do_not_part(self) -> None:
        job = Golden(2)
        job[0].trains([0], "a").trains([1], "b")
        job[1].trains([2], "a").trains([3], "b")
        for one in job.ranks:
            one.is_placed(plain=["w"])
        assert ask("placement", job.ends_well().history()) == []


class TestIdleReplicas:
    def test_names_each_replica_and_how_many_samples_the_others_had(self) -> None:
        (found,) = loaded([[4, 4], [4, 4]], [[0, 4], [3, 0]], [[0, 9], [9, 9]])
        assert found == Finding(
            *("placement", "idle replica", (0, 1), 2, 0, ()),
            {"idle": "replica 0 of rank 0 and replica 1 of rank 1", "samples": 7},
        )

    def test_a_size_that_is_not_known_is_neither_empty_nor_full(self) -> None:
        assert loaded([[4, None], [None, None]]) == []
        (found,) = loaded([[4, None], [None, 0]])
        assert found.evidence == {"idle": "replica 0 of rank 1", "samples": 4}

    def test_without_sizes_the_first_shape_says_how_many_samples_there_are(self) -> None:
        (found,) = loaded([{"shapes": [[], [8, 64], [0]]}, {"shapes": [[0, 64]]}])
        assert found.evidence == {"idle": "replica 0 of rank 1", "samples": 8}
        assert loaded([{"shapes": None}, {}]) == []

    def test_an_idle_replica_of_a_later_attempt_is_told_with_it(self) -> None:
        job = Golden(1).trains(1).ended_by_us().again()
        job[0].enters("load").writes("payload", of="load", samples=[], batch="b", sizes=[4, 0])
        assert [f.attempt for f in ask("placement", job.ends_well().history())] == [1]

    def test_where_all_have_empty_batches_none_is_idle(self) -> None:
        assert loaded([[0, 0], [0, 0]]) == []
