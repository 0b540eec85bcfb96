"""Checkpoints that are not on disk or not whole: which file, which ranks, and what is no objection."""

from __future__ import annotations

from signal import SIGKILL
from typing import Any, ClassVar

import pytest
from support.asking import ask
from support.golden import Golden, sound

from breakrank.history.reader import History
from breakrank.oracles import Abstain
from breakrank.verdict import Finding


def saving(steps: int = 3, **left: str) -> History:
    """Return a job whose rank 0 saves after every step."""
    job = Golden()
    for _ in range(steps):
        job.trains(1)
        job[0].saves()
    job.ends_well()
    for path, file in left.items():
        job.leaves(path, file)
    return job.history()


def one(found: list[Finding]) -> tuple[Any, ...]:
    """Return cause, ranks, step, attempt and evidence of the one finding."""
    (finding,) = found
    return finding.cause, finding.ranks, finding.step, finding.attempt, finding.evidence


class TestAbstaining:
    def test_says_why(self) -> None:
        with pytest.raises(Abstain) as said:
            ask("checkpoint", sound(), None)
        assert str(said.value) == "there is no control that says whether checkpoints belong to the job"
        with pytest.raises(Abstain):
            ask("checkpoint", History(), sound())
        with pytest.raises(Abstain) as said:
            ask("checkpoint", sound(), sound())
        assert str(said.value) == "the control saved no checkpoint"
        job = Golden().trains(1)
        for lived in job.ranks:
            lived.enters("load").reports("ValueError")
        late = Golden().trains(2)
        late[1].saves()
        with pytest.raises(Abstain) as said:
            ask("checkpoint", job.history(), late.ends_well().history())
        assert str(said.value) == "the run ended before its first checkpoint, which the control saved at step 2"

    def test_files_that_were_written_are_judged_where_the_control_saved_nothing(self) -> None:
        written = Golden().trains(1).ends_well().leaves("log", "x").history()
        assert ask("checkpoint", written, sound()) == []

    def test_a_control_that_restored_is_compared_with_where_nothing_was_saved(self) -> None:
        job = Golden(1)
        job[0].restores("f").trains([1]).writes("restored", path="m", lacking="", unread="")
        history = job.ends_well().history()
        assert ask("checkpoint", history, history) == []


class TestNoCheckpoint:
    def test_the_controls_first_save_says_at_which_step_one_was_due(self) -> None:
        control = Golden().trains(2)
        control[1].saves()
        control.trains(1)
        control[0].saves()
        found = one(ask("checkpoint", sound(), control.ends_well().history()))
        what = "no rank finished a save, and the control saved its first at step 2"
        assert found == ("no checkpoint", (), 2, 0, {"what": what})

    def test_a_save_of_any_rank_in_any_attempt_is_one(self) -> None:
        job = Golden().trains(1)
        job[1].saves()
        job[1].dies(SIGKILL)
        job.ended_by_us().again().trains(3).ends_well()
        assert ask("checkpoint", job.history(), saving()) == []

    def test_a_run_came_past_a_save_if_a_rank_began_the_next_step_or_ended_well(self) -> None:
        begun = Golden().trains(1)
        begun[1].enters("load").reports("ValueError")
        begun[0].reports("ValueError")
        assert one(ask("checkpoint", begun.history(), saving()))[0] == "no checkpoint"
        over = Golden().trains(1)
        over[0].ends()
        over[1].reports("ValueError")
        assert one(ask("checkpoint", over.history(), saving()))[0] == "no checkpoint"

    def test_the_finding_is_of_the_last_attempt(self) -> None:
        job = Golden().trains(1)
        job[1].dies(SIGKILL)
        job.ended_by_us().again().trains(3).ends_well()
        assert one(ask("checkpoint", job.history(), saving()))[3] == 1


