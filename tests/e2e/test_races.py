"""Races in real runs: racy variants are flagged at each seed, clean ones at none; a seed gives the same run again."""

from __future__ import annotations

import ast
import os
import shutil
import sys
from collections.abc import Iterator

import pytest
from support.lasting import soak
from support.plans import PROGRAMS

from breakrank.plan.build import Choices
from breakrank.plan.catalogue import load_scenarios
from breakrank.plan.for_scripts import make_script_plans
from breakrank.plan.scenario import Job, Scenario
from breakrank.runs.request import Request
from breakrank.runs.saved_run import load_run
from breakrank.verdict import Outcome
from breakrank_agent.plan import Schedule

SEEDS = range(3)
REPLAYS = 4
ORACLES = ("ends", "progress", "race")
#: Module to the number of ranks that its programs have.
MODULES = {"threads": 1, "ranks": 2}
#: The racy programs of each module. Each runs a part of the variants, because an attempt names only so many findings.
RACY = {"threads": ("racy", "racy_too", "racy_by_index"), "ranks": ("racy", "racy_too", "racy_by_collectives")}


def functions(module: str, folder=PROGRAMS) -> dict[str, range]:
    """Return the lines of each function of a program."""
    tree = ast.parse((folder / f"{module}.py").read_text())
    defined = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    return {node.name: range(node.lineno, (node.end_lineno or node.lineno) + 1) for node in defined}


def variants(module: str, name: str) -> list[str]:
    """Return the functions that a program lists under a name; the program is not run, because it must be a rank."""
    tree = ast.parse((PROGRAMS / f"{module}.py").read_text())
    (listed,) = (n for n in tree.body if isinstance(n, ast.Assign) and ast.unparse(n.targets[0]) == name)
    return [node.id for node in ast.walk(listed.value) if isinstance(node, ast.Name)]


def flagged(module: str, findings, folder=PROGRAMS) -> set[str]:
    """Return the functions in which the findings lie."""
    lines = functions(module, folder)

    def within(place: str) -> Iterator[str]:
        file, _, line = place.rpartition(":")
        if file == f"{module}.py":
            yield from (name for name, span in lines.items() if int(line) in span)

    return {name for finding in findings for place in finding.places for name in within(place)}


def explore(run, module: str, program: str, seed: int, **schedule):
    """Run a program under a schedule drawn from a seed."""
    drawn = Schedule("controlled", **{"policy": "random", **schedule})
    plan = {"ranks": MODULES[module], "steps": 1, "deadline_s": 60.0, "oracles": ORACLES}
    return run(f"{module}:{program}", seed=seed, schedule=drawn, **plan)[0]


@pytest.mark.parametrize("module", MODULES)
@pytest.mark.parametrize("seed", [0, *map(soak, SEEDS[1:])])
def test_what_races_is_flagged_at_each_seed(run, module, seed):
    findings = [f for p in RACY[module] for f in explore(run, module, p, seed).verdict.findings]
    assert set(variants(module, "RACY")) <= flagged(module, findings)


@pytest.mark.parametrize("module", MODULES)
@pytest.mark.parametrize("seed", [0, *map(soak, SEEDS[1:])])
def test_what_does_not_race_is_flagged_at_no_seed(run, module, seed):
    result = explore(run, module, "clean", seed)
    assert result.verdict.outcome is Outcome.SURVIVED, result.verdict.findings


@pytest.mark.parametrize("module", MODULES)
def test_at_full_speed_races_are_flagged_and_what_does_not_race_is_not(run, module):
    plan = {"ranks": MODULES[module], "steps": 1, "deadline_s": 60.0, "oracles": ORACLES}
    findings = [f for p in RACY[module] for f in run(f"{module}:{p}", **plan)[0].verdict.findings]
    assert set(variants(module, "RACY")) <= flagged(module, findings)
    assert run(f"{module}:clean", **plan)[0].verdict.findings == ()


@pytest.mark.parametrize(("module", "program"), [("threads", "count_unlocked"), ("ranks", "racy")])
def test_a_saved_run_is_replayed_with_the_same_value_and_digest(bench, run, module, program):
    saved = explore(run, module, program, seed=3, split=True)
    states = set()
    for _ in range(REPLAYS):
        again, _ = bench.replay(saved.folder, programs=PROGRAMS)
        assert (again.verdict.outcome, again.verdict.digest) == (saved.verdict.outcome, saved.verdict.digest)
        states.add(str([lived.end["state"] for lived in load_run(again.folder).history.last]))
    assert states == {str([lived.end["state"] for lived in load_run(saved.folder).history.last])}


def test_split_updates_get_lost_at_some_seeds_and_under_a_lock_at_none(run):
    def counted(program, **schedule):
        return {
            load_run(explore(run, "threads", program, seed, **schedule).folder).history.last[0].end["state"]["updates"]
            for seed in range(4)
        }

    assert min(counted("count_unlocked", split=True)) < 6
    assert counted("count_unlocked") == {6}, "an operator that is one move loses nothing"
    assert counted("count_locked", split=True) == {6}


@pytest.mark.parametrize("chosen", ["pct", "serial"])
def test_every_policy_runs_a_program_to_its_end(run, chosen):
    assert explore(run, "threads", "clean", 1, policy=chosen).verdict.outcome is Outcome.SURVIVED


def test_locks_that_wait_for_each_other_are_hung_at_once_and_named(run):
    results = [explore(run, "threads", "crossed_locks", seed) for seed in range(4)]
    hung = [r.verdict for r in results if r.verdict.outcome is Outcome.HUNG]
    assert hung and len(hung) < len(results), "the locks cross at some seeds and not at others"
    assert {f.cause for verdict in hung for f in verdict.findings if f.oracle == "progress"} == {"lock cycle"}
    sentence = hung[0].sentence()
    assert "thread-1 waits for lock" in sentence and "which thread-2 holds (threads.py:" in sentence


