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

SCRIPTS = styles.SCRIPTS / "tensorflow"
#: Stdout alone: lines of TensorFlow's C++ on stderr hold times and pids.
PRINTED = ("rank-0.out", "rank-1.out")


def plan_of(script, folder, **choices):
    return styles.plan_of_script(script, framework=framework_of([script], folder), **choices)


@pytest.mark.parametrize(("style", "steps"), [("workers.py", 4), ("fit.py", 6)])
def test_the_agent_changes_nothing_in_a_script_of_tensorflow(bench, tmp_path, style, steps):
    shutil.copy(SCRIPTS / style, tmp_path)
    # Without the agent a rank makes no points, and the deadline is for the whole run.
    plan = plan_of(style, tmp_path, deadline_s=600.0)
    runs = [bench.run(Request(plan, where=tmp_path, agent=agent)) for agent in (True, False)]
    with_agent, without = (load_run(result.folder).history for result in runs)
    assert [lived.status for lived in with_agent.last] == [lived.status for lived in without.last] == [0, 0]
    for name in PRINTED:
        printed = [(result.folder / "attempt-0" / name).read_text() for result in runs]
        assert printed[0] == printed[1] and printed[0], name
    written = [styles.files(result.folder / "work") for result in runs]
    assert written[0].keys() == written[1].keys()
    for name in written[0]:
        if name.endswith(".npy"):
            assert written[0][name] == written[1][name], name
    assert [lived.last_step for lived in with_agent.last] == [steps, steps]
    told = [event.get("steps_by") for lived in with_agent.last for event in lived.of_kind("note")]
    assert [by for by in told if by] == ["optimizer SGD"] * 2


def test_a_script_that_trains_with_torch_and_imports_tensorflow_is_known_by_its_torch_parameters(bench, tmp_path):
    shutil.copy(SCRIPTS / "both.py", tmp_path)
    assert framework_of(["both.py"], tmp_path) == "torch"
    result = bench.run(Request(plan_of("both.py", tmp_path), where=tmp_path))
    for lived in load_run(result.folder).history.last:
        steps = lived.payloads("step")
        assert len(steps) == 3 and len({event["params"] for event in steps}) == 3, result.verdict.sentence()
