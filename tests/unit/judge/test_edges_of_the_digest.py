"""The digest in less usual runs: what counts of each event, until which event, and how a difference is told."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from signal import SIGKILL, SIGSEGV, SIGTERM
from typing import Any

import pytest
from support.golden import Golden, sound

from breakrank.history.reader import History
from breakrank.judge.run_digest import digest, explain_difference, sequences

#: One event of each kind with all of its fields that count, each with another value than its neighbour.
COUNTED: dict[str, dict[str, Any]] = {
    "rank": {"slot": 3, "world": 5},
    "point": {
        "step": 1,
        "point": "save",
        "visit": 2,
        "op": "o",
        "group": "g",
        "shapes": [[1]],
        "dtype": "d",
        "path": "p",
    },
    "payload": {
        **{"step": 1, "of": "save", "indices": [1], "samples": ["s"], "batch": "b", "params": "q", "path": "p"},
        **{"file": "f", "done": 4},
    },
    "access": {"step": 1, "op": "o", "mode": "w", "key": "k:1", "lo": 0, "hi": 8, "turn": 3, "pick": 4},
    "sync": {"step": 1, "do": "acquire", "key": "lock@x", "turn": 3, "pick": 4},
}


def alone(kind: str, **fields: Any) -> History:
    """Return the history of one rank with one event in its middle."""
    job = Golden(1)
    job[0].writes(kind, **fields)
    return job.trains(1).ends_well().history()


def coordinates(history: History, rank: int = 0, sequence: str = "main") -> list[dict[str, Any]]:
    """Return the coordinates of one sequence."""
    return sequences(history)[0, rank, sequence]


class TestWhatCounts:
    @pytest.mark.parametrize(
        ("kind", "field"), [(kind, field) for kind, fields in COUNTED.items() for field in fields if field != "key"]
    )
    def test_each_field_of_an_event_that_is_the_same_in_each_run_counts(self, kind: str, field: str) -> None:
        other = {**COUNTED[kind], field: 7 if field == "turn" else "other"}
        assert digest(alone(kind, **COUNTED[kind])) != digest(alone(kind, **other))

    @pytest.mark.parametrize("kind", ["access", "sync"])
    def test_storage_that_is_used_first_is_the_first_whatever_its_name(self, kind: str) -> None:
        assert digest(alone(kind, **COUNTED[kind])) == digest(alone(kind, **{**COUNTED[kind], "key": "other:2"}))

    @pytest.mark.parametrize(
        ("kind", "more"),
        [
            ("point", {"site": "train.py:7", "t": 9.9, "pid": 1}),
            ("payload", {"norm": 1.5, "size": 7}),
            ("rank", {"pid": 4711, "host": "a"}),
        ],
    )
    def test_nothing_else_of_an_event_does(self, kind: str, more: dict[str, Any]) -> None:
        assert digest(alone(kind, **COUNTED[kind])) == digest(alone(kind, **{**COUNTED[kind], **more}))

    @pytest.mark.parametrize("kind", ["note", "raised", "told", "census"])
    def test_events_of_other_kinds_do_not(self, kind: str) -> None:
        assert digest(alone(kind, text="x", name="loss")) == digest(Golden(1).trains(1).ends_well().history())

    @pytest.mark.parametrize("kind", ["access", "sync"])
    def test_an_access_that_no_schedule_chose_came_as_it_came(self, kind: str) -> None:
        facts = {name: value for name, value in COUNTED[kind].items() if name not in ("turn", "pick")}
        free = digest(Golden(1).trains(1).ends_well().history())
        assert digest(alone(kind, **facts)) == free
        assert digest(alone(kind, **facts, turn=3)) != free
        assert digest(alone(kind, **facts, pick=3)) != free

    def test_storage_of_one_process_has_no_name_and_what_has_a_place_keeps_it(self) -> None:
        def named(key: str) -> dict[str, Any]:
            (one,) = [
                c for c in coordinates(alone("access", op="o", mode="w", key=key, pick=1)) if c["kind"] == "access"
            ]
            return one

        assert named("140204") == {"kind": "access", "step": 0, "op": "o", "mode": "w", "key": None, "pick": 1}
        assert named("lock@train.py")["key"] == "lock@train.py"
        assert named("8:77")["key"] == "8:77"

    def test_storage_is_numbered_by_the_turns_in_which_it_was_used_first_on_all_ranks(self) -> None:
        job = Golden().trains(1)
        job[0].accesses("r", 5, key="9:1").accesses("r", 7, key="9:3")
        job[1].accesses("w", 2, key="9:2").writes("sync", do="acquire", key="9:4", turn=9)
        job[1].accesses("w", 11, key="9:1")
        history = job.ends_well().history()
        keys = [c["key"] for rank in (0, 1) for c in coordinates(history, rank) if "key" in c]
        assert keys == [1, 2, 0, 3, 1]

    @pytest.mark.parametrize("path", ["/tmp/x/model.pt", "../model.pt"])
    def test_a_path_outside_the_working_folder_does_not_count(self, path: str) -> None:
        assert "path" not in next(
            c for c in coordinates(alone("point", point="save", visit=1, path=path)) if c.get("point") == "save"
        )
        inside = alone("point", point="save", visit=1, path="a/../model.pt")
        assert next(c["path"] for c in coordinates(inside) if c.get("point") == "save") == "a/../model.pt"

    def test_the_digest_is_made_of_every_coordinate_in_order(self) -> None:
        history = sound(ranks=2, steps=1)
        lines = [json.dumps([*key, line], sort_keys=True) for key, line in sorted(sequences(history).items())]
        assert digest(history) == hashlib.sha256("\n".join(lines).encode()).hexdigest()[:32]
        assert len(digest(history)) == 32

    def test_a_sequence_begins_with_the_rank_and_ends_with_how_it_ended(self) -> None:
        first, *_, last = coordinates(sound(ranks=2, steps=1), rank=1)
        assert first == {"kind": "rank", "slot": 1, "world": 2}
        assert last == {"kind": "end", "class": "well", "params": "p1", "state": None, "strikes": {}}


class TestUntilWhen:
    def job(self, *more: str) -> Golden:
        """Return a job in whose second step rank 1 is killed, and rank 0 then enters more points."""
        job = Golden().trains(1)
        for one in job.ranks:
            one.loads([1]).enters("collective")
        job[1].is_struck(status=-SIGKILL)
        for point in more:
            job[0].enters(point)
        return job

    def test_all_of_a_run_that_ended_well_counts_beyond_its_last_collective(self) -> None:
        points = [c.get("point") for c in coordinates(sound(ranks=2, steps=1)) if c["kind"] == "point"]
        assert points == ["load", "forward", "backward", "collective", "optimize", "step", "end"]

    def test_a_survivor_counts_up_to_the_collective_in_which_it_can_first_notice(self) -> None:
        job = self.job("optimize", "collective", "optimize")
        job[0].reports("RuntimeError")
        points = [c for c in coordinates(job.history()) if c["kind"] == "point"]
        assert (points[-1]["point"], points[-1]["step"]) == ("collective", 2)
        assert sum(p["point"] == "collective" for p in points) == 2

    def test_a_rank_that_crashed_early_bounds_what_counts_of_the_others(self) -> None:
        job = Golden(3).trains(1)
        job[2].dies(SIGSEGV)
        job.size = 3
        for rank in (0, 1):
            job[rank].loads([1]).enters("collective").reports("RuntimeError")
        for rank in (0, 1):
            points = [c for c in coordinates(job.history(), rank) if c["kind"] == "point"]
            assert (points[-1]["point"], points[-1]["step"]) == ("collective", 1)

    def test_a_rank_that_was_struck_early_and_lived_on_counts_to_its_strike_at_least(self) -> None:
        job = Golden().trains(1)
        job[1].enters("load").is_struck()
        job[1].enters("forward").reports("ValueError")
        job[0].reports("RuntimeError")
        mine = [c["point"] for c in coordinates(job.history(), 1) if c["kind"] == "point"]
        assert mine[-1] == "load"
        assert [c for c in coordinates(job.history(), 1) if c["kind"] == "strike"] == [
            {"kind": "strike", "step": 2, "strike": 0}
        ]

    def test_a_rank_that_was_struck_again_counts_to_its_first_strike_alone(self) -> None:
        job = Golden().trains(1)
        job[1].enters("load").is_struck()
        job[1].enters("forward").is_struck(strike=1)
        job[1].reports("ValueError")
        job[0].reports("RuntimeError")
        mine = [c["point"] for c in coordinates(job.history(), 1) if c["kind"] == "point"]
        assert mine[-1] == "load"

    def test_strikes_stand_with_the_end_by_where_each_fired_first(self) -> None:
        job = Golden(1).trains(1)
        job[0].enters("load").is_struck()
        job[0].enters("forward").is_struck().is_struck(strike=1)
        job[0].writes("strike", strike=2, phase="armed").ends()
        assert coordinates(job.history())[-1]["strikes"] == {"0": [2, "load", 1], "1": [2, "forward", 1]}

    def test_a_strike_that_was_armed_only_does_not_count(self) -> None:
        def armed(strike: int) -> str:
            job = Golden(1)
            job[0].writes("strike", strike=strike, phase="armed")
            return digest(job.trains(1).ends_well().history())

        assert armed(0) == armed(1)

    def test_a_thread_with_collectives_counts_where_a_rank_was_struck_and_one_without_does_not(self) -> None:
        job = Golden().trains(1)
        for one in job.ranks:
            one.writes("point", point="collective", visit=1, op="o", seq="thread-1")
            one.writes("point", point="write", visit=1, path="p", seq="thread-2")
        for one in job.ranks:
            one.loads([1]).enters("collective")
        job[1].is_struck(status=-SIGKILL)
        job[0].reports("RuntimeError")
        assert {key for key in sequences(job.history()) if key[2] != "main"} == {(0, 0, "thread-1"), (0, 1, "thread-1")}

    def test_each_attempt_has_its_own_bound(self) -> None:
        job = self.job()
        job[0].reports("RuntimeError")
        job.again().trains(2).ends_well()
        found = sequences(job.history())
        assert found[0, 0, "main"][-1]["class"] == "RuntimeError"
        assert found[1, 0, "main"][-1] == {"kind": "end", "class": "well", "params": "p2", "state": None, "strikes": {}}
        assert sum(c.get("point") == "collective" for c in found[1, 0, "main"]) == 2


class TestLaunchers:
    def failed(self, *ends: str) -> History:
        """Return a job under a launcher; each rank has made one collective more than its predecessor."""
        job = Golden(len(ends)).trains(1)
        for one, end in zip(job.ranks, ends, strict=True):
            for _ in range(one.rank):
                one.enters("collective")
            if end == "reports":
                one.reports("ValueError")
            elif end == "crashes":
                one.dies(SIGSEGV)
            elif end == "struck":
                one.is_struck(status=-SIGKILL)
            elif end == "well":
                one.ends()
            else:
                one.exits(-SIGTERM, by_us=True)
        job.says("launcher", attempt=0, status=1, ended=False, blames=[], closed=[])
        return job.history()

    @pytest.mark.parametrize(
        ("ends", "collectives"),
        [
            # The rank that failed first had entered so many collectives, of which the last is not counted.
            (("ended", "ended", "struck"), [1, 2, 2]),
            (("reports", "ended", "crashes"), [1, 2, 2]),
            (("ended", "reports", "ended"), [1, 1, 1]),
            (("reports", "reports", "reports"), [0, 0, 0]),
            (("ended", "crashes", "struck"), [1, 2, 2]),
            (("well", "reports", "ended"), [1, 1, 1]),
        ],
    )
    def test_what_counts_ends_a_collective_before_the_rank_that_failed_first(
        self, ends: tuple[str, ...], collectives: list[int]
    ) -> None:
        history = self.failed(*ends)
        counted = [sum(c.get("point") == "collective" for c in coordinates(history, rank)) for rank in range(3)]
        # A rank that was struck is followed to its strike, beyond that.
        if "struck" in ends:
            counted[ends.index("struck")] = min(counted[ends.index("struck")], collectives[-1])
        assert counted == collectives

    def counted(self, job: Golden) -> list[int]:
        """Return how many collectives of each rank count, where a launcher has ended the job."""
        job.says("launcher", attempt=0, status=1, ended=False, blames=[], closed=[])
        ranks = range(job.size)
        return [sum(c.get("point") == "collective" for c in coordinates(job.history(), rank)) for rank in ranks]

    def test_of_several_that_reported_the_first_to_do_so_failed_first(self) -> None:
        job = Golden(3).trains(1)
        for one in job.ranks:
            for _ in range(one.rank):
                one.enters("collective")
        for rank in (2, 0, 1):
            job[rank].reports("ValueError")
        assert self.counted(job) == [1, 2, 2]

    def test_of_several_that_crashed_the_first_to_fall_silent_failed_first(self) -> None:
        job = Golden(2).trains(1)
        job[1].enters("optimize")
        job[0].enters("collective").enters("collective")
        job[1].enters("optimize").dies(SIGSEGV)
        job[0].dies(SIGSEGV)
        assert self.counted(job) == [2, 1]
        job = Golden(2).trains(1)
        job[1].enters("load").dies(SIGSEGV)
        job[0].enters("collective").enters("collective").dies(SIGSEGV)
        assert self.counted(job) == [0, 0]

    def test_a_rank_of_which_nothing_is_on_record_failed_first(self) -> None:
        job = Golden(2).trains(2)
        for one in job.ranks:
            one.dies(SIGSEGV)
        job.says("launcher", attempt=0, status=1, ended=False, blames=[], closed=[])
        history = job.history()
        mute = dataclasses.replace(history.ranks[0, 1], events=())
        found = sequences(dataclasses.replace(history, ranks={**history.ranks, (0, 1): mute}))
        assert [c.get("point") for c in found[0, 0, "main"] if c["kind"] == "point"] == []

    def test_ranks_that_reported_and_that_were_ended_have_both_failed(self) -> None:
        history = self.failed("reports", "ended", "crashes")
        assert [coordinates(history, rank)[-1] for rank in range(3)] == [
            {"kind": "end", "class": "failed", "strikes": {}},
            {"kind": "end", "class": "failed", "strikes": {}},
            {"kind": "end", "class": "SIGSEGV", "strikes": {}},
        ]


class TestEnds:
    def end(self, job: Golden, rank: int = 0) -> Any:
        return coordinates(job.history(), rank)[-1]["class"]

    def test_each_way_to_end_has_its_name(self) -> None:
        job = Golden(7).trains(1)
        job[0].exits(3)
        job[1].writes("report", type="", message="", code=4, frames=[]).exits(4)
        job[2].reports("ValueError")
        job[3].dies(SIGSEGV)
        job[4].is_struck(status=-SIGKILL)
        job[5].is_struck(status=9)
        job[6].is_struck()
        job.ended_by_us()
        assert [self.end(job, rank) for rank in range(7)] == [
            *("exit code 3", "exit code 4", "ValueError", "SIGSEGV", "struck: SIGKILL", "struck: 9", "struck"),
        ]

    def test_a_rank_that_we_ended_has_the_name_of_its_class(self) -> None:
        job = Golden(2).trains(1)
        job[1].reports("ValueError")
        job[0].enters("collective")
        assert self.end(job.ended_by_us()) == "collateral"
        waiting = Golden(2).trains(1)
        waiting[0].enters("collective")
        assert self.end(waiting.hangs([0], "deadline")) == "hung"

    def test_a_rank_that_reported_has_its_parameters_and_one_that_was_ended_has_none(self) -> None:
        job = Golden(2).trains(1)
        job[0].reports("ValueError")
        assert coordinates(job.ended_by_us().history(), 0)[-1] == {
            **{"kind": "end", "class": "ValueError", "params": "p1", "state": None, "strikes": {}}
        }
        assert "params" not in coordinates(job.history(), 1)[-1]


class TestExplaining:
    def apart(self, one: Golden, other: Golden) -> str:
        return explain_difference(one.ends_well().history(), other.ends_well().history())

    def test_the_earliest_difference_of_all_ranks_is_told(self) -> None:
        one, other = Golden(2).trains(1), Golden(2).trains(1)
        one[0].trains([1], "a").trains([2])
        other[0].trains([1], "a").trains([3])
        one[1].trains([1], "a")
        other[1].trains([1], "b")
        assert self.apart(one, other) == (
            "attempt 0, rank 1, step 2: params of the payload of step is a in one run, b in the other"
        )

    def test_a_difference_in_a_helper_thread_names_the_thread(self) -> None:
        one, other = Golden(1).trains(1), Golden(1).trains(1)
        one[0].writes("point", point="write", visit=1, path="a", seq="thread-1")
        other[0].writes("point", point="write", visit=1, path="b", seq="thread-1")
        assert (
            self.apart(one, other)
            == "attempt 0, rank 0, thread-1, step 0: path of write is a in one run, b in the other"
        )

    def test_of_differences_at_one_step_of_a_rank_that_of_the_main_thread_is_told(self) -> None:
        one, other = Golden(1), Golden(1)
        for job, path in ((one, "a"), (other, "b")):
            job[0].writes("point", point="write", visit=1, path=path, seq="other-1")
            job[0].writes("point", point="write", visit=1, path=path)
        assert self.apart(one, other) == "attempt 0, rank 0, step 0: path of write is a in one run, b in the other"

    def test_a_thread_that_only_one_run_had_is_told(self) -> None:
        one, other = Golden(1).trains(1), Golden(1).trains(1)
        other[0].writes("point", point="write", visit=1, path="b", seq="thread-1")
        assert (
            self.apart(one, other) == "attempt 0, rank 0, thread-1, step 0: nothing more in one run, write in the other"
        )

    def test_a_rank_that_only_one_run_had_is_told(self) -> None:
        assert explain_difference(sound(ranks=2, steps=1), sound(ranks=1, steps=1)) == (
            "attempt 0, rank 0, step 0: world of the rank is 2 in one run, 1 in the other"
        )

    def test_visits_strikes_accesses_and_ends_have_their_names(self) -> None:
        def job(*events: tuple[str, dict[str, Any]]) -> Golden:
            made = Golden(1).trains(1)
            for kind, fields in events:
                made[0].writes(kind, **fields)
            return made

        visit = ("point", {"point": "save", "visit": 2})
        access = ("access", {"op": "aten::add", "mode": "w", "key": "k:1", "pick": 1})
        sync = ("sync", {"do": "acquire", "key": "k:1", "pick": 1})
        strike = ("strike", {"strike": 3, "phase": "fired", "point": "save", "visit": 1})
        assert self.apart(job(visit), job(access)).endswith(
            "save (visit 2) in one run, the access of aten::add in the other"
        )
        assert self.apart(job(sync), job(strike)).endswith("the sync in one run, strike 3 in the other")
        assert self.apart(job(sync), job()).endswith("the sync in one run, end in the other")

    def test_what_ended_otherwise_is_told_with_both_ends(self) -> None:
        one, other = Golden(1).trains(1), Golden(1).trains(1)
        one[0].ends(state={"updates": 6})
        other[0].ends(state={"updates": 7})
        assert self.apart(one, other) == (
            "attempt 0, rank 0, step 1: state of the end is {'updates': 6} in one run, {'updates': 7} in the other"
        )

    def test_of_results_alone_the_order_of_accesses_does_not_count(self) -> None:
        one, other = Golden(1).trains(1), Golden(1).trains(1)
        one[0].accesses("w", 1, key="k:1")
        assert explain_difference(one.ends_well().history(), other.ends_well().history(), results=True) == ""
        assert explain_difference(one.history(), other.history()) != ""
