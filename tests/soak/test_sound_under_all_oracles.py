"""Every sound twin of the catalogue under all oracles at once: with all evidence on record, nobody finds anything.

Method: each sound case runs with every kind of evidence, and with each step digested; all oracles judge it. Its record
holds, and beside it nothing is found.
"""

from __future__ import annotations

import pytest
from support.catalogued import CASES
from support.evidence import with_all_evidence

from breakrank.doctor import missing, missing_framework
from breakrank.plan.build import Choices, make_plan
from breakrank.runs.request import Request

pytestmark = pytest.mark.soak

#: Cases that all evidence at once makes others of, with the reason.
LEFT_OUT = dict.fromkeys(
    (
        *("oversized_batch::torch-splitting", "street_oversized_batch::torch-recomputing"),
        "oom_killed_rank::torch-always-in-pieces",
    ),
    "its limit of memory leaves no room for the evidence",
)


@pytest.mark.parametrize("framework", ["torch", "tensorflow"])
def test_nothing_is_found_on_a_sound_twin(bench, framework):
    tried, found = [], []
    for scenario, case in CASES:
        if not case.sound or case.framework != framework:
            continue
        if f"{scenario.name}::{case.name}" in LEFT_OUT:
            continue
        plan = with_all_evidence(make_plan(scenario, case, Choices()))
        needs = [*case.needs, *(need for strike in plan.strikes for need in strike.fault.needs)]
        if missing_framework(case.framework) or missing(needs):
            continue
        name, verdict = f"{scenario.name}::{case.name}", bench.run(Request(plan)).verdict
        tried.append(name)
        # A fault that a sound twin has detected may be found, too, by the oracles that its record names.
        wrong = verdict.also if verdict.findings and case.expect.oracle else (*verdict.findings, *verdict.also)
        found += [f"{name}: {finding.sentence()}" for finding in wrong]
        if verdict.outcome is not case.expect.outcome:
            found.append(f"{name}: {verdict.outcome}, not {case.expect.outcome}: {verdict.sentence()}")
    print(f"{framework}: {len(tried)} sound cases, {len(found)} findings")
    assert len(tried) > 30 and not found, "\n".join(found)
