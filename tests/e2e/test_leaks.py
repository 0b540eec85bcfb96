"""Leaks in real training: each is named by the line that makes the kept objects, and sound training has none.

The scenario's records show that sound programs stay silent; these tests show the rest.
"""

from __future__ import annotations

import json
import statistics

import pytest
from support.plans import plan_of

from breakrank.doctor import missing_framework
from breakrank.plan.catalogue import packaged_programs
from breakrank.runs.bench import Bench
from breakrank.runs.request import Request
from breakrank.runs.result import Result
from breakrank.runs.saved_run import SavedRun, load_run
from breakrank.schemas import schema
from breakrank.verdict import Outcome
from breakrank_agent.protocol.events.alive import ASLEEP

SOURCE = (packaged_programs() / "leaky.py").read_text().splitlines()

#: By program: the kind of objects that grows first, its function, and the text of the line that is named.
NAMED = {
    "kept_activations": ("tensor", "forward", "functional.relu(values)"),
    "kept_graph": ("graph", "after", "total += loss"),
    "kept_validation": ("graph", "validate", "self.total = self.total +"),
    "hook_per_step": ("function", "hook", "def hook("),
    "unbounded_cache": ("tensor", "draw", "torch.randn("),
    "group_per_step": ("group", "after", "dist.new_group()"),
    "descriptors": ("descriptor", "write", "open("),
    "threads": ("thread", "save", "thread.start()"),
}


def go(bench: Bench, program: str, oracle: str = "leak", **values: object) -> tuple[Result, SavedRun]:
    """Run a program of fixtures/programs for 20 steps."""
    fields = {"steps": 20, "data": "digits", "oracles": ("ends", oracle), **values}
    result = bench.run(Request(plan_of(program, **fields)))
    return result, load_run(result.folder)


@pytest.mark.parametrize("program", NAMED)
def test_a_leak_is_named_by_its_line(bench, program):
    meter, function, text = NAMED[program]
    result, _ = go(bench, f"leaky:{program}")
    (finding,) = result.verdict.findings
    assert result.verdict.outcome is Outcome.SILENT
    assert (finding.cause, finding.ranks, finding.step) == ("leak", (0, 1), 4)
    assert (finding.evidence["meter"], finding.evidence["function"]) == (meter, function)
    file, _, number = finding.evidence["site"].partition(":")
    assert file == "leaky.py" and text in SOURCE[int(number) - 1]


def test_what_comes_with_a_kept_graph_is_named_too(bench):
    result, _ = go(bench, "leaky:kept_validation")
    grown = [(g["meter"], g["function"]) for g in result.verdict.findings[0].evidence["grown"]]
    assert grown[0] == ("graph", "validate") and ("tensor", "forward") not in grown
    assert any(meter == "tensor" for meter, _ in grown[1:])


def test_ten_steps_are_too_few_for_a_verdict_but_not_for_a_suspicion(bench):
    result, _ = go(bench, "leaky:kept_activations", steps=10)
    assert result.verdict.outcome is Outcome.SURVIVED
    assert "too few" in result.verdict.abstained["leak"] and "in forward of rank 1" in result.verdict.abstained["leak"]


def test_no_census_is_taken_unless_it_is_asked_for(bench):
    result, saved = go(bench, "leaky:kept_activations", oracle="finite")
    assert not any(lived.of_kind("census") or lived.of_kind("heap") for lived in saved.history.last)
    assert result.verdict.findings == ()


def test_a_census_changes_neither_the_result_nor_the_digest(bench):
    runs = [go(bench, "digits_ddp:plain", oracle=oracle)[0] for oracle in ("finite", "leak", "native_leak")]
    assert len({result.verdict.digest for result in runs}) == 1
    assert runs[1].verdict.outcome is Outcome.SURVIVED, runs[1].verdict


def test_a_census_works_under_a_controlled_schedule(bench):
    plain, _ = go(bench, "hogwild:locked", controlled="random", oracle="finite")
    result, saved = go(bench, "hogwild:locked", controlled="random")
    assert result.verdict.outcome is Outcome.SURVIVED, result.verdict
    assert plain.verdict.digest == result.verdict.digest
    assert all(len(lived.of_kind("census")) == 20 for lived in saved.history.last)


def test_a_census_costs_milliseconds_and_is_bounded(bench):
    _, saved = go(bench, "leaky:kept_activations", steps=100)
    taken = [e for lived in saved.history.last for e in lived.of_kind("census")]
    print(f"a census took {statistics.median(e['ms'] for e in taken):.2f} ms in the median of {len(taken)}")
    assert len(taken) == 200
    assert max(len(json.dumps(e)) for e in taken) < 16384


def test_native_memory_is_found_in_a_pass_of_its_own_and_the_twin_is_not(bench):
    broken, _ = go(bench, "leaky:native_memory", oracle="native_leak", steps=60)
    (finding,) = broken.verdict.findings
    # The gradients of 2,410 parameters of 4 bytes.
    assert finding.cause == "native leak" and 9000 < finding.evidence["bytes_per_step"] < 11000
    sound, _ = go(bench, "leaky:native_memory_freed", oracle="native_leak", steps=60)
    assert sound.verdict.outcome is Outcome.SURVIVED and "native_leak" not in sound.verdict.abstained


def test_the_census_and_the_native_pass_are_never_mixed(bench):
    result, _ = go(bench, "leaky:momentum", oracles=("ends", "leak", "native_leak"))
    assert "without the oracle leak" in result.verdict.abstained["native_leak"]


@pytest.mark.parametrize("oracle", ["leak", "native_leak"])
def test_what_is_recorded_is_as_the_schema_says(bench, oracle):
    jsonschema = pytest.importorskip("jsonschema")
    validator = jsonschema.Draft202012Validator(schema("event"))
    _, saved = go(bench, "leaky:group_per_step", oracle=oracle)
    kinds = {"census" if oracle == "leak" else "heap", "point", "end"}
    for lived in saved.history.last:
        assert kinds <= {e["kind"] for e in lived.events}
        for event in lived.events:
            validator.validate(event)


def test_views_that_torch_refuses_to_ask_for_their_graph_are_counted_without_one(bench):
    # FSDP changes a flat parameter in place, of which the model's parameters are views.
    result, _ = go(bench, "fully_sharded:flat_and_clipped", steps=6)
    assert (result.verdict.outcome, result.verdict.findings) == (Outcome.SURVIVED, ())


def test_threads_that_no_python_code_started_are_found_by_their_name(run):
    result, _ = run("native_threads:one_each_step", steps=20, oracles=("ends", "leak"))
    (finding,) = result.verdict.findings
    assert (result.verdict.outcome, finding.cause, finding.ranks, finding.step) == (Outcome.SILENT, "leak", (0, 1), 4)
    assert finding.places == ("threads named waiter-N",)
    result, _ = run("native_threads:one_for_all_steps", steps=20, oracles=("ends", "leak"))
    assert result.verdict.outcome is Outcome.SURVIVED, result.verdict.sentence()


@pytest.mark.soak
@pytest.mark.skipif(bool(missing_framework("tensorflow")), reason=missing_framework("tensorflow"))
def test_threads_that_end_with_the_limit_of_a_collective_are_no_leak(bench):
    result, saved = go(bench, "workers:limited", framework="tensorflow")
    (*_, census) = saved.history.last[0].of_kind("census")
    threads = sum(line["count"] for line in census["lines"] if line["function"].endswith(ASLEEP))
    # One for each collective of 20 steps.
    assert threads > 20 and result.verdict.outcome is Outcome.SURVIVED, result.verdict.sentence()
