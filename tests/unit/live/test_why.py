"""The answers of `why` on recorded stacks.

Goal: each answer, without a job. Method: `stacks/*.json` are looks at real jobs of two ranks, three outputs of `py-spy
dump --nonblocking --json` for each rank; only folders and numbers of processes were renamed.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest

from breakrank import __main__
from breakrank.errors import BreakrankError
from breakrank.host import stacks
from breakrank.host.stacks import Frame, Place, Stack, Wait, fold, parse_dump, parse_stacks, read_stacks
from breakrank.live.roster import Member, absent
from breakrank.live.sampling import Look, Seen, merge
from breakrank.live.why import judge, only_ranks
from breakrank.report.answers import why_json
from breakrank.report.groups import draw_answer
from breakrank.schemas import schema
from breakrank_agent.protocol.identity import is_launcher

STANDARD = "/usr/lib/python3.11/"
PACKAGES = "/opt/venv/lib/python3.11/site-packages/"
TORCH = PACKAGES + "torch/"
C10D = TORCH + "distributed/distributed_c10d.py"


def recorded(name: str, world: int = 2, local_world: int | None = 2) -> list[Seen]:
    """Return the ranks of a recorded job."""
    looks = json.loads((Path(__file__).parents[2] / "support" / "stacks" / f"{name}.json").read_text())
    seen = []
    for rank, rows in ((int(text), rows) for text, rows in looks.items()):
        member = Member(1000 + rank, rank, world, rank, local_world, "127.0.0.1:29500")
        taken = [Look(r["state"], r["wakes"], stacks=tuple(parse_stacks(r["threads"], member.pid))) for r in rows]
        seen.append(merge(member, taken))
    return seen


def beside(seen: Seen, rank: int, **changes: object) -> Seen:
    """Return the same looks as those of another rank."""
    return replace(seen, member=replace(seen.member, rank=rank, local_rank=rank, pid=1000 + rank), **changes)


def of_four(seen: list[Seen]) -> list[Seen]:
    """Return the ranks as those of a job of four, of which ranks 2 and 3 do what rank 0 does."""
    four = [seen[0], seen[1], beside(seen[0], 2), beside(seen[0], 3)]
    return [replace(one, member=replace(one.member, world=4, local_world=4)) for one in four]


@pytest.mark.parametrize(
    ("name", "sentence", "odd"),
    [
        (
            "parted",
            "rank 0 waits in all_reduce (parted.py:13), rank 1 in barrier (parted.py:11): they went different ways",
            [0, 1],
        ),
        (
            "spinning",
            "rank 1 runs in spin (job.py:8-9), rank 0 waits in all_reduce (job.py:24): rank 1 has not come to it",
            [1],
        ),
        (
            "ddp",
            "rank 1 waits in DataLoader for a worker (ddp.py:16), rank 0 in backward (ddp.py:19): "
            "rank 1 has not come to it",
            [1],
        ),
    ],
)
def test_the_odd_one_is_named(name, sentence, odd):
    answer = judge(recorded(name))
    assert answer.sentence == sentence
    assert [one.member.rank for one in answer.odd] == odd


def test_in_a_healthy_job_nothing_is_odd():
    answer = judge(recorded("healthy"))
    assert answer.sentence == "nothing is odd: both ranks are moving" and not answer.odd


def test_the_few_are_odd_among_the_many():
    answer = judge(of_four(recorded("parted")))
    assert answer.sentence == (
        "rank 1 waits in barrier (parted.py:11), all others in all_reduce (parted.py:13): rank 1 went another way"
    )
    assert [[one.member.rank for one in group.seen] for group in answer.groups] == [[1], [0, 2, 3]]


def test_ranks_at_the_same_place_are_not_odd():
    zero, _ = recorded("parted")
    answer = judge([zero, beside(zero, 1)])
    assert answer.sentence == "no rank is the odd one out: both ranks wait in all_reduce (parted.py:13)"
    assert not answer.odd and "shapes" in answer.notes[0]


def test_ranks_that_run_between_looks_at_one_place_are_not_called_stuck():
    zero, _ = recorded("parted")
    answer = judge([replace(zero, woke=True), beside(zero, 1)])
    assert answer.sentence == "nothing is odd: both ranks go through all_reduce (parted.py:13)"


def test_the_same_collective_from_two_lines_is_not_called_wrong():
    zero, _ = recorded("parted")
    frames = (*zero.place.frames[:-1], replace(zero.place.frames[-1], line=20))
    answer = judge([zero, beside(zero, 1, place=replace(zero.place, frames=frames))])
    assert answer.sentence.endswith("by another line, which is right only if it is the same call for all")


def test_the_caller_is_named_where_the_innermost_lines_are_equal():
    zero, _ = recorded("parted")
    frames = (replace(zero.place.frames[0], line=30), *zero.place.frames[1:])
    answer = judge([zero, beside(zero, 1, place=replace(zero.place, frames=frames))])
    assert "called from parted.py:18 and parted.py:30" in answer.sentence


@pytest.mark.parametrize(
    ("changes", "does", "reason"),
    [
        ({"state": "T"}, "is stopped in barrier (parted.py:11)", "kill -CONT 1001 lets it go on"),
        (
            {"state": "t", "tracer": 77},
            "is stopped in barrier (parted.py:11)",
            "process 77 traces rank 1, as a debugger does",
        ),
        ({"state": "Z", "place": None}, "has ended", "the last output says more"),
        (
            {"state": "D"},
            "is held by the kernel in barrier (parted.py:11)",
            "storage or a device does not answer (state D)",
        ),
        ({"place": None, "unread": "no permission"}, "cannot be read", "no permission"),
    ],
)
def test_a_rank_that_does_not_run_comes_first(changes, does, reason):
    seen = of_four(recorded("parted"))
    answer = judge([seen[0], replace(seen[1], **changes), *seen[2:]])
    assert answer.sentence == f"rank 1 {does}, all others wait in all_reduce (parted.py:13): {reason}"
    assert [one.member.rank for one in answer.odd] == [1]


def test_missing_ranks_are_named():
    zero, _ = recorded("parted", world=3, local_world=3)
    answer = judge([zero, beside(zero, 2)])
    assert answer.sentence == (
        "rank 1 is missing, ranks 0 and 2 wait in all_reduce (parted.py:13): "
        "ranks 0 and 2 are here, and the world size is 3"
    )


def test_ranks_of_other_machines_are_not_missing():
    """Ranks 2 and 3 run on another node, as their launcher's environment says."""
    answer = judge(recorded("parted", world=4))
    assert answer.sentence.endswith("they went different ways")
    assert "2 of 4 ranks are on this machine: ask on the others, too" in answer.notes


