"""Street scenes of 2048 x 1024 pixels, the size that people train on: each case comes out as with the small ones."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from support.catalogued import SCENARIOS

from breakrank.doctor import missing, missing_framework
from breakrank.plan.build import Choices, make_plan
from breakrank.runs.bench import Bench
from breakrank.runs.request import Request

pytestmark = pytest.mark.soak

ROOT = Path(__file__).parents[2]
PROGRAMS = [ROOT / "fixtures" / "programs" / "street.py", ROOT / "tests" / "programs" / "large_street.py"]
#: Scenarios with programs that take scenes of any size.
LARGE = ("street_label_ids", "street_resized_masks")
CASES = [
    pytest.param(scenario, case, id=f"{name}::{case.name}")
    for name in LARGE
    for scenario in [SCENARIOS[name]]
    for case in scenario.cases
    if case.program.startswith("street:")
]


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the programs."""
    folder = tmp_path_factory.mktemp("programs")
    for path in PROGRAMS:
        shutil.copy(path, folder)
    return folder


@pytest.mark.parametrize(("scenario", "case"), CASES)
def test_it_comes_out_as_with_small_scenes(bench: Bench, programs: Path, scenario, case) -> None:
    if lack := missing_framework(case.framework) or missing(case.needs):
        pytest.skip(lack)
    # A step of so many pixels takes its time, and on a busy machine more of it.
    large = replace(scenario, job=replace(scenario.job, data="streets_2048", deadline_s=300.0))
    of_large = [program.replace("street:", "large_street:") for program in (case.program, case.control)]
    plan = make_plan(large, replace(case, program=of_large[0], control=of_large[1]), Choices())
    result = bench.run(Request(plan, case.record(plan.runner, plan.ranks), programs=programs))
    assert result.as_recorded, f"{result.verdict.outcome}: {result.verdict.sentence()} ({result.folder})"
