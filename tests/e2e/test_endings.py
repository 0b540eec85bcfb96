"""Ends of real runs, and their verdicts: one small program for each way to end."""

from __future__ import annotations

import os

import psutil
import pytest
from support.plans import PROGRAMS, plan_of

from breakrank.errors import BreakrankError
from breakrank.host.blocked import Stillness
from breakrank.host.session_name import VARIABLE
from breakrank.runs.bench import Bench
from breakrank.runs.request import Request
from breakrank.verdict import Outcome
from breakrank_agent import faults
from breakrank_agent.protocol.trigger import at


def test_a_sound_program_survives_and_has_no_finding(run):
    result, saved = run("small:train")
    assert result.verdict.outcome is Outcome.SURVIVED, result.verdict
    assert [lived.last_step for lived in saved.history.last] == [4, 4]


def test_an_uncaught_exception_is_detected_and_its_rank_blamed(run):
    result, _ = run("small:raises")
    assert result.verdict.outcome is Outcome.DETECTED
    assert result.verdict.blame.ranks == (1,)
    assert "ValueError: no such label" in " ".join(result.verdict.reported)


def test_a_non_zero_exit_is_a_report(run):
    result, saved = run("small:leaves_with_three")
    assert result.verdict.outcome is Outcome.DETECTED
    assert saved.history.ranks[0, 1].report["code"] == 3
    assert result.verdict.blame.ranks == (1,)


def test_leaving_early_with_exit_code_zero_is_work_left_undone(run):
    result, saved = run("small:leaves_at_once")
    assert saved.history.ranks[0, 1].end["how"] == "os._exit"
    assert [f.cause for f in result.verdict.findings][:1] == ["training incomplete"]
    assert result.verdict.findings[0].ranks == (1,)


def test_a_segmentation_fault_is_a_crash_of_its_rank(run):
    result, saved = run("small:segfaults")
    assert result.verdict.outcome is Outcome.CRASHED
    assert saved.history.ranks[0, 1].died_of() == "SIGSEGV"
    assert result.verdict.blame.ranks == (1,)
    (finding,) = result.verdict.findings
    assert (finding.cause, finding.ranks, finding.step) == ("killed by a signal", (1,), 2)
    assert finding.evidence["site"].startswith("small.py:")
    assert "string_at" in (result.folder / "attempt-0" / "rank-1.crash").read_text()


def test_a_signal_after_the_work_is_over_is_a_good_end(run):
    result, saved = run("small:dies_at_the_exit")
    assert saved.history.ranks[0, 1].status == -6
    assert result.verdict.outcome is Outcome.SURVIVED
    assert any("SIGABRT" in note for note in result.verdict.notes)


def test_a_rank_that_spins_is_hung_at_the_deadline(run):
    result, saved = run("small:spins", deadline_s=1.0)
    assert result.verdict.outcome is Outcome.HUNG
    (hung,) = saved.history.seen("hung")
    assert (hung["why"], hung["evidence"]["by"], hung["evidence"]["looks"]) == ("deadline", "deadline", 0)
    assert ("moves", "") in {(seen["does"], seen["call"]) for seen in hung["evidence"]["threads"]}
    assert any("spin" in e["text"] for e in saved.history.seen("stacks"))


def test_a_wait_for_a_rank_that_has_ended_is_proven(run):
    result, saved = run("small:ends_before_its_peer_asks", deadline_s=60.0)
    assert result.verdict.outcome is Outcome.HUNG
    hung = saved.history.seen("hung")[0]
    assert (hung["why"], hung["peer"], hung["ranks"]) == ("peer ended", 1, [0])
    evidence = hung["evidence"]
    assert evidence["by"] == "threads" and evidence["looks"] >= Stillness.LOOKS
    assert {seen["rank"] for seen in evidence["threads"]} == {0}
    assert "moves" not in {seen["does"] for seen in evidence["threads"]}
    assert "futex" in {seen["call"] for seen in evidence["threads"] if seen["does"] == "waits"}


def test_a_rank_that_works_on_alone_is_not_hung(run):
    result, _ = run("small:works_on_alone")
    assert result.verdict.outcome is Outcome.SURVIVED, result.verdict


def test_a_wait_for_a_stopped_rank_is_proven_and_the_stopped_rank_blamed(run):
    result, saved = run("small:train", faults.Stop() @ at(rank=1, step=2, point="collective"), deadline_s=60.0)
    assert result.verdict.outcome is Outcome.HUNG
    hung = saved.history.seen("hung")[0]
    assert (hung["why"], hung["peer"], hung["ranks"]) == ("peer stopped", 1, [0])
    assert hung["waiting"][0]["timeout_s"] == 1800
    assert result.verdict.blame.ranks == (1,)


def test_a_program_that_never_ends_is_ended_at_ten_times_its_steps(run):
    result, saved = run("small:never_ends")
    assert result.verdict.outcome is Outcome.HUNG
    assert saved.history.seen("hung")[0]["why"] == "endless training"