@pytest.mark.parametrize(
    ("members", "missing"),
    [
        ([Member(1, 0, 4, 0, 4)], [1, 2, 3]),
        ([Member(1, 4, 8, 0, 4), Member(2, 6, 8, 2, 4)], [5, 7]),
        ([Member(1, 1, 3)], [0, 2]),
        ([Member(1)], []),
    ],
)
def test_absent_ranks_are_those_that_the_launcher_has_started_here(members, missing):
    assert absent(members) == missing


def test_helpers_and_launchers_are_left_out():
    zero, one = recorded("parted")
    worker = beside(zero, 0, role="helper")
    assert only_ranks([zero, one, worker]) == [zero, one]
    assert only_ranks([worker]) == [worker]


def test_a_torn_stack_is_no_movement():
    """A stack that is read while it changes may end above the thread's beginning."""
    frames = tuple(Frame(name, "/job/train.py", line) for name, line in (("<module>", 9), ("train", 5), ("step", 3)))
    whole = Stack("MainThread", True, True, Place(frames), ("/job/train.py", "<module>"))
    torn = replace(whole, place=Place(frames[2:]), root=("/job/train.py", "step"))
    seen = merge(Member(1, 0), [Look("R", 0, stacks=(stack,)) for stack in (whole, torn, whole)])
    assert seen.place == whole.place and not seen.changed and seen.busy


def test_what_several_looks_agree_on_is_where_a_moving_rank_is():
    def look(*lines: int) -> Look:
        frames = tuple(Frame(name, "/job/train.py", line) for name, line in zip("abc", lines, strict=False))
        return Look("R", 0, stacks=(Stack("MainThread", True, True, Place(frames), ("/job/train.py", "a")),))

    seen = merge(Member(1, 0), [look(1, 2, 3), look(1, 2, 4), look(1, 6, 3)])
    assert seen.changed and [frame.lines for frame in seen.place.frames] == ["1", "2-6"]


def stack(*calls: tuple[str, str]) -> list[Frame]:
    return [Frame(function, file, line) for line, (function, file) in enumerate(calls, 1)]


MAIN, TRAIN = ("<module>", "/job/train.py"), ("train", "/job/train.py")
WRAPPER = ("_exception_logger.<locals>.wrapper", TORCH + "distributed/c10d_logger.py")


@pytest.mark.parametrize(
    ("calls", "own", "wait"),
    [
        (
            [MAIN, TRAIN, WRAPPER, ("all_gather_object", C10D), ("all_gather", C10D)],
            ["<module>", "train"],
            Wait("meeting", "all_gather_object"),
        ),
        ([MAIN, ("_engine_run_backward", TORCH + "autograd/graph.py")], ["<module>"], Wait("backward", "backward")),
        ([MAIN, ("Event.wait", STANDARD + "threading.py")], ["<module>"], Wait("other", "a lock or condition")),
        ([("run_path", "<frozen runpy>"), MAIN, TRAIN], ["<module>", "train"], None),
        # A trainer that is an installed package: its frames count, those of the frameworks do not.
        ([("main", PACKAGES + "trainer/cli.py"), ("barrier", C10D)], ["main"], Wait("meeting", "barrier")),
        # Frames that a fork has inherited are not the worker's.
        (
            [MAIN, TRAIN, ("_worker_loop", TORCH + "utils/data/_utils/worker.py"), ("__getitem__", "/job/data.py")],
            ["__getitem__"],
            Wait("helper", "a DataLoader worker"),
        ),
        # A user's function that is called like a collective is none.
        ([MAIN, ("all_reduce", "/job/train.py")], ["<module>", "all_reduce"], None),
    ],
)
def test_a_stack_is_folded_to_the_users_frames_and_what_they_wait_for(calls, own, wait):
    place = fold(stack(*calls))
    assert [frame.function for frame in place.frames] == own and place.wait == wait


