"""TensorFlow's cases in containers: each rank's server has an address of its own, the framework is the image's."""

from __future__ import annotations

import containers
import pytest

from breakrank.catalogue import load_scenarios, select
from breakrank.run import Choices, load_run, make_plan
from breakrank.runners import docker_runner

pytestmark = pytest.mark.soak


@pytest.mark.parametrize(
    "name",
    ["baseline::tf-workers", "killed_rank::tf-plain", "killed_rank::tf-resuming", "dropped_link::tf-plain"],
)
def test_a_case_of_tensorflow_comes_to_its_record_in_containers(bench, name):
    image = containers.require(containers.TENSORFLOW)
    ((scenario, case),) = select(load_scenarios(), [name])
    result = bench.run(make_plan(scenario, case, Choices(runner="docker", image=image)), case.record("docker"))
    assert result.as_recorded, result.verdict
    has = docker_runner().versions(image)
    assert {lived.events[0]["python"] for lived in load_run(result.folder).history.last} == {has["python"]}
