"""Accesses that nothing orders, to tensors and to files: which pair is told, in which words, and what is harmless."""

from __future__ import annotations

from typing import Any

import pytest
from support.asking import ask
from support.golden import Golden

from breakrank.oracles import Abstain
from breakrank.verdict import Finding

Touch = tuple[int, str, dict[str, Any]]


def touched(*touches: Touch, ranks: int = 2, turns: bool = False) -> list[Finding]:
    """Return what `race` finds on accesses: rank, mode, facts; in turns, if there is a schedule."""
    job = Golden(ranks).trains(1)
    for turn, (rank, mode, facts) in enumerate(touches):
        facts = {"lo": 0, "hi": 8, **facts}
        job[rank].accesses(mode, turn if turns else None, **facts)
    return ask("race", job.ends_well().history())


def at(site: str, **more: Any) -> dict[str, Any]:
    return {"site": site, **more}


class TestAbstaining:
    @pytest.mark.parametrize(
        ("oracle", "what"),
        [
            ("race", "no reads and writes of tensors are on record"),
            ("files", "no reads and writes of files are on record"),
        ],
    )
    def test_says_why_and_knows_a_run_in_which_nothing_was_touched(self, oracle: str, what: str) -> None:
        job = Golden().trains(1)
        job[0].writes("note", text="x")
        with pytest.raises(Abstain) as said:
            ask(oracle, job.history())
        assert str(said.value) == what
        job[1].writes("note", text="accesses are recorded", accesses=True)
        assert ask(oracle, job.history()) == []

    def test_accesses_to_files_are_none_to_tensors(self) -> None:
        job = Golden().trains(1)
        job[0].accesses("w", None, "open", "log")
        with pytest.raises(Abstain):
            ask("race", job.history())
        assert ask("files", job.history()) == []

    def test_accesses_of_an_earlier_attempt_are_on_record(self) -> None:
        job = Golden().trains(1)
        job[0].accesses("r", None, lo=0, hi=8)
        job.ended_by_us().again().trains(1).ends_well()
        assert ask("race", job.history()) == []