def test_a_program_that_makes_none_of_its_steps_has_left_its_work_undone(run):
    result, _ = run("small:never_steps")
    assert result.verdict.outcome is Outcome.SILENT
    assert "ended with exit code 0 after 0 of 4 steps" in result.verdict.sentence()


def test_weights_that_are_no_numbers_are_found_on_their_rank_and_step(run):
    result, _ = run("small:turns_to_nan")
    finding = result.verdict.findings[0]
    assert result.verdict.outcome is Outcome.SILENT
    assert (finding.oracle, finding.step, finding.cause) == ("finite", 2, "non-finite value")


def test_what_a_rank_leaves_running_is_ended_with_it(run):
    run("small:leaves_a_daemon")
    # Other tests start such processes meanwhile; the daemon has the session of this process in its environment.
    names = ["cmdline", "environ"]
    slept = [p for p in psutil.process_iter(names) if p.info["cmdline"] == ["sleep", "1000"]]
    assert [p for p in slept if (p.info["environ"] or {}).get(VARIABLE, "").startswith(f"{os.getpid()}-")] == []


def test_a_flood_of_output_is_kept_at_both_ends_only(run):
    result, _ = run("small:floods")
    assert result.verdict.outcome is Outcome.SURVIVED
    printed = (result.folder / "attempt-0" / "rank-1.out").read_bytes()
    assert printed.startswith(b"xxx") and printed.endswith(b"yyy\n")
    assert len(printed) < 1_100_000 and b"bytes are left out here" in printed


@pytest.mark.parametrize(("program", "by"), [
    ("train", "optimizer SGD"),
    ("says_its_own_steps", "the program"),
    ("backward_alone", "backward"),
    ("accumulates", "optimizer SGD"),
])  # fmt: skip
def test_steps_are_counted_by_what_the_program_has(run, program, by):
    _, saved = run(f"small:{program}", oracles=("ends",))
    for lived in saved.history.last:
        assert [e["steps_by"] for e in lived.of_kind("note") if "steps_by" in e] == [by]
        assert lived.last_step == 4


@pytest.mark.parametrize(("program", "passes"), [("train", 1), ("accumulates", 2)])
def test_the_outermost_module_is_seen_at_every_step(run, program, passes):
    _, saved = run(f"small:{program}", oracles=("ends",))
    for lived in saved.history.last:
        steps = [e["step"] for e in lived.points("forward")]
        assert steps == [step for step in (1, 2, 3, 4) for _ in range(passes)]


def test_every_way_to_a_collective_is_seen(run):
    _, saved = run("small:collectives", oracles=("ends",))
    for lived in saved.history.last:
        seen = [(e["op"], e["group"]) for e in lived.points("collective")]
        names = [op for op, _ in seen]
        # The functional one, the Python one and the gradient's own; then objects, point to point, and the subgroup.
        assert names.count("allreduce_") == 3, names
        assert names.count("allgather_") >= 3 and "broadcast_" in names
        assert ("send" if lived.rank == 0 else "recv_") in names
        assert ("barrier", seen[0][1]) not in seen and "barrier" in names


WAITS = {"controlled": "random", "deadline_s": 60.0, "oracles": ("ends", "progress")}


def test_locks_in_opposite_order_are_a_deadlock_that_is_proven_at_once(run):
    outcomes = set()
    for seed in range(4):
        result, saved = run("small:crossed_locks", seed=seed, **WAITS)
        outcomes.add(result.verdict.outcome)
        if result.verdict.outcome is Outcome.HUNG:
            assert saved.history.seen("hung")[0]["why"] == "deadlock"
    assert outcomes <= {Outcome.HUNG, Outcome.SURVIVED} and Outcome.HUNG in outcomes


def test_a_collective_that_can_never_be_full_is_proven_at_once(run):
    result, saved = run("small:one_leaves_the_barrier", **WAITS)
    assert result.verdict.outcome is Outcome.HUNG
    hung = saved.history.seen("hung")[0]
    assert (hung["why"], hung["peer"], hung["waiting"][0]["op"]) == ("peer ended", 1, "barrier")


def test_a_control_whose_ranks_cannot_be_started_is_refused_again_in_the_next_case(tmp_path, monkeypatch):
    def refuse(*_, **__):
        raise BreakrankError("no rank can run here")

    plan = plan_of("plain:steps", faults.Kill() @ at(rank=1, step=2, point="step"))
    with Bench(tmp_path, cold=True) as bench:
        with monkeypatch.context() as within:
            within.setattr(bench, "_conduct", refuse)
            for _ in range(2):
                with pytest.raises(BreakrankError, match="no rank can run here"):
                    bench.run(Request(plan, programs=PROGRAMS))
        assert bench.run(Request(plan, programs=PROGRAMS)).verdict.outcome is not Outcome.VOID
