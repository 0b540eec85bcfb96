"""The promises of a run: one plan, one digest; parking changes nothing; the agent changes nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.lasting import soak
from support.plans import PROGRAMS, plan_of

from breakrank.judge.run_digest import digest
from breakrank.runs.bench import Bench
from breakrank.runs.request import Request
from breakrank.runs.saved_run import load_run
from breakrank.verdict import Outcome
from breakrank_agent import faults
from breakrank_agent.protocol.trigger import at

KILL = faults.Kill() @ at(rank=1, step=2, point="collective")


def test_a_placebo_lands_and_changes_nothing(run):
    struck, saved = run("small:train", faults.Placebo() @ at(rank=1, step=2, point="collective"))
    assert struck.verdict.outcome is Outcome.SURVIVED, struck.verdict
    assert [e["witness"] for e in saved.history.seen("strike") if e["phase"] == "landed"] == [
        "waitpid: stopped, then continued"
    ]
    for lived in saved.history.last:
        other = saved.control.ranks[0, lived.rank]
        assert lived.end["params"] == other.end["params"]
        assert [e.get("params") for e in lived.payloads("step")] == [e.get("params") for e in other.payloads("step")]


def test_a_strike_that_waits_for_what_a_program_does_not_have_says_for_what(run):
    result, _ = run("small:train", faults.BypassWrapper() @ at(rank=1, step=2, point="forward"))
    assert result.verdict.outcome is Outcome.VOID
    assert "strike 0 waited in vain for a call of a wrapper" in " ".join(result.verdict.notes)


def test_the_same_plan_gives_the_same_digest(run):
    assert len({run("small:train", KILL)[0].verdict.digest for _ in range(4)}) == 1


def test_another_step_another_rank_and_one_flipped_bit_change_the_digest(run):
    flip = faults.FlipBit(parameter=0, bit=0) @ at(rank=1, step=2)
    runs = {
        "none": run("small:train"),
        "kill": run("small:train", KILL),
        "later": run("small:train", faults.Kill() @ at(rank=1, step=3, point="collective")),
        "other rank": run("small:train", faults.Kill() @ at(rank=0, step=2, point="collective")),
        "flip": run("small:train", flip),
        "placebo": run("small:train", faults.Placebo() @ at(rank=1, step=2)),
    }
    digests = {name: result.verdict.digest for name, (result, _) in runs.items()}
    assert len(set(digests.values())) == len(digests), digests
    assert runs["flip"][0].verdict.outcome is Outcome.SILENT
    assert runs["flip"][0].verdict.findings[0].cause == "replicas differ"


def test_how_long_a_thread_goes_on_does_not_change_the_digest_and_what_it_does_changes_it(run):
    runs = {name: run(f"beside:{name}", ranks=1, steps=3) for name in ("few", "many", "late", "elsewhere")}
    assert len(runs["many"][1].history.last[0].points("write")) >= 40
    digests = {name: result.verdict.digest for name, (result, _) in runs.items()}
    assert digests["few"] == digests["many"] == digests["late"] != digests["elsewhere"]


def test_what_torch_compiles_is_seen_and_comes_to_the_same_where_accesses_are_watched(run):
    plan = {"ranks": 1, "steps": 3}
    watched, plain = (run("compiled:main", oracles=names, **plan)[1] for names in (("ends", "race"), ("ends",)))
    assert "mul.Tensor" in {access["op"] for access in watched.history.last[0].of_kind("access")}
    assert watched.history.last[0].end["state"] == plain.history.last[0].end["state"]


def test_another_seed_changes_the_digest_of_a_controlled_schedule(run):
    program = "small:one_leaves_the_barrier"
    digests = [run(program, controlled="random", seed=seed, oracles=("ends",))[0].verdict.digest for seed in range(3)]
    assert len(set(digests)) == 3


@pytest.mark.parametrize("program", ["train", "raises", "leaves_with_three", "floods"])
def test_without_the_agent_a_program_ends_the_same(bench, run, program):
    with_agent, saved = run(f"small:{program}", oracles=("ends",))
    without = bench.run(Request(plan_of(f"small:{program}", oracles=("ends",)), programs=PROGRAMS, agent=False))
    bare = load_run(without.folder).history
    assert {r: lived.status for (_, r), lived in bare.ranks.items()} == {
        r: lived.status for (_, r), lived in saved.history.ranks.items()
    }
    for name in ("rank-0.out", "rank-1.out"):
        printed = [(result.folder / "attempt-0" / name).read_bytes() for result in (with_agent, without)]
        assert printed[0] == printed[1]
    if program == "train":
        kept = [(result.folder / "work" / "checkpoint.pt").read_bytes() for result in (with_agent, without)]
        assert kept[0] == kept[1]


@pytest.mark.parametrize("program", ["train", soak("segfaults")])
def test_a_cold_rank_gives_the_digest_of_a_warm_one(bench, run, tmp_path, program):
    # On a busy machine a cold rank imports torch for longer than the other tests wait for a new point.
    terms = {"oracles": ("ends",), "deadline_s": 120.0}
    warm, _ = run(f"small:{program}", **terms)
    with Bench(tmp_path / "cold", cold=True) as cold:
        other, _ = run(f"small:{program}", on=cold, **terms)
    assert (warm.verdict.outcome, warm.verdict.digest) == (other.verdict.outcome, other.verdict.digest)


def test_a_warm_rank_finalizes_at_its_end_what_a_cold_one_does(bench, run, tmp_path):
    left = {}
    with Bench(tmp_path / "cold", cold=True) as cold:
        for name, on in (("warm", bench), ("cold", cold)):
            result, _ = run("small:leaves_it_to_python", on=on, steps=1, oracles=("ends",), deadline_s=120.0)
            assert result.verdict.outcome is Outcome.SURVIVED, result.verdict
            files = (path for path in (result.folder / "work").iterdir() if path.name.split("-")[0] in ("held", "left"))
            left[name] = {path.name: path.read_text() for path in files}
    assert left["cold"] == {"held-by-nobody": "tidied", "held-by-the-module": "tidied", "left-open": "flushed"}
    assert left["warm"] == left["cold"]


def test_a_replay_gives_the_same_digest_and_a_changed_program_is_void(bench, tmp_path):
    programs = tmp_path / "programs"
    programs.mkdir()
    source = (PROGRAMS / "small.py").read_text()
    (programs / "small.py").write_text(source)
    plan = plan_of("small:one_leaves_the_barrier", controlled="random", oracles=("ends",))
    first = bench.run(Request(plan, programs=programs))
    again, saved = bench.replay(first.folder, programs)
    assert again.verdict.digest == first.verdict.digest == saved["digest"]
    assert again.plan.schedule.policy == "replay"
    changed = source.replace("shared.add_(1)\n        step()", "shared.mul_(2)\n        step()")
    (programs / "small.py").write_text(changed)
    other, _ = bench.replay(first.folder, programs)
    assert other.verdict.outcome is Outcome.VOID
    assert "the replay diverged" in other.verdict.sentence()


def test_a_strike_that_never_fires_is_void_and_names_the_points_that_there_are(run):
    result, _ = run("small:train", faults.Kill() @ at(rank=1, step=2, point="collective", visit=9))
    assert result.verdict.outcome is Outcome.VOID
    assert "never fired" in result.verdict.sentence() and "collective (2 visits)" in result.verdict.sentence()


def test_a_strike_on_all_ranks_that_ends_them_all_is_void(run):
    result, saved = run("small:train", faults.Kill() @ at(rank="all", step=2))
    assert result.verdict.outcome is Outcome.VOID
    landed = [e["rank"] for e in saved.history.seen("strike") if e["phase"] == "landed"]
    assert sorted(landed) == [0, 1]


def test_a_group_is_started_again_only_as_often_as_it_may_be(run):
    result, saved = run("small:train", KILL, restarts=2)
    assert saved.history.attempts == [0, 1]
    assert result.verdict.outcome is Outcome.SURVIVED, result.verdict
    assert [lived.status for lived in saved.history.attempt(0)][1] == -9


def test_the_history_can_be_judged_again_offline(run):
    from breakrank.judge.judge import judge

    result, saved = run("small:train", KILL)
    again = judge(saved.history, saved.control, saved.plan)
    assert (again.outcome, again.findings, again.blame) == (
        result.verdict.outcome,
        result.verdict.findings,
        result.verdict.blame,
    )
    assert digest(saved.history) == result.verdict.digest
    assert replace(again, digest=result.verdict.digest) == result.verdict


def test_a_race_is_replayed_move_by_move(bench):
    from breakrank.plan.build import Choices, make_plan
    from breakrank.plan.catalogue import load_scenarios

    scenario = load_scenarios()["race_condition"]
    first = bench.run(Request(make_plan(scenario, scenario.cases[0], Choices(seed=5))))
    again, _ = bench.replay(first.folder)
    assert (again.verdict.outcome, again.verdict.digest) == (Outcome.SILENT, first.verdict.digest)
    assert again.verdict.findings == first.verdict.findings


def test_without_digests_no_step_is_digested_and_the_result_is_compared_still(run):
    flip = faults.FlipBit(parameter=0, bit=0) @ at(rank=1, step=2)
    sound, saved = run("small:train", digests="none")
    broken, _ = run("small:train", flip, digests="none")
    for lived in saved.history.last:
        assert lived.payloads("step") == [] and lived.end["params"]
        assert all(len(e["indices"]) == 4 and "batch" not in e for e in lived.payloads("load"))
    assert sound.verdict.outcome is Outcome.SURVIVED, sound.verdict
    assert broken.verdict.outcome is Outcome.SILENT
    assert (broken.verdict.findings[0].cause, broken.verdict.findings[0].step) == ("replicas differ", 4)
