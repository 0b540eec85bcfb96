"""The record of collectives: each is recorded once, before it blocks and when it is over, with all its properties."""

from __future__ import annotations

import json

import jsonschema
import pytest
from support.plans import PROGRAMS, plan_of

from breakrank.runs.request import Request
from breakrank.runs.saved_run import load_run
from breakrank.schemas import schema
from breakrank.verdict import Outcome
from breakrank_agent import faults
from breakrank_agent.protocol.trigger import at

#: In the order of the program: operator, reduction, root, whether Python asked for a work.
IN_THE_WORLD = [
    ("allreduce_", "MAX", None, False),
    ("broadcast_", None, 1, False),
    ("reduce_", "PRODUCT", 2, False),
    ("allgather_", None, None, False),
    ("_allgather_base_", None, None, False),
    ("gather_", None, 0, False),
    ("scatter_", None, 1, False),
    ("_reduce_scatter_base_", "MIN", None, False),
    ("reduce_scatter_", "SUM", None, False),
    ("alltoall_base_", None, None, False),
    ("alltoall_base_", None, None, False),
    # Object collectives: the sizes, then the objects.
    *[("allgather_", None, None, False)] * 2,
    *[("broadcast_", None, 2, False)] * 2,
    ("allreduce_", "SUM", None, True),
    ("broadcast_", None, 0, True),
    *[("allreduce_", "SUM", None, True)] * 2,
    ("allreduce_coalesced_", "SUM", None, False),
    ("allreduce_", "MAX", None, False),
    ("allgather_into_tensor_coalesced_", None, None, False),
    # DDP's constructor, a step, its work once after the first step, another step.
    ("allgather_", None, None, False),
    *[("broadcast_", None, 0, False)] * 2,
    ("allreduce_", "SUM", None, False),
    *[("broadcast_", None, 0, False)] * 2,
    ("allreduce_", "SUM", None, False),
    ("barrier", None, None, False),
    ("monitored_barrier_", None, None, False),
]
WORLD = 3


@pytest.fixture(scope="module")
def seen(bench):
    """Return the history and the folder of a run of every collective."""
    plan = plan_of("every_collective:main", ranks=WORLD, steps=2, deadline_s=60.0, oracles=("ends",))
    result = bench.run(Request(plan, programs=PROGRAMS))
    assert result.verdict.outcome is Outcome.SURVIVED, result.verdict
    return load_run(result.folder).history, result.folder


@pytest.fixture(scope="module")
def watched(bench):
    """Return the history and the folder of such a run in which contents are recorded."""
    plan = plan_of("every_collective:main", ranks=WORLD, steps=2, deadline_s=60.0, oracles=("ends", "collectives"))
    folder = bench.run(Request(plan, programs=PROGRAMS)).folder
    return load_run(folder).history, folder


def issued(lived, group="0"):
    return [e for e in lived.points("collective") if e["group"] == group and "c" in e]


def dones(lived):
    return {(e["group"], e.get("c"), e["op"], e.get("p"), e.get("peer")): e for e in lived.of_kind("done")}


def test_every_collective_is_recorded_once_with_what_it_does(seen):
    for lived in seen[0].last:
        found = [(e["op"], e.get("reduce"), e.get("root"), e.get("async", False)) for e in issued(lived)]
        assert found == IN_THE_WORLD
        assert [e["c"] for e in issued(lived)] == list(range(1, len(found) + 1))


def test_all_ranks_give_a_collective_the_same_number_type_and_line_of_the_program(seen):
    for together in zip(*(issued(lived) for lived in seen[0].last), strict=True):
        told = {(e["c"], e["op"], e["dtype"], e["size"], e["site"]) for e in together}
        assert len(told) == 1 and told.pop()[4].startswith("every_collective.py:")


