"""Kinds of training that published scripts have: each finding in them is true, and the sound ones have none."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from support.lasting import soak
from support.styles import as_program

from breakrank.plan.build import Choices
from breakrank.runs.bench import Bench
from breakrank.runs.checkup import light_plan
from breakrank.runs.request import Request
from breakrank.runs.result import Result
from breakrank.runs.saved_run import load_run

KINDS = Path(__file__).parents[1] / "scripts" / "kinds"
#: The evidence of a check-up's runs, in one.
EVIDENCE = ("accesses", "contents", "census", "crashes")

Check = Callable[..., Result]


@pytest.fixture
def check_script(bench: Bench, tmp_path: Path) -> Check:
    """Run a script of a kind undisturbed, with all that a check-up records, and return the result."""

    def go(script: str, *words: str) -> Result:
        shutil.copy(KINDS / script, tmp_path)
        plan = replace(light_plan([script, *words], Choices(ranks=2)), evidence=EVIDENCE)
        return bench.run(Request(plan, where=tmp_path))

    return go


@pytest.fixture(params=["program", soak("script")])
def check(request: pytest.FixtureRequest, bench: Bench, tmp_path: Path, check_script: Check) -> Check:
    """Do the same with a program that the script is; in the soak with the script, too."""
    if request.param == "script":
        return check_script

    def go(script: str, *words: str) -> Result:
        shutil.copy(KINDS / script, tmp_path)
        plan = replace(light_plan([script, *words], Choices(ranks=2)), evidence=EVIDENCE)
        return bench.run(Request(as_program(plan, tmp_path), programs=tmp_path))

    return go


def said(result: Result) -> list[str]:
    """Return the findings in words."""
    return [finding.sentence() for finding in result.verdict.findings]


def test_steps_that_had_nothing_to_change_are_no_finding(check):
    result = check("margins.py")
    assert (result.verdict.void, said(result)) == ((), [])


def test_what_is_compiled_or_scripted_finds_nothing_in_its_way(check_script):
    # torch does not compile a function that runpy has started.
    result = check_script("compiled_whole.py")
    assert (result.verdict.void, result.verdict.reported, said(result)) == ((), (), [])


def test_what_is_computed_again_finds_nothing_in_its_way(check):
    result = check("checkpointed.py")
    assert (result.verdict.void, result.verdict.reported, said(result)) == ((), (), [])


def test_a_loss_without_a_gradient_is_a_standstill(check):
    assert said(check("one_class.py")) == [
        "the parameters of ranks 0 and 1 did not change at step 2, nor at any later one, to step 12"
    ]


@pytest.mark.parametrize("words", [soak(()), ("views",)])
def test_what_the_program_changes_after_a_collective_is_not_its_result(check, words):
    result = check("one_counter.py", *words)
    assert (result.verdict.void, said(result)) == ((), [])
    assert "collectives" not in result.verdict.abstained


def test_what_a_backend_copies_as_it_is_waited_for_is_no_write_of_the_program(check):
    result = check("scattered_sums.py")
    assert (result.verdict.void, said(result)) == ((), [])
    assert "race" not in result.verdict.abstained


def test_a_function_that_a_wrapper_reduces_by_leaves_the_wait_to_it(check):
    result = check("reduces_by_a_hook.py")
    assert (result.verdict.void, said(result)) == ((), [])
    assert "race" not in result.verdict.abstained


def test_losses_kept_for_a_plot_are_no_leak(check):
    result = check("kept_losses.py")
    assert (result.verdict.void, said(result)) == ((), [])
    assert "leak" not in result.verdict.abstained


def test_losses_kept_with_their_graphs_are_a_leak(check):
    sentences = said(check("kept_losses.py", "graphs"))
    assert len(sentences) == 1, sentences
    assert sentences[0].startswith("at each step from step 4 on, ranks 0 and 1 kept ")
    assert "kept_losses.py:" in sentences[0]


def test_replicas_that_are_averaged_now_and_then_may_part_in_between(check):
    result = check("averaged_weights.py")
    assert (result.verdict.void, said(result)) == ((), [])
    assert "replicas" not in result.verdict.abstained


def test_what_the_last_averaging_left_out_is_named(check):
    result = check("averaged_weights.py", "bias")
    (finding,) = result.verdict.findings
    assert (finding.oracle, finding.cause, finding.ranks, finding.step) == ("replicas", "replicas differ", (0, 1), 12)
    assert finding.evidence["parameters"] == ["bias"]


def test_batches_in_a_mapping_of_its_own_are_told_apart(check):
    result = check("own_mapping.py")
    loads = [e for lived in load_run(result.folder).history.last for e in lived.payloads("load")]
    assert (result.verdict.void, said(result)) == ((), [])
    assert len({e["batch"] for e in loads}) == len(loads) == 8