@pytest.mark.parametrize(
    ("command", "launches"),
    [
        ("torchrun --nproc-per-node=2 train.py", True),
        ("/opt/venv/bin/python /opt/venv/bin/torchrun train.py", True),
        ("python3.11 -u -m torch.distributed.run train.py", True),
        ("python -X dev -m accelerate.commands.launch train.py", True),
        ("mpirun -n 2 python train.py", True),
        ("python train.py --backend deepspeed torchrun", False),
        ("python -c pass torchrun", False),
        ("bash run.sh", False),
        ("", False),
    ],
)
def test_launchers_are_known_by_what_they_run(command, launches):
    assert is_launcher(command.split()) is launches


@pytest.mark.parametrize(
    ("script", "says"),
    [
        ("echo 'Permission Denied: Try again' >&2; exit 1", "ptrace_scope"),
        ("echo; echo 'Error: Failed to find python version' >&2; exit 1", "Failed to find python version"),
        ("echo '[{}]'", "not understood"),
        ("echo 'no JSON'", "not understood"),
    ],
)
def test_a_tool_that_cannot_read_says_why(script, says, tmp_path):
    tool = tmp_path / "py-spy"
    tool.write_text(f"#!/bin/sh\n{script}\n")
    tool.chmod(0o755)
    try:
        found, unread = read_stacks(str(tool), 1)
    except BreakrankError as error:
        found, unread = [], str(error)
    assert not found and says in unread


def test_without_the_tool_the_cure_is_one_line(monkeypatch, capsys):
    monkeypatch.setattr(stacks.os, "access", lambda *_: False)
    monkeypatch.setattr(stacks.shutil, "which", lambda _: None)
    assert __main__.main(["why", "1"]) == 4
    assert capsys.readouterr().err.splitlines() == [
        "breakrank: py-spy, which reads the stacks, is not installed: pip install py-spy"
    ]


def test_the_answer_is_drawn_with_the_stacks_that_the_ranks_share():
    drawn = draw_answer(judge(of_four(recorded("parted")))).splitlines()
    assert drawn[1:7] == [
        "  rank 1 waits in barrier (parted.py:11)  [pid 1001]",
        "    <module>     /home/user/job/parted.py:18",
        "    synchronize  /home/user/job/parted.py:11",
        "  ranks 0, 2 and 3 wait in all_reduce (parted.py:13)  [pid 1000, 1002, 1003]",
        "    <module>     /home/user/job/parted.py:18",
        "    synchronize  /home/user/job/parted.py:13",
    ]
    assert "    py-spy dump --nonblocking --locals --pid 1001" in drawn


def test_the_answer_as_json_keeps_to_its_schema():
    form = json.loads(why_json(judge(of_four(recorded("parted")))))
    jsonschema.Draft202012Validator(schema("why")).validate(form)
    odd, others = form["groups"]
    assert (odd["odd"], odd["waits_in"], [one["rank"] for one in odd["processes"]]) == (True, "barrier", [1])
    assert odd["frames"][-1] == {"function": "synchronize", "file": "/home/user/job/parted.py", "line": 11}
    assert not others["odd"] and [one["pid"] for one in others["processes"]] == [1000, 1002, 1003]


def test_a_dump_of_faulthandlers_is_folded_to_the_users_lines():
    packages = "/x/lib/python3.11/site-packages/torch/distributed"
    frames = [
        ("/runs/agent-1.zip/breakrank_agent/hooks/torch/async_work.py", 143, "waiting"),
        (f"{packages}/distributed_c10d.py", 5356, "barrier"),
        (f"{packages}/c10d_logger.py", 83, "wrapper"),
        ("/home/me/train.py", 9, "epoch"),
        ("/home/me/train.py", 20, "<module>"),
    ]
    lines = [f'  File "{file}", line {line} in {function}' for file, line, function in frames]
    (stack,) = parse_dump("\n".join(["Current thread 0x00007efc (most recent call first):", *lines]))
    assert stack.main and stack.own
    assert [frame.where for frame in stack.place.frames] == ["train.py:20", "train.py:9"]
    assert stack.place.wait == Wait("meeting", "barrier")