def test_a_group_is_recorded_before_its_first_collective_with_the_ranks_of_the_world(seen):
    for lived in seen[0].last:
        groups = {e["group"]: (e["ranks"], e["backend"], e["timeout_s"]) for e in lived.of_kind("group")}
        part = {"1": ([1, 2], "gloo", 1800.0)} if lived.rank else {}
        assert groups == {"0": ([0, 1, 2], "gloo", 77.0), **part}
        for group in groups:
            first = next(e["n"] for e in lived.points("collective") if e["group"] == group)
            assert next(e["n"] for e in lived.of_kind("group") if e["group"] == group) < first
        assert [(e["op"], e.get("root")) for e in issued(lived, "1")] == (
            [("broadcast_", 2), ("allreduce_", None)] * bool(part)
        )


def test_every_collective_and_message_is_over_once_and_after_it_was_issued(seen):
    for lived in seen[0].last:
        over = dones(lived)
        points = {(e["group"], e.get("c"), e["op"], e.get("p"), e.get("peer")): e for e in lived.points("collective")}
        assert over.keys() == points.keys() and len(over) == len(lived.of_kind("done"))
        assert all(points[key]["n"] < over[key]["n"] and "error" not in over[key] for key in over)


def test_a_call_that_waits_is_over_before_the_next_and_one_that_does_not_is_over_when_it_is_waited_for(seen):
    for lived in seen[0].last:
        order = [
            (e["kind"], e["c"])
            for e in lived.events
            if e["kind"] in ("point", "done") and e.get("group") == "0" and "c" in e
        ]
        assert order[:30] == [(kind, c) for c in range(1, 16) for kind in ("point", "done")]
        # The first of the two runs in the background. It may already be over when the second one is entered.
        waited_for = [("point", 16), ("point", 17), ("done", 17), ("done", 16)]
        over_by_then = [("point", 16), ("done", 16), ("point", 17), ("done", 17)]
        assert order[30:34] in (waited_for, over_by_then)


def test_messages_are_numbered_by_their_two_ranks_and_name_the_peer(seen):
    told = {
        lived.rank: [
            (e["op"], e["peer"], e["p"], e["tag"], e.get("async", False))
            for e in lived.points("collective")
            if "p" in e
        ]
        for lived in seen[0].last
    }
    ring = {rank: ((rank - 1) % WORLD, (rank + 1) % WORLD) for rank in range(WORLD)}
    around = {r: [("recv_", before, 1, 5, False), ("send", after, 1, 5, False)] for r, (before, after) in ring.items()}
    batch = {r: [("send", after, 2, 0, True), ("recv_", before, 2, 0, True)] for r, (before, after) in ring.items()}
    assert told == {
        0: [*reversed(around[0]), ("recv_any_source_", -1, 1, 7, False), *batch[0]],
        1: [*around[1], ("send", 0, 1, 7, False), *batch[1]],
        2: [*around[2], *batch[2]],
    }


def test_the_start_is_recorded_with_who_meets_where(seen):
    for lived in seen[0].last:
        meetings = lived.of_kind("rendezvous")
        assert [e["phase"] for e in meetings] == ["enter", "leave"]
        said = {name: meetings[0][name] for name in ("rank", "world", "init", "backend", "timeout_s")}
        assert said == {"rank": lived.rank, "world": WORLD, "init": "env://", "backend": "gloo", "timeout_s": 77.0}
        assert len({e["master"] for one in seen[0].last for e in one.of_kind("rendezvous")}) == 1
        assert [(e["phase"], e["ranks"]) for e in lived.of_kind("grouping")] == [("enter", [1, 2]), ("leave", [1, 2])]


def test_what_a_collective_read_and_wrote_is_recorded_only_when_its_law_is_judged(seen, watched):
    assert not any("in" in e or "out" in e for lived in seen[0].last for e in lived.events)
    for lived in watched[0].last:
        over = dones(lived)
        for event in lived.points("collective"):
            if "barrier" in event["op"]:
                continue
            done = over[event["group"], event.get("c"), event["op"], event.get("p"), event.get("peer")]
            # A callback of a future may change a tensor before we see that the future is complete.
            assert "in" in event and ("out" in done) == (event.get("c") != 18)
            assert done.get("kept", True) is True