class TestDataRaces:
    def test_says_who_does_what_where_and_which_bytes(self) -> None:
        (found,) = touched(
            (0, "w", at("a.py:1", op="aten::add_.Tensor", lo=0, hi=12)),
            (1, "r", at("b.py:2", op="aten::mm/out", lo=4, hi=20)),
        )
        assert found.evidence == {
            "one": "rank 0 writes in aten::add (a.py:1)",
            "other": "rank 1 reads in aten::mm (b.py:2)",
            "what": "bytes 4 to 12 of a tensor",
            "pairs": 1,
            "events": [
                {"rank": 0, "seq": "main", "step": 1, "op": "aten::add_.Tensor", "mode": "w", "site": "a.py:1"},
                {"rank": 1, "seq": "main", "step": 1, "op": "aten::mm/out", "mode": "r", "site": "b.py:2"},
            ],
        }
        assert (found.cause, found.ranks, found.step, found.attempt) == ("data race", (0, 1), 1, 0)
        assert found.places == ("a.py:1", "b.py:2")

    def test_where_no_line_is_known_the_operator_is_the_place(self) -> None:
        (found,) = touched((0, "rw", {"op": "mine::MAX_"}), (1, "r", {"op": "aten::copy_"}))
        assert found.places == ("mine::MAX_", "aten::copy_")
        assert found.evidence["one"] == "rank 0 updates in mine::MAX (mine::MAX_)"

    @pytest.mark.parametrize(
        ("beside", "words"),
        [
            (False, "rank 0 writes in allreduce (a.py:1)"),
            (True, "rank 0's allreduce (a.py:1), which nobody has waited for, writes"),
        ],
    )
    def test_a_collective_is_named_as_people_know_it(self, beside: bool, words: str) -> None:
        job = Golden(1)
        op = "c10d::allreduce_"
        job[0].accesses("w", None, op, lo=0, hi=8, site="a.py:1")
        job[0].enters("collective", c=1, **({"async": True} if beside else {}))
        job[0].accesses("w", None, lo=0, hi=8, site="b.py:2", **({} if beside else {"seq": "thread-1"}))
        (found,) = ask("race", job.ends_well().history())
        assert found.evidence["one"] == words

    def test_a_thread_beside_the_main_one_is_named(self) -> None:
        (found,) = touched((0, "w", at("a.py:1", seq="thread-1")), (0, "w", at("a.py:2")), ranks=1)
        assert found.ranks == (0,)
        assert found.evidence["one"] == "thread-1 of rank 0 writes in aten::add (a.py:1)"
        assert found.evidence["events"][0]["seq"] == "thread-1"

    def test_the_step_is_that_of_the_earlier_rank(self) -> None:
        job = Golden().trains(1)
        job[0].accesses("w", None, lo=0, hi=8, site="a.py:1")
        # No collective orders the ranks.
        job[1].enters("load").ends_step().accesses("w", None, lo=0, hi=8, site="a.py:2")
        (found,) = ask("race", job.ends_well().history())
        assert found.step == 1

    def test_each_pair_of_places_counts_once_and_each_storage_is_a_finding(self) -> None:
        found = touched(
            (0, "w", at("a.py:1")), (0, "w", at("a.py:2")), (1, "w", at("b.py:1")), (1, "w", at("b.py:1")),
            (0, "w", at("c.py:1", key="8:9")), (1, "r", at("c.py:2", key="8:9")),
        )  # fmt: skip
        assert [(f.places, f.evidence["pairs"]) for f in found] == [
            (("a.py:1", "b.py:1"), 2),
            (("c.py:1", "c.py:2"), 1),
        ]

    def test_the_same_places_on_several_ranks_are_one_finding_of_all_of_them(self) -> None:
        found = touched(
            *((0, "w", at("a.py:1")), (1, "r", at("a.py:2"))),
            *((2, "w", at("a.py:1", key="8:9")), (3, "r", at("a.py:2", key="8:9"))),
            ranks=4,
        )
        assert [f.ranks for f in found] == [(0, 1, 2, 3)]

    def test_no_more_than_eight_findings_are_told(self) -> None:
        touches = [(rank, "w", at(f"{rank}.py:{n}", key=f"8:{n}")) for n in range(10) for rank in (0, 1)]
        assert len(touched(*touches)) == 8

    def test_each_attempt_is_judged_by_itself(self) -> None:
        job = Golden().trains(1)
        job[0].accesses("w", None, lo=0, hi=8, site="a.py:1")
        job[1].dies(9)
        job.ended_by_us().again().trains(1)
        job[1].accesses("w", None, lo=0, hi=8, site="a.py:2")
        assert ask("race", job.ends_well().history()) == []
        job[0].accesses("w", None, lo=0, hi=8, site="a.py:3")
        assert [f.attempt for f in ask("race", job.history())] == [1]

    def test_each_attempt_has_findings_of_its_own(self) -> None:
        job = Golden()
        for attempt in (0, 1):
            for one in job.ranks:
                one.accesses("w", None, lo=0, hi=8, site=f"{attempt}.py:{one.rank}")
            if not attempt:
                job.ended_by_us().again()
        assert [f.attempt for f in ask("race", job.ends_well().history())] == [0, 1]

    def test_a_tensor_is_described_by_the_first_access_that_knows_it(self) -> None:
        (found,) = touched((0, "w", at("a.py:1")), (1, "w", at("b.py:1", tensor="float32 of [2]")))
        assert found.evidence["what"] == "bytes 0 to 8 of a tensor (float32 of [2])"