class TestTorn:
    def torn(self, *restores: tuple[int, str, str]) -> Golden:
        """Return a job that was started again, and restored files: rank, file, path."""
        job = Golden().trains(1)
        job[0].saves()
        job[1].dies(SIGKILL)
        job.ended_by_us().again()
        for rank, file, path in restores:
            job[rank].restores(file, path)
        return job.trains(2).ends_well()

    def test_all_ranks_that_read_the_file_are_named_together(self) -> None:
        job = self.torn((1, "half", "model.pt"), (0, "half", "model.pt"), (0, "a0s1", "model.pt"))
        assert one(ask("checkpoint", job.history(), saving())) == (
            *("torn checkpoint", (0, 1), 0, 1),
            {"path": "model.pt"},
        )

    def test_each_file_is_a_finding_of_its_own(self) -> None:
        job = self.torn((0, "half", "b.pt"), (1, "half", "a.pt"))
        found = [(f.ranks, f.evidence["path"]) for f in ask("checkpoint", job.history(), saving())]
        assert found == [((1,), "a.pt"), ((0,), "b.pt")]

    def test_a_restore_without_a_digest_says_nothing(self) -> None:
        job = self.torn()
        job[0].writes("payload", of="restore", path="model.pt", file=None, size=1)
        assert ask("checkpoint", job.history(), saving()) == []

    def test_a_file_whose_writing_is_not_on_record_says_nothing(self) -> None:
        for how in ("open", "rename"):
            job = Golden().trains(1)
            job[0].saves()
            job[0].opens("tmp" if how == "rename" else "model.pt")
            if how == "rename":
                job[0].enters("write", path="model.pt", how="rename", source="tmp")
            job[1].dies(SIGKILL)
            job.ended_by_us().again()
            job[0].restores("other")
            assert ask("checkpoint", job.trains(2).ends_well().history(), saving()) == []

    @pytest.mark.parametrize(("renames", "clear"), [
        ([("tmp", "model.pt")], True),
        ([("notes.txt", "model.pt")], False),
        ([("notes.txt", "old.txt")], True),
        ([("notes.txt", "between"), ("between", "model.pt"), ("model.pt", "between")], False),
        ([("notes.txt/a", "model.pt")], True),
        ([(None, "model.pt")], False),
        ([(None, "notes.txt")], True),
    ])  # fmt: skip
    def test_a_rename_says_of_which_file_it_is(self, renames: Any, clear: bool) -> None:
        job = Golden().trains(1)
        job[0].saves()
        job[0].opens("tmp").closes("tmp", "t").opens("notes.txt")
        for source, path in renames:
            job[0].enters("write", path=path, how="rename", **({"source": source} if source else {}))
        job[1].dies(SIGKILL)
        job.ended_by_us().again()
        job[0].restores("other")
        found = ask("checkpoint", job.trains(2).ends_well().history(), saving())
        assert [f.cause for f in found] == ["torn checkpoint"] * clear

    @pytest.mark.parametrize(("name", "clear"), [("shard.pt", False), ("other.pt", True)])
    def test_a_rename_of_a_folder_takes_its_files_along(self, name: str, clear: bool) -> None:
        job = Golden().trains(1)
        job[0].saves()
        job[0].opens("new/shard.pt").enters("write", path="last", how="rename", source="new")
        job[1].dies(SIGKILL)
        job.ended_by_us().again()
        job[0].writes("payload", of="restore", path=f"last/{name}", file="other", size=1)
        found = ask("checkpoint", job.trains(2).ends_well().history(), saving())
        assert [f.cause for f in found] == ["torn checkpoint"] * clear

    def test_a_rename_of_a_file_that_is_on_record_hides_nothing(self) -> None:
        job = Golden().trains(1)
        job[0].saves()
        job[0].opens("tmp").closes("tmp", "t").enters("write", path="model.pt", how="rename", source="tmp")
        job[1].dies(SIGKILL)
        job.ended_by_us().again()
        job[0].restores("other")
        assert one(ask("checkpoint", job.trains(2).ends_well().history(), saving()))[0] == "torn checkpoint"

    def test_a_checkpoint_in_memory_may_have_gone_into_any_file(self) -> None:
        job = Golden().trains(1)
        job[0].enters("save", path="(memory)").writes("payload", of="save", path="(memory)", file=None, size=1, done=1)
        job[1].dies(SIGKILL)
        job.ended_by_us().again()
        job[0].restores("other")
        assert ask("checkpoint", job.trains(2).ends_well().history(), saving()) == []

    def test_an_unknown_writer_of_another_file_hides_nothing(self) -> None:
        job = Golden().trains(1)
        job[0].saves()
        job[0].opens("elsewhere")
        job[1].dies(SIGKILL)
        job.ended_by_us().again()
        job[0].restores("other")
        assert one(ask("checkpoint", job.trains(2).ends_well().history(), saving()))[0] == "torn checkpoint"


