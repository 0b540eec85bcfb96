"""Ranks that wait in messages for each other in a circle, or make groups unlike, are proven to hang, and said so."""

from __future__ import annotations

import pytest

from breakrank.verdict import Outcome

JOB = {"ranks": 3, "steps": 4, "deadline_s": 60.0, "oracles": ("ends", "progress", "collectives")}
CIRCLES = {
    "all_send_first": ((), "each receives only after its own send"),
    "all_send_much_first": ((), "each receives only after its own send"),
    "all_receive_first": ((), "each sends only after its own receive"),
    "all_wait_for_their_send_first": ((), "each receives only after its own send"),
    "the_last_turns_round_at_step_3": ((2,), "at step 2: each receives only after its own send"),
}
GROUPS = {
    "members_make_their_group_alone": "of [0, 1] on ranks 0 and 1 (circles.py:",
    "pairs_make_their_groups_alone": "and of [2, 3] on ranks 2 and 3 (circles.py:",
    "makes_groups_in_another_order": "of [0, 1, 2] on rank 1 (circles.py:",
}


@pytest.mark.parametrize("way", CIRCLES)
def test_a_circle_of_messages_is_said_with_each_of_its_ranks(run, way):
    result, _ = run(f"circles:{way}", **JOB)
    found, (blamed, words) = result.verdict, CIRCLES[way]
    assert (found.outcome, found.findings[0].cause, found.blame.ranks) == (Outcome.HUNG, "message cycle", blamed)
    assert words in found.sentence() and found.sentence().startswith("rank 0 waits in "), found.sentence()
    assert all(f"rank {rank} in " in found.sentence() for rank in (1, 2)), found.sentence()


@pytest.mark.parametrize("way", GROUPS)
def test_groups_that_ranks_make_unlike_are_proven_and_named(run, way):
    result, saved = run(f"circles:{way}", **{**JOB, "ranks": 4 if way.startswith("pairs") else 3})
    hung = [event["why"] for event in saved.history.seen("hung")]
    # Two pairs meet under one name in the store: if one has met before the other comes, both get away with it.
    lucky = way.startswith("pairs") and not hung
    said = (Outcome.SILENT, ["new_group mismatch"]) if lucky else (Outcome.HUNG, ["group mismatch"])
    causes = [finding.cause for finding in result.verdict.findings]
    assert (result.verdict.outcome, causes) == said, result.verdict.sentence()
    assert result.verdict.sentence().startswith("call 1 of new_group makes a group "), result.verdict.sentence()
    assert GROUPS[way] in result.verdict.sentence(), result.verdict.sentence()


@pytest.mark.parametrize("way", [
    "the_last_receives_first",
    "nobody_waits_for_the_send_first",
    "members_alone_have_to_make_their_group",
    "all_make_all_groups",
])  # fmt: skip
def test_sound_ones_are_left_alone(run, way):
    result, _ = run(f"circles:{way}", **JOB)
    assert result.verdict.outcome is Outcome.SURVIVED, result.verdict.sentence()