class TestLostUpdates:
    LOST = ((0, "r", at("a.py:1")), (1, "r", at("b.py:1")), (0, "w", at("a.py:2")), (1, "w", at("b.py:2")))

    def test_an_update_that_was_overwritten_is_told_with_who_overwrote_it(self) -> None:
        (found,) = touched(*self.LOST, turns=True)
        assert (found.cause, found.places, found.ranks) == ("lost update", ("a.py:2", "b.py:2"), (0, 1))
        assert found.evidence["how"] == (
            "rank 1 (b.py:2) overwrote the update of rank 0 (a.py:2) at step 1, which it had not seen: "
            "bytes 0 to 8 of a tensor"
        )
        assert [e["turn"] for e in found.evidence["events"]] == [0, 1, 2, 3]

    def test_an_update_in_one_move_that_was_overwritten_is_told_as_the_one_that_was_lost(self) -> None:
        (found,) = touched((1, "r", at("b.py:1")), (0, "rw", at("a.py:2")), (1, "w", at("b.py:2")), turns=True)
        assert (found.cause, found.places) == ("lost update", ("a.py:2", "b.py:2"))

    def test_threads_that_a_schedule_picks_are_in_the_order_on_record(self) -> None:
        picked = [(0, mode, {**facts, "seq": f"thread-{rank}", "pick": 1}) for rank, mode, facts in self.LOST]
        (found,) = touched(*picked, ranks=1)
        assert (found.cause, found.ranks) == ("lost update", (0,))
        assert [event["pick"] for event in found.evidence["events"]] == [1, 1, 1, 1]

    def test_without_a_schedule_the_order_on_record_proves_nothing(self) -> None:
        (found,) = touched(*self.LOST)
        assert found.cause == "data race"
        assert "how" not in found.evidence

    def test_what_was_put_on_record_later_does_not_stand_where_it_was_made(self) -> None:
        late = tuple((rank, mode, {**facts, "at": 1}) for rank, mode, facts in self.LOST)
        assert [f.cause for f in touched(*late, turns=True)] == ["data race"]

    def test_in_one_step_what_did_harm_comes_first(self) -> None:
        harmless = tuple((rank, "w", at(f"z.py:{rank}", key="1:1")) for rank in (0, 1))
        found = touched(*harmless, *self.LOST, turns=True)
        assert [f.cause for f in found] == ["lost update", "data race"]

    def test_of_the_same_places_the_harm_is_told_although_it_came_later(self) -> None:
        job = Golden()
        for one in job.ranks:
            one.enters("load").accesses("w", 9, lo=0, hi=8, key="1:1", site=f"{one.rank}.py:2").ends_step()
        for one in job.ranks:
            one.enters("load").accesses("r", 10 + one.rank, lo=0, hi=8, key="2:2", site=f"{one.rank}.py:2")
        for one in job.ranks:
            one.accesses("w", 20 + one.rank, lo=0, hi=8, key="2:2", site=f"{one.rank}.py:2")
        (found,) = ask("race", job.ends_well().history())
        assert (found.cause, found.step, found.places) == ("lost update", 2, ("0.py:2", "1.py:2"))

    def test_of_the_same_places_the_harm_is_told(self) -> None:
        lost = [(rank, mode, {**facts, "site": f"{'ab'[rank]}.py:2"}) for rank, mode, facts in self.LOST]
        race = [(rank, "w", at(f"{'ab'[rank]}.py:2", key="1:1")) for rank in (0, 1)]
        found = touched(*race, *lost, turns=True)
        assert [f.cause for f in found] == ["lost update"]


def files(*touches: tuple[int, str, str, dict[str, Any]], ranks: int = 2) -> list[Finding]:
    """Return what `files` finds on accesses: rank, mode, operation, facts; the path is a.bin."""
    job = Golden(ranks).trains(1)
    for rank, mode, op, facts in touches:
        job[rank].accesses(mode, None, op, **{"key": "a.bin", **facts})
    return ask("files", job.ends_well().history())


