"""Files under a controlled schedule: ranks interleave write by write, and the file on disk is judged."""

from __future__ import annotations

import pytest

from breakrank.verdict import Outcome

#: The two ranks write their own number, in four blocks of this size.
BLOCK = 1000


def blocks(result) -> list[int]:
    """Return the writer of each block of the file that both ranks wrote."""
    data = (result.folder / "work" / "shared.bin").read_bytes()
    assert len(data) == 4 * BLOCK
    found = [set(data[at : at + BLOCK]) for at in range(0, len(data), BLOCK)]
    assert all(len(block) == 1 for block in found)
    return [block.pop() for block in found]


def write(run, seed, program="both_write", **values):
    return run(f"files:{program}", controlled="random", control="files:one_writes", seed=seed, **values)


def test_writes_of_two_ranks_are_really_mixed_and_judged_by_what_is_on_disk(run):
    seen = set()
    for seed in range(4):
        result, saved = write(run, seed)
        writers = blocks(result)
        # The bytes of a block are those of its last writer, in the order of turns.
        turns = sorted(
            (e["turn"], lived.rank)
            for lived in saved.history.last
            for e in lived.of_kind("access")
            if (e["key"], e["op"]) == ("shared.bin", "write")
        )
        each = [[turn for turn, rank in turns if rank == r] for r in (0, 1)]
        assert writers == [int(one > zero) for zero, one in zip(*each, strict=True)]
        (finding,) = result.verdict.findings
        assert result.verdict.outcome is Outcome.SILENT and finding.ranks == (0, 1)
        assert finding.cause == ("interleaved file" if len(set(writers)) == 2 else "lost write")
        seen.add(finding.cause)
    assert seen == {"interleaved file", "lost write"}


def test_one_writer_is_left_alone(run):
    for seed in range(4):
        result, _ = write(run, seed, "one_writes")
        assert result.verdict.outcome is Outcome.SURVIVED, result.verdict
        assert blocks(result) == [9] * 4


def test_the_same_schedule_gives_the_same_file(run):
    assert len({tuple(blocks(write(run, 3)[0])) for _ in range(4)}) == 1


@pytest.mark.parametrize("mode", ["text", "appended", "unbuffered"])
def test_a_file_under_a_schedule_behaves_as_any_other(run, mode):
    result, saved = run(f"files:{mode}", controlled="random", oracles=("ends",), ranks=1, steps=1)
    assert result.verdict.outcome is Outcome.SURVIVED, (result.folder / "attempt-0" / "rank-0.err").read_text()
    told = [e["values"] for e in saved.history.last[0].of_kind("told")]
    free, _ = run(f"files:{mode}", oracles=("ends",), ranks=1, steps=1)
    for name in ("first", "second"):
        under, plain = ((r.folder / "work" / name).read_bytes() for r in (result, free))
        assert under == plain and under
    assert told == [{"same": True}]


def test_ranks_that_write_before_they_meet_do_not_wait_for_each_other_unseen(run):
    for seed in range(4):
        result, _ = run("files:write_before_meeting", controlled="random", seed=seed, oracles=("ends",), steps=3)
        assert result.verdict.outcome is Outcome.SURVIVED, result.verdict


def test_a_removal_in_an_open_folder_is_named_by_its_path(run):
    _, saved = run("files:clears", oracles=("ends",), ranks=1, steps=1)
    points = [(e["how"], e["path"]) for e in saved.history.last[0].points("write")]
    assert points == [
        # If the folder above is missing, it is made first.
        ("mkdir", "old/er"),
        ("open folder", "old"),
        ("mkdir", "old/er"),
        ("open", "old/er/one"),
        ("remove", "old/er/one"),
        ("rmdir", "old/er"),
        ("rmdir", "old"),
    ]


def test_a_rename_says_from_where_the_file_came(run):
    _, saved = run("files:renames", oracles=("ends",), ranks=1, steps=1)
    renames = [(e.get("source"), e["path"]) for e in saved.history.last[0].points("write") if e["how"] == "rename"]
    assert renames == [("aside", "kept"), (None, "brought")]
