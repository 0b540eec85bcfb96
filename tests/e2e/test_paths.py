"""Races on files: two ranks and one path, with and without synchronisation between them, at each seed."""

from __future__ import annotations

import re

import pytest
from support.plans import PROGRAMS

from breakrank.verdict import Outcome
from breakrank_agent.plan import Schedule

SEEDS = range(3)
ORACLES = ("ends", "files")


def names(listed: str) -> set[str]:
    """Return the variants that the program lists under a name."""
    source = (PROGRAMS / "paths.py").read_text()
    return set(re.findall(r"^    (\w+),$", source.partition(f"\n{listed} = [")[2].partition("]")[0], re.MULTILINE))


def explore(run, program: str, seed: int, **schedule):
    """Run a program with a seed."""
    plan = {"steps": 1, "deadline_s": 60.0, "oracles": ORACLES, "seed": seed, "schedule": Schedule(**schedule)}
    return run(f"paths:{program}", **plan)[0].verdict


def flagged(verdict) -> dict[str, str]:
    """Return the causes by variant, which the path names."""
    return {re.split(r"[./]", f.evidence["path"])[0]: f.cause for f in verdict.findings}


@pytest.mark.parametrize("seed", SEEDS)
def test_what_races_is_flagged_at_each_seed(run, seed):
    verdict = explore(run, "racy", seed, mode="controlled", policy="random")
    found = flagged(verdict)
    assert verdict.outcome is Outcome.SILENT and found.keys() - {"moved"} == names("RACY")
    lesser = {"both_rename": "rename race", "both_append": "append race"}
    assert {name: cause for name, cause in found.items() if cause in lesser.values()} == lesser
    # If only the order of two accesses is not fixed, the finding is a lesser one and comes last.
    assert {finding.cause for finding in verdict.findings[-2:]} == set(lesser.values())


@pytest.mark.parametrize("seed", SEEDS)
def test_what_is_ordered_is_flagged_at_no_seed(run, seed):
    verdict = explore(run, "clean", seed, mode="controlled", policy="random")
    assert verdict.outcome is Outcome.SURVIVED, [f.sentence() for f in verdict.findings]


def test_at_full_speed_it_is_the_same(run):
    assert flagged(explore(run, "racy", 0)).keys() - {"moved"} == names("RACY")
    assert explore(run, "clean", 0).outcome is Outcome.SURVIVED


def test_both_places_are_named(run):
    verdict = explore(run, "racy", 0, mode="controlled", policy="random")
    (finding,) = [f for f in verdict.findings if f.evidence["path"] == "one_writes_one_reads.bin"]
    assert finding.ranks == (0, 1) and all(re.match(r"paths\.py:\d+$", place) for place in finding.places)
    assert "rank 0 writes one_writes_one_reads.bin (paths.py:" in finding.sentence()
    (finding,) = [f for f in verdict.findings if f.evidence["path"] == "both_write_in_place.bin"]
    assert "writes bytes 0 to 101 of both_write_in_place.bin (paths.py:" in finding.sentence()
    assert "writes bytes 100 to 201 of both_write_in_place.bin (paths.py:" in finding.sentence()
