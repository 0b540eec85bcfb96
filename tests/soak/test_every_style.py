"""Every style of script: the agent changes nothing."""

from __future__ import annotations

import shutil

import pytest
from support import styles

from breakrank.doctor import missing_framework
from breakrank.runs.request import Request
from breakrank_agent import faults
from breakrank_agent.protocol.trigger import at

pytestmark = pytest.mark.soak


@pytest.mark.parametrize("style", styles.STYLES)
def test_the_agent_changes_nothing(bench, tmp_path, style):
    styles.assert_the_agent_changes_nothing(bench, style, tmp_path)


@pytest.mark.skipif(bool(missing_framework("tensorflow")), reason=missing_framework("tensorflow"))
@pytest.mark.parametrize("style", styles.STEPS)
def test_the_agent_changes_nothing_in_a_script_of_tensorflow(bench, tmp_path, style):
    styles.assert_the_agent_changes_nothing_of_tensorflow(bench, style, tmp_path)


def test_a_struck_script_is_replayed_with_the_same_digest(bench, tmp_path):
    shutil.copy(styles.SCRIPTS / "functions.py", tmp_path)
    kill = faults.Kill() @ at(rank=1, step=3, point="collective")
    result = bench.run(Request(styles.plan_of_script("functions.py --steps 5", [kill]), where=tmp_path))
    again, saved = bench.replay(result.folder)
    assert again.verdict.digest == saved["digest"]
