"""A user's script of TensorFlow under strikes: each takes three cold starts of all ranks."""

from __future__ import annotations

import shutil

import pytest
from support import styles

from breakrank.plan.script import framework_of
from breakrank.runs.request import Request
from breakrank.verdict import Outcome
from breakrank_agent import faults
from breakrank_agent.protocol.trigger import at

pytestmark = pytest.mark.soak


@pytest.mark.parametrize(
    ("strike", "oracle", "step"),
    [
        (faults.FlipBit() @ at(rank=1, step=2, point="step"), "replicas", 2),
        (faults.SwapColumns() @ at(rank=1, step=2, point="load"), "control", 2),
    ],
    ids=["flipped bit", "swapped columns"],
)
def test_what_strikes_a_scripts_variables_or_batch_is_seen_at_its_step(bench, tmp_path, strike, oracle, step):
    shutil.copy(styles.SCRIPTS / "tensorflow" / "workers.py", tmp_path)
    plan = styles.plan_of_script("workers.py", [strike], framework=framework_of(["workers.py"], tmp_path))
    verdict = bench.run(Request(plan, where=tmp_path)).verdict
    assert verdict.outcome is Outcome.SILENT, verdict.sentence()
    assert (verdict.findings[0].oracle, verdict.findings[0].step) == (oracle, step), verdict.sentence()