@pytest.mark.soak
def test_a_users_script_is_scheduled_as_far_as_it_can_be_and_ends(bench):
    """A loader worker and a thread that waits on a socket cannot be scheduled: notes name both, and nothing hangs."""
    scenario = load_scenarios()["race_condition"]
    (plan,) = make_script_plans(scenario, ["threaded.py"], Choices(ranks=1, deadline_s=120.0)).values()
    result = bench.run(Request(plan, where=PROGRAMS.parent / "scripts"))
    assert (result.folder / "attempt-0" / "rank-0.out").read_text() == "trained 3\n"
    assert result.verdict.outcome is Outcome.SILENT
    assert {f.oracle for f in result.verdict.findings} == {"race"}
    assert any("threaded.py:26" in f.places for f in result.verdict.findings)
    notes = "\n".join(result.verdict.notes)
    assert "threads that multiprocessing starts are neither scheduled nor watched" in notes
    assert "thread-1 waits for something that cannot be scheduled" in notes


@pytest.mark.parametrize("launcher", ["", soak("torchrun --standalone --nproc-per-node=2")])
def test_a_pool_is_watched_under_any_launcher_and_what_cannot_be_is_said(bench, monkeypatch, launcher):
    """A thread of the C library's, a loader worker and its feeder; the pool waits for work when the script is over."""
    monkeypatch.setenv("PATH", os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]]))
    scenario = load_scenarios()["race_condition"]
    choices = Choices(deadline_s=120.0) if launcher else Choices(ranks=1, deadline_s=120.0)
    (plan,) = make_script_plans(scenario, [*launcher.split(), "crowded.py"], choices).values()
    result = bench.run(Request(plan, where=PROGRAMS.parent / "scripts"))
    out = result.folder / ("launcher.out" if launcher else "attempt-0/rank-0.out")
    assert out.read_text() == "trained 6\n" * (2 if launcher else 1)
    assert result.verdict.outcome is Outcome.SILENT
    folder = PROGRAMS.parent / "scripts"
    assert [flagged("crowded", [finding], folder) for finding in result.verdict.findings] == [{"add"}]
    how = "not watched" if launcher else "neither scheduled nor watched"
    assert set(result.verdict.notes) == {
        "processes that torch starts are not watched",
        f"threads that multiprocessing starts are {how}",
        f"threads that something else than threading starts are {how}",
    }


def of_a_family(run, program: str, **values):
    """Run a program whose rank starts processes."""
    values = {"ranks": 1, "steps": 1, "deadline_s": 60.0, "oracles": ORACLES, **values}
    return run(f"children:{program}", **values)[0].verdict


@pytest.mark.parametrize("controlled", ["", "random"])
def test_a_child_races_with_who_does_not_come_after_it_and_with_nobody_else(run, controlled):
    clean = of_a_family(run, "clean", controlled=controlled)
    assert clean.outcome is Outcome.SURVIVED, clean.findings
    racy = of_a_family(run, "racy", controlled=controlled)
    assert {frozenset(flagged("children", [finding])) for finding in racy.findings} == {
        frozenset(("written_by_both", "add")),
        frozenset(("read_before_the_end", "add")),
        frozenset(("add",)),  # two of them at once
        frozenset(("add_under",)),  # each with a lock of its own
        frozenset(("written_after_the_message", "send_and_add")),
        frozenset(("add_in_two_threads",)),
    }


def test_files_that_a_child_writes_are_its_ranks_to_write_when_it_has_ended(run):
    (finding,) = of_a_family(run, "writes", oracles=("ends", "files")).findings
    assert finding.evidence["path"] == "at-once"


def test_a_child_that_is_spawned_is_watched_as_well(run):
    verdict = of_a_family(run, "spawned")
    assert [flagged("children", [finding]) for finding in verdict.findings] == [{"spawned", "add_to_both"}]
    assert verdict.notes == ()


def test_which_processes_and_threads_are_not_watched_is_said_and_they_race_with_nobody(run):
    verdict = of_a_family(run, "unseen")
    assert verdict.outcome is Outcome.SURVIVED, verdict.findings
    assert set(verdict.notes) == {
        "processes that multiprocessing starts are not watched",
        "processes that the program forks itself are not watched",
        "threads that multiprocessing starts are not watched",
        "threads that something else than threading starts are not watched",
    }


def test_what_multiprocessing_orders_ranks_with_is_understood_although_it_was_made_before_they_were_ranks(
    bench, tmp_path
):
    """Forked ranks have tensors, locks, conditions, barriers, events, semaphores and queues of their parent."""
    folder = PROGRAMS.parent / "scripts" / "launched"
    shutil.copy(folder / "sharing.py", tmp_path)
    scenario = Scenario((), Job(steps=0, data="", deadline_s=120.0), oracles=ORACLES, name="sharing")

    def share(ways: str):
        command = [sys.executable, "-u", "sharing.py", ways, str(tmp_path / f"{ways}.store"), "fork"]
        (plan,) = make_script_plans(scenario, command, Choices()).values()
        return bench.run(Request(plan, where=tmp_path)).verdict

    clean, racy = share("clean"), share("racy")
    assert clean.outcome is Outcome.SURVIVED, clean
    racing = {"with_a_lock_each", "after_the_barrier", "before_the_event", "after_the_put"}
    assert flagged("sharing", racy.findings, folder) == racing