class TestPartialRestore:
    def job(self, *of_ranks: dict[str, str]) -> History:
        made = Golden(len(of_ranks))
        for lived, said in zip(made.ranks, of_ranks, strict=True):
            lived.trains([lived.rank]).writes("restored", **{"path": "m", "lacking": "", "unread": "", **said})
        return made.ends_well().history()

    def test_ranks_that_left_out_the_same_are_named_together(self) -> None:
        found = ask("checkpoint", self.job({"lacking": "bias"}, {"lacking": "bias"}), self.job({}, {}))
        assert one(found) == ("partial restore", (0, 1), 1, 0, {"path": "m", "said": "bias"})
        assert found[0].places == ()

    def test_ranks_that_left_out_something_else_are_named_apart(self) -> None:
        found = ask("checkpoint", self.job({"unread": "head"}, {"lacking": "bias"}), self.job({}, {}))
        assert [(f.ranks, f.evidence["said"]) for f in found] == [((1,), "bias"), ((0,), "head")]

    def test_each_rank_is_compared_with_its_own_of_the_control(self) -> None:
        found = ask("checkpoint", self.job({"lacking": "bias"}, {}), self.job({}, {"lacking": "bias"}))
        assert one(found)[:2] == ("partial restore", (0,))

    def test_what_the_control_leaves_out_on_either_side_is_known(self) -> None:
        assert ask("checkpoint", self.job({"lacking": "bias"}), self.job({"unread": "bias"})) == []

    def test_a_rank_whose_control_restored_nothing_is_left_alone(self) -> None:
        model = self.job({}, {})
        bare = {key: lived for key, lived in model.ranks.items() if key != (0, 1)}
        assert ask("checkpoint", self.job({}, {"lacking": "bias"}), History(bare, model.conductor)) == []


def written(left: str | None = "all", **files: str | None) -> Golden:
    """Return a job in whose last step rank N (by `rN`) wrote a file; `left` is what is on disk."""
    job = Golden().trains(3)
    for turn, (name, file) in enumerate(files.items()):
        rank = int(name[1:])
        job[rank].opens("log").accesses("w", turn, "open", "log").closes("log", file)
    job.ends_well()
    return job if left is None else job.leaves("log", left)


class TestMixed:
    def test_only_the_ranks_that_wrote_in_the_last_step_are_named(self) -> None:
        job = Golden().trains(1)
        job[0].opens("log").closes("log", "early")
        job.trains(1)
        job[1].opens("log").accesses("w", 3, "open", "log").closes("log", "late")
        history = job.ends_well().leaves("log", "neither").history()
        assert one(ask("checkpoint", history, written(r0="all").history())) == (
            *("interleaved file", (1,), 2, 0),
            {"path": "log", "events": [{"rank": 1, "step": 2, "op": "open", "mode": "w", "turn": 3}]},
        )

    def test_a_save_that_was_finished_is_held_against_what_is_left(self) -> None:
        job = Golden().trains(1)
        job[0].saves()
        history = job.ends_well().leaves("model.pt", "neither").history()
        assert one(ask("checkpoint", history, saving(1)))[:3] == ("interleaved file", (0,), 1)

    def test_a_file_that_nobody_wrote_is_left_alone(self) -> None:
        history = Golden().trains(3).ends_well().leaves("log", "neither").history()
        assert ask("checkpoint", history, history) == []

    def test_a_file_that_an_earlier_attempt_left_is_not_the_last_ones(self) -> None:
        job = Golden().trains(1)
        job[0].opens("log").closes("log", "all")
        job.leaves("log", "neither")
        job.ended_by_us().again().trains(3)
        job[0].opens("log").closes("log", "all")
        history = job.ends_well().leaves("log", "all").history()
        assert ask("checkpoint", history, written(r0="all").history()) == []


