"""The model of a picture: lanes, bars, marks and meetings, of golden histories and of real runs."""

from __future__ import annotations

from signal import SIGKILL

import pytest
from support import pictured
from support.golden import Golden

from breakrank.history.output_times import Printed
from breakrank.timeline.crowd import MOST_RANKS, part
from breakrank.timeline.draw import draw, links
from breakrank.timeline.model import COLLECTIVE, DONE, FAILED, INNER, LEFT_OUT, NEVER, NEXT, PHASE, STRIKE, UNKNOWN
from breakrank.timeline.pack import pack
from breakrank.timeline.thin import thin


def bars(picture, *kinds, lane=None):
    return [bar for bar in picture.bars if bar.kind in kinds and lane in (None, bar.lane)]


def call(number, **facts):
    return {"c": number, "size": 2, "reduce": "SUM", "site": "train.py:8", **facts}


def finishes(rank, number):
    return rank.writes("done", op="allreduce_", group="0", c=number)


def both_reduce(job, *, other=None):
    """Let both ranks call and complete a collective, the second with other arguments."""
    for rank in job.ranks:
        rank.enters("collective", **call(1, **(other or {}) if rank.rank else {}))
    for rank in job.ranks:
        finishes(rank, 1)


def test_a_phase_ends_at_its_payload_and_else_at_the_next_point():
    job = Golden(ranks=1)
    job[0].loads([1]).enters("forward").enters("backward").exits(0)
    loaded, forward, backward = bars(draw(job.history()), PHASE)
    assert (loaded.name, loaded.ending) == ("load", DONE)
    assert (forward.name, forward.ending, forward.end) == ("forward", NEXT, backward.start)


def test_the_phase_in_which_a_rank_was_killed_never_ended():
    job = Golden(ranks=1)
    job[0].enters("forward").dies(SIGKILL)
    (bar,) = bars(draw(job.history()), PHASE)
    assert bar.ending == NEVER


def test_a_write_within_a_save_is_an_inner_bar_and_the_save_goes_on_after_it():
    job = Golden(ranks=1)
    job[0].enters("save", path="m.pt").opens("m.pt").closes("m.pt", "f")
    job[0].writes("payload", of="save", path="m.pt", file="f", size=1, done=1).ends()
    (save,) = [bar for bar in bars(draw(job.history()), PHASE) if bar.name == "save"]
    (write,) = bars(draw(job.history()), INNER)
    assert save.start < write.start < write.end < save.end and save.ending == DONE


def test_a_line_of_output_is_a_mark_on_the_main_lane_of_its_rank_and_attempt():
    job = Golden()
    both_reduce(job)
    printed = {(0, 1): {"stderr": [Printed(5.0, "lost \x1b[31m"), Printed(6.0, "x" * 500)]}}
    picture = draw(job.ends_well().history(), printed=printed)
    red, long = [mark for mark in picture.marks if mark.kind == "output"]
    assert (picture.lanes[red.lane].rank, picture.lanes[red.lane].thread) == (1, "main")
    assert (red.time, red.name, red.event["stream"]) == (5.0, "lost \\x1b[31m", "stderr")
    assert len(long.name) == 80 and long.event["text"] == "x" * 500


def test_members_of_one_collective_meet_and_agree():
    job = Golden()
    both_reduce(job)
    picture = draw(job.ends_well().history())
    assert {bar.meeting for bar in bars(picture, COLLECTIVE)} == {0}
    assert [meeting.differs for meeting in picture.meetings] == [""]


@pytest.mark.parametrize(
    ("other", "words"),
    [
        ({"shapes": [[2, 3]]}, "shape mismatch: rank 0 3×2, rank 1 2×3"),
        ({"dtype": "int64"}, "dtype mismatch"),
        ({"reduce": "MAX"}, "reduce op mismatch"),
        ({"op": "broadcast_", "root": 0}, "collective mismatch"),
    ],
)
def test_members_that_differ_are_told_apart_by_what_differs(other, words):
    job = Golden()
    both_reduce(job, other=other)
    (meeting,) = draw(job.ends_well().history()).meetings
    assert meeting.differs.startswith(words)


def test_a_call_that_raised_failed_and_one_without_an_end_is_unknown_if_its_rank_ended_well():
    job = Golden(ranks=1)
    job[0].enters("collective", **call(1))
    job[0].writes("done", op="allreduce_", group="0", c=1, error="RuntimeError")
    job[0].enters("collective", **call(2)).ends()
    assert [bar.ending for bar in bars(draw(job.history()), COLLECTIVE)] == [FAILED, UNKNOWN]


def test_a_strike_lasts_from_its_firing_until_it_is_healed():
    job = Golden(ranks=1)
    job[0].enters("forward").writes("strike", strike=0, phase="fired", point="forward", visit=1)
    job.says("strike", strike=0, rank=0, attempt=0, phase="landed", witness="proc")
    job[0].enters("backward")
    job.says("strike", strike=0, rank=0, attempt=0, phase="healed")
    picture = draw(job.ends_well().history(), ["stop"])
    (struck,) = bars(picture, STRIKE)
    assert struck.ending == DONE and struck.name == "stop"
    assert [mark.name for mark in picture.marks if mark.kind == "strike"] == [
        "stop fired",
        "stop landed",
        "stop healed",
    ]