def test_the_contents_obey_the_laws_of_a_sound_program(watched):
    ranks = watched[0].last
    asked = [{e["c"]: e for e in issued(lived)} for lived in ranks]
    over = [{e["c"]: e for e in lived.of_kind("done") if e["group"] == "0" and "c" in e} for lived in ranks]
    largest = {json.dumps(done[1]["out"]) for done in over}
    assert len(largest) == 1 and over[0][1]["out"][0]["max"] == 3.0
    assert [len(one[2]["in"]) for one in asked] == [0, 1, 0]
    assert {done[2]["out"][0]["digest"] for done in over} == {asked[1][2]["in"][0]["digest"]}
    assert [len(done[3]["out"]) for done in over] == [0, 0, 1]
    sent = [one[5]["in"][0]["digest"] for one in asked]
    assert all([p["digest"] for p in done[5]["out"][0]["parts"]] == sent for done in over)
    mine = [[p["sum"] for p in one[11]["in"][0]["parts"]] for one in asked]
    theirs = [[p["sum"] for p in done[11]["out"][0]["parts"]] for done in over]
    assert theirs == [list(column) for column in zip(*mine, strict=True)]
    summed = sum(one[26]["in"][0]["sum"] for one in asked)
    assert all(done[26]["out"][0]["sum"] == pytest.approx(summed) for done in over)


def test_results_are_the_same_without_the_agent_with_it_and_with_contents(bench, seen, watched):
    plan = plan_of("every_collective:main", ranks=WORLD, steps=2, deadline_s=60.0, oracles=("ends",))
    without = bench.run(Request(plan, programs=PROGRAMS, agent=False)).folder
    for rank in range(WORLD):
        told = {(folder / "work" / f"results-{rank}.txt").read_text() for folder in (without, seen[1], watched[1])}
        assert len(told) == 1
        printed = {
            (folder / "attempt-0" / f"rank-{rank}.out").read_bytes() for folder in (without, seen[1], watched[1])
        }
        assert len(printed) == 1


def test_the_events_keep_to_the_schema(watched):
    check = jsonschema.Draft202012Validator(schema("event"))
    for lived in watched[0].last:
        for event in lived.events:
            check.validate(event)


def test_a_collective_that_fails_is_over_with_its_error(run):
    _, saved = run("small:train", faults.Kill() @ at(rank=1, step=2, point="collective"), oracles=("ends",))
    lived = saved.history.last[0]
    assert [e["error"] for e in lived.of_kind("done") if "error" in e] == ["RuntimeError"]
    assert lived.of_kind("done")[-1]["c"] == issued(lived)[-1]["c"]


def test_a_strike_at_a_collective_fires_when_a_thread_of_the_backend_issues_it_in_a_backward_pass(run):
    """Goal: on a card DDP's all-reduces come from the autograd engine's thread. Method: a thread that Python did not
    start issues an all-reduce while the main thread waits for it in a backward pass."""
    result, saved = run(
        "foreign_thread:main", faults.Placebo() @ at(rank=1, step=2, point="collective", visit=2), oracles=("ends",)
    )
    assert result.verdict.outcome is Outcome.SURVIVED, result.verdict
    lived = saved.history.last[1]
    fired = [e for e in lived.of_kind("strike") if e["phase"] == "fired"]
    assert [(e["seq"], e["step"], e["visit"]) for e in fired] == [("main", 2, 2)]
    for one in saved.history.last:
        in_steps = [(e["seq"], e["step"], e["visit"]) for e in issued(one) if e["step"]]
        assert in_steps == [("main", step, visit) for step in range(1, 5) for visit in (1, 2)]
        assert all(e["site"].startswith("foreign_thread.py:") for e in issued(one))
    elsewhere = [e["seq"] for e in saved.history.last[0].points("collective") if e["step"] == 0]
    assert elsewhere == ["thread-1"]


def test_a_group_that_is_made_anew_under_the_old_name_is_another_one(run):
    result, saved = run("every_collective:twice", oracles=("ends",))
    assert result.verdict.outcome is Outcome.SURVIVED, result.verdict
    for lived in saved.history.last:
        assert [(e["group"], e["c"]) for e in lived.points("collective")] == [("0", 1), ("0#2", 1), ("0#2", 2)]