class TestLost:
    def test_the_rank_whose_content_is_left_has_written_over_the_other_ones(self) -> None:
        assert one(ask("checkpoint", written("a", r0="a", r1="b").history(), written(r0="all").history())) == (
            *("lost write", (0, 1), 3, 0),
            {
                **{"path": "log", "loser": 1, "winner": 0, "how": "wrote over it"},
                "events": [
                    {"rank": 0, "step": 3, "op": "open", "mode": "w", "turn": 0},
                    {"rank": 1, "step": 3, "op": "open", "mode": "w", "turn": 1},
                ],
            },
        )

    def test_a_file_as_the_control_left_it_lacks_nothing(self) -> None:
        assert ask("checkpoint", written("all", r0="all", r1="b").history(), written(r0="all").history()) == []

    def test_each_file_of_the_control_is_looked_for(self) -> None:
        control = written(r0="all").leaves("a.txt", "same").history()
        first = Golden().trains(3).ends_well().leaves("a.txt", "same").leaves("log", "all").history()
        assert ask("checkpoint", first, control) == []
        both = Golden().trains(3).ends_well().leaves("a.txt", "same").leaves("log", "all").history()
        lacking = written("a", r0="a", r1="b").leaves("a.txt", "same").history()
        assert one(ask("checkpoint", lacking, both))[4]["path"] == "log"

    def test_a_file_that_only_the_run_has_is_not_missed_by_the_control(self) -> None:
        control = Golden().trains(3).ends_well().leaves("other", "x").history()
        assert ask("checkpoint", written("a", r0="a", r1="b").history(), control) == []

    def test_a_rank_that_wrote_in_an_earlier_step_was_not_written_over(self) -> None:
        job = Golden().trains(1)
        job[0].opens("log").closes("log", "a")
        job.trains(1)
        job[1].opens("log").closes("log", "b")
        assert ask("checkpoint", job.ends_well().leaves("log", "b").history(), written(r0="all").history()) == []

    def test_a_file_that_a_rank_removed_after_another_wrote_it_is_lost_by_the_writer(self) -> None:
        job = Golden().trains(2)
        job[0].accesses("w", 4, "save", "log")
        job[1].accesses("w", 5, "remove", "log")
        found = ask("checkpoint", job.ends_well().leaves("other", "x").history(), written(r0="all").history())
        assert one(found)[4]["how"] == "removed it"
        assert (one(found)[4]["loser"], one(found)[4]["winner"]) == (0, 1)

    @pytest.mark.parametrize(
        "touches",
        [
            # A rank removes what it wrote itself; the remover comes first; both remove; another one reads.
            [(0, "w", "save"), (0, "w", "remove")],
            [(0, "w", "remove"), (1, "w", "save")],
            [(0, "w", "remove"), (1, "w", "remove")],
            [(0, "r", "open"), (1, "w", "remove")],
        ],
    )
    def test_other_removals_lose_nothing(self, touches: list[tuple[int, str, str]]) -> None:
        job = Golden().trains(2)
        for turn, (rank, mode, op) in enumerate(touches):
            job[rank].accesses(mode, turn, op, "log")
        history = job.ends_well().leaves("other", "x").history()
        assert ask("checkpoint", history, written(r0="all").history()) == []

    def test_a_file_that_was_removed_and_is_there_again_is_not_lost_by_that(self) -> None:
        job = Golden().trains(2)
        job[0].accesses("w", 0, "save", "log")
        job[1].accesses("w", 1, "remove", "log")
        history = job.ends_well().leaves("log", "other").history()
        assert ask("checkpoint", history, written(r0="all").history()) == []

    def test_accesses_to_other_paths_do_not_count(self) -> None:
        job = Golden().trains(2)
        job[0].accesses("w", 0, "save", "another").accesses("r", 2, "open", "log")
        job[1].accesses("w", 1, "remove", "log")
        history = job.ends_well().leaves("other", "x").history()
        assert ask("checkpoint", history, written(r0="all").history()) == []


class TestDestroyed:
    def fails(self, job: Golden, **left: str) -> History:
        """Let a save of rank 0 fail, and return the history with these files on disk."""
        job[0].fails_to_save("model.pt")
        job.ends_well()
        for path, file in left.items():
            job.leaves(path, file)
        return job.history()

    def saved(self) -> Golden:
        """Return a job that has saved after its first step and made another one."""
        job = Golden().trains(1)
        job[0].saves()
        return job.trains(1)

    def test_the_first_save_that_failed_is_named_with_what_was_raised(self) -> None:
        job = self.saved()
        job[1].fails_to_save("other.pt")
        found = ask("checkpoint", self.fails(job, model="half"), saving(model="a0s3"))
        assert one(found) == (
            *("no checkpoint", (0,), 2, 0),
            {
                "what": "the save of rank 0 failed, and no file that is left holds a whole checkpoint",
                "path": "model.pt",
                "said": "unexpected pos 576 vs 534",
            },
        )

    def test_something_else_that_was_raised_is_no_failed_save(self) -> None:
        job = self.saved()
        job[0].writes("raised", point="write", path="x", type="OSError", message="no space")
        history = job.ends_well().leaves("model.pt", "half").history()
        assert all(f.cause != "no checkpoint" for f in ask("checkpoint", history, saving(model="a0s3")))

    def test_a_save_that_failed_before_a_later_one_succeeded_is_made_good(self) -> None:
        job = self.saved()
        job[0].fails_to_save("model.pt")
        job.trains(1)
        job[0].saves()
        history = job.ends_well().leaves("model.pt", "half").history()
        found = ask("checkpoint", history, saving(model="a0s3"))
        assert all(f.cause != "no checkpoint" for f in found)

    def test_nothing_is_said_where_not_all_saves_have_a_digest(self) -> None:
        job = self.saved()
        job[1].enters("save", path="b").writes("payload", of="save", path="b", file=None, size=1, done=1)
        assert ask("checkpoint", self.fails(job, model="half"), saving(model="a0s3")) == []

    def test_nothing_is_said_where_the_control_left_no_whole_checkpoint(self) -> None:
        assert ask("checkpoint", self.fails(self.saved(), model="half"), saving(model="half")) == []