def test_the_lanes_of_a_hang_stand_in_calls_that_never_completed_and_wait_for_each_other(once):
    saved = pictured.make(once, "hang")
    picture = draw(saved.history)
    never = [(n, bar) for n, bar in enumerate(picture.bars) if bar.ending == NEVER and bar.kind == COLLECTIVE]
    assert [(lane.rank, lane.end) for lane in picture.lanes] == [(rank, "ended by Breakrank") for rank in range(3)]
    waits = {picture.lanes[bar.lane].rank: set(picture.waits[n]) for n, bar in never}
    assert waits.keys() == {0, 1, 2} and 1 in waits[0] and waits[1] <= {0, 2}
    assert all(rank not in peers for rank, peers in waits.items())


def test_a_killed_rank_has_lanes_in_both_attempts_and_its_strike_ends_with_it(once):
    saved = pictured.make(once, "kill")
    picture = draw(saved.history, ["kill"])
    assert [(lane.attempt, lane.rank) for lane in picture.lanes] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert picture.lanes[1].end == "killed by SIGKILL" and picture.lanes[3].end == "exit 0"
    (struck,) = bars(picture, STRIKE)
    (exited,) = [mark for mark in picture.marks if mark.kind == "exit" and mark.lane == 1]
    assert (struck.lane, struck.end, struck.ending) == (1, exited.time, DONE)
    assert [bar.lane for bar in bars(picture, COLLECTIVE) if bar.ending == NEVER] == [1]


def test_a_race_has_turns_and_a_link_between_accesses_of_two_ranks(once):
    saved = pictured.make(once, "race")
    picture = draw(saved.history)
    found = links(picture, saved.verdict["findings"])
    assert picture.turns and found
    for link in found:
        one, other = picture.marks[link.one], picture.marks[link.other]
        assert one.kind == other.kind == "access" and one.lane != other.lane
        assert 0 <= one.turn < other.turn, "the later access is the second one"


def test_a_crash_has_its_marks_and_the_call_of_the_peer_failed(once):
    picture = draw(pictured.make(once, "crash").history)
    assert [lane.end for lane in picture.lanes if lane.thread == "main"] == ["exit 1", "killed by SIGSEGV"]
    assert {"exit", "crash"} <= {mark.kind for mark in picture.marks if mark.lane == 1}
    assert [bar.lane for bar in bars(picture, COLLECTIVE) if bar.ending == FAILED] == [0]


def test_of_many_ranks_those_that_matter_have_lanes_and_the_others_are_counted():
    job = Golden(ranks=MOST_RANKS + 6)
    for rank in job.ranks:
        rank.enters("forward").enters("collective", **call(1))
    history = job.hangs([69], peer=69).history()
    shown, heat = part(draw(history), {"blame": {"ranks": [69]}, "findings": []})
    assert 69 in {lane.rank for lane in shown.lanes} and len(shown.lanes) < MOST_RANKS
    assert heat.ranks == MOST_RANKS + 6 - len(shown.lanes)
    assert max(heat.running) == max(heat.calling) == heat.ranks


def test_few_ranks_all_have_lanes():
    picture = draw(Golden(ranks=3).trains(1).ends_well().history())
    assert part(picture, {}) == (picture, None)


def test_of_a_very_long_run_the_middle_of_each_lane_is_one_bar_that_says_how_much_it_stands_for():
    job = Golden(ranks=2)
    for rank in job.ranks:
        for _ in range(200):
            rank.loads([1]).enters("forward").enters("backward").enters("optimize").ends_step()
        rank.enters("collective", **call(1, op="barrier"))
    picture = draw(job.hangs([0, 1], peer=1).history())
    thinned, left_out = thin(picture, {(0, 100)}, most=400)
    gaps = [bar for bar in thinned.bars if bar.kind == LEFT_OUT]
    assert {bar.lane for bar in gaps} == {0, 1} and len(gaps) == 4, "one before and one behind the step that is kept"
    counted = sum(int(bar.name.split()[0]) for bar in gaps)
    assert counted == left_out == len(picture.bars) - (len(thinned.bars) - len(gaps))
    assert {1, 100, 200} <= {bar.step for bar in thinned.bars if bar.kind == PHASE}
    assert [thinned.bars[n].ending for n in thinned.waits] == [picture.bars[n].ending for n in picture.waits] == [NEVER]


def test_a_picture_that_fits_stays_as_it_is():
    picture = draw(Golden(ranks=2).trains(3).ends_well().history())
    assert thin(picture) == (picture, 0)


def test_a_long_run_keeps_whole_events_at_findings_and_ends_and_counts_the_rest():
    picture = draw(Golden(ranks=2).trains(500).ends_well().history())
    data, told = pack(picture, near={(0, 100)})
    kept = [picture.bars[position] for position in data["bars"]["events"]]
    assert told.events == len(picture.bars) + len(picture.marks) > told.whole > 0
    assert {100, 500} <= {bar.step for bar in kept} and 300 not in {bar.step for bar in kept}
