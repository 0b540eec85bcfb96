"""TensorFlow scripts: their steps are counted, their parameters are seen, and the agent changes nothing."""

from __future__ import annotations

import shutil

import pytest
from support import styles

from breakrank.doctor import missing_framework
from breakrank.plan.script import framework_of
from breakrank.runs.request import Request
from breakrank.runs.saved_run import load_run

pytestmark = pytest.mark.skipif(bool(missing_framework("tensorflow")), reason=missing_framework("tensorflow"))


def test_the_agent_changes_nothing_in_a_script_of_tensorflow(bench, tmp_path):
    styles.assert_the_agent_changes_nothing_of_tensorflow(bench, "workers.py", tmp_path)


@pytest.mark.soak
def test_a_script_that_trains_with_torch_and_imports_tensorflow_is_known_by_its_torch_parameters(bench, tmp_path):
    shutil.copy(styles.TENSORFLOW / "both.py", tmp_path)
    assert framework_of(["both.py"], tmp_path) == "torch"
    plan = styles.plan_of_script("both.py", framework="torch", ranks=1)
    result = bench.run(Request(plan, where=tmp_path))
    for lived in load_run(result.folder).history.last:
        steps = lived.payloads("step")
        assert len(steps) == 3 and len({event["params"] for event in steps}) == 3, result.verdict.sentence()


def test_of_a_variable_that_lies_on_several_devices_the_name_is_told_and_not_what_it_holds(run):
    _, saved = run("device_shards:train", framework="tensorflow", ranks=1, oracles=("ends",))
    told = [event["text"] for event in saved.history.last[0].of_kind("note") if "cannot be read" in event["text"]]
    assert told == ["the parameters cannot be read: TypeError: the parts of weights lie on several devices"]