class TestLostCheckpoint:
    """A save that no file holds any more when the ranks have ended, before the attempt that follows."""

    def interrupted(self, *, rename: str = "", then: tuple[str, str] = ("", ""), begun: bool = False) -> Golden:
        """Return a job whose rank 0 saves after two steps, renames the last save, does one thing more, and is killed.

        In the next attempt it does all of its steps.
        """
        job = Golden()
        for _ in range(2):
            job.trains(1)
            job[0].saves("new.pt")
            if rename:
                job[0].enters("write", path=rename, how="rename")
        if then[0]:
            job[0].enters("write", path=then[1], how=then[0])
        if begun:
            job.trains(1)
            job[0].enters("save", path="new.pt")
        job[0].dies(SIGKILL)
        return job.ended_by_us()

    def judged(self, job: Golden, control: History | None = None) -> list[Finding]:
        """Return the findings of the oracle, once the job has done all of its steps in a new attempt."""
        job.again().trains(3).ends_well()
        return ask("checkpoint", job.history(), control or saving(3, **{"model.pt": "a0s3"}))

    @pytest.mark.parametrize(("rename", "path"), [("", "new.pt"), ("last.pt", "last.pt")])
    def test_is_found_by_the_name_that_it_had_at_last(self, rename: str, path: str) -> None:
        found = one(self.judged(self.interrupted(rename=rename)))
        assert found == ("checkpoint lost", (0,), 2, 1, {"path": path, "done": 2})

    def test_an_older_one_that_is_left_is_not_the_last(self) -> None:
        job = self.interrupted(rename="last.pt").leaves("last.pt", "a0s1")
        assert one(self.judged(job))[0] == "checkpoint lost"

    @pytest.mark.parametrize("path", ["last.pt", "new.pt"])
    def test_one_that_lies_anywhere_is_not_lost(self, path: str) -> None:
        assert self.judged(self.interrupted(rename="last.pt").leaves(path, "a0s2")) == []

    @pytest.mark.parametrize("then", [("truncate", "last.pt"), ("open", "last.pt"), ("rename", "last.pt")])
    def test_one_that_a_rank_wrote_over_is_not_lost(self, then: tuple[str, str]) -> None:
        assert self.judged(self.interrupted(rename="last.pt", then=then)) == []

    @pytest.mark.parametrize("then", [("remove", "older.pt"), ("open", "latest.txt"), ("mkdir", "last.pt")])
    def test_changes_of_other_files_do_not_matter(self, then: tuple[str, str]) -> None:
        assert one(self.judged(self.interrupted(rename="last.pt", then=then)))[0] == "checkpoint lost"

    def test_one_whose_folder_was_removed_is_not_lost(self) -> None:
        assert self.judged(self.interrupted(rename="step-2/last.pt", then=("rmdir", "step-2"))) == []

    def test_one_whose_bytes_were_changed_where_they_lie_is_not_lost(self) -> None:
        assert self.judged(self.interrupted(rename="last.pt").leaves("last.pt", "rotten")) == []
        assert self.judged(self.interrupted(rename="last").leaves("last/shard-0", "rotten")) == []

    def test_one_that_is_shorter_than_it_was_is_lost(self) -> None:
        job = self.interrupted(rename="last.pt").says("left", attempt=0, path="last.pt", file="empty", size=0)
        assert one(self.judged(job))[0] == "checkpoint lost"

    def test_one_that_is_being_written_over_is_not_lost(self) -> None:
        assert self.judged(self.interrupted(begun=True)) == []

    def test_a_control_that_does_not_show_its_saves_tells_nothing(self) -> None:
        assert self.judged(self.interrupted(), saving(3)) == []

    def test_nothing_is_lost_where_no_attempt_follows(self) -> None:
        job = self.interrupted()
        assert ask("checkpoint", job.history(), saving(3, **{"model.pt": "a0s3"})) == []

    def test_one_that_its_rank_removed_before_another_was_whole_is_told_of(self) -> None:
        job = self.interrupted(rename="last.pt", then=("remove", "last.pt"))
        what = "rank 0 removed last.pt, the last whole checkpoint, before another was"
        assert one(self.judged(job)) == ("no checkpoint", (0,), 2, 1, {"what": what, "path": "last.pt"})

    def test_one_that_was_removed_beside_an_older_one_is_missed_by_nobody(self) -> None:
        job = self.interrupted(rename="last.pt", then=("remove", "last.pt")).leaves("older.pt", "a0s1")
        assert self.judged(job) == []