class TestFiles:
    @pytest.mark.parametrize(
        ("mine", "theirs", "cause"),
        [
            ("write", "read", "file race"),
            ("write", "write", "file race"),
            ("remove", "read", "file race"),
            ("move", "read", "file race"),
            ("rmdir", "mkdir", "file race"),
            ("remove", "remove", "file race"),
            ("mkdir", "mkdir", "file race"),
            ("rename", "write", "file race"),
            ("rename", "rename", "rename race"),
            ("append", "append", "append race"),
            ("append", "write", "file race"),
            ("map", "write", "file race"),
            ("open folder", "remove", "file race"),
            ("open folder", "mkdir", "file race"),
            ("rename", "read", ""),
            ("mkdir", "read", ""),
            ("open folder", "read", ""),
            ("open folder", "open folder", ""),
            ("open folder", "write", ""),
            ("open folder", "rename", ""),
            ("map", "map", ""),
            ("read", "read", ""),
        ],
    )
    def test_each_pair_of_operations_is_a_race_or_is_harmless_whichever_comes_first(
        self, mine: str, theirs: str, cause: str
    ) -> None:
        for first, second in ((mine, theirs), (theirs, mine)):
            found = files(*((rank, "r" if op == "read" else "w", op, {}) for rank, op in enumerate((first, second))))
            assert [f.cause for f in found] == ([cause] if cause else [])

    @pytest.mark.parametrize(
        ("op", "does"),
        [
            ("read", "reads a.bin"),
            ("write", "writes a.bin"),
            ("rename", "renames another file to a.bin"),
            ("remove", "removes a.bin"),
            ("mkdir", "makes a.bin"),
            ("append", "appends to a.bin"),
            ("map", "maps, to change it, a.bin"),
        ],
    )
    def test_says_what_each_does(self, op: str, does: str) -> None:
        (found,) = files((0, "r" if op == "read" else "w", op, {"site": "a.py:1"}), (1, "w", "truncate", {}))
        assert found.evidence == {"path": "a.bin", "one": f"rank 0 {does} (a.py:1)", "other": "rank 1 writes a.bin"}
        assert found.places == ("a.py:1", "truncate")

    def test_names_bytes_threads_ranks_step_and_attempt(self) -> None:
        job = Golden(3).trains(1)
        job[1].dies(9)
        job.ended_by_us().again().trains(1)
        job[2].accesses("w", None, "write", "a.bin", bytes=[0, 10], seq="worker-0")
        job.trains(1)
        job[1].accesses("r", None, "read", "a.bin", bytes=[5, 6])
        (found,) = ask("files", job.ends_well().history(), ranks=3)
        assert (found.ranks, found.step, found.attempt) == ((1, 2), 1, 1)
        assert found.evidence["one"] == "worker-0 of rank 2 writes bytes 0 to 10 of a.bin"
        assert found.evidence["other"] == "rank 1 reads bytes 5 to 6 of a.bin"

    def test_of_several_pairs_at_a_path_one_that_may_do_harm_is_told(self) -> None:
        (found,) = files((0, "w", "append", {}), (1, "w", "append", {}), (1, "r", "read", {}))
        assert found.cause == "file race"

    def test_findings_of_which_only_the_order_is_open_come_last(self) -> None:
        job = Golden().trains(1)
        for one in job.ranks:
            one.accesses("w", None, "append", "log")
        job.trains(1)
        for one in job.ranks:
            one.accesses("w", None, "write", "b.bin")
        job.trains(1)
        for one in job.ranks:
            one.accesses("w", None, "write", "a.bin")
        found = ask("files", job.ends_well().history())
        assert [(f.cause, f.step) for f in found] == [("file race", 2), ("file race", 3), ("append race", 1)]

    def test_a_lock_file_is_left_alone(self) -> None:
        assert files((0, "w", "lock", {}), (0, "w", "write", {}), (1, "w", "write", {})) == []

    def test_accesses_that_are_ordered_are_left_alone(self) -> None:
        job = Golden().trains(1)
        for one in job.ranks:
            one.writes("sync", do="acquire", key="shared:lock:/a").accesses("w", None, "write", "a.bin")
            one.writes("sync", do="release", key="shared:lock:/a")
        assert ask("files", job.ends_well().history()) == []

    def test_a_rank_that_goes_on_where_it_ended_is_told_with_all_its_bytes(self) -> None:
        pieces = [(0, "w", "write", {"bytes": [n, n + 4]}) for n in (0, 4, 8)]
        (found,) = files(*pieces, (1, "r", "read", {"bytes": [2, 3]}))
        assert found.evidence["one"] == "rank 0 writes bytes 0 to 12 of a.bin"

    def test_a_rank_that_writes_elsewhere_in_between_is_told_with_the_bytes_that_meet(self) -> None:
        pieces = [(0, "w", "write", {"bytes": [n, n + 4]}) for n in (0, 100, 4)]
        (found,) = files(*pieces, (1, "r", "read", {"bytes": [2, 3]}))
        assert found.evidence["one"] == "rank 0 writes bytes 0 to 4 of a.bin"

    def test_bytes_that_are_written_again_are_the_ones_that_go_on(self) -> None:
        pieces = [(0, "w", "write", {"bytes": [n, n + 4]}) for n in (0, 100, 0, 4)]
        (found,) = files(*pieces, (1, "r", "read", {"bytes": [2, 3]}))
        assert found.evidence["one"] == "rank 0 writes bytes 0 to 8 of a.bin"

    def test_an_operation_that_does_not_say_its_bytes_touches_all_of_them(self) -> None:
        for lo in (0, 50):
            assert files((0, "w", "write", {}), (1, "r", "read", {"bytes": [lo, lo + 1]})) != []
        known = (0, "w", "write", {"bytes": [1, 5]})
        assert files((0, "w", "write", {}), known, (1, "r", "read", {"bytes": [50, 51]})) != []

    def test_bytes_that_only_touch_do_not_meet(self) -> None:
        assert files((0, "w", "write", {"bytes": [4, 8]}), (1, "w", "write", {"bytes": [0, 4]})) == []
        assert files((0, "w", "write", {"bytes": [4, 8]}), (1, "w", "write", {"bytes": [0, 5]})) != []

    def test_what_a_rank_wrote_before_and_after_a_synchronisation_is_not_joined(self) -> None:
        job = Golden().trains(1)
        job[0].accesses("w", None, "write", "a.bin", bytes=[0, 4])
        for one in job.ranks:
            one.writes("sync", do="acquire", key="shared:lock:/a").writes("sync", do="release", key="shared:lock:/a")
        job[0].accesses("w", None, "write", "a.bin", bytes=[4, 8])
        job[1].accesses("r", None, "read", "a.bin", bytes=[0, 8])
        (found,) = ask("files", job.ends_well().history())
        assert found.evidence["one"] == "rank 0 writes bytes 4 to 8 of a.bin"