class TestOlderCheckpoint:
    """A restore of an older save although a newer one was there."""

    def judged(self, restored: str, left: dict[str, str], step: int = 0, shards: tuple[int, ...] = ()) -> list[Finding]:
        """Return the findings of a job that was killed after its saves, and restores one of these.

        Rank 0 saves after two steps, and the ranks in `shards` after the first.
        """
        job = Golden()
        for _ in range(2):
            job.trains(1)
            job[0].saves("new.tmp")
            for rank in shards if job[0].done == 1 else ():
                job[rank].saves("new.tmp", file=f"shard{rank}")
        for path, file in left.items():
            job.leaves(path, file)
        job[0].dies(SIGKILL)
        job.ended_by_us().again()
        if step:
            job.trains(1)
        for lived in job.ranks:
            lived.restores(restored)
        history = job.trains(3 - step).ends_well().history()
        return ask("checkpoint", history, saving(3, **{"model.pt": "a0s3"}))

    BOTH: ClassVar = {"step-9.pt": "a0s1", "step-10.pt": "a0s2"}

    def test_is_found(self) -> None:
        found = one(self.judged("a0s1", self.BOTH))
        evidence = {"path": "model.pt", "done": 1, "newer": "step-10.pt", "later": 2}
        assert found == ("older checkpoint", (0, 1), 0, 1, evidence)

    @pytest.mark.parametrize(
        ("restored", "left"),
        [
            pytest.param("a0s2", BOTH, id="the newest"),
            pytest.param("a0s1", {"step-9.pt": "a0s1", "step-10.pt": "torn"}, id="the newest that is whole"),
            pytest.param("a0s1", {"step-9.pt": "a0s1", "new.tmp": "a0s2"}, id="the newest that was finished"),
            pytest.param("a0s1", {"last.pt": "a0s1", "best.pt": "a0s2"}, id="another kind of file"),
        ],
    )
    def test_others_are_not(self, restored: str, left: dict[str, str]) -> None:
        assert "older checkpoint" not in [f.cause for f in self.judged(restored, left)]

    def test_a_newer_one_of_which_a_rank_lacks_its_part_is_not_whole(self) -> None:
        left = {**self.BOTH, "shard-1-of-step-9.pt": "shard1"}
        assert self.judged("a0s1", left, shards=(1,)) == []

    def test_whoever_goes_back_later_does_so_for_a_reason(self) -> None:
        assert self.judged("a0s1", self.BOTH, step=1) == []

    def test_the_steps_of_all_attempts_in_it_count(self) -> None:
        job = Golden().trains(3)
        job[0].saves("step-3.pt")
        job.leaves("step-3.pt", "a0s3")[0].dies(SIGKILL)
        job.ended_by_us().again()
        for lived in job.ranks:
            lived.restores("a0s3")
        job.trains(1)
        job[0].saves("step-4.pt")
        job.leaves("step-3.pt", "a0s3").leaves("step-4.pt", "a1s1")[0].dies(SIGKILL)
        job.ended_by_us().again()
        for lived in job.ranks:
            lived.restores("a1s1")
        history = job.trains(1).ends_well().history()
        found = ask("checkpoint", history, saving(5, **{"model.pt": "a0s5"}))
        assert "older checkpoint" not in [f.cause for f in found]
